"""A program's time in columns: the share of each column that a unit spends on each activity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from minitvm import accel

from .accelerator_use import Ints
from .gantt_run import UNITS, SimulatedRun, Span

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

TOKENS = "tokens"


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A window divided into columns of equal time.

    edges    the boundaries of the columns in cycles, one more than there are columns
    work     unit -> name of an activity -> its share of each column, 0 to 1
    waits    unit -> reason for waiting -> its share of each column, 0 to 1
    started  the number of instructions that start in each column
    """

    edges: Floats
    work: dict[accel.Unit, dict[str, Floats]]
    waits: dict[accel.Unit, dict[str | accel.Stall, Floats]]
    started: Ints


def columns_of(simulated: SimulatedRun, span: Span, count: int, names: Sequence[str]) -> Columns:
    """Divide a window into `count` columns; names[n] is the activity of instruction n."""
    edges = np.linspace(span.begin, max(span.end, span.begin + 1), count + 1)
    work: dict[accel.Unit, dict[str, Floats]] = {}
    waits: dict[accel.Unit, dict[str | accel.Stall, Floats]] = {}
    for number, unit in enumerate(UNITS):
        of_unit = simulated.table["unit"] == number
        t = {name: column[of_unit] for name, column in simulated.table.items()}
        activity = np.array(names)[t["index"]]
        work[unit] = {
            name: covered(t["start"][activity == name], t["end"][activity == name], edges)
            for name in np.unique(activity).tolist()
        }
        popped = t["start"] - t["channel"]
        fetched = popped - t["tokens"]
        waits[unit] = {
            TOKENS: covered(fetched, popped, edges),
            accel.Stall.CHANNEL: covered(popped, t["start"], edges),
            accel.Stall.FETCH: covered(fetched - t["fetch"], fetched, edges),
            accel.Stall.ROOM: covered(t["end"], t["end"] + t["room"], edges),
        }
    for b in simulated.run.blocked:
        reason = b.waits_for if b.waits_for in waits[b.unit] else TOKENS
        since, until = np.array([simulated.done(b.unit)]), np.array([simulated.run.cycles])
        waits[b.unit][reason] = waits[b.unit][reason] + covered(since, until, edges)
    return Columns(edges, work, waits, np.histogram(simulated.table["start"], edges)[0])


def covered(begin: Ints, end: Ints, edges: Floats) -> Floats:
    """Return the share of each column that sorted, disjoint intervals cover.

    covered([0, 6], [4, 8], [0, 5, 10]) = [0.8, 0.4]
    """
    if not len(begin):
        return np.zeros(len(edges) - 1)
    until = np.cumsum(end - begin)  # the covered time up to t grows only inside the intervals
    times = np.stack([begin, end], 1).reshape(-1)
    totals = np.stack([until - (end - begin), until], 1).reshape(-1)
    return np.diff(np.interp(edges, times, totals)) / np.diff(edges)


def most_within(steps: Sequence[tuple[int, int]], edges: Floats) -> list[tuple[float, int]]:
    """Return, for each column, its first cycle and the maximum of a step function in it.

    A step (t, n) sets the function to n from cycle t on:
    most_within([(0, 1), (3, 2), (4, 0)], [0, 5, 10]) = [(0, 2), (5, 0)]
    """
    table: Ints = np.array([(0, 0), *steps], np.int64)
    times, numbers = table[:, 0], table[:, 1]
    before = np.searchsorted(times, edges[:-1], "right") - 1
    most = np.maximum(numbers[before], 0)
    column: Ints = np.searchsorted(edges, times, "right").astype(np.int64) - 1
    within = (column >= 0) & (column < len(most))
    np.maximum.at(most, column[within], numbers[within])
    return list(zip(edges[:-1].tolist(), most.tolist(), strict=True))
