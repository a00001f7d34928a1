"""A tensor as cells: slices of its last two dimensions, side by side, with coordinates.

A large tensor is shown through a window, and a cell may stand for a block of elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from .boxes import Box, cells, column, over, row, sized, text
from .reads import Array, distinct

LINE, GUTTER, GAP = 16, 26, 10  # pixels: height of a text line, width of row numbers, slice gap
LARGEST, SMALLEST, SMALL = 24, 6, 8  # pixels: the side of a cell
HEIGHT = 330  # pixels: height of all slices of a pane, unless its cells would be too small
MAX_SIDES = (4, 4, 16, 16)  # most cells in the last four dimensions
MAX_CELLS = 600


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
        index = np.unravel_index(offsets, self.shape)
        axes = [
            (p - low) // per_cell
            for p, low, per_cell in zip(index, self.low, self.each, strict=True)
        ]
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
        spans = [*zip(self.low, self.cells, self.each, self.shape, strict=True)]
        ends = (f"{low}..{min(size, low + n * per_cell) - 1}" for low, n, per_cell, size in spans)
        whole = all(low == 0 and n * per_cell >= size for low, n, per_cell, size in spans)
        notes = [] if whole else [f"shown: {', '.join(ends)}"]
        if prod(self.each) > 1:
            notes.append(f"a cell: {' × '.join(map(str, self.each))}")
        return notes


def pane_around(name: str, shape: tuple[int, ...], offsets: Array) -> Pane:
    """Return the smallest pane with all elements at `offsets`; a small tensor is shown whole."""
    indices = np.unravel_index(offsets, shape) if shape and len(offsets) else ()
    box = [(int(p.min()), int(p.max()) + 1) for p in indices]
    if not box or prod(shape) <= MAX_CELLS:
        box = [(0, n) for n in shape]
    most = [*(1,) * (len(shape) - 4), *MAX_SIDES[-len(shape) :]] if shape else []
    if len(shape) == 1:
        most = [2 * MAX_SIDES[-1]]
    cell_sizes = [-(-(high - low) // m) for (low, high), m in zip(box, most, strict=True)]
    sizes = [high - low for low, high in box]
    while prod(cells := [-(-n // e) for n, e in zip(sizes, cell_sizes, strict=True)]) > MAX_CELLS:
        cell_sizes[cells.index(max(cells))] *= 2
    return Pane(name, shape, tuple(low for low, _ in box), tuple(cells), tuple(cell_sizes))


# --- drawing -----------------------------------------------------------------------------------


def cell_size(pane: Pane, width: float) -> float:
    """Return the side of a cell in pixels, for a pane at most `width` wide."""
    pane_rows = len(pane.slices) // pane.across
    wide = (width - GUTTER - GAP * (pane.across - 1)) / (pane.across * pane.columns)
    high = (HEIGHT - pane_rows * (_above(pane) + GAP)) / (pane_rows * pane.rows)
    return float(max(SMALLEST, min(LARGEST, wide // 1, high // 1)))


def pane_box(pane: Pane, width: float, notes: int) -> Box:
    """Draw a tensor, with space for `notes` lines below its title; cells have `pane.key(cell)`."""
    size = cell_size(pane, width)
    words = column(
        text(pane.title(), size=13, bold=True), *(text(t, "soft") for t in pane.notes()), gap=1
    )
    parts = [_slice(pane, part, size, n % pane.across == 0) for n, part in enumerate(pane.slices)]
    rows = (parts[n : n + pane.across] for n in range(0, len(parts), pane.across))
    slices = column(*(row(*boxes, gap=GAP) for boxes in rows), gap=GAP)
    return column(sized(words, 0, LINE * (1 + notes)), slices, gap=4)


def _above(pane: Pane) -> float:
    """Return the height of the labels above each slice: its coordinates and column numbers."""
    return LINE * (2 if len(pane.cells) > 2 else 1)


def _slice(pane: Pane, part: tuple[int, ...], size: float, first: bool) -> Box:
    """Draw one slice with its coordinates; the first one of a row has row numbers on its left."""
    cell_specs = (
        (r, c, pane.key(cell), _tip(pane, cell))
        for r in range(pane.rows)
        for c in range(pane.columns)
        for cell in [pane.cell(part, r, c)]
    )
    grid = cells(cell_specs, size, size, 2 if size > SMALL else 1)  # neighbours do not touch
    left, top = GUTTER if first else 0, _above(pane)
    parts = [(grid, left, top), *_numbers(pane, left, top, size, first)]
    if part:
        parts.append((text(_start(pane, part)), left, 0))
    return over(*parts)


def _numbers(
    pane: Pane, left: float, top: float, size: float, rows: bool
) -> Iterator[tuple[Box, float, float]]:
    """Yield the coordinates of the first and last column and, if `rows`, first and last row."""
    for n in sorted({0, pane.columns - 1}) if pane.cells else ():
        label = text(str(pane.low[-1] + n * pane.each[-1]), "soft", anchor="middle")
        if n == 0 or pane.columns * size > label.width + 14:
            yield label, left + (n + 0.5) * size - label.width / 2, top - LINE
    for n in sorted({0, pane.rows - 1}) if rows and len(pane.cells) > 1 else ():
        if n == 0 or pane.rows * size > GUTTER:
            at = str(pane.low[-2] + n * pane.each[-2])
            label = text(at, "soft", width=GUTTER - 5, anchor="end")
            yield label, 0, top + (n + 0.5) * size - LINE / 2


def _tip(pane: Pane, cell: tuple[int, ...]) -> str:
    """Return the elements that a cell shows, such as "A[3, 0..3]"."""
    spans = zip(cell, pane.low, pane.each, pane.shape, strict=True)
    parts = [(low + c * each, min(size, low + (c + 1) * each) - 1) for c, low, each, size in spans]
    index_text = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in parts)
    return f"{pane.name}[{index_text or '()'}]"


# --- as text -----------------------------------------------------------------------------------


def pane_lines(pane: Pane, marks: Mapping[str, str]) -> list[str]:
    """Return the first slice that has marked cells as text: r read, w written, ? perhaps read."""
    letters = {"read": "r", "write": "w", "seen": "?"}
    parts = [
        [
            [
                marks.get(pane.key(pane.cell(part, row, column)), "")
                for column in range(pane.columns)
            ]
            for row in range(pane.rows)
        ]
        for part in pane.slices
    ]
    n = next((n for n, part in enumerate(parts) if any(map(any, part))), 0)
    where = _start(pane, pane.slices[n])
    rows = (" ".join(letters.get(mark, ".") for mark in row) for row in parts[n])
    return [f"{pane.title()}  {where}".rstrip(), *rows]


def _start(pane: Pane, part: tuple[int, ...]) -> str:
    """Return the coordinates of a slice, such as "[0, 3]"; "" if the tensor is one slice."""
    starts = zip(part, pane.low, pane.each, strict=False)
    return f"[{', '.join(str(low + c * per_cell) for c, low, per_cell in starts)}]" if part else ""
