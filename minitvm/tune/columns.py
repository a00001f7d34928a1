"""The columns of features by which a cost model describes each candidate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from minitvm.base import ArgumentError

from . import analytic, analytic_gpu
from .analytic import ANALYTIC
from .features import NAMES, features_of
from .knob import Knob
from .legal import legal_in
from .loss import Floats
from .packed import all_packed
from .policy import by_sketch
from .space import Mask, Rows
from .statements import Batch, statements
from .task import Candidate, Task

COLUMNS = (*NAMES, *analytic.NAMES)  # of each task whose loops can be derived


@dataclass(frozen=True, slots=True)
class Columns:
    """Named features of the candidates of a task.

    of        of(sketch number, rows) returns the features, float32[candidates, columns]
    names     the names of the columns
    checked   like `of`, but returns (mask of rows worth measuring, features); None if all rows are
    """

    of: Callable[[int, Rows], Floats]
    names: tuple[str, ...]
    checked: Callable[[int, Rows], tuple[Mask, Floats]] | None = None

    @property
    def analytic(self) -> int | None:
        """Return the number of the column with the analytic model's estimate, or None."""
        return self.names.index(ANALYTIC) if ANALYTIC in self.names else None

    def of_candidates(self, candidates: Sequence[Candidate]) -> Floats:
        """Return the columns of candidates of several sketches, float32[candidates, columns]."""
        columns = np.zeros((len(candidates), len(self.names)), np.float32)
        for n, at in by_sketch(candidates).items():
            columns[at] = self.of(n, np.array([candidates[a].row for a in at], np.int32))
        return columns


def columns_of(task: Task) -> Columns:
    """Return the features of the loops, and the analytic model's columns with its estimate last.

    For a GPU, the only column of its analytic model is the estimate. If the loops of one sketch of
    the task cannot be derived, return knob_columns(task) instead.
    """
    target = task.target
    names = (*NAMES, ANALYTIC) if target.kind == "cuda" else COLUMNS

    def columns(batch: Batch) -> Floats:
        arrays = all_packed(batch)
        if target.kind == "cuda":
            expected = -np.log2(analytic_gpu.cycles(batch))
        else:
            expected = analytic.columns_of(batch, arrays, target)
        return np.column_stack([features_of(batch, arrays), expected.astype(np.float32)])

    def of(n: int, rows: Rows) -> Floats:
        if not len(rows):
            return np.zeros((0, len(names)), np.float32)
        return statements(task.sketches[n]).table(rows, columns)

    def checked(n: int, rows: Rows) -> tuple[Mask, Floats]:
        mask = np.zeros(len(rows), np.bool_)
        features = np.zeros((len(rows), len(names)), np.float32)
        for at, batch in statements(task.sketches[n]).batches(rows):
            mask[at], features[at] = legal_in(batch, target), columns(batch)
        return mask, features

    try:
        for sketch in task.sketches:
            statements(sketch)
    except ArgumentError:
        return knob_columns(task)
    return Columns(of, names, checked)


def knob_columns(task: Task) -> Columns:
    """Return the values of the knobs as columns: AutoTVM's "knob" features.

    Numbers and loop sizes become logarithms; each option of a choice has a column with 0 or 1. Each
    sketch has its own columns, with zeros for candidates of other sketches.
    """
    tables = [[_knob_table(knob) for knob in sketch.space.knobs] for sketch in task.sketches]
    names = [
        f"{sketch.name}.{knob.name}.{part}" if len(task.sketches) > 1 else f"{knob.name}.{part}"
        for sketch, knobs in zip(task.sketches, tables, strict=True)
        for knob, table in zip(sketch.space.knobs, knobs, strict=True)
        for part in range(table.shape[1])
    ]
    begins = np.cumsum([0, *(sum(table.shape[1] for table in knobs) for knobs in tables)])

    def of(n: int, rows: Rows) -> Floats:
        columns = np.zeros((len(rows), len(names)), np.float32)
        values = [table[rows[:, knob]] for knob, table in enumerate(tables[n])]
        columns[:, begins[n] : begins[n + 1]] = np.concatenate(values, axis=1)
        return columns

    return Columns(of, tuple(names))


def _knob_table(knob: Knob) -> Floats:
    """Return the columns of one knob, float32[options, columns]."""
    if knob.kind == "choice":
        return np.eye(len(knob), dtype=np.float32)
    return np.log2(np.abs(knob.values) + 1.0).astype(np.float32)
