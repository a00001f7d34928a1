"""The roofline as a picture: logarithmic axes, the roof, and dots with readable names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .boxes import Box, column, picture, text
from .marks import Bar, Dot, Mark, Name, Path
from .plot import Axis, plot
from .scene import Scene

WIDTH, HEIGHT = 570, 322  # pixels: of the area between the axes
RADIUS = 6


@dataclass(frozen=True, slots=True)
class Point:
    """A dot: its operations per byte, actual and ideal, and its GFLOP/s, known or on the roof."""

    name: str
    intensity: float
    ideal: float
    gflops: float
    measured: bool


def roofline_scene(
    points: Sequence[Point], gflops: float, gbytes: float, title: str, about: str = ""
) -> Scene:
    """Draw the roof of a machine, and the points as dots under it with keys dot:0, dot:1, ..."""
    return picture(roofline_box(points, gflops, gbytes, title), f"roofline of {title}", about)


def roofline_box(points: Sequence[Point], gflops: float, gbytes: float, title: str) -> Box:
    """Draw the roof of a machine, and the points under it."""
    x, y = axes_for(points, gflops, gflops / gbytes)
    marks = [*_roof(x, y, gflops, gbytes), *_dots(x, y, points, gflops, gbytes)]
    chart = plot(x, y, marks, WIDTH, HEIGHT, inner=True)
    return column(text(title, size=13, bold=True), chart)


def axes_for(points: Sequence[Point], gflops: float, ridge: float) -> tuple[Axis, Axis]:
    """Return axes that contain all points and the ridge point, with a margin."""
    xs = [v for p in points for v in (p.intensity, p.ideal)]
    low, high = min([*xs, ridge / 4]), max([*xs, ridge * 4])
    left, right = 2.0 ** math.floor(math.log2(low / 1.4)), 2.0 ** math.ceil(math.log2(high * 1.4))
    least = min([*(p.gflops for p in points), gflops * left / ridge])
    most = max([gflops, *(p.gflops for p in points)])
    below = "operations for each byte moved"
    return (
        Axis(left, right, below, log=True, power=2, label=_label),
        Axis(least / 2, most * 3, "GFLOP/s", log=True, power=10, label=_label),
    )


def _label(value: float) -> str:
    """Return the label of a tick: 0.25 -> 1/4, 8 -> 8, 0.01 -> 0.01"""
    if 1 / 1024 <= value < 1 and (1 / value).is_integer() and math.log2(value).is_integer():
        return f"1/{1 / value:.0f}"
    return f"{value:.6g}"


def _roof(x: Axis, y: Axis, gflops: float, gbytes: float) -> Iterator[Mark]:
    """Draw the roof with its two parts, and the areas below them."""
    ridge, start = gflops / gbytes, (x.low, gbytes * x.low)
    foot = y.low * (y.high / y.low) ** 0.07  # the upper edge of the names of the areas
    corner, below = (ridge, gflops), (ridge, y.low)
    yield Path([start, corner, below, (x.low, y.low)], "pale_sky", filled=True)
    yield Bar(ridge, None, None, gflops, "pale_orange")
    yield Bar(None, None, ridge, foot, "touch", text="memory bound")
    yield Bar(ridge, None, None, foot, "touch", text="arithmetic bound")
    yield Path([start, corner, (x.high, gflops)])
    yield Path([corner, below], "dashed")
    yield Name(None, gflops, f"{gflops:.3g} GFLOP/s", bold=False)
    high = start[0] * (ridge / start[0]) ** 0.85  # near the upper end of the slope
    yield Name(high, gbytes * high, f"{gbytes:.3g} GB/s", bold=False, aside=12)


def _dots(
    x: Axis, y: Axis, points: Sequence[Point], gflops: float, gbytes: float
) -> Iterator[Mark]:
    """Draw each dot with lines up to the roof and across to its ideal intensity, and its name."""
    across, up = x.on(0, WIDTH), y.on(HEIGHT, 0)
    for p in points:
        at = p.intensity, p.gflops
        if p.measured:
            yield Path([at, (p.intensity, min(gflops, gbytes * p.intensity))], "dashed")
        if across.at(p.ideal) - across.at(p.intensity) > 2 * RADIUS:
            yield Path([at, (p.ideal, p.gflops)], "axis")
            yield Dot(p.ideal, p.gflops, "axis", radius=5, form="tick")
    for n, p in enumerate(points):
        tip = f"{p.name}: {p.intensity:.3g} operations a byte, {p.gflops:.3g} GFLOP/s"
        kind = "blue" if p.measured else "store"
        yield Dot(p.intensity, p.gflops, kind, f"dot:{n}", tip, RADIUS)
    for group in touching([(across.at(p.intensity), up.at(p.gflops)) for p in points]):
        first = points[group[0]]
        yield Name(first.intensity, first.gflops, ", ".join(points[n].name for n in group))


def touching(centres: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Return groups of indices of dots: dots that overlap are in the same group."""
    groups: list[list[int]] = []
    for n, at in enumerate(centres):
        close_groups = [g for g in groups if any(math.dist(at, centres[m]) < 2 * RADIUS for m in g)]
        groups = [g for g in groups if g not in close_groups] + [
            [*(m for g in close_groups for m in g), n]
        ]
    return groups
