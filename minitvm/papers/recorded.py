"""Recorded measurements: a table, the task it belongs to, and the features of its candidates.

A search on a table takes no time for measuring, so hundreds of searches are compared in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Literal, TypeAlias

import numpy as np

from minitvm import autotvm, tune

from . import loop_tree
from .spaces import OTHER_MACHINE, task

Encoding: TypeAlias = Literal["configuration", "flattened loops", "context relation", "loop tree"]


def _loops(task: autotvm.Task) -> tune.Columns:
    """Return the features of the loops, without the analytic model's estimate and its parts."""
    columns = tune.columns_of(task)
    kept = [n for n in tune.loops_in(columns.names) if n != columns.analytic]
    return tune.Columns(
        lambda n, rows: columns.of(n, rows)[:, kept], tuple(columns.names[n] for n in kept)
    )


ENCODINGS: dict[Encoding, Callable[[autotvm.Task], tune.Columns]] = {
    "configuration": lambda task: autotvm.columns_of(task, "knob"),
    "flattened loops": _loops,
    "context relation": lambda task: autotvm.columns_of(task, "curve"),
    "loop tree": loop_tree.columns_of,
}


@dataclass(frozen=True, eq=False)
class Recorded:
    """A table of measurements with its task, whose space has the measured candidates only.

    rows     the measured configurations, int32[candidates, knobs]
    speeds   their speeds; the fastest one is 1: float32[candidates]
    """

    table: tune.Table
    task: autotvm.Task

    @property
    def name(self) -> str:
        """Return the name of the table and of its task."""
        return self.table.name

    @cached_property
    def rows(self) -> tune.Rows:
        return self.table.rows

    @cached_property
    def speeds(self) -> tune.Floats:
        return (self.table.best / self.table.measured).astype(np.float32)

    def encoded(self, encoding: Encoding) -> tune.Floats:
        """Return the features of the measured candidates, float32[candidates, columns]."""
        return autotvm.features_of(self.task, self.columns(encoding), self.rows)

    def columns(self, encoding: Encoding) -> tune.Columns:
        """Return the features of an encoding; they are computed once for the whole space."""
        return _columns(self, encoding)

    def __repr__(self) -> str:
        return f"recorded {self.table!r}"


@lru_cache(maxsize=64)
def _columns(recorded: Recorded, encoding: Encoding) -> tune.Columns:
    columns = ENCODINGS[encoding](recorded.task)
    space = recorded.task.config_space.space
    derived = recorded.task.derived
    whole = np.zeros((space.size, len(columns.names)), np.float32)
    rows = recorded.rows
    whole[space.indices(rows)] = autotvm.features_of(recorded.task, columns, rows)
    return tune.Columns(lambda n, rows: whole[space.indices(derived.rows(n, rows))], columns.names)


@cache
def recorded(name: str) -> Recorded:
    """Return the recorded measurements of a task, on the recording machine; see `task` for names.

    Raises ArgumentError if there is no table of this name.
    """
    table = tune.load_table(name)
    caches = {level: table.about["machine"][level] for level in ("l1", "l2", "l3")}
    target = table.target if name in OTHER_MACHINE else task(name).target.on(**caches)
    whole = task(name, target)
    return Recorded(table, whole.restricted(lambda rows: ~np.isnan(table.of(rows))))
