"""The roofline as a picture: logarithmic axes, the roof, dots with names that stay readable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .scene import Group, Line, Polygon, Rect, Scene, Shape, Text, clipped, text_width

WIDTH, HEIGHT = 660, 420  # pixels
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 58  # between the edge and the axes
TICK = 44  # pixels between labels, at least
RADIUS = 6
BOLD = 1.12  # times the width of plain text
SPARE = 4  # pixels: "sum" is wider than three average letters
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, slots=True)
class Point:
    """A dot: operations a byte, what they would be at best, GFLOP/s; was that measured?"""

    name: str
    intensity: float
    ideal: float
    gflops: float
    measured: bool


@dataclass(frozen=True, slots=True)
class Axes:
    """Logarithmic axes over [low, high] in each direction, in units of the plot."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of a point, on the edge if it lies outside."""
        across = WIDTH - LEFT - RIGHT
        up = HEIGHT - TOP - BOTTOM
        return LEFT + across * _share(x, self.x), HEIGHT - BOTTOM - up * _share(y, self.y)


def _share(value: float, span: tuple[float, float]) -> float:
    low, high = span
    part = math.log(value / low) / math.log(high / low)
    return min(1.0, max(0.0, part))


def axes_for(points: Sequence[Point], gflops: float, ridge: float) -> Axes:
    """Axes on which all points and the ridge of the roof lie, with room around them."""
    xs = [v for p in points for v in (p.intensity, p.ideal)]
    low, high = min([*xs, ridge / 4]), max([*xs, ridge * 4])
    x = 2.0 ** math.floor(math.log2(low / 1.4)), 2.0 ** math.ceil(math.log2(high * 1.4))
    least = min([*(p.gflops for p in points), gflops * x[0] / ridge])
    most = max([gflops, *(p.gflops for p in points)])
    return Axes(x, (least / 2, most * 3))


def roofline_scene(
    points: Sequence[Point], gflops: float, gbytes: float, title: str, about: str = ""
) -> Scene:
    """A roof of `gflops` GFLOP/s and `gbytes` GB/s, and dots under it with the keys dot:0, ..."""
    axes = axes_for(points, gflops, gflops / gbytes)
    shapes: list[Shape] = [Text(LEFT, 22, title, bold=True)]
    shapes += _areas(axes, gflops, gflops / gbytes)
    shapes += _ticks(axes)
    roof = list(_roof(axes, gflops, gbytes))
    shapes += roof
    for p in points:
        shapes += _leads(axes, p, min(gflops, gbytes * p.intensity))
    shapes += _dots(axes, points, roof)
    return Scene(WIDTH, HEIGHT, tuple(shapes), f"roofline of {title}", about)


def _areas(axes: Axes, gflops: float, ridge: float) -> Iterator[Shape]:
    """Below the roof: to the left memory is the limit, to the right arithmetic."""
    corner, low = axes.at(ridge, gflops), axes.at(ridge, axes.y[0])
    left, right = axes.at(axes.x[0], axes.y[0]), axes.at(axes.x[1], gflops)
    start = axes.at(axes.x[0], gflops * axes.x[0] / ridge)
    yield Polygon((start, corner, low, left), "pale_sky")
    yield Rect(corner[0], corner[1], right[0] - corner[0], low[1] - corner[1], "pale_orange")
    base = low[1] - 10
    if corner[0] - LEFT > 110:
        yield Text((LEFT + corner[0]) / 2, base, "memory bound", "on_light", 12, "middle")
    if right[0] - corner[0] > 130:
        middle = (corner[0] + right[0]) / 2
        yield Text(middle, base, "arithmetic bound", "on_light", 12, "middle")


def _ticks(axes: Axes) -> Iterator[Shape]:
    bottom, (right, top) = HEIGHT - BOTTOM, (WIDTH - RIGHT, TOP)
    for value in marks(axes.x, 2, WIDTH - LEFT - RIGHT):
        x, _ = axes.at(value, axes.y[0])
        yield Line(((x, bottom), (x, bottom + 5)), "axis")
        yield Text(x, bottom + 19, _label(value), size=12, anchor="middle")
    for value in marks(axes.y, 10, HEIGHT - TOP - BOTTOM):
        _, y = axes.at(axes.x[0], value)
        yield Line(((LEFT - 5, y), (LEFT, y)), "axis")
        yield Text(LEFT - 9, y + 4, _label(value), size=12, anchor="end")
    yield Line(((LEFT, top), (LEFT, bottom), (right, bottom)), "axis")
    middle = (LEFT + right) / 2
    yield Text(middle, HEIGHT - 16, "operations for each byte moved", size=12, anchor="middle")
    yield Text(20, (top + bottom) / 2, "GFLOP/s", size=12, anchor="middle", turn=-90)


def marks(span: tuple[float, float], base: int, pixels: float) -> list[float]:
    """The powers of a base within a span, so few that their labels have room."""
    low, high = (math.log(v, base) for v in span)
    room = max(1, math.ceil(TICK * (high - low) / pixels))
    return [float(base) ** k for k in range(math.ceil(low), math.floor(high) + 1) if k % room == 0]


