"""Sketches: schedules with parameters, which a row of integers sets.

The names of loops do not depend on split factors, so the same steps can be taken with other
factors. A sketch is therefore a list of steps, and a parameter is a field of a step that knobs set.
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
class Parameter:
    """A field of a step that knobs set.

    step    the number of the step
    field   the field: "factor" of a split, "value" of a pragma, "layout" of a transform_layout
    parts   (knob, part) pairs; the value is the product of these parts. If the field is a
            string or a tuple of strings, the value replaces each "{}" in it: "j // {}"
    """

    step: int
    field: str
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A schedule with parameters.

    args      the tensors that a program of the sketch takes
    initial   the schedule state before the first step
    steps     the steps; fields with a parameter have any value, and it is replaced
    space     the knobs, and which rows are allowed
    """

    name: str
    args: tuple[tensor.Tensor, ...]
    initial: schedule.State
    steps: tuple[schedule.Step, ...]
    parameters: tuple[Parameter, ...]
    space: Space

    __repr__ = brief

    @property
    def traced(self) -> bool:
        """Return whether `steps` and `parameters` describe all candidates; True in this class.

        A subclass may compute the steps of a candidate in another way, in `filled` and `scheduled`.
        """
        return True

    def filled(self, row: Sequence[int]) -> tuple[schedule.Step, ...]:
        """Return the steps of one candidate."""
        rows = np.array([row], np.int32)
        steps = list(self.steps)
        for parameter in self.parameters:
            steps[parameter.step] = _filled(
                steps[parameter.step], parameter, int(self.values(rows, parameter)[0])
            )
        return tuple(steps)

    def fixed(self, options: Mapping[int, int]) -> Sketch:
        """Return the sketch for the rows with these options (knob -> option)."""
        steps, left = list(self.steps), list[Parameter]()
        for parameter in self.parameters:
            if any(knob not in options for knob, _ in parameter.parts):
                left.append(parameter)
                continue
            knobs = self.space.knobs
            value = math.prod(int(knobs[g].values[options[g], p]) for g, p in parameter.parts)
            steps[parameter.step] = _filled(steps[parameter.step], parameter, value)
        return replace(self, steps=tuple(steps), parameters=tuple(left))

    def values(self, rows: Rows, parameter: Parameter) -> Ints:
        """Return the values of a parameter, int64[candidates]."""
        columns = [self.space.values(rows, knob)[:, part] for knob, part in parameter.parts]
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


def _filled(step: schedule.Step, parameter: Parameter, value: int) -> schedule.Step:
    """Return a step with `value` in one of its parameters."""
    return replace(step, **{parameter.field: _put(getattr(step, parameter.field), value)})


def _put(pattern: Any, value: int) -> Any:
    """Return the field `pattern` of a step with `value` in its parameter."""
    match pattern:
        case str():
            return pattern.replace("{}", str(value))
        case tuple():
            return tuple(_put(p, value) for p in pattern)  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
