"""Two knobs of a search space against speed, as a table of squares: where a tuner has looked.

The side of a square is the best speed that was measured with these two values, relative to the best
of all (a Hinton diagram). Empty cells were not tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .chart import legend, swatch
from .scene import Line, Rect, Scene, Shape, Text, clipped

WIDTH, MARGIN, TOP = 660, 10, 70  # pixels
LARGEST, SMALLEST = 46, 18  # sides of a cell
LABEL = 64  # pixels for the labels on the left


@dataclass(frozen=True, slots=True)
class Tried:
    """A measured candidate: its values of both knobs, GFLOP/s (0 if it failed) and batch."""

    across: int
    down: int
    speed: float
    batch: int


def best_of_cells(tried: Sequence[Tried]) -> dict[tuple[int, int], float]:
    """Map each measured pair of values (across, down) to its highest speed in GFLOP/s."""
    best: dict[tuple[int, int], float] = {}
    for t in tried:
        at = t.across, t.down
        best[at] = max(best.get(at, 0.0), t.speed)
    return best


def map_scene(
    title: str,
    names: tuple[str, str],
    labels: tuple[Mapping[int, str], Mapping[int, str]],
    tried: Sequence[Tried],
) -> Scene:
    """Draw the table of best speeds; the cell in column c and row r has the key "cell:c:r".

    names    the names of the knobs across and down
    labels   value -> its label, for the columns and the rows, in order
    """
    columns, rows = list(labels[0]), list(labels[1])
    room = WIDTH - 2 * MARGIN - LABEL - 14
    side = max(SMALLEST, min(LARGEST, room / max(1, len(columns))))
    best = best_of_cells(tried)
    most = max(best.values(), default=0.0)
    left = MARGIN + LABEL + 14
    shapes: list[Shape] = [
        Text(MARGIN, 20, title, bold=True),
        *_headings(names, labels, left, side, len(rows)),
    ]
    counts: dict[tuple[int, int], int] = {}
    for t in tried:
        counts[t.across, t.down] = counts.get((t.across, t.down), 0) + 1
    for c, value in enumerate(columns):
        for r, other in enumerate(rows):
            speed, count = best.get((value, other), 0.0), counts.get((value, other), 0)
            words = _words(count, speed)
            tip = f"{names[0]} {labels[0][value]}, {names[1]} {labels[1][other]}: {words}"
            shapes += _cell(left + c * side, TOP + r * side, side, (c, r), speed, most, count, tip)
    base = TOP + side * len(rows) + 28
    entries = [
        swatch("blue", f"best speed here; a full square is {most:.3g} GFLOP/s", wide=14),
        swatch("orange", "the best of all", wide=14),
        swatch("cell", "not tried; a cross: all failed", wide=14),
    ]
    drawn, last = legend(entries, base, WIDTH - MARGIN)
    about = f"{len(tried)} trials in {len(best)} of {len(columns) * len(rows)} cells"
    return Scene(WIDTH, last + 14, (*shapes, *drawn), f"{title}: {' and '.join(names)}", about)


def _words(count: int, speed: float) -> str:
    """Describe a cell: how many trials it has, and the best speed."""
    if not count:
        return "not tried"
    found = f"best {speed:.4g} GFLOP/s" if speed else "all failed"
    return f"{count} trial{'s' * (count > 1)}, {found}"


def _headings(
    names: tuple[str, str],
    labels: tuple[Mapping[int, str], Mapping[int, str]],
    left: float,
    side: float,
    rows: int,
) -> Iterator[Shape]:
    """Draw the names and the values of both knobs."""
    yield Text(left, 42, names[0], size=12)
    for c, text in enumerate(labels[0].values()):
        yield Text(left + (c + 0.5) * side, TOP - 7, clipped(text, side, 12), "text", 12, "middle")
    middle = TOP + side * rows / 2
    name = clipped(names[1], max(40.0, side * rows), 12)
    yield Text(MARGIN + 12, middle, name, size=12, anchor="middle", turn=-90)
    for r, text in enumerate(labels[1].values()):
        yield Text(
            left - 6, TOP + (r + 0.5) * side + 4, clipped(text, LABEL - 8, 12), "text", 12, "end"
        )


def _cell(
    x: float,
    y: float,
    side: float,
    at: tuple[int, int],
    speed: float,
    most: float,
    count: int,
    tip: str,
) -> Iterator[Shape]:
    """Draw one cell, with a square as large as its speed, or a cross if all its trials failed."""
    yield Rect(x + 1, y + 1, side - 2, side - 2, "cell", f"cell:{at[0]}:{at[1]}", tip)
    if not count:
        return
    if speed == 0:
        a, b = 0.35 * side, 0.65 * side
        yield Line(((x + a, y + a), (x + b, y + b)), "crossed", tip=tip)
        yield Line(((x + a, y + b), (x + b, y + a)), "crossed", tip=tip)
        return
    inner = (side - 8) * speed / most
    gap = (side - inner) / 2
    yield Rect(x + gap, y + gap, inner, inner, "orange" if speed == most else "blue", tip=tip)


def map_lines(
    names: tuple[str, str],
    labels: tuple[Mapping[int, str], Mapping[int, str]],
    tried: Sequence[Tried],
) -> list[str]:
    """Return the table as text: percent of the best speed, "." for cells that were not tried."""
    best = best_of_cells(tried)
    most = max(best.values(), default=0.0) or 1.0
    across, down = labels
    wide = max([4, *map(len, across.values())]) + 1
    head = max([len(names[1]), *map(len, down.values())])
    lines = [f"{names[1]:>{head}} | {names[0]}: percent of the best speed"]
    lines.append(" " * head + " |" + "".join(f"{text:>{wide}}" for text in across.values()))
    for other, text in down.items():
        cells = [
            f"{100 * best[value, other] / most:.0f}" if (value, other) in best else "."
            for value in across
        ]
        lines.append(f"{text:>{head}} |" + "".join(f"{c:>{wide}}" for c in cells))
    return lines[:25]
