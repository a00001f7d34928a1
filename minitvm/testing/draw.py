"""Draw the stages and loops for random schedule steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from minitvm import schedule, tensor

from .values import Rng, pick

FACTORS = (1, 2, 2, 3, 4, 4, 5, 8, 16, 32, 100)
SCOPES = ("local", "shared", "global")


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """The context in which a step is drawn.

    state     the schedule before the step
    wild      draw from all stages and loops, even those for which the step is certainly illegal
    intrins   collects the tensor intrinsics that the drawn steps refer to
    """

    state: schedule.State
    rng: Rng
    wild: bool
    intrins: list[tensor.TensorIntrin] = field(default_factory=list[tensor.TensorIntrin])

    def stage(
        self, fits: Callable[[schedule.Stage], bool] = lambda s: True
    ) -> schedule.Stage | None:
        """Draw a stage that has loops and satisfies `fits`, or None; if wild, draw any stage."""
        found = [s for s in self.state.stages if self.wild or (_has_loops(s) and fits(s))]
        return pick(self.rng, found) if found else None

    def inner(
        self, fits: Callable[[schedule.Stage], bool] = lambda s: True
    ) -> schedule.Stage | None:
        """Draw a stage that is not an output, otherwise like stage(); if wild, draw any stage."""
        return self.stage(lambda s: not s.is_output and fits(s))

    def loops(self, stage: schedule.Stage) -> tuple[tensor.Axis, ...]:
        """Return the loops of the stage that no intrinsic replaces; if wild, return all loops."""
        for n, a in enumerate(stage.leaves):
            if stage.note(a).intrin is not None and not self.wild:
                return stage.leaves[:n]
        return stage.leaves

    def axis(
        self, stage: schedule.Stage, fits: Callable[[tensor.Axis], bool] = lambda a: True
    ) -> tensor.Axis | None:
        """Draw a loop of the stage that satisfies `fits`, or None; if wild, draw any loop."""
        found = [a for a in self.loops(stage) if self.wild or fits(a)]
        return pick(self.rng, found) if found else None

    def place(
        self, fits: Callable[[schedule.Stage, tensor.Axis], bool]
    ) -> tuple[schedule.Stage, tensor.Axis] | None:
        """Draw a stage and one of its loops so that fits(stage, loop), or return None."""
        stage = self.stage(lambda s: any(fits(s, a) for a in self.loops(s)))
        a = self.axis(stage, lambda a: fits(stage, a)) if stage else None
        return None if stage is None or a is None else (stage, a)

    def hosts(self) -> set[str]:
        """Return the names of the stages to whose loops another stage is attached."""
        return {s.attach.stage for s in self.state.stages if isinstance(s.attach, schedule.At)}


Drawing = Callable[[Draw], list[schedule.Step]]


def is_plain(stage: schedule.Stage, a: tensor.Axis) -> bool:
    """Return whether the loop is serial: not bound, parallel, unrolled or vectorized."""
    return stage.note(a).kind == "serial"


def is_plain_data(stage: schedule.Stage, a: tensor.Axis) -> bool:
    """Return whether the loop is a serial data loop of constant extent."""
    return is_plain(stage, a) and a.kind == "data" and isinstance(a.extent, int)


def is_fresh(stage: schedule.Stage) -> bool:
    """Return whether the loops of the stage are the unchanged axes of its formula."""
    op = stage.op
    assert isinstance(op, tensor.ComputeOp)
    axes = (*op.axis, *op.reduce_axis)
    same = all(a is b for a, b in zip(stage.leaves, axes, strict=False))
    return same and not stage.relations and not stage.notes


def numbered(name: str, taken: set[str]) -> str:
    """Return the name of a new axis `name`, numbered if it is one of `taken`: i, i_1, ..."""
    n, found = 1, name
    while found in taken:
        found, n = f"{name}_{n}", n + 1
    return found


def named(stage: schedule.Stage) -> set[str]:
    """Return the names of all axes of the stage, including split and fused ones."""
    return {a.name for a in stage.axes()}


def _has_loops(s: schedule.Stage) -> bool:
    return isinstance(s.op, tensor.ComputeOp) and not isinstance(s.attach, schedule.Inline)
