"""Sketches: schedules with holes, which a row of integers fills.

The names of loops do not depend on split factors, so the same steps can be taken with other
factors. A sketch is therefore a list of steps, and a hole is a field of a step that knobs decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minitvm import schedule, te, tensor
from minitvm.base import brief

from .knob import Ints
from .space import Rows, Space


@dataclass(frozen=True, slots=True)
class Hole:
    """A field of a step that knobs decide.

    step    the number of the step
    field   the field: "factor" of a split, "value" of a pragma, "layout" of a transform_layout
    parts   (knob, part) pairs; the product of these parts fills the hole. If the field is a string
            or a tuple of strings, the product replaces each "{}" in it: "j // {}"
    """

    step: int
    field: str
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A schedule with holes.

    args      the tensors that a program of the sketch takes
    initial   the schedule state before the first step
    steps     the steps; fields with a hole have any value, and it is replaced
    space     the knobs, and which rows are allowed
    """

    name: str
    args: tuple[tensor.Tensor, ...]
    initial: schedule.State
    steps: tuple[schedule.Step, ...]
    holes: tuple[Hole, ...]
    space: Space

    __repr__ = brief

    @property
    def traced(self) -> bool:
        """Return whether `steps` and `holes` describe all candidates; True in this class.

        A subclass may compute the steps of a candidate in another way, in `filled` and `scheduled`.
        """
        return True

    def filled(self, row: Sequence[int]) -> tuple[schedule.Step, ...]:
        """Return the steps of one candidate."""
        one = np.array([row], np.int32)
        steps = list(self.steps)
        for hole in self.holes:
            steps[hole.step] = _filled(steps[hole.step], hole, int(self.values(one, hole)[0]))
        return tuple(steps)

    def fixed(self, options: Mapping[int, int]) -> Sketch:
        """Return a sketch with fewer holes, for the rows with these options (knob -> option)."""
        steps, left = list(self.steps), list[Hole]()
        for hole in self.holes:
            if any(knob not in options for knob, _ in hole.parts):
                left.append(hole)
                continue
            knobs = self.space.knobs
            value = math.prod(int(knobs[g].values[options[g], p]) for g, p in hole.parts)
            steps[hole.step] = _filled(steps[hole.step], hole, value)
        return replace(self, steps=tuple(steps), holes=tuple(left))

    def values(self, rows: Rows, hole: Hole) -> Ints:
        """Return the numbers that fill a hole, int64[candidates]."""
        columns = [self.space.values(rows, knob)[:, part] for knob, part in hole.parts]
        return np.multiply.reduce(columns, axis=0)

    def state(self, row: Sequence[int]) -> schedule.State:
        """Return the schedule state of one candidate; ScheduleError if a step is illegal."""
        return self.scheduled(row).state

    def scheduled(self, row: Sequence[int]) -> te.Schedule:
        """Return the schedule of one candidate; ScheduleError if a step is illegal."""
        return replayed(self.initial, self.filled(row))


def replayed(initial: schedule.State, steps: Iterable[schedule.Step]) -> te.Schedule:
    """Apply `steps` to the state `initial`; return the schedule, ScheduleError if illegal."""
    s = te.Schedule(initial)
    for step in steps:
        s.apply(step)
    return s


def _filled(step: schedule.Step, hole: Hole, value: int) -> schedule.Step:
    """Return a step with `value` in one of its holes."""
    return replace(step, **{hole.field: _put(getattr(step, hole.field), value)})


def _put(pattern: Any, value: int) -> Any:
    """Return the field `pattern` of a step with `value` in its hole."""
    match pattern:
        case str():
            return pattern.replace("{}", str(value))
        case tuple():
            return tuple(_put(p, value) for p in pattern)  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
