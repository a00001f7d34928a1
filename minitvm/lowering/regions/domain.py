"""The domain that a stage computes at its attach point, with the cause of each bound and guard."""

from __future__ import annotations

from dataclasses import dataclass, field

from minitvm import schedule, tensor, tir

from .interval import Interval
from .sliding import Kept


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A load of a stage's result: the reading stage, and the interval it touches per dimension."""

    reader: str
    load: tir.Load
    spans: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What the readers of a stage need in one iteration of the loops around it.

    reads         every load of its results; empty for an output, which is needed as a whole
    all_read_by   the stages that read all of it
    touched       the interval of each dimension that all reads together touch
    shared        the enclosing thread loops whose threads compute the stage together
    """

    reads: tuple[Read, ...] = ()
    all_read_by: tuple[str, ...] = ()
    touched: tuple[Interval | None, ...] = ()
    shared: tuple[tir.Var, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A condition under which a point is computed, and its cause.

    cause   a split that does not divide, an axis with an end, or None if the user asked for it
    """

    condition: tir.Expr
    cause: schedule.SplitRelation | tensor.Axis | None


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The domain that a stage computes at its attach point.

    start     of each root axis; may depend on the variables of the enclosing loops
    extents   of every axis
    values    of every axis, in terms of the loop variables
    loops     the stage's own loop variables by leaf axis; a loop of one iteration has none
    around    the variables of the loops around the stage, outermost first
    guards    the conditions under which a point is computed, without redundant ones
    demand    what the readers need: where start and extents come from
    kept      how each dimension is stored if store_at keeps it for an outer loop
    recomputes   why store_at keeps nothing, or "": "its part does not overlap along"
    """

    start: dict[tensor.Axis, tir.Index]
    extents: dict[tensor.Axis, tir.Index]
    values: dict[tensor.Axis, tir.Index]
    loops: dict[tensor.Axis, tir.Var]
    around: tuple[tir.Var, ...]
    guards: tuple[Guard, ...] = ()
    demand: Demand = Demand()
    kept: dict[tensor.Axis, Kept] = field(default_factory=dict[tensor.Axis, Kept])
    recomputes: str = ""

    @property
    def conditions(self) -> tuple[tir.Expr, ...]:
        """Return the conditions of the guards."""
        return tuple(g.condition for g in self.guards)

    @property
    def fixed(self) -> set[tir.Var]:
        """Return the loops around the stage that are fixed while it is computed."""
        return {*self.around} - {*self.demand.shared}