def _label(value: float) -> str:
    """0.25 -> 1/4, 8 -> 8, 0.01 -> 0.01"""
    if 1 / 1024 <= value < 1 and (1 / value).is_integer() and math.log2(value).is_integer():
        return f"1/{1 / value:.0f}"
    return f"{value:.6g}"


def _roof(axes: Axes, gflops: float, gbytes: float) -> Iterator[Shape]:
    """The roof and what its two parts are."""
    ridge = gflops / gbytes
    start, corner = axes.at(axes.x[0], gbytes * axes.x[0]), axes.at(ridge, gflops)
    end = axes.at(axes.x[1], gflops)
    yield Line((start, corner, end), "line")
    yield Line((corner, axes.at(ridge, axes.y[0])), "dashed")
    yield Text(end[0] - 6, corner[1] - 8, f"{gflops:.3g} GFLOP/s", size=12, anchor="end")
    yield Text(*_near_corner(start, corner), f"{gbytes:.3g} GB/s", size=12, anchor="end")


def _near_corner(start: tuple[float, float], corner: tuple[float, float]) -> tuple[float, float]:
    """Where the slope is named: above it, near its upper end."""
    x, y = (a + (b - a) * 0.85 for a, b in zip(start, corner, strict=True))
    return x - 12, y - 8


def _leads(axes: Axes, p: Point, roof: float) -> Iterator[Shape]:
    """From a dot up to the roof, and across to where each byte would move once."""
    x, y = axes.at(p.intensity, p.gflops)
    if p.measured:
        yield Line(((x, y), axes.at(p.intensity, roof)), "dashed")
    right, _ = axes.at(p.ideal, p.gflops)
    if right - x > 2 * RADIUS:
        yield Line(((x, y), (right, y)), "axis")
        yield Line(((right, y - 5), (right, y + 5)), "axis")


def _dots(axes: Axes, points: Sequence[Point], roof: Sequence[Shape]) -> list[Shape]:
    """The dots; names stand near, where there is room, those of dots that touch in one text."""
    centres = [axes.at(p.intensity, p.gflops) for p in points]
    taken: list[Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in centres]
    taken += [_box(s) for s in roof if isinstance(s, Text)]
    lines = [*_boxes_along(next(s for s in roof if isinstance(s, Line)))]
    for p, (x, y) in zip(points, centres, strict=True):  # the lines to where they could be
        lines.append((x, y - 2, axes.at(p.ideal, p.gflops)[0], y + 2))
    names: list[Shape] = []
    for group in touching(centres):
        name = clipped(", ".join(points[n].name for n in group), 190, 12)
        text, box = _place(name, *centres[group[0]], taken, lines)
        taken.append(box)
        left, top, right, bottom = box
        names += [Rect(left - 2, top, right - left + 3, bottom - top, "paper", radius=3), text]
    for n, (p, (x, y)) in enumerate(zip(points, centres, strict=True)):
        kind = "blue" if p.measured else "store"
        tip = f"{p.name}: {p.intensity:.3g} operations a byte, {p.gflops:.3g} GFLOP/s"
        side = 2 * RADIUS
        disc = Rect(x - RADIUS, y - RADIUS, side, side, kind, radius=side)
        names.append(Group((disc,), f"dot:{n}", tip))
    return names


def touching(centres: Sequence[tuple[float, float]]) -> list[list[int]]:
    """The numbers of the dots, those together that lie on one another."""
    groups: list[list[int]] = []
    for n, at in enumerate(centres):
        near = [g for g in groups if any(math.dist(at, centres[m]) < 2 * RADIUS for m in g)]
        groups = [g for g in groups if g not in near] + [[*(m for g in near for m in g), n]]
    return groups


def _boxes_along(line: Line) -> Iterator[Box]:
    """Small boxes that cover a line."""
    for (x0, y0), (x1, y1) in pairwise(line.points):
        steps = max(1, round(math.hypot(x1 - x0, y1 - y0) / 6))
        for k in range(steps + 1):
            x, y = x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps
            yield x - 3, y - 3, x + 3, y + 3


def _place(
    name: str, x: float, y: float, taken: Sequence[Box], lines: Sequence[Box]
) -> tuple[Text, Box]:
    """The name of a dot beside it, where nothing is; if need be on a line, but on no other text."""
    beside = ((-10, 4, "end"), (10, 4, "start"))
    near = [(dx, dy, a) for dy in (18, -10, 24, -16) for dx, a in ((6, "start"), (-6, "end"))]
    inside = (LEFT + 4, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM - 22)
    found: list[tuple[Text, Box]] = []
    for dx, dy, anchor in (*beside, *near):
        text = Text(x + dx, y + dy, name, size=12, anchor=anchor, bold=True)
        found.append((text, _box(text)))
    for others in ([*taken, *lines], taken):
        for text, box in found:
            if _within(box, inside) and not any(_meet(box, other) for other in others):
                return text, box
    return found[0]


def _box(text: Text) -> Box:
    """What a text of size 12 covers; a short one may be all wide letters."""
    wide = text_width(text.text, 12) * (BOLD if text.bold else 1) + SPARE
    left = text.x - (wide if text.anchor == "end" else 0)
    return left, text.y - 11, left + wide, text.y + 3


def _within(a: Box, b: Box) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] <= b[3]


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
