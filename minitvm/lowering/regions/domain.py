"""What a stage computes at its attach point, and what each bound and guard comes from."""

from __future__ import annotations

from dataclasses import dataclass, field

from minitvm import schedule, tensor, tir

from .interval import Interval
from .sliding import Kept


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A load of a stage's result: by which stage, and the part it touches of each dimension."""

    reader: str
    load: tir.Load
    spans: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What the readers of a stage need of it while the loops around it stand still.

    reads         every load of its results; none for an output, all of which is needed
    all_read_by   the stages that read all of it
    touched       the part of each dimension that all reads together touch
    shared        the thread loops around it for all iterations of which it is computed at once
    """

    reads: tuple[Read, ...] = ()
    all_read_by: tuple[str, ...] = ()
    touched: tuple[Interval | None, ...] = ()
    shared: tuple[tir.Var, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A condition under which a point is computed, and what makes it necessary.

    cause   a split that does not divide, an axis that ends somewhere, or None: the user asked
    """

    condition: tir.Expr
    cause: schedule.SplitRelation | tensor.Axis | None


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """What a stage computes at its attach point.

    start     of each root axis; may mention the variables of the loops around
    extents   of every axis
    values    of every axis, in terms of the loop variables
    loops     the stage's own loop variables by leaf axis; a loop of one iteration has none
    around    the variables of the loops around the stage, outermost first
    guards    the conditions under which a point is computed, each of them needed
    demand    what the readers need: where start and extents come from
    kept      how each dimension is stored, where that is for an outer loop (store_at)
    recomputes   why store_at keeps nothing: "its part does not overlap along"; "" if it does
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
        """The conditions of the guards."""
        return tuple(g.condition for g in self.guards)

    @property
    def fixed(self) -> set[tir.Var]:
        """The loops around the stage that stand still while it is computed."""
        return {*self.around} - {*self.demand.shared}
