"""The marks of a plot, in units of the data; None stands for the edge of the plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from .boxes import SIZE, outline
from .chart import END, LINE, NAMED, Area, Labels, Point, Scale, around, label_box, label_shapes
from .kinds import ink
from .scene import Circle, Group, Line, Polygon, Rect, Shape, Text, clipped, text_width

Value: TypeAlias = float | None


@dataclass(frozen=True, slots=True)
class Plane:
    """Where marks are drawn: two scales."""

    x: Scale
    y: Scale

    def at(self, x: Value, y: Value) -> Point:
        """Return the pixel of a point."""
        return _span(self.x, x, x)[0], _span(self.y, y, y)[0]

    @property
    def area(self) -> Area:
        """The left, top, right and bottom edge in pixels."""
        (left, right), (top, bottom) = _span(self.x, None, None), _span(self.y, None, None)
        return left, top, right, bottom


def _span(scale: Scale, low: Value, high: Value) -> tuple[float, float]:
    """Return the pixels of two values in increasing order; None is an edge of the plot."""
    a = scale.start if low is None else scale.at(low)
    b = scale.end if high is None else scale.at(high)
    return min(a, b), max(a, b)


class Mark:
    """Something drawn in a plot."""

    __slots__ = ()

    def draw(self, p: Plane) -> Iterator[Shape]:
        """Draw the mark below all names."""
        return iter(())

    def keep_clear(self, labels: Labels, p: Plane) -> None:
        """Make names avoid the mark."""


@dataclass(frozen=True, slots=True)
class Dot(Mark):
    """A point: a disc, square, dash, tick, cross, triangle, ... of `radius` pixels."""

    x: Value
    y: Value
    kind: str
    key: str = ""
    tip: str = ""
    radius: float = 2.5
    form: str = "disc"

    def draw(self, p: Plane) -> Iterator[Shape]:
        (x, y), r = p.at(self.x, self.y), self.radius
        look = self.kind, self.key, self.tip
        match self.form:
            case "disc":
                yield Circle(x, y, r, *look)
            case "square":
                yield Rect(x - r, y - r, 2 * r, 2 * r, *look)
            case "dash":
                yield Rect(x - r, y - 2, 2 * r, 4, *look)
            case "tick":
                yield Line(((x, y - r), (x, y + r)), *look)
            case "cross":
                yield Line(((x - r, y - r), (x + r, y + r)), *look)
                yield Line(((x - r, y + r), (x + r, y - r)), *look)
            case form:
                yield outline(form, x, y, r, *look)

    def keep_clear(self, labels: Labels, p: Plane) -> None:
        labels.avoid(around(*p.at(self.x, self.y), self.radius), END)


@dataclass(frozen=True, slots=True)
class Bar(Mark):
    """A rectangle from (x0, y0) to (x1, y1), at least a pixel wide and high.

    text    written into it, if it fits;  above: written above it
    inset   pixels that it is thinner above and below;  gap: pixels that it is narrower
    """

    x0: Value
    y0: Value
    x1: Value
    y1: Value
    kind: str
    key: str = ""
    tip: str = ""
    text: str = ""
    above: str = ""
    inset: float = 0
    gap: float = 0

    def draw(self, p: Plane) -> Iterator[Shape]:
        (left, right), (top, bottom) = _span(p.x, self.x0, self.x1), _span(p.y, self.y0, self.y1)
        wide, y = max(1, right - left - self.gap), top + self.inset
        tall = max(1, bottom - top - 2 * self.inset)
        middle = left + wide / 2
        if self.text:
            shapes: list[Shape] = [Rect(left, y, wide, tall, self.kind)]
            if text_width(self.text, SIZE) < wide - 4 and tall > SIZE:
                look = ink(self.kind), SIZE, "middle"
                shapes.append(Text(middle, y + tall / 2 + 4, self.text, *look))
            yield Group(tuple(shapes), self.key, self.tip)
        else:
            yield Rect(left, y, wide, tall, self.kind, self.key, self.tip)
        if self.above:
            yield Text(middle, y - 4, self.above, size=SIZE, anchor="middle")

    def keep_clear(self, labels: Labels, p: Plane) -> None:
        """Make names avoid the bar, unless it extends over the whole height."""
        if not self.y0 is self.y1 is None:
            (left, right), (top, low) = _span(p.x, self.x0, self.x1), _span(p.y, self.y0, self.y1)
            labels.avoid((left, top - 18 * bool(self.above), right, low), END)


@dataclass(frozen=True, slots=True)
class Path(Mark):
    """A line through points; `steps`: it runs level to each point and then jumps."""

    points: Sequence[tuple[Value, Value]]
    kind: str = "line"
    key: str = ""
    tip: str = ""
    steps: bool = False
    arrow: bool = False
    filled: bool = False

    def draw(self, p: Plane) -> Iterator[Shape]:
        at = self._pixels(p)
        if self.filled:
            yield Polygon(at, self.kind, self.key, self.tip)
        elif at:
            yield Line(at, self.kind, self.key, self.tip, self.arrow)

    def _pixels(self, p: Plane) -> tuple[Point, ...]:
        at = [p.at(*point) for point in self.points]
        if self.steps:
            at = at[:1] + [c for (_, y), (x2, y2) in pairwise(at) for c in ((x2, y), (x2, y2))]
        return tuple(at)

    def keep_clear(self, labels: Labels, p: Plane) -> None:
        """Make names avoid the line, its end above all."""
        at = () if self.filled else self._pixels(p)
        for start, end in pairwise(at):
            labels.avoid_line(start, end, END if self.arrow else LINE)


@dataclass(frozen=True, slots=True)
class Together(Mark):
    """Marks with a common key: they are marked and selected together."""

    marks: Sequence[Mark]
    key: str
    tip: str = ""

    def draw(self, p: Plane) -> Iterator[Shape]:
        yield Group(tuple(s for m in self.marks for s in m.draw(p)), self.key, self.tip)

    def keep_clear(self, labels: Labels, p: Plane) -> None:
        for m in self.marks:
            m.keep_clear(labels, p)


@dataclass(frozen=True, slots=True)
class Note(Mark):
    """Text on the right of a point, such as the value of a bar; hidden axes leave space for it."""

    x: float
    y: float
    text: str
    bold: bool = False

    def draw(self, p: Plane) -> Iterator[Shape]:
        x, y = p.at(self.x, self.y)
        yield Text(x + 8, y + 4, self.text, "text" if self.bold else "soft", SIZE, bold=self.bold)


@dataclass(frozen=True, slots=True)
class Name(Mark):
    """Text near (x, y): names are placed last, where they cover as little as possible.

    At x=None it is above or below a line at y, at y=None beside the upper end of a line.

    aside      pixels from the point
    optional   left out if it would cover anything
    """

    x: Value
    y: Value
    text: str
    bold: bool = True
    aside: float = 10
    optional: bool = False

    def place(self, p: Plane, labels: Labels) -> Iterator[Shape]:
        """Draw the name at the best place, and make later names avoid it."""
        words = clipped(self.text, 190, SIZE)
        best = labels.best(self._spots(words, p))
        if not self.optional or not labels.cost(best):
            labels.avoid(best, NAMED)
            yield from label_shapes(best, words, "text" if self.bold else "soft", self.bold)

    def _spots(self, words: str, p: Plane) -> Iterator[tuple[Area, float]]:
        """Yield possible boxes for the name, each with a penalty."""
        left, top, right, _ = p.area
        x, y = p.at(self.x, self.y)
        sides, below = (1, -1), (4,) if self.optional else (4, 18, -10, 32, -24, 46)
        anchors = [x]
        if self.x is None:
            sides, below = (-1,), (-8, 17)
            anchors = [right - n / 8 * (right - left) for n in range(8)]
        elif self.y is None:
            y, below = top, (14, 30, 46)
        for n, x in enumerate(anchors):
            for dy in below:
                for side in sides:
                    penalty = n / 4 + abs(dy) / 14 + (side < 0) / 8
                    yield label_box(x + side * self.aside, y + dy, words, side), penalty


@dataclass(frozen=True, slots=True)
class Rule(Mark):
    """A line across the plot at x or at y, with text at its end."""

    x: Value = None
    y: Value = None
    text: str = ""
    key: str = ""
    kind: str = "dashed"

    def draw(self, p: Plane) -> Iterator[Shape]:
        (left, top, right, bottom), (x, y) = p.area, p.at(self.x, self.y)
        ends = ((x, top), (x, bottom)) if self.y is None else ((left, y), (right, y))
        yield Line(ends, self.kind, self.key)
