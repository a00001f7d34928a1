"""Tasks: a formula to be tuned, the target, and sketches of its schedules."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from minitvm import driver, tensor, tir, topi
from minitvm.base import Target, brief

from .sketch import Sketch


class Candidate(NamedTuple):
    """A schedule to be tried: the number of a sketch of the task, and a row of its space."""

    sketch: int
    row: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A formula to be tuned for a target.

    name       the operator or template: "matmul"
    workload   the operator's arguments as JSON values; with the name, they identify the formula
    args       the tensors that a program takes, outputs last
    flops      the arithmetic operations of one call, as topi.flops counts them
    """

    name: str
    workload: tuple[Any, ...]
    target: Target
    args: tuple[tensor.Tensor, ...]
    flops: float
    sketches: tuple[Sketch, ...]

    __repr__ = brief

    @property
    def key(self) -> str:
        """Return the name and the workload as one line of JSON; logs find records by it."""
        return json.dumps([self.name, *self.arguments])

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Return the operator's arguments: the workload without the name."""
        return self.workload

    @property
    def size(self) -> int:
        """Return the number of candidates, including those that are not allowed."""
        return sum(s.space.size for s in self.sketches)

    @property
    def outputs(self) -> tuple[tensor.Tensor, ...]:
        """Return the tensors that a program computes."""
        return tuple(a for a in self.args if not isinstance(a.op, tensor.PlaceholderOp))

    def lowered(self, candidate: Candidate) -> tir.PrimFunc:
        """Return the program of a candidate; ScheduleError or LoweringError if it is illegal."""
        sketch = self.sketches[candidate.sketch]
        s = sketch.scheduled(candidate.row)
        return driver.lower(s, sketch.args, target=self.target)

    def default(self) -> tir.PrimFunc:
        """Return the program of topi.schedule: the reference for results and for speed."""
        return driver.lower(topi.schedule(self.outputs, self.target), self.args, target=self.target)


@dataclass(frozen=True, slots=True)
class CandidateProgram:
    """A candidate of a task as a program to be measured; calling it lowers the candidate."""

    task: Task
    candidate: Candidate

    def __call__(self) -> tir.PrimFunc:
        """Return the lowered program; ScheduleError or LoweringError if it is illegal."""
        return self.task.lowered(self.candidate)
