"""The parts that charts share: scales, label placement, short texts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .scene import Rect, Shape, Text, text_width

Point = tuple[float, float]
Area = tuple[float, float, float, float]  # left, top, right, bottom

APART = 44  # pixels: the least distance between two labels of an axis
BOLD = 1.12  # the width of bold text relative to plain text
LINE, END, NAMED, OUTSIDE = 1, 4, 32, 64  # cost of a label over a line, its end, a name, the edge


# --- scales --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scale:
    """A mapping of values from `low` to `high` to pixels from `start` to `end`.

    log   whether the scale is logarithmic: equal ratios of values are equally far apart
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value; a value outside the scale is drawn at its edge."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def powers(self, base: int) -> list[float]:
        """Return the powers of `base` in a logarithmic scale, spaced so that labels fit."""
        low, high = math.log(self.low, base), math.log(self.high, base)
        step = max(1, math.ceil(APART * (high - low) / abs(self.end - self.start)))
        powers = range(math.ceil(low), math.floor(high) + 1)
        return [float(base) ** k for k in powers if k % step == 0]

    def ticks(self, most: int = 6, least: float = 0.0) -> list[float]:
        """Return round values in the scale: about `most` of them, at least `least` apart.

        For a logarithmic scale over more than a factor of 8, return 1, 2, 5, 10, 20, ... instead.
        """
        if self.log and self.high / self.low > 8:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            leads = (1, 2, 5) if self.high / self.low < 200 else (1,)
            values = [lead * 10.0**e for e in decades for lead in leads]
        else:
            rough = max(least, (self.high - self.low) / max(1, most))
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough)
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            values = [n * step for n in range(first, last + 1)]
        return [value for value in values if self.low <= value <= self.high]


# --- labels --------------------------------------------------------------------------------------


def overlap(a: Area, b: Area) -> bool:
    """Return whether two boxes overlap."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def around(x: float, y: float, half: float) -> Area:
    """Return the square box around (x, y) with sides of `2 * half` pixels."""
    return x - half, y - half, x + half, y + half


def label_box(x: float, y: float, text: str, side: int = 1) -> Area:
    """Return the box of a bold label that starts at x, or with side=-1 ends at x.

    y   the base line of the label
    """
    wide = text_width(text, 12) * BOLD
    left = x if side > 0 else x - wide
    return left - 3, y - 11, left + wide + 3, y + 3


def label_shapes(
    box: Area, text: str, kind: str = "text", bold: bool = True
) -> tuple[Shape, Shape]:
    """Draw a label in a box with an opaque background."""
    left, top, right, bottom = box
    ground = Rect(left, top, right - left, bottom - top, "paper", radius=3)
    return ground, Text((left + right) / 2, bottom - 3, text, kind, 12, "middle", bold=bold)


class Labels:
    """Place labels where they cover as little as possible, within a frame."""

    def __init__(self, frame: Area) -> None:
        left, top, right, bottom = frame
        far = 1e4
        outside = (
            (-far, bottom, far, far),
            (-far, -far, far, top),
            (-far, -far, left, far),
            (right, -far, far, far),
        )
        self.taken: list[tuple[Area, float]] = [(box, OUTSIDE) for box in outside]

    def avoid(self, box: Area, cost: float) -> None:
        """Add a box that labels should not cover; `cost` is the penalty if a label overlaps it."""
        self.taken.append((box, cost))

    def avoid_line(self, start: Point, end: Point, end_cost: float = LINE) -> None:
        """Add a straight line that labels should not cover; covering an end costs `end_cost`."""
        pieces = 1 + int(math.dist(start, end) / 8)
        for n in range(pieces + 1):
            x, y = (a + (b - a) * n / pieces for a, b in zip(start, end, strict=True))
            self.avoid(around(x, y, 4), LINE if 0 < n < pieces else end_cost)

    def cost(self, box: Area) -> float:
        """Return the total cost of the boxes that a label in `box` would overlap."""
        return sum(cost for taken_box, cost in self.taken if overlap(box, taken_box))

    def best(self, spots: Iterable[tuple[Area, float]]) -> Area:
        """Return the box with the lowest cost plus penalty; each spot is (box, penalty)."""
        return min(spots, key=lambda spot: self.cost(spot[0]) + spot[1])[0]


# --- numbers -------------------------------------------------------------------------------------


def number_text(number: float) -> str:
    """Return all digits of a whole number, else four, or one after the point: 67.2667 -> 67.27."""
    if not math.isfinite(number):
        return str(number)
    if number == round(number):
        return f"{number:,.0f}"
    return f"{number:,.1f}" if abs(number) > 1000 else f"{number:,.4g}"


def seconds_text(seconds: float, digits: int = 3) -> str:
    """Return a time with its unit: 0.0123 -> 12.3 ms"""
    units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    size, unit = next((u for u in units if seconds >= u[0] * 0.9995), units[-1])
    return f"{seconds / size:.{digits}g} {unit}"


def short(text: str, width: int) -> str:
    """Return the text in at most `width` characters, ending in … if it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"
