"""Tensors as grids of cells, and frames that show when cells are read and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from minitvm import tir

from .blocks import Nest
from .boxes import Box, cells, column, over, row, sized, text
from .controls import Frame
from .marks import Dot, Mark, Path
from .order import Element, Order
from .plot import Axis, plot

MAX_CELLS = 32  # per row or column; in a larger tensor a cell stands for several elements
MAX_GRIDS = 4
SIDE, SMALL, LARGE = 176, 5, 20  # pixels: the largest grid, the smallest and the largest cell
BETWEEN = 16


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """A tensor as a grid of cells: a column per last coordinate, a row per choice of the others.

    cells           coordinates of an element -> (row, column) of its cell
    rows, columns   the number of cells in each direction
    each            the number of elements per cell
    """

    buffer: tir.Buffer
    cells: dict[tuple[int, ...], tuple[int, int]]
    rows: int
    columns: int
    each: int

    @property
    def size(self) -> float:
        """The side of a cell in pixels."""
        return max(SMALL, min(LARGE, SIDE // max(self.rows, self.columns)))

    def key(self, place: tuple[int, ...]) -> str:
        """Return the key of the cell that shows the element at these coordinates."""
        row, column = self.cells[place]
        return f"cell:{self.buffer.name}/{row}/{column}"


def grids_of(order: Order) -> list[Grid]:
    """Return a grid for each accessed tensor, at most four; the tensor written last is first."""
    indices_of: dict[tir.Buffer, dict[tuple[int, ...], None]] = {}
    for t in reversed(order.ticks):
        for b, at in (*t.writes, *t.reads):
            indices_of.setdefault(b, {})[at] = None
    return [_grid(b, list(at), not order.cut) for b, at in indices_of.items()][:MAX_GRIDS]


def _grid(b: tir.Buffer, touched: list[tuple[int, ...]], whole: bool) -> Grid:
    """Return a grid of the accessed elements; if `whole`, of all elements of a small tensor."""
    axes = [sorted(set(axis)) for axis in zip(*touched, strict=True)] or [[0]]
    sizes = [n for n in b.shape if isinstance(n, int)]
    if whole and len(sizes) == len(axes) and all(n <= MAX_CELLS for n in sizes):
        axes = [list(range(n)) for n in sizes]
    rows, columns = list(product(*axes[:-1])), axes[-1]
    down, right = -(-len(rows) // MAX_CELLS), -(-len(columns) // MAX_CELLS)
    cells = {
        (*row, column) if b.shape else (): (r // down, c // right)
        for r, row in enumerate(rows)
        for c, column in enumerate(columns)
    }
    return Grid(b, cells, -(-len(rows) // down), -(-len(columns) // right), down * right)


# --- drawing -----------------------------------------------------------------------------------


def grids_box(grids: Sequence[Grid], order: Order) -> Box:
    """Draw the grids in two columns, with the path of the stores through the first one."""
    boxes = [_one(g, _path(g, order) if n == 0 else ()) for n, g in enumerate(grids)]
    rows = (boxes[n : n + 2] for n in range(0, len(boxes), 2))
    return column(*(row(*row_boxes, gap=BETWEEN) for row_boxes in rows), gap=BETWEEN)


def _one(g: Grid, path: Sequence[Mark]) -> Box:
    """Draw the title and the cells of a tensor, with marks over the cells."""
    shape = ", ".join(str(n) for n in g.buffer.shape)
    title = f"{g.buffer.name} [{shape}]" + (f", {g.each} a cell" if g.each > 1 else "")
    cell_specs = (
        (r, c, f"cell:{g.buffer.name}/{r}/{c}", "") for r, c in dict.fromkeys(g.cells.values())
    )
    grid = cells(cell_specs, g.size, g.size)
    x, y = (Axis(names=("",) * count, hidden=True) for count in (g.columns, g.rows))
    marks = plot(x, y, path, g.size * g.columns, g.size * g.rows)
    return sized(
        column(text(title, bold=True, width=SIDE), over((grid, 0, 0), (marks, 0, 0)), gap=5), SIDE
    )


def _path(g: Grid, order: Order) -> Sequence[Mark]:
    """Return a line through a tensor's cells in the order in which its last store writes them."""
    ticks = [t for t in order.ticks if t.stmt.buffer is g.buffer]
    last = [t for t in ticks if t.stmt is ticks[-1].stmt]  # skips the initialisation of a reduction
    path_cells = dict.fromkeys(g.cells[at] for t in last for _, at in t.writes)
    points = [(c + 0.5, r + 0.5) for r, c in path_cells]
    return (Path(points, "way"), Dot(*points[0], "start", radius=3)) if len(points) > 1 else ()


# --- frames ------------------------------------------------------------------------------------


def order_frames(nest: Nest, order: Order, grids: list[Grid]) -> tuple[Frame, ...]:
    """Return a frame for each tick (store): the accessed cells, the current line, a caption."""
    names = {b.stmt.var: b.label for b in nest.all() if isinstance(b.stmt, tir.For)}
    lines = {b.stmt: b.key for b in nest.all() if isinstance(b.stmt, tir.Store)}
    shown = {g.buffer: g for g in grids}
    frames: list[Frame] = []
    for n, t in enumerate(order.ticks, 1):
        marks = {shown[b].key(at): "read" for b, at in t.reads if b in shown}
        for key in (shown[b].key(at) for b, at in t.writes if b in shown):
            marks[key] = "both" if key in marks else "write"
        values = ", ".join(f"{names[v]}={i}" for v, i in t.values)
        reads = f", reads {_elements(t.reads)}" if t.reads else ""
        caption = f"tick {n} of {len(order.ticks)}  {values}\nwrites {_elements(t.writes)}{reads}"
        frames.append(Frame({**marks, lines[t.stmt]: "now"}, caption))
    return tuple(frames)


def _elements(places: Iterable[Element]) -> str:
    """Describe the accessed elements of each buffer, such as "A[0, 3], B[3, 0 .. 7]"."""
    indices_of: dict[tir.Buffer, list[tuple[int, ...]]] = {}
    for b, at in places:
        indices_of.setdefault(b, []).append(at)
    words: list[str] = []
    for b, box in indices_of.items():
        spans = [(min(axis), max(axis)) for axis in zip(*box, strict=True)]
        span_texts = (str(low) if low == high else f"{low} .. {high}" for low, high in spans)
        words.append(f"{b.name}[{', '.join(span_texts)}]")
    return ", ".join(words)


def corner_note(nest: Nest, order: Order) -> str:
    """Describe which part of a program's ticks is shown; return "" if all ticks are shown."""
    total = f"{order.total} ticks"
    if any(isinstance(part, tir.If) for part in tir.walk(nest.body)):
        total = f"at most {total}"
    if not order.cut and len(order.ticks) < order.total:
        return f"the first {len(order.ticks)} of {total}"
    if not order.cut:
        return ""
    parts = [
        f"{b.label} {order.cut[b.stmt.var]} of {b.stmt.extent}"
        for b in nest.all()
        if isinstance(b.stmt, tir.For) and b.stmt.var in order.cut
        if not b.label.endswith("_init")
    ]
    return f"a corner of {total}: " + ", ".join(parts)
