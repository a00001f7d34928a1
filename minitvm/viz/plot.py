"""Plots: marks in units of the data, on two axes.

    plot(
        Axis(0, 64, "trials"), Axis(0, 150, "GFLOP/s", grid=True),
        [Bar(16, None, 32, None, "faint"), *(Dot(n, s, "sky", f"trial:{n}") for n, s in points),
         Path(best, "blue", steps=True), Rule(y=120, text="peak")],
        width=800, height=300,
    )

A mark has data coordinates; None stands for the edge of the plot. On an axis of names, the row (or
column) of names[2] extends from 2 to 3, so Bar(0, 2, cycles, 3, ...) fills it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .boxes import SIZE, Box
from .chart import Labels, Scale
from .marks import Bar, Mark, Name, Note, Path, Plane, Rule
from .scene import Line, Rect, Shape, Text, clipped, text_width

TICK, EDGE = 5, 6  # pixels: of a tick; around a plot, for half a label
LABELS, TITLE = 20, 18  # pixels: the rows of labels and of the title
NAMES = 280  # pixels: longer names beside an axis are cut


@dataclass(frozen=True, slots=True)
class Axis:
    """The values along one side of a plot.

    low, high   the range of numbers
    names       instead: one row or column for each name, the first row at the top
    icons       the kinds of small squares beside the names
    ticks       how many marks, or the marked values;  whole: only whole numbers are marked
    power       marks are powers of it, on a logarithmic axis
    label       the text of a mark;  grid: whether lines cross the plot;  hidden: not drawn at all
    """

    low: float = 0
    high: float = 1
    title: str = ""
    names: Sequence[str] = ()
    log: bool = False
    ticks: int | Sequence[float] = 6
    label: Callable[[float], str] = "{:g}".format
    grid: bool = False
    hidden: bool = False
    whole: bool = False
    power: int = 0
    icons: Sequence[str] = ()

    @classmethod
    def around(cls, values: Iterable[float], title: str = "") -> Axis:
        """Return an axis that contains all values, with some room at both ends."""
        low, high = min(values := [*values]), max(values)
        room = 0.04 * (high - low) or 1.0
        return cls(low - room, high + room, title)

    def on(self, start: float, end: float) -> Scale:
        """Return the scale of the axis on the pixels from `start` to `end`."""
        if self.names:
            return Scale(0, len(self.names), min(start, end), max(start, end))
        return Scale(self.low, self.high, start, end, self.log)

    def marks(self, scale: Scale) -> list[tuple[float, str]]:
        """Return (pixel, text) of each mark."""
        if self.names:
            return [(scale.at(n + 0.5), name) for n, name in enumerate(self.names)]
        values = self.ticks
        if self.power:
            values = scale.powers(self.power)
        elif isinstance(values, int):
            values = scale.ticks(values, 1 if self.whole else 0)
        return [(scale.at(value), self.label(value)) for value in values]

    def side(self, height: float) -> float:
        """Return the pixels that labels and title need beside a plot of this height."""
        if self.hidden:
            return 0
        widths = [text_width(words, SIZE) for _, words in self.marks(self.on(height, 0))]
        return (
            min(max(widths, default=0), NAMES) + 10 + 20 * bool(self.title) + 18 * bool(self.icons)
        )


def plot(
    x: Axis,
    y: Axis,
    marks: Iterable[Mark],
    width: float,
    height: float,
    *,
    y2: Axis | None = None,
    inner: bool = False,
) -> Box:
    """Return a plot with its axes, in `width` by `height` pixels.

    y2      another axis, on the right
    inner   whether `width` and `height` are those of the area between the axes
    """
    marks = tuple(marks)
    edge = 0 if x.hidden and y.hidden else EDGE
    left, right = y.side(height), y2.side(height) if y2 else edge
    below = 0 if x.hidden else LABELS + TITLE * bool(x.title)
    if inner:
        width, height = left + width + right, edge + height + below

    def draw(at: float, top: float) -> Iterator[Shape]:
        ends = top + height - below, top + edge
        start = at + left
        p = Plane(x.on(start, start + _free(x, marks, width - left - right)), y.on(*ends))
        yield from _shapes([m for m in marks if _is_area(m)], p)
        yield from _grid(x, x.marks(p.x), p, level=False)
        yield from _grid(y, y.marks(p.y), p, level=True)
        if not x.hidden:
            yield from _across(x, p)
        if not y.hidden:
            yield from _upright(y, y.marks(p.y), p, at, -1)
        if y2:
            yield from _upright(y2, y2.marks(y2.on(*ends)), p, at + width, 1)
        yield from _shapes([m for m in marks if not _is_area(m)], p)
        yield from _names(marks, p)

    return Box(width, height, draw)


def _is_area(mark: Mark) -> bool:
    """Return whether a mark lies below the axes: an area, or a bar up to an edge of the plot."""
    if isinstance(mark, Bar):
        return None in (mark.x0, mark.y0, mark.x1, mark.y1)
    return isinstance(mark, Path) and mark.filled


def _shapes(marks: Iterable[Mark], p: Plane) -> Iterator[Shape]:
    for m in marks:
        yield from m.draw(p)


def _names(marks: Sequence[Mark], p: Plane) -> Iterator[Shape]:
    """Draw the names and the texts of rules."""
    names = [m for m in marks if isinstance(m, Name)]
    names += [Name(m.x, m.y, m.text, False, 4) for m in marks if isinstance(m, Rule) and m.text]
    if not names:
        return
    labels = Labels(p.area)
    for m in marks:
        m.keep_clear(labels, p)
    for name in names:
        yield from name.place(p, labels)


def _free(x: Axis, marks: Sequence[Mark], width: float) -> float:
    """Return the pixels of the horizontal axis: a hidden one leaves space for notes."""
    scale = x.on(0, 1)
    ends = [
        (scale.at(m.x), text_width(m.text, SIZE) + 10)
        for m in marks
        if isinstance(m, Note) and x.hidden
    ]
    return min([width, *((width - wide) / end for end, wide in ends if end)])


def _grid(axis: Axis, marks: Sequence[tuple[float, str]], p: Plane, level: bool) -> Iterator[Shape]:
    """Draw the lines of an axis across the plot: at its marks, or between names."""
    (left, top, right, bottom), scale = p.area, p.y if level else p.x
    positions = [scale.at(n + 1) for n in range(len(axis.names))] or [at for at, _ in marks]
    for at in positions if axis.grid else ():
        yield Line(((left, at), (right, at)) if level else ((at, top), (at, bottom)), "grid")


def _across(axis: Axis, p: Plane) -> Iterator[Shape]:
    """Draw the horizontal axis; labels that would overlap are left out."""
    left, _, right, bottom = p.area
    free = -math.inf
    for at, words in axis.marks(p.x):
        shown = clipped(words, (right - left) / len(axis.names), SIZE) if axis.names else words
        half = text_width(shown, SIZE) / 2
        middle = min(at, right - half + 6)
        if not axis.names:
            yield Line(((at, bottom), (at, bottom + TICK)), "axis")
        if middle - half > free:
            yield Text(middle, bottom + LABELS - 2, shown, size=SIZE, anchor="middle")
            free = middle + half + (0 if axis.names else 4)
    yield Line(((left, bottom), (right, bottom)), "axis")
    middle = (left + right) / 2
    if axis.title:
        yield Text(middle, bottom + LABELS + TITLE - 3, axis.title, size=SIZE, anchor="middle")


def _upright(
    axis: Axis, marks: Sequence[tuple[float, str]], p: Plane, edge: float, side: int
) -> Iterator[Shape]:
    """Draw a vertical axis on the left (side=-1) or right (1); `edge` is its outer edge."""
    left, top, right, bottom = p.area
    x, anchor = (left, "end") if side < 0 else (right, "start")
    for n, (at, words) in enumerate(marks):
        if axis.icons:
            yield Rect(edge, at - 6, 12, 12, axis.icons[n])
        if not axis.names:
            yield Line(((x, at), (x + TICK * side, at)), "axis")
        shown = clipped(words, NAMES, SIZE) if axis.names else words
        tip = words if shown != words else ""
        yield Text(x + 8 * side, at + 4, shown, size=SIZE, anchor=anchor, tip=tip)
    yield Line(((x, top), (x, bottom)), "axis")
    if axis.title:
        at = edge + 12 if side < 0 else edge - 3
        middle = (top + bottom) / 2
        yield Text(at, middle, axis.title, size=SIZE, anchor="middle", turn=-90)
