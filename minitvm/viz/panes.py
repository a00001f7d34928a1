"""A tensor as cells: slices of its last two dimensions, side by side, with coordinates.

A large tensor is shown through a window, and a cell may stand for a block of elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from .reads import Array, distinct
from .scene import Rect, Shape, Text, text_width

LINE, GUTTER, GAP = 16, 26, 10  # pixels: height of a text line, width of row numbers, slice gap
LARGEST, SMALLEST = 24, 6  # pixels: the side of a cell
HEIGHT = 330  # pixels: height of all slices of a pane, unless its cells would be too small
MOST = (4, 4, 16, 16)  # most cells in the last four dimensions
MOST_CELLS = 600


@dataclass(frozen=True, slots=True)
class Pane:
    """The part of a tensor that is drawn: in each dimension, `cells` cells starting at index `low`.

    name, shape   the name and the shape of the tensor
    each          the number of elements per cell in each dimension
    axes          the names of the dimensions; () if they have none
    """

    name: str
    shape: tuple[int, ...]
    low: tuple[int, ...]
    cells: tuple[int, ...]
    each: tuple[int, ...]
    axes: tuple[str, ...] = ()

    def key(self, cell: tuple[int, ...]) -> str:
        """Return the key of a cell, such as "A/0/3"."""
        return "/".join([self.name, *map(str, cell)])

    def keys_of(self, offsets: Array) -> list[str]:
        """Return the distinct keys of the cells that show the elements at row-major `offsets`."""
        if not self.shape:
            return [self.name]
        places = np.unravel_index(offsets, self.shape)
        axes = [(p - low) // each for p, low, each in zip(places, self.low, self.each, strict=True)]
        flat = distinct(np.ravel_multi_index(axes, self.cells))
        cells = zip(*(a.tolist() for a in np.unravel_index(flat, self.cells)), strict=True)
        return [self.key(c) for c in cells]

    @property
    def slices(self) -> list[tuple[int, ...]]:
        """The cell coordinates of each slice in all dimensions but the last two."""
        return list(product(*(range(n) for n in self.cells[:-2])))

    @property
    def across(self) -> int:
        """The number of slices side by side."""
        return self.cells[-3] if len(self.cells) > 2 else 1

    @property
    def rows(self) -> int:
        """The number of rows of cells in a slice."""
        return self.cells[-2] if len(self.cells) > 1 else 1

    @property
    def columns(self) -> int:
        """The number of columns of cells in a slice."""
        return self.cells[-1] if self.cells else 1

    def cell(self, part: tuple[int, ...], row: int, column: int) -> tuple[int, ...]:
        """Return the cell coordinates of a row and a column in the slice `part`."""
        return (*part, row, column)[-len(self.cells) :] if self.cells else ()

    def title(self) -> str:
        """Return the title, such as "C[i, j]  64 × 64" or "A  8 × 8"."""
        name = f"{self.name}[{', '.join(self.axes)}]" if self.axes else self.name
        return f"{name}  {' × '.join(map(str, self.shape)) or 'scalar'}"

    def notes(self) -> list[str]:
        """Return notes: which part is shown (if not all), and the elements per cell (if not 1)."""
        parts: list[str] = []
        spans = zip(self.low, self.cells, self.each, self.shape, strict=True)
        if any(low > 0 or low + n * each < size for low, n, each, size in spans):
            spans = zip(self.low, self.cells, self.each, self.shape, strict=True)
            ends = [f"{low}..{min(size, low + n * e) - 1}" for low, n, e, size in spans]
            parts.append(f"shown: {', '.join(ends)}")
        if prod(self.each) > 1:
            parts.append(f"a cell: {' × '.join(map(str, self.each))}")
        return parts


def pane_around(name: str, shape: tuple[int, ...], offsets: Array) -> Pane:
    """Return the smallest pane with all elements at `offsets`; a small tensor is shown whole."""
    places = np.unravel_index(offsets, shape) if shape and len(offsets) else ()
    box = [(int(p.min()), int(p.max()) + 1) for p in places]
    if not box or prod(shape) <= MOST_CELLS:
        box = [(0, n) for n in shape]
    most = [*(1,) * (len(shape) - 4), *MOST[-len(shape) :]] if shape else []
    if len(shape) == 1:
        most = [2 * MOST[-1]]
    each = [-(-(high - low) // m) for (low, high), m in zip(box, most, strict=True)]
    sizes = [high - low for low, high in box]
    while prod(cells := [-(-n // e) for n, e in zip(sizes, each, strict=True)]) > MOST_CELLS:
        each[cells.index(max(cells))] *= 2
    return Pane(name, shape, tuple(low for low, _ in box), tuple(cells), tuple(each))


# --- drawing -----------------------------------------------------------------------------------


def cell_size(pane: Pane, width: float) -> float:
    """Return the side of a cell in pixels, for a pane at most `width` wide."""
    down = len(pane.slices) // pane.across
    wide = (width - GUTTER - GAP * (pane.across - 1)) / (pane.across * pane.columns)
    high = (HEIGHT - down * (_above(pane) + GAP)) / (down * pane.rows)
    return float(max(SMALLEST, min(LARGEST, wide // 1, high // 1)))


def pane_size(pane: Pane, size: float, head: float) -> tuple[float, float]:
    """Return the (width, height) of a pane, including the text above it, `head` pixels high."""
    width = GUTTER + pane.across * (pane.columns * size + GAP) - GAP
    down = len(pane.slices) // pane.across
    height = head + down * (_above(pane) + pane.rows * size + GAP) - GAP
    words = max(text_width(text, 12) for text in (pane.title(), *pane.notes()))
    return max(width, words), height


def pane_head(pane: Pane) -> float:
    """Return the height of the text above a pane."""
    return LINE * (1 + len(pane.notes())) + 4


def _above(pane: Pane) -> float:
    """Return the height of the labels above each slice: its coordinates and column numbers."""
    return LINE * (2 if len(pane.cells) > 2 else 1)


def pane_shapes(pane: Pane, x: float, y: float, size: float, head: float) -> list[Shape]:
    """Draw a pane's title, notes, slices and coordinates; a cell has the key `pane.key(cell)`."""
    shapes: list[Shape] = [Text(x, y + 12, pane.title(), bold=True)]
    for n, note in enumerate(pane.notes(), 1):
        shapes.append(Text(x, y + 12 + LINE * n, note, "soft", 12))
    top = y + head
    for n, part in enumerate(pane.slices):
        down, right = divmod(n, pane.across)
        left = x + GUTTER + right * (pane.columns * size + GAP)
        at = top + down * (_above(pane) + pane.rows * size + GAP) + _above(pane)
        shapes += _slice(pane, part, left, at, size, right == 0)
    return shapes


