"""Records of which points a stage computes, with the cause of each bound and guard."""

from __future__ import annotations

from dataclasses import dataclass, field

from minitvm import schedule, tensor, tir

from .interval import Interval
from .sliding import StoredDimension


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A load of a stage's result: the reading stage, and the interval it reads per dimension."""

    reader: str
    load: tir.Load
    spans: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RequiredRegion:
    """What the readers of a stage need in one iteration of the loops around it.

    reads         every load of its results; empty for an output, which is needed as a whole
    whole_readers the stages that read all of it
    touched       the interval of each dimension that all reads together need; None without reads
    shared        the enclosing thread loops whose threads compute the stage together
    """

    reads: tuple[Read, ...] = ()
    whole_readers: tuple[str, ...] = ()
    touched: tuple[Interval | None, ...] = ()
    shared: tuple[tir.Var, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A condition under which a point is computed, and its cause.

    cause   a split whose factor does not divide its extent, a data axis that may leave its tensor,
            or None if the user asked for the condition
    """

    condition: tir.Expr
    cause: schedule.SplitRelation | tensor.Axis | None


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Which points a stage computes where it is attached: its loops, and the guards that skip some.

    start     the first value of each root axis; may depend on the enclosing loops
    extents   the number of values of every axis
    values    the value of every axis in terms of the loop variables; an axis made by a split or a
              fuse counts from 0, a root axis from its start
    loops     the stage's own loop variables by leaf axis; a loop of one iteration has none
    around    the variables of the loops around the stage, outermost first
    guards    the conditions under which a point is computed, without redundant ones
    required    what the readers need: where start and extents come from
    stored    where each dimension lies in memory, if store_at keeps it for an outer loop
    no_reuse  why store_at has no effect, so that each iteration computes its whole window; "" if
              it has an effect. Messages append a loop's name: "its parts do not overlap along"
    """

    start: dict[tensor.Axis, tir.Index]
    extents: dict[tensor.Axis, tir.Index]
    values: dict[tensor.Axis, tir.Index]
    loops: dict[tensor.Axis, tir.Var]
    around: tuple[tir.Var, ...]
    guards: tuple[Guard, ...] = ()
    required: RequiredRegion = RequiredRegion()
    stored: dict[tensor.Axis, StoredDimension] = field(
        default_factory=dict[tensor.Axis, StoredDimension]
    )
    no_reuse: str = ""

    @property
    def conditions(self) -> tuple[tir.Expr, ...]:
        """Return the conditions of the guards."""
        return tuple(g.condition for g in self.guards)

    @property
    def fixed(self) -> set[tir.Var]:
        """Return the loops around the stage that are fixed while it is computed."""
        return {*self.around} - {*self.required.shared}
