"""A search as pictures: its trials in order with the best so far, and shares as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from minitvm import tune

from .chart import Scale, axis_titles, bottom_axis, legend, seconds_text, side_axis, swatch
from .scene import Circle, Line, Rect, Scene, Shape, Text, clipped

WIDTH, LEFT, RIGHT = 808, 70, 16  # pixels
TOP, HEIGHT, BELOW = 44, 240, 56
TICK = 9  # of a failure
ROW, NAMES = 20, 300  # of bars
LONGEST = 160  # characters of a failure's text in a tip


def curve_scene(
    task: tune.Task, trials: Sequence[tune.Trial], default: float | None = None, batch: int = 0
) -> Scene:
    """Draw the GFLOP/s of each trial in order, the best so far, and failures as ticks.

    default   seconds of the default schedule, drawn as a dashed line
    batch     trials of a round, drawn as bands; 0 for none
    """
    rates = [0.0 if t.result.error else tune.rate(task, t.seconds) for t in trials]
    usual = 0.0 if default is None else tune.rate(task, default)
    x = Scale(0.5, max(len(trials), 2) + 0.5, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, max([*rates, usual, 1e-9]) * 1.06, TOP + HEIGHT, TOP)
    entries = [swatch("sky", "a trial", wide=10), swatch("blue", "best so far", wide=10)]
    entries += [swatch("red", "a failure", wide=4)] if 0.0 in rates else []
    key, _ = legend(entries, 24, WIDTH - RIGHT, LEFT)
    shapes = [
        *key,
        *_bands(x, batch, len(trials)),
        *_grid(x, y),
        *_usual(x, y, usual),
        *_points(x, y, trials, rates),
    ]
    best = list(accumulate(rates, max))
    corners = [
        p
        for n, r in enumerate(best, 1)
        for p in ((x.at(n - 0.5), y.at(r)), (x.at(n + 0.5), y.at(r)))
    ]
    if corners and best[-1]:
        shapes.append(Line(tuple(corners), "blue", "best"))
    failed = sum(bool(t.result.error) for t in trials)
    about = f"{len(trials)} trials, {failed} failures, best {max(best, default=0.0):.1f} GFLOP/s"
    title = f"tuning of {tune.shown(task)}"
    return Scene(WIDTH, TOP + HEIGHT + BELOW, tuple(shapes), title, about)


def _bands(x: Scale, batch: int, count: int) -> Iterator[Shape]:
    """Shade every second round."""
    for first in range(batch, count if batch else 0, 2 * batch or 1):
        left, right = x.at(first + 0.5), x.at(min(first + batch, count) + 0.5)
        yield Rect(left, TOP, right - left, HEIGHT, "faint")


def _grid(x: Scale, y: Scale) -> Iterator[Shape]:
    for value in y.ticks():
        yield Line(((LEFT, y.at(value)), (WIDTH - RIGHT, y.at(value))), "grid")
    yield Line(((LEFT, TOP), (LEFT, TOP + HEIGHT), (WIDTH - RIGHT, TOP + HEIGHT)), "axis")
    yield from bottom_axis(x, TOP + HEIGHT, x.ticks(10, 1.0), "{:.0f}".format, WIDTH)
    yield from side_axis(y, LEFT, y.ticks(), "{:g}".format)
    yield from axis_titles(x, y, "trial", (18, "GFLOP/s"))


def _usual(x: Scale, y: Scale, rate: float) -> Iterator[Shape]:
    if rate:
        yield Line(((x.start, y.at(rate)), (x.end, y.at(rate))), "dashed", "default")
        yield Text(x.end - 4, y.at(rate) - 5, f"default {rate:.1f}", "soft", 12, "end")


def _points(
    x: Scale, y: Scale, trials: Sequence[tune.Trial], rates: Sequence[float]
) -> Iterator[Shape]:
    """Draw a dot for each trial, and a tick with its text for each failure."""
    for n, (trial, rate) in enumerate(zip(trials, rates, strict=True), 1):
        at, key = x.at(n), f"trial:{n}"
        if trial.result.error:
            tip = f"trial {n}: {trial.result.error}: {trial.result.detail}"[:LONGEST]
            yield Line(((at, TOP + HEIGHT), (at, TOP + HEIGHT - TICK)), "red", key, tip)
        else:
            tip = f"trial {n}: {rate:.1f} GFLOP/s, {seconds_text(trial.seconds)}"
            yield Circle(at, y.at(rate), 2.5, "sky", key, tip)


def shares_scene(shares: Mapping[str, float], title: str) -> Scene:
    """Draw one bar for each named number, in the given order; negative ones to the left."""
    most = max(map(abs, shares.values()), default=1.0) or 1.0
    low = -most if min(shares.values(), default=0.0) < 0 else 0.0
    x = Scale(low, most, NAMES, WIDTH - 80)
    shapes: list[Shape] = [Text(12, 22, title, bold=True)]
    for n, (name, share) in enumerate(shares.items()):
        top = 36 + n * ROW
        ends = sorted((x.at(0.0), x.at(share)))
        kind = "serial" if share >= 0 else "reduce"
        shapes.append(
            Text(NAMES - 8, top + 12, clipped(name, NAMES - 20, 12), size=12, anchor="end")
        )
        shapes.append(Rect(ends[0], top, max(1.0, ends[1] - ends[0]), ROW - 5, kind, name))
        shapes.append(Text(ends[1] + 6, top + 12, f"{share:.3f}", "soft", 12))
    return Scene(WIDTH, 36 + ROW * len(shares) + 12, tuple(shapes), title)
