"""TokenGantt zoomed out: columns with shares of time instead of single instructions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np

from minitvm import accel

from .controls import Frame
from .gantt_run import UNITS
from .gantt_shares import Floats, most_within
from .gantt_view import (
    LANE,
    LOOKS,
    THREADS,
    TOP,
    WAITS,
    ProgramWindow,
    lane,
    queue_depth,
)
from .kinds import KINDS, ink
from .scene import Polygon, Rect, Shape, Text

MIN_SHARE = 0.5 / LANE  # the smallest visible share: half a pixel
LETTER = 13  # pixels that a letter needs in both directions


def zoomed_out_note(view: ProgramWindow) -> str:
    """Explain what a column is, and how to zoom in."""
    c = view.columns
    per_column = round(float(c.started.mean()))
    return (
        f"zoomed out: a column is {c.edges[1] - c.edges[0]:,.0f} cycles with about {per_column:,} "
        "instructions; heights are shares of its time, in queues the most; click it to see them"
    )


def share_shapes(view: ProgramWindow) -> Iterator[Shape]:
    """Draw each lane as stacked shares of time, with work at the bottom and waiting above it."""
    for unit in UNITS:
        below = np.zeros(len(view.columns.started))
        for kind, letter, share in _layers(view, unit):
            yield from _area(view, unit, kind, letter, below, below + share)
            below = below + share


def _layers(view: ProgramWindow, unit: accel.Unit) -> Iterator[tuple[str, str, Floats]]:
    """Yield (kind, letter, shares of the columns) for each activity of a unit, lowest first."""
    work, waits = view.columns.work[unit], view.columns.waits[unit]
    looks = LOOKS
    if view.by_thread:
        looks = {str(t): (kind, str(t)) for t, kind in enumerate(THREADS)} | {"": ("", "")}
    for name, (kind, letter) in looks.items():
        if name in work:
            yield kind, letter, work[name]
    for reason, (kind, _) in WAITS.items():
        yield kind, "", waits[reason]


def _area(
    view: ProgramWindow, unit: accel.Unit, kind: str, letter: str, low: Floats, high: Floats
) -> Iterator[Shape]:
    """Draw one activity of a unit as the area between the shares `low` and `high` of each column.

    The area has a letter if it is large enough. A kind with a hatch is drawn as rectangles, because
    only rectangles are hatched.
    """
    bottom = lane(unit) + LANE
    for first, after in _runs(high - low >= MIN_SHARE):
        if KINDS[kind].hatch:
            yield from _hatched(view, bottom, kind, first, low[first:after], high[first:after])
        else:
            yield Polygon(_outline(view, bottom, first, low[first:after], high[first:after]), kind)
    tall = [run for run in _runs((high - low) * LANE >= LETTER) if letter]
    first, after = max(tall, key=lambda run: run[1] - run[0], default=(0, 0))
    left, right = (view.x(float(view.columns.edges[at])) for at in (first, after))
    if right - left >= LETTER:
        middle = float(np.mean(low[first:after] + high[first:after])) / 2
        at = (left + right) / 2, bottom - LANE * middle + 4
        yield Text(*at, letter, ink(kind), 12, "middle")


def _runs(seen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """Return the runs of true entries as half-open ranges (first, last + 1)."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], seen, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in change.reshape(-1, 2)]


def _outline(
    view: ProgramWindow, bottom: float, first: int, low: Floats, high: Floats
) -> tuple[tuple[float, float], ...]:
    """Return the corners of an area: to the right along `high` in steps, and back along `low`."""
    edges = [view.x(t) for t in view.columns.edges[first : first + len(low) + 1].tolist()]

    def steps(share: Floats) -> list[tuple[float, float]]:
        ys = (bottom - LANE * share).round(1).tolist()
        corners: list[tuple[float, float]] = []
        for n, y in enumerate(ys):
            if n and y == ys[n - 1]:
                corners[-1] = edges[n + 1], y
            else:
                corners += [(edges[n], y), (edges[n + 1], y)]
        return corners

    return (*steps(high), *reversed(steps(low)))


def _hatched(
    view: ProgramWindow, bottom: float, kind: str, first: int, low: Floats, high: Floats
) -> Iterator[Shape]:
    """Draw a rectangle from `low` to `high` for each run of columns of equal height in pixels."""
    tops, bases = ((bottom - LANE * share).round().tolist() for share in (high, low))
    at = first
    for (top, base), runs in groupby(zip(tops, bases, strict=True)):
        after = at + len(list(runs))
        left, right = (view.x(float(view.columns.edges[n])) for n in (at, after))
        if top < base:
            yield Rect(left, top, right - left, base - top, kind)
        at = after


def column_shapes(view: ProgramWindow) -> Iterator[Shape]:
    """Draw over each column an invisible area that can be pointed at and clicked."""
    edges = [view.x(t) for t in view.columns.edges.tolist()]
    height = lane(UNITS[-1]) + LANE - TOP
    for n, (left, right) in enumerate(pairwise(edges)):
        yield Rect(left, TOP, right - left, height, "touch", f"c:{n}", _counted(view, n))


def _counted(view: ProgramWindow, n: int) -> str:
    """Describe a column, such as "cycles 120 to 240, 12 instructions start"."""
    begin, end = view.columns.edges[n : n + 2]
    return f"cycles {begin:,.0f} to {end:,.0f}, {view.columns.started[n]:,} instructions start"


def column_frames(view: ProgramWindow) -> tuple[Frame, ...]:
    """Return a frame per column: how units spend the time, and the most tokens in each queue."""
    edges = view.columns.edges
    most = {q: most_within(queue_depth(view, q), edges) for q in accel.Queue}
    frames: list[Frame] = []
    for n, t in enumerate(edges[:-1].tolist()):
        lines = [f"{unit.value:8} {_spent(view, unit, n)}" for unit in UNITS]
        tokens = "  ".join(f"{q.value} {counts[n][1]}" for q, counts in most.items())
        caption = "\n".join([_counted(view, n), *lines, f"tokens   at most {tokens}"])
        frames.append(Frame({f"t:{t:g}": "start"}, caption))
    return tuple(frames)


def _spent(view: ProgramWindow, unit: accel.Unit, n: int) -> str:
    """Describe a unit's activities in the n-th column: "gemm 70%, waits for a token 20%"."""
    work, waits = view.columns.work[unit], view.columns.waits[unit]
    shares = [
        ((f"virtual thread {k}" if k else "others") if view.by_thread else k, share[n])
        for k, share in work.items()
    ]
    shares += [(WAITS[reason][1], share[n]) for reason, share in waits.items()]
    words = [f"{name} {share:.0%}" for name, share in shares if share >= 0.005]
    return ", ".join(words) or "has nothing to do"
