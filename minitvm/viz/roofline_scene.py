"""The roofline as a picture: logarithmic axes, the roof, and dots with readable names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from . import chart
from .chart import LINE, NAMED, Area, Labels, Scale, around, label_box, label_shapes
from .scene import Group, Line, Polygon, Rect, Scene, Shape, Text, clipped

WIDTH, HEIGHT = 660, 420  # pixels
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 58  # pixels: the margins around the axes
RADIUS = 6
BESIDE = ((-10, 4, -1), (10, 4, 1))  # dx, dy and side of a name: the best places first
NEAR = tuple((6 * side, dy, side) for dy in (18, -10, 24, -16) for side in (1, -1))


@dataclass(frozen=True, slots=True)
class Point:
    """A dot: its operations per byte, actual and ideal, and its GFLOP/s, known or on the roof."""

    name: str
    intensity: float
    ideal: float
    gflops: float
    measured: bool


@dataclass(frozen=True, slots=True)
class Axes:
    """Two logarithmic axes: operations per byte, and GFLOP/s."""

    x: Scale
    y: Scale

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixel of a point; a point outside is drawn at the edge."""
        return self.x.at(x), self.y.at(y)


def axes_for(points: Sequence[Point], gflops: float, ridge: float) -> Axes:
    """Return axes that contain all points and the ridge point, with a margin."""
    xs = [v for p in points for v in (p.intensity, p.ideal)]
    low, high = min([*xs, ridge / 4]), max([*xs, ridge * 4])
    x = 2.0 ** math.floor(math.log2(low / 1.4)), 2.0 ** math.ceil(math.log2(high * 1.4))
    least = min([*(p.gflops for p in points), gflops * x[0] / ridge])
    most = max([gflops, *(p.gflops for p in points)])
    return Axes(
        Scale(*x, LEFT, WIDTH - RIGHT, log=True),
        Scale(least / 2, most * 3, HEIGHT - BOTTOM, TOP, log=True),
    )


def roofline_scene(
    points: Sequence[Point], gflops: float, gbytes: float, title: str, about: str = ""
) -> Scene:
    """Draw the roof of a machine, and the points as dots under it with keys dot:0, dot:1, ..."""
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
    """Draw the areas below the roof: memory-bound on the left, compute-bound on the right."""
    corner, low = axes.at(ridge, gflops), axes.at(ridge, axes.y.low)
    left, right = axes.at(axes.x.low, axes.y.low), axes.at(axes.x.high, gflops)
    start = axes.at(axes.x.low, gflops * axes.x.low / ridge)
    yield Polygon((start, corner, low, left), "pale_sky")
    yield Rect(corner[0], corner[1], right[0] - corner[0], low[1] - corner[1], "pale_orange")
    base = low[1] - 10
    if corner[0] - LEFT > 110:
        yield Text((LEFT + corner[0]) / 2, base, "memory bound", "on_light", 12, "middle")
    if right[0] - corner[0] > 130:
        middle = (corner[0] + right[0]) / 2
        yield Text(middle, base, "arithmetic bound", "on_light", 12, "middle")


def _ticks(axes: Axes) -> Iterator[Shape]:
    yield from chart.bottom_axis(axes.x, axes.y.start, axes.x.powers(2), _label)
    yield from chart.side_axis(axes.y, LEFT, axes.y.powers(10), _label)
    corner = (LEFT, axes.y.start)
    yield Line(((LEFT, axes.y.end), corner, (axes.x.end, axes.y.start)), "axis")
    below = "operations for each byte moved"
    yield from chart.axis_titles(axes.x, axes.y, below, (20, "GFLOP/s"))


def _label(value: float) -> str:
    """Return the label of a tick: 0.25 -> 1/4, 8 -> 8, 0.01 -> 0.01"""
    if 1 / 1024 <= value < 1 and (1 / value).is_integer() and math.log2(value).is_integer():
        return f"1/{1 / value:.0f}"
    return f"{value:.6g}"


