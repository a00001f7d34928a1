"""Explain a schedule: the bounds of an axis, the guards on a loop, the effect of a step."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from minitvm import explain, schedule, tensor, tir
from minitvm.base import ScheduleError, TVMError


@dataclass(frozen=True, slots=True, repr=False)
class Diff:
    """The loops before and after a step. Printing shows a unified diff.

    number   the number of the step; the first is 1
    step     the line of Python that takes the step
    """

    number: int
    step: str
    before: str
    after: str

    def __str__(self) -> str:
        old, new = self.before.splitlines(), self.after.splitlines()
        names = f"before step {self.number}", f"after {self.step}"
        changed = "\n".join(unified_diff(old, new, *names, lineterm=""))
        return changed or f"{self.step}: the loops stay as they are"

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return f"```diff\n{self}\n```"


def difference(states: list[schedule.State], step: str) -> Diff:
    """Return the difference between the first two states; `step` is the step as Python code."""
    before, after = states[:2]
    return Diff(len(after.steps), step, _text(before), _text(after))


def _text(state: schedule.State) -> str:
    """Return the loops of `state` as text, or why `state` cannot be lowered yet."""
    try:
        return tir.text(explain.loops_of(state).body)
    except TVMError as e:
        return f"no loops: {e}"


def step_number(state: schedule.State, step: int) -> int:
    """Convert the step number `step` to 1 .. count, where -1 means the last step.

    Raises ScheduleError if there is no such step.
    """
    count = len(state.steps)
    if not isinstance(step, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ScheduleError(f"step {reprlib.repr(step)}", "a step number is 1, 2, ... or -1, -2")
    n = step if step >= 0 else count + 1 + step
    if not 1 <= n <= count:
        why = f"steps 1 to {count} were taken" if count else "no step has been taken"
        raise ScheduleError(f"step {step}", why)
    return n


def bound(state: schedule.State, stage: schedule.Stage, axis: Any) -> explain.Derivation:
    """Explain the bounds of `axis` of `stage`: an Axis, a name, or the number of a dimension."""
    if isinstance(axis, str):
        return explain.explain_bound(state, stage.name, axis)
    if (
        isinstance(axis, int)
        and isinstance(stage.op, tensor.ComputeOp)
        and 0 <= axis < len(stage.op.axis)
    ):
        axis = stage.op.axis[axis]
    names = stage.names
    if not isinstance(axis, tensor.Axis) or axis not in names:
        shown = axis.name if isinstance(axis, tensor.Axis) else axis
        why = "it has no such axis" if names else "no formula computes it, so it has no axes"
        known = f"one of {', '.join(names.values())}" if names else ""
        raise ScheduleError(f"axis {shown!r} of {stage.name}", why, known)
    return explain.explain_bound(state, stage.name, names[axis])


def guard(state: schedule.State, loop: tensor.Axis) -> explain.Derivation:
    """Explain the guards on `loop`, a loop of any stage; raise ScheduleError if it is no loop."""
    for stage in state.stages:
        names = stage.names
        if isinstance(loop, tensor.Axis) and loop in names:  # pyright: ignore[reportUnnecessaryIsInstance]
            return explain.explain_guard(state, stage.name, names[loop])
    stages = ", ".join(s.name for s in state.stages)
    raise ScheduleError(f"guards on {reprlib.repr(loop)}", f"it is not an axis of {stages}")