def _slice(
    pane: Pane, part: tuple[int, ...], x: float, y: float, size: float, numbers: bool
) -> list[Shape]:
    """Draw one slice with its upper left cell at (x, y), and, if `numbers`, its row numbers."""
    shapes: list[Shape] = []
    if part:
        first = zip(part, pane.low, pane.each, strict=False)
        where = ", ".join(str(low + c * each) for c, low, each in first)
        shapes.append(Text(x, y - LINE - 4, f"[{where}]", size=12))
    if pane.cells:
        shapes += _numbers(pane, x, y, size, numbers)
    for row in range(pane.rows):
        for column in range(pane.columns):
            cell = pane.cell(part, row, column)
            at = x + column * size, y + row * size
            side = size - (2 if size > 8 else 1)  # borders of neighbours do not touch
            shapes.append(Rect(*at, side, side, "cell", pane.key(cell), tip=_tip(pane, cell)))
    return shapes


def _numbers(pane: Pane, x: float, y: float, size: float, rows: bool) -> list[Shape]:
    """Draw the coordinates of the first and last column and, if `rows`, first and last row."""
    shapes: list[Shape] = []
    for column in sorted({0, pane.columns - 1}):
        at = str(pane.low[-1] + column * pane.each[-1])
        middle = x + (column + 0.5) * size
        if column == 0 or pane.columns * size > text_width(at, 12) + 14:
            shapes.append(Text(middle, y - 4, at, "soft", 12, anchor="middle"))
    if rows and len(pane.cells) > 1:
        for row in sorted({0, pane.rows - 1}):
            if row == 0 or pane.rows * size > 26:
                at = str(pane.low[-2] + row * pane.each[-2])
                base = y + (row + 0.5) * size + 4
                shapes.append(Text(x - 5, base, at, "soft", 12, anchor="end"))
    return shapes


def _tip(pane: Pane, cell: tuple[int, ...]) -> str:
    """Return the elements that a cell shows, such as "A[3, 0..3]"."""
    spans = zip(cell, pane.low, pane.each, pane.shape, strict=True)
    parts = [(low + c * each, min(size, low + (c + 1) * each) - 1) for c, low, each, size in spans]
    inside = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in parts)
    return f"{pane.name}[{inside or '()'}]"


# --- as text -----------------------------------------------------------------------------------


def pane_lines(pane: Pane, marks: dict[str, str]) -> list[str]:
    """Return the first slice that has marked cells as text: r read, w written, ? perhaps read."""
    letters = {"read": "r", "write": "w", "seen": "?"}
    parts = pane.slices
    marked = [
        s
        for s in parts
        if any(pane.key(pane.cell(s, r, c)) in marks
               for r in range(pane.rows) for c in range(pane.columns))
    ]  # fmt: skip
    part = (marked or parts)[0]
    title = pane.title()
    if part:
        first = zip(part, pane.low, pane.each, strict=False)
        title += f"  [{', '.join(str(low + c * each) for c, low, each in first)}]"
    rows = [
        " ".join(
            letters.get(marks.get(pane.key(pane.cell(part, row, column)), ""), ".")
            for column in range(pane.columns)
        )
        for row in range(pane.rows)
    ]
    return [title, *rows]
