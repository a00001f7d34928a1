"""Where a random step is drawn: the state it will be applied to, and the places that suit it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from minitvm import schedule, tensor

from .values import Rng, pick

FACTORS = (1, 2, 2, 3, 4, 4, 5, 8, 16, 32, 100)
SCOPES = ("local", "shared", "global")


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Where a step is drawn.

    wild      any place will do, also one where the step is surely illegal
    intrins   tensor intrinsics that the steps drawn here name
    """

    state: schedule.State
    rng: Rng
    wild: bool
    intrins: list[tensor.TensorIntrin] = field(default_factory=list[tensor.TensorIntrin])

    def stage(
        self, fits: Callable[[schedule.Stage], bool] = lambda s: True
    ) -> schedule.Stage | None:
        """A stage that has loops and fits; any stage if wild."""
        found = [s for s in self.state.stages if self.wild or (_has_loops(s) and fits(s))]
        return pick(self.rng, found) if found else None

    def inner(
        self, fits: Callable[[schedule.Stage], bool] = lambda s: True
    ) -> schedule.Stage | None:
        """A stage that is neither input nor output."""
        return self.stage(lambda s: not s.is_output and fits(s))

    def loops(self, stage: schedule.Stage) -> tuple[tensor.Axis, ...]:
        """The loops of the stage that no intrinsic does; all if wild."""
        for n, a in enumerate(stage.leaves):
            if stage.note(a).intrin is not None and not self.wild:
                return stage.leaves[:n]
        return stage.leaves

    def axis(
        self, stage: schedule.Stage, fits: Callable[[tensor.Axis], bool] = lambda a: True
    ) -> tensor.Axis | None:
        """A loop of the stage that fits; any if wild."""
        found = [a for a in self.loops(stage) if self.wild or fits(a)]
        return pick(self.rng, found) if found else None

    def place(
        self, fits: Callable[[schedule.Stage, tensor.Axis], bool]
    ) -> tuple[schedule.Stage, tensor.Axis] | None:
        """A stage and a loop of it that fits."""
        stage = self.stage(lambda s: any(fits(s, a) for a in self.loops(s)))
        a = self.axis(stage, lambda a: fits(stage, a)) if stage else None
        return None if stage is None or a is None else (stage, a)

    def hosts(self) -> set[str]:
        """The stages at whose loops others are computed."""
        return {s.attach.stage for s in self.state.stages if isinstance(s.attach, schedule.At)}


Drawing = Callable[[Draw], list[schedule.Step]]


def is_plain(stage: schedule.Stage, a: tensor.Axis) -> bool:
    """Is the loop not marked to run in a way of its own?"""
    return stage.note(a).kind == "serial"


def is_plain_data(stage: schedule.Stage, a: tensor.Axis) -> bool:
    """Is it also no reduce loop, and of constant extent?"""
    return is_plain(stage, a) and a.kind == "data" and isinstance(a.extent, int)


def is_fresh(stage: schedule.Stage) -> bool:
    """Are its loops the axes of its formula, in their order, and without marks?"""
    op = stage.op
    assert isinstance(op, tensor.ComputeOp)
    axes = (*op.axis, *op.reduce_axis)
    same = all(a is b for a, b in zip(stage.leaves, axes, strict=False))
    return same and not stage.relations and not stage.notes


def numbered(name: str, taken: set[str]) -> str:
    """The name a new axis will get."""
    n, found = 1, name
    while found in taken:
        found, n = f"{name}_{n}", n + 1
    return found


def named(stage: schedule.Stage) -> set[str]:
    """The names of all axes of the stage, those split and fused away included."""
    return {a.name for a in stage.axes()}


def _has_loops(s: schedule.Stage) -> bool:
    return isinstance(s.op, tensor.ComputeOp) and not isinstance(s.attach, schedule.Inline)
