"""IndexLens: point at an element of a tensor to see which input elements it reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np

from minitvm import tensor
from minitvm.base import ArgumentError, as_tuple

from .boxes import MAX_PARTS, Box, column, flow, sized, text
from .controls import Control, Frame, Layout, Slider, TextInput
from .figure import WIDTH, Figure
from .formula import Source, made_from, names_of, source_of
from .panes import Pane, pane_around, pane_box, pane_lines
from .reads import (
    MAX_STEPS,
    Array,
    Reads,
    check_effort,
    checked,
    distinct,
    points_of,
    reads_of,
    sizes_of,
    terms_of,
)
from .scene import Scene, folded_code

BETWEEN = 24  # pixels between tensors
MAX_FRAMES, MAX_MARKS = 256, 40_000  # most elements to point at; most lit cells in total
STEPS = MAX_STEPS // 8  # most elements times terms: they take a fraction of a second
WINDOW = (2, 4, 16, 16)  # most elements of the output shown, in its last four dimensions
MAX_LINES = 25


class IndexLens(Figure):
    """Show a tensor and its inputs as cells: point at a cell, and the cells it reads light up.

    Use the mouse or the arrow keys: left and right for the neighbour, up and down for the next row.
    The reads follow from the formula, not from the schedule, and respect conditions on indices,
    such as padding. Only a part of a large tensor is shown; sliders choose the part.

    args   the inputs to show: reads of other tensors are followed back to them. By default the
           tensors that the formula names. `t` is ignored, so the arguments of lower() work, too
    at     the element shown first and in a saved notebook; by default one in the middle

    `lens.edit(...)` and the text field change the formula; `lens.tensor` is the changed tensor.
    """

    def __init__(
        self,
        t: tensor.Tensor,
        args: Sequence[tensor.Tensor] | None = None,
        *,
        at: Sequence[int] | int | None = None,
    ) -> None:
        self._names: dict[str, Any] = {}
        self._stop = _inputs(t, args)
        self._show(t, None if at is None else as_tuple(at))
        super().__init__()

    def _show(
        self, t: tensor.Tensor, at: tuple[Any, ...] | None, corner: Sequence[int] = ()
    ) -> None:
        """Show a tensor in a window that begins at `corner`."""
        sizes = sizes_of(checked(t))
        if at is not None:
            window = _window(len(sizes))
            if len(at) != len(sizes) or not all(
                isinstance(i, int) and 0 <= i < n for i, n in zip(at, sizes, strict=True)
            ):
                why = f"{t.name} has {' × '.join(map(str, sizes))} elements"
                raise ArgumentError(f"at={at}", why, "one index per dimension")
            corner = tuple(max(0, i - w // 2) for i, w in zip(at, window, strict=True))
        reads, lens = _lens(t, self._stop, corner or (0,) * len(sizes))
        unread = [u.name for u in self._stop if u not in reads.pairs]
        if unread:
            what = f"{t.name} reads no element of this tensor"
            raise ArgumentError(f"IndexLens: {unread[0]}", what, "leave it out of args")
        self.tensor, self._reads, self._panes = t, reads, lens
        inputs = zip(lens[1:], reads.pairs, strict=True)
        self._names |= {pane.name: u for pane, u in inputs} | names_of(t, Source())
        self._source = source_of(t)
        self._frames = _frames(t, reads, lens)
        out = lens[0]
        cell = [n // 2 for n in out.cells]
        if at is not None:
            cell = [i - low for i, low in zip(at, out.low, strict=True)]
        self._first = int(np.ravel_multi_index(cell, out.cells)) if out.cells else 0

    def edit(self, source: str, shape: Sequence[int] = ()) -> None:
        """Show another formula, for example lens.edit("lambda i, j: A[j, i] * 2.0").

        The formula may use the inputs and reduce axes of earlier formulas, te, tir, topi, and all
        names of the notebook. By default the shape is as large as the reads allow.
        """
        self._take(source, shape)
        self.refresh()

    def _take(self, source: str, shape: Sequence[int]) -> None:
        names = {**vars(sys.modules["__main__"]), **self._names}
        t = made_from(source, self.tensor, names, shape)
        before, self._stop = self._stop, ()
        try:
            self._show(t, None)
        except Exception:
            self._stop = before
            raise

    # --- what is shown ---

    def title(self) -> str:
        return f"what the elements of {self._panes[0].name} read"

    def body(self) -> Box:
        column_count = min(3, len(self._panes))
        width = (WIDTH - BETWEEN * (column_count - 1)) / column_count
        notes = max(len(pane.notes()) for pane in self._panes)
        panes = (pane_box(pane, width, notes) for pane in self._panes)
        source = f"{self._panes[0].name} = {self._source}"
        lines = folded_code(source, WIDTH, MAX_PARTS, 13)
        head = column(*(text(line, size=13, mono=True) for line in lines), gap=1)
        return sized(column(head, flow(panes, WIDTH, BETWEEN, BETWEEN)), WIDTH)

    def picture(self) -> Scene:
        """Draw the tensors with the reads of one element marked, and a caption that names them."""
        return self.stopped(self._frames[self._first])

    def ascii(self) -> str:
        """Return the formula, the reads of one element, and the cells: w written, r read."""
        frame = self._frames[self._first]
        head = [f"{self._panes[0].name} = {self._source}", *frame.caption.split("\n")]
        blocks = [pane_lines(p, frame.marks) for p in self._panes]
        rows = _beside(blocks, MAX_LINES - len(head))
        return "\n".join([*head, *rows])

    def layout(self) -> Layout:
        out = self._panes[0]
        axes = cast("tensor.ComputeOp", self.tensor.op).axis
        rows = zip(axes, out.low, out.cells, out.shape, strict=True)
        controls: list[Control] = [
            TextInput("formula", f"{out.name} =", self._source, 64),
            TextInput("shape", "shape", ", ".join(map(str, out.shape)), 10),
            *(
                Slider(f"from {d}", f"{a.name} from", 0, n - shown, low)
                for d, (a, low, shown, n) in enumerate(rows)
                if shown < n
            ),
        ]
        return Layout(
            controls=tuple(controls), frames=self._frames, first=self._first, columns=out.columns
        )

    def on(self, name: str, value: Any) -> str | None:
        if name == "formula":
            self._take(value, ())
        elif name == "shape":
            self._take(self._source, _shape(value))
        elif name.startswith("from "):
            low = list(self._panes[0].low)
            low[int(name.removeprefix("from "))] = value
            self._show(self.tensor, None, low)
        return None


# --- what is looked at -------------------------------------------------------------------------


def _inputs(t: Any, args: Any) -> tuple[tensor.Tensor, ...]:
    """Return `args` without `t` as a tuple; raise ArgumentError if it is not a list of tensors."""
    checked(t)
    if args is None:
        return ()
    if not isinstance(args, list | tuple) or not all(
        isinstance(a, tensor.Tensor) for a in cast("list[Any]", args)
    ):
        why = "not a list of tensors"
        raise ArgumentError(f"IndexLens(..., args={args!r})", why, f"the inputs of {t.name}")
    return tuple(a for a in cast("list[tensor.Tensor]", args) if a != t)


def _window(ndim: int) -> tuple[int, ...]:
    if ndim < 2:
        return (32,) * ndim
    return (*(1,) * max(0, ndim - 4), *WINDOW)[-ndim:]


def _lens(
    t: tensor.Tensor, stop: tuple[tensor.Tensor, ...], corner: Sequence[int]
) -> tuple[Reads, list[Pane]]:
    """Return the reads and panes of a window of `t`; the window shrinks if there are many reads."""
    sizes, terms, p = sizes_of(t), max(1, terms_of(t)), Source()
    if prod(sizes) == 0:
        raise ArgumentError(f"IndexLens({t.name})", "the tensor has no elements", "larger sizes")
    check_effort(t.name, 1, terms)
    shown = [min(n, w) for n, w in zip(sizes, _window(len(sizes)), strict=True)]
    while True:
        while prod(shown) > 1 and (prod(shown) > MAX_FRAMES or prod(shown) * terms > STEPS):
            _halve(shown)
        low = [min(c, n - s) for c, n, s in zip(corner, sizes, shown, strict=True)]
        points = points_of([np.arange(c, c + s) for c, s in zip(low, shown, strict=True)])
        reads = reads_of(t, points, stop)
        inputs = [
            pane_around(p.name(u), sizes_of(u), distinct(pairs[:, 1]))
            for u, pairs in reads.pairs.items()
        ]
        each_read = zip(inputs, reads.pairs.values(), strict=True)
        lit = sum(len(pairs) // max(1, prod(pane.each)) for pane, pairs in each_read)  # estimated
        if lit <= MAX_MARKS or prod(shown) == 1:
            names = tuple(a.name for a in cast("tensor.ComputeOp", t.op).axis)
            cell_sizes = (1,) * len(sizes)
            out = Pane(p.name(t), sizes, tuple(low), tuple(shown), cell_sizes, names)
            return reads, [out, *inputs]
        _halve(shown)


def _halve(shown: list[int]) -> None:
    d = shown.index(max(shown))
    shown[d] = (shown[d] + 1) // 2


# --- what one element reads --------------------------------------------------------------------


def _frames(t: tensor.Tensor, reads: Reads, panes: list[Pane]) -> tuple[Frame, ...]:
    """Return a frame for each element of the window: its marks, and a caption."""
    out, *inputs = panes
    count = prod(out.cells)
    marks: list[dict[str, str]] = [{} for _ in range(count)]
    words: list[list[str]] = [[] for _ in range(count)]
    for pane, (u, pairs) in zip(inputs, reads.pairs.items(), strict=True):
        unsure = u in reads.unsure
        ends = np.searchsorted(pairs[:, 0], np.arange(count + 1))
        for n in range(count):
            offsets = pairs[ends[n] : ends[n + 1], 1]
            if len(offsets):
                marks[n] |= dict.fromkeys(pane.keys_of(offsets), "seen" if unsure else "read")
                most = "data decide which of " if unsure else ""
                words[n].append(most + region(pane.name, u, offsets))
    frames: list[Frame] = []
    for n, cell in enumerate(points_of([np.arange(c) for c in out.cells]).tolist()):
        key = out.key(tuple(cell))
        where = ", ".join(str(c + low) for c, low in zip(cell, out.low, strict=True))
        caption = f"{out.name}[{where or '()'}] reads {', '.join(words[n]) or 'nothing'}"
        frames.append(Frame({**marks[n], key: "write"}, caption, key))
    return tuple(frames)


def region(name: str, t: tensor.Tensor, offsets: Array) -> str:
    """Describe elements and count them, such as "A[1, 0..3] (4)" or "5 of A[0..2, 0..2]"."""
    indices = np.unravel_index(offsets, sizes_of(t)) if t.shape else ()
    axes = [distinct(axis).tolist() for axis in indices]
    steps = [{b - a for a, b in pairwise(axis)} for axis in axes]
    whole = prod(map(len, axes)) == len(offsets) and all(len(s) < 2 for s in steps)
    parts: list[str] = []
    for axis, step in zip(axes, steps, strict=True):
        step_text = f" by {max(step)}" if whole and step and max(step) > 1 else ""
        parts.append(str(axis[0]) if len(axis) == 1 else f"{axis[0]}..{axis[-1]}{step_text}")
    region_text = f"{name}[{', '.join(parts) or '()'}]"
    return f"{region_text} ({len(offsets)})" if whole else f"{len(offsets)} of {region_text}"


# --- text --------------------------------------------------------------------------------------


def _shape(text: str) -> tuple[int, ...]:
    """Parse the text of a shape: "8, 12" -> (8, 12)"""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ArgumentError(f"shape {text!r}", "not one positive number per dimension", "8, 12")
    return tuple(map(int, parts))


def _beside(blocks: list[list[str]], most: int, room: int = 120) -> list[str]:
    """Arrange blocks of lines side by side, `room` characters wide; return at most `most` lines."""
    lines: list[str] = []
    while blocks:
        fits, width = 0, 0
        for b in blocks:
            width += max(map(len, b)) + 3
            if fits and width > room:
                break
            fits += 1
        row_blocks, blocks = blocks[:fits], blocks[fits:]
        widths = [max(map(len, b)) for b in row_blocks]
        for n in range(max(map(len, row_blocks))):
            parts = [
                (b[n] if n < len(b) else "").ljust(w)
                for b, w in zip(row_blocks, widths, strict=True)
            ]
            lines.append("   ".join(parts).rstrip())
    return lines if len(lines) <= most else [*lines[: most - 1], "…"]
