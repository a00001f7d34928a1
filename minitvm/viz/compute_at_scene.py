"""ComputeAtSlider as a picture: the loops, and three bars for each place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .blocks import Nest
from .chart import text_lines
from .nest import nest_shapes
from .scene import Group, Rect, Scene, Shape, Text, clipped, marked, wrapped

WIDTH, NEST_WIDTH, MARGIN, TOP = 900, 390, 12, 40  # pixels
LEFT, ROW, NAME = 416, 25, 108  # pixels: left edge of the table, its rows, its first column
COLUMN, BAR, LINE = 100, 50, 16  # pixels: each other column, its longest bar, a line of text
ABOUT = "distance: other elements touched from the store to the first use"
COLUMNS = (("bytes kept", "orange"), ("computed", "sky"), ("distance", "pink"))


@dataclass(frozen=True, slots=True)
class Row:
    """The costs of one place, as the table shows them; PlaceCosts explains the fields."""

    name: str
    depth: int
    bytes: int
    recompute: float
    distance: float
    misses: int


def compute_at_scene(
    nest: Nest,
    marks: Mapping[str, str],
    rows: Sequence[Row],
    now: int,
    refused: Sequence[str],
    title: str,
    about: str,
) -> Scene:
    """Draw the loops, the table with row `now` framed, and the refused places.

    refused   the illegal places, each with its reason
    about     the description that a screen reader reads out
    """
    bars, deepest = nest_shapes(nest, MARGIN, TOP, NEST_WIDTH)
    shapes: list[Shape] = [Text(MARGIN, 22, title, bold=True), *bars, *_heads()]
    y = TOP + 26
    for n, row in enumerate(rows):
        shapes.append(_row(row, rows, y + n * ROW, f"place:{n}", n == now))
    y += len(rows) * ROW + 20
    notes = [f"not {text}" for text in refused]
    told = "\n".join([*notes, ABOUT, "bars grow with the square root"])
    lines = wrapped(told, WIDTH - LEFT - MARGIN, 12)
    shapes += text_lines(lines, LEFT + 8, y, "soft", step=LINE)
    y += LINE * len(lines)
    height = max(deepest, y - LINE + 6) + MARGIN
    return marked(Scene(WIDTH, height, tuple(shapes), title, about), marks)


def _heads() -> Iterator[Shape]:
    """Draw the titles of the columns."""
    yield Text(LEFT + 8, TOP + 14, "computed at", size=12, bold=True)
    for n, (name, _) in enumerate(COLUMNS):
        yield Text(LEFT + NAME + n * COLUMN, TOP + 14, name, size=12, bold=True)
    yield Text(WIDTH - MARGIN - 4, TOP + 14, "misses", size=12, anchor="end", bold=True)


def _row(row: Row, rows: Sequence[Row], y: float, key: str, now: bool) -> Group:
    """Draw one place: its name, three bars with numbers, its misses."""
    back = Rect(LEFT, y, WIDTH - LEFT - MARGIN, ROW - 2, "line" if now else "paper", radius=4)
    indent = 8 * min(row.depth, 4)
    name = clipped(row.name, NAME - 12 - indent, 12, mono=True)
    shapes: list[Shape] = [
        back,
        Text(LEFT + 8 + indent, y + 16, name, size=12, mono=True, bold=now),
    ]
    values = [
        (float(row.bytes), max(float(r.bytes) for r in rows), _bytes(row.bytes)),
        (row.recompute, max(r.recompute for r in rows), f"{row.recompute:.3g}×"),
        (row.distance, max(r.distance for r in rows), few_digits(row.distance)),
    ]
    for n, (value, most, text) in enumerate(values):
        left, kind = LEFT + NAME + n * COLUMN, COLUMNS[n][1]
        wide = BAR * share(value, most)
        if wide:
            shapes.append(Rect(left, y + 5, wide, ROW - 12, kind))
        shapes.append(Text(left + wide + 4, y + 16, text, size=12))
    shapes.append(Text(WIDTH - MARGIN - 4, y + 16, str(row.misses), size=12, anchor="end"))
    return Group(tuple(shapes), key)


def share(value: float, most: float) -> float:
    """Return sqrt(value / most), a bar's relative length, so that small values are visible."""
    return math.sqrt(value / most) if most else 0.0


def few_digits(n: float) -> str:
    """Return a number with three digits and no exponent: 24312.7 -> 24300, 38.24 -> 38.2"""
    return f"{n:.3g}" if n < 999.5 else f"{float(f'{n:.3g}'):.0f}"


def _bytes(n: int) -> str:
    """Return a number of bytes as short text: 1152 -> 1152, 65536 -> 64k"""
    return str(n) if n < 10_000 else f"{n / 1024:.3g}k"