def _roof(axes: Axes, gflops: float, gbytes: float) -> Iterator[Shape]:
    """Draw the roof and name its two parts."""
    ridge = gflops / gbytes
    start, corner = axes.at(axes.x.low, gbytes * axes.x.low), axes.at(ridge, gflops)
    end = axes.at(axes.x.high, gflops)
    yield Line((start, corner, end), "line")
    yield Line((corner, axes.at(ridge, axes.y.low)), "dashed")
    yield Text(end[0] - 6, corner[1] - 8, f"{gflops:.3g} GFLOP/s", size=12, anchor="end")
    yield Text(*_near_corner(start, corner), f"{gbytes:.3g} GB/s", size=12, anchor="end")


def _near_corner(start: tuple[float, float], corner: tuple[float, float]) -> tuple[float, float]:
    """Return the point for the label of the slope: above the slope, near its upper end."""
    x, y = (a + (b - a) * 0.85 for a, b in zip(start, corner, strict=True))
    return x - 12, y - 8


def _leads(axes: Axes, p: Point, roof: float) -> Iterator[Shape]:
    """Draw lines from a dot up to the roof, and across to its ideal intensity."""
    x, y = axes.at(p.intensity, p.gflops)
    if p.measured:
        yield Line(((x, y), axes.at(p.intensity, roof)), "dashed")
    right, _ = axes.at(p.ideal, p.gflops)
    if right - x > 2 * RADIUS:
        yield Line(((x, y), (right, y)), "axis")
        yield Line(((right, y - 5), (right, y + 5)), "axis")


def _dots(axes: Axes, points: Sequence[Point], roof: Sequence[Shape]) -> list[Shape]:
    """Draw the dots, with names beside them; dots that overlap share one label."""
    centres = [axes.at(p.intensity, p.gflops) for p in points]
    labels = Labels((LEFT + 1, TOP, WIDTH - RIGHT + 3, HEIGHT - BOTTOM - 22))
    for x, y in centres:
        labels.avoid(around(x, y, 7), NAMED)
    for shape in roof:
        if isinstance(shape, Text):
            labels.avoid(label_box(shape.x, shape.y, shape.text, -1), NAMED)
        elif isinstance(shape, Line) and shape.kind == "line":
            for start, end in pairwise(shape.points):
                labels.avoid_line(start, end)
    for p, (x, y) in zip(points, centres, strict=True):  # the lines to the ideal intensities
        labels.avoid((x, y - 2, axes.at(p.ideal, p.gflops)[0], y + 2), LINE)
    names: list[Shape] = []
    for group in touching(centres):
        name = clipped(", ".join(points[n].name for n in group), 190, 12)
        best = labels.best(_spots(name, *centres[group[0]]))
        labels.avoid(best, NAMED)
        names += label_shapes(best, name)
    for n, (p, (x, y)) in enumerate(zip(points, centres, strict=True)):
        kind = "blue" if p.measured else "store"
        tip = f"{p.name}: {p.intensity:.3g} operations a byte, {p.gflops:.3g} GFLOP/s"
        side = 2 * RADIUS
        disc = Rect(x - RADIUS, y - RADIUS, side, side, kind, radius=side)
        names.append(Group((disc,), f"dot:{n}", tip))
    return names


def touching(centres: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Return groups of indices of dots: dots that overlap are in the same group."""
    groups: list[list[int]] = []
    for n, at in enumerate(centres):
        near = [g for g in groups if any(math.dist(at, centres[m]) < 2 * RADIUS for m in g)]
        groups = [g for g in groups if g not in near] + [[*(m for g in near for m in g), n]]
    return groups


def _spots(name: str, x: float, y: float) -> Iterator[tuple[Area, float]]:
    """Yield (box, penalty) for a name beside the dot at (x, y), the best places first."""
    for n, (dx, dy, side) in enumerate((*BESIDE, *NEAR)):
        yield label_box(x + dx, y + dy, name, side), n / 100
