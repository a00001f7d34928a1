"""A population of candidates as dots in a plane, with lines from parents to children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from minitvm import tune

from .chart import Scale, axis_titles, bottom_axis, legend, side_axis
from .scene import Circle, Line, Rect, Scene, Shape, Text

WIDTH, MARGIN = 660, 10  # pixels
LEFT, RIGHT, TOP, BOTTOM = 70, 650, 40, 370  # the frame
SHARES = (0.25, 0.5, 0.75, 0.95)  # the quantiles of all scores that separate the classes of dots
CLASSES = (  # kind and radius of a dot, and which scores it stands for
    ("grey", 2.5, "lowest quarter"),
    ("pale_sky", 3.0, "second"),
    ("sky", 3.5, "third"),
    ("blue", 4.0, "up to 95 %"),
    ("orange", 5.0, "best 5 % of all scores"),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A row of the population (a candidate) that is drawn as a dot.

    number   the number of the row in the population; row 7 has the key "row:7"
    at       the coordinates of the dot on both axes
    rank     the index of its class in CLASSES
    parent   the coordinates of its first parent; None if no line to it is drawn
    tried    whether the candidate was measured
    """

    number: int
    at: tuple[float, float]
    rank: int
    tip: str
    parent: tuple[float, float] | None = None
    tried: bool = False


def ranks(scores: tune.Floats) -> list[int]:
    """Return the index in CLASSES of each score's class."""
    limits = np.quantile(scores, SHARES)
    return np.searchsorted(limits, scores, side="right").tolist()


def evolution_scene(
    title: str,
    names: tuple[str, str],
    ends: tuple[tuple[float, float], tuple[float, float]],
    drawn: Sequence[Drawn],
    about: str,
) -> Scene:
    """Draw rows of a population as dots with keys "row:0", ...; dots with parents are on top.

    ends   (lowest value, highest value) for each axis
    """
    (x0, x1), (y0, y1) = (_wider(*each) for each in ends)
    x, y = Scale(x0, x1, LEFT, RIGHT), Scale(y0, y1, BOTTOM, TOP)
    shapes: list[Shape] = [
        Text(MARGIN, 20, title, bold=True),
        Rect(LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, "frame"),
        *bottom_axis(x, BOTTOM, x.ticks(), lambda v: f"{v:g}"),
        *side_axis(y, LEFT, y.ticks(), lambda v: f"{v:g}"),
        *axis_titles(x, y, names[0], (MARGIN + 12, names[1])),
    ]
    for d in drawn:
        if d.parent is not None:
            ends_of = tuple((x.at(a), y.at(b)) for a, b in (d.parent, d.at))
            shapes.append(Line(ends_of, "way"))
    for d in sorted(drawn, key=lambda d: (d.parent is not None, d.rank)):
        shapes += _dot(d, x.at(d.at[0]), y.at(d.at[1]))
    key, base = legend(_samples(drawn), BOTTOM + 72, WIDTH - MARGIN)
    return Scene(WIDTH, base + 14, (*shapes, *key), title, about)


def _wider(low: float, high: float) -> tuple[float, float]:
    """Widen the range `low` .. `high` by 4 % at both ends, or by 1 if it is a single value."""
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room


def _dot(d: Drawn, x: float, y: float) -> Iterator[Shape]:
    kind, radius, _ = CLASSES[d.rank]
    yield Circle(x, y, radius, kind, f"row:{d.number}", d.tip)
    if d.tried:
        yield Circle(x, y, radius + 3, "line", tip=d.tip)


def _samples(drawn: Sequence[Drawn]) -> Iterator[tuple[list[Shape], float, str]]:
    """Yield the entries of the legend."""
    for kind, radius, text in CLASSES:
        yield [Circle(6, -4, radius, kind)], 12, text
    yield [Line(((0, -4), (18, -4)), "way")], 18, "from a parent to its child"
    if any(d.tried for d in drawn):
        yield [Circle(7, -4, 6, "line")], 14, "measured"
