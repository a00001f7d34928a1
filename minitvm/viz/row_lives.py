"""RowLives: when the rows of a stage are computed, kept, dropped and computed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from minitvm import accesses, te
from minitvm.base import ArgumentError

from .boxes import Box, column, legend, row, text
from .figure import Figure
from .marks import Bar, Mark
from .plot import Axis, plot

CELL = 21  # pixels: one row at one time
Lives: TypeAlias = tuple[dict[tuple[int, int], str], int]  # {(row, time): kind}, rows of memory


class RowLives(Figure):
    """Show, for each schedule, which rows of a stage are in memory while its reader runs.

    schedules   name -> schedule of a stage between `source` and `result`, all two-dimensional;
                row n of the stage is computed from row n of `source`
    """

    def __init__(self, schedules: Mapping[str, te.Schedule], source: Any, result: Any) -> None:
        self._shape = source.shape[0], result.shape[0]
        traces = {name: accesses.record(s, [source, result]) for name, s in schedules.items()}
        stages = {b.name for trace in traces.values() for b in trace.buffers if b.temporary}
        self._names = " and ".join(sorted(stages)), result.name
        self.lives = {name: lives(trace) for name, trace in traces.items()}
        super().__init__()

    def title(self) -> str:
        return f"the rows of {self._names[0]} over time: {', '.join(self.lives)}"

    def body(self) -> Box:
        looks = {"write box": "computed", "race box": "computed again", "seen box": "kept"}
        panels = row(*(self._panel(name) for name in self.lives), gap=26)
        return column(panels, legend(looks, panels.width), gap=10)

    def _panel(self, name: str) -> Box:
        (rows, times), (stage, reader) = self._shape, self._names
        marks: list[Mark] = [
            Bar(t, n, t + 1, n + 1, "cell") for n in range(rows) for t in range(times)
        ]
        for (n, t), kind in self.lives[name][0].items():
            marks.append(Bar(t, n, t + 1, n + 1, kind, inset=1, gap=2))
        x = Axis(names=list(map(str, range(times))), title=f"row of {reader}, over time")
        y = Axis(names=list(map(str, range(rows))), title=f"row of {stage}")
        grid = plot(x, y, marks, times * CELL, rows * CELL, inner=True)
        return column(text(name, bold=True, mono=True), grid, text(self._note(name), "soft"))

    def _note(self, name: str) -> str:
        cells, places = self.lives[name]
        computed = sum(kind != "seen" for kind in cells.values())
        return f"{places} rows of memory, {computed} rows computed"

    def ascii(self) -> str:
        return "\n".join(f"{name}: {self._note(name)}" for name in self.lives)


def lives(trace: accesses.AccessTrace) -> Lives:
    """Return which rows of the temporary buffer are computed or kept while a result is computed.

    Raises ArgumentError if the program does not have exactly one temporary buffer.
    """
    temporaries = [n for n, b in enumerate(trace.buffers) if b.temporary]
    if len(temporaries) != 1:
        raise ArgumentError("RowLives", f"{len(temporaries)} temporary buffers", "two stages")
    widths = [b.shape[-1] for b in trace.buffers]
    stores = np.flatnonzero(trace.write & (trace.buffer == 1))  # of the result
    times = trace.index[stores] // widths[1]
    cells: dict[tuple[int, int], str] = {}
    stored: dict[int, tuple[int, int]] = {}  # place -> its row, and when it was computed
    first: dict[int, int] = {}  # row -> when it was computed for the first time
    source = 0
    for n in range(int(stores[-1])):
        buffer, at = int(trace.buffer[n]), int(trace.index[n]) // widths[int(trace.buffer[n])]
        now = int(times[np.searchsorted(stores, n)])
        if buffer == 0:
            source = at
        elif buffer == temporaries[0] and trace.write[n]:
            again = first.setdefault(source, now) < now
            cells[source, now] = "race" if again else "write"
            stored[at] = source, now
        elif buffer == temporaries[0]:
            kept, since = stored[at]
            for time in range(since + 1, now + 1):
                cells.setdefault((kept, time), "seen")
    return cells, int(trace.buffers[temporaries[0]].shape[0])
