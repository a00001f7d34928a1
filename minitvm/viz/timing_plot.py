"""Runs as points over time, with a histogram of the times of each function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .chart import Scale, seconds_text, text_lines
from .reads import Array
from .scene import Circle, Line, Polygon, Rect, Scene, Shape, Text, clipped, text_width, wrapped
from .timings import TimedRun, names_in, seconds_of, verdicts_of

WIDTH, MARGIN, LEFT, TOP, HEIGHT = 808, 10, 70, 70, 230  # pixels
RUNS, GAP = 430, 24  # width of the runs, and between them and the histograms
BINS = 30
MOST_POINTS = 800
SERIES = ("blue", "orange", "green", "pink", "sky", "red")  # kinds, each with a mark of its own
BLOCKS = " ▁▂▃▄▅▆▇█"


def scale_of(records: Sequence[TimedRun]) -> Scale:
    """Return a logarithmic scale that contains all runs except, perhaps, the slowest 4 %."""
    counting = [r.seconds for r in records if not r.warmup] or [r.seconds for r in records]
    low, high = min(counting), float(np.quantile(counting, 0.96))
    return Scale(low / 1.03, max(high * 1.1, low * 1.1), TOP + HEIGHT, TOP, log=True)


def timing_scene(records: Sequence[TimedRun], seed: int, status: str = "") -> Scene:
    """Draw every run over time, a histogram of each function, and the verdicts."""
    names, scale = names_in(records), scale_of(records)
    shapes: list[Shape] = [
        Text(MARGIN, 20, "time of a call, run by run", bold=True),
        Text(WIDTH - MARGIN, 20, status, "soft", 12, anchor="end"),
        *_axes(scale, every(records)),
        *_warmup(records),
    ]
    for name, kind in zip(names, SERIES, strict=False):
        shapes += _points(records, name, kind, scale)
    shapes += _histograms(records, names, scale)
    words = [line for v in verdicts_of(records, seed) for line in wrapped(str(v), WIDTH - 20, 13)]
    base = TOP + HEIGHT + 48
    shapes += text_lines(words, MARGIN, base, size=13, step=18, bold=True)
    base += 18 * len(words)
    shapes.append(Text(MARGIN, base, method(len(names)), "soft", 12))
    about = "; ".join(words)
    return Scene(WIDTH, base + MARGIN, tuple(shapes), "times of rival functions", about)


def method(count: int) -> str:
    """Explain in one line how the verdict about `count` functions was computed."""
    level = 100 * (1 - 0.05 / max(1, count - 1))
    return (
        f"median of the ratios within rounds, {level:.3g} % bootstrap interval over rounds;"
        f" warm-up left out"
    )


def every(records: Sequence[TimedRun]) -> int:
    """Return n, where every n-th run is drawn; n is 1 for up to MOST_POINTS runs."""
    return -(-len(records) // MOST_POINTS)


def _axes(scale: Scale, step: int) -> list[Shape]:
    """Draw grid lines at round times, across the runs and the histograms."""
    right, bottom = WIDTH - MARGIN, TOP + HEIGHT
    shapes: list[Shape] = []
    for t in scale.ticks():
        y = scale.at(t)
        shapes.append(Line(((LEFT, y), (right, y)), "grid"))
        shapes.append(Text(LEFT - 6, y + 4, seconds_text(t), "soft", 12, anchor="end"))
    corner = ((LEFT, TOP), (LEFT, bottom), (LEFT + RUNS, bottom))
    shapes.append(Line(corner, "axis"))
    label = "run" if step == 1 else f"run, one of {step} drawn"
    shapes.append(Text(LEFT + RUNS / 2, bottom + 16, label, "soft", 12, anchor="middle"))
    return shapes


def _place(records: Sequence[TimedRun], n: int) -> float:
    """Return the x coordinate of run n."""
    return LEFT + 6 + (RUNS - 12) * n / max(1, len(records) - 1)


def _warmup(records: Sequence[TimedRun]) -> list[Shape]:
    """Shade the warm-up runs, and draw the numbers of the first and last run."""
    bottom = TOP + HEIGHT
    count = sum(r.warmup for r in records)
    last = len(records)
    shapes: list[Shape] = [
        Text(_place(records, 0), bottom + 16, "1", "soft", 12, anchor="middle"),
        Text(_place(records, last - 1), bottom + 16, str(last), "soft", 12, anchor="middle"),
    ]
    if count:
        right = (_place(records, count - 1) + _place(records, min(count, last - 1))) / 2
        shapes.insert(0, Rect(LEFT, TOP, right - LEFT, HEIGHT, "faint"))
        shapes.append(Text(LEFT + 4, TOP - 6, "warm-up", "soft", 12))
    return shapes


def _points(records: Sequence[TimedRun], name: str, kind: str, scale: Scale) -> list[Shape]:
    """Draw the runs of one function and their median; a run above the scale is an arrow up."""
    shapes: list[Shape] = []
    counting = seconds_of(records, name)
    if counting:
        y = scale.at(float(np.median(counting)))
        first = next(n for n, r in enumerate(records) if r.name == name and not r.warmup)
        ends = ((_place(records, first), y), (LEFT + RUNS, y))
        shapes.append(Line(ends, "dashed", f"median:{name}"))
    mark = SERIES.index(kind)
    step = every(records)
    for n, r in enumerate(records):
        if r.name == name and n % step == 0:
            x, y = _place(records, n), scale.at(r.seconds)
            tip = f"run {n + 1}: {name}, {seconds_text(r.seconds)}" + ", warm-up" * r.warmup
            if r.seconds > scale.high:
                corners = ((x, TOP - 2), (x - 4, TOP + 5), (x + 4, TOP + 5))
                shapes.append(Polygon(corners, kind, f"run:{n}", tip))
            else:
                shapes.append(_mark(mark, x, y, kind, f"run:{n}", tip))
    return shapes


def _mark(number: int, x: float, y: float, kind: str, key: str = "", tip: str = "") -> Shape:
    """Draw a point as mark 0 to 5: a disc, a square, a triangle, a rhombus, a bar, a wedge."""
    r = 3
    match number:
        case 0:
            return Circle(x, y, r, kind, key, tip)
        case 1:
            return Rect(x - r, y - r, 2 * r, 2 * r, kind, key, tip)
        case 2:
            return Polygon(((x, y - r - 1), (x - r, y + r), (x + r, y + r)), kind, key, tip)
        case 3:
            corners = ((x, y - r - 1), (x + r + 1, y), (x, y + r + 1), (x - r - 1, y))
            return Polygon(corners, kind, key, tip)
        case 4:
            return Rect(x - r - 1, y - 1, 2 * r + 2, 2, kind, key, tip)
        case _:
            return Polygon(((x, y + r + 1), (x - r, y - r), (x + r, y - r)), kind, key, tip)


def histogram(seconds: Sequence[float], scale: Scale, bins: int = BINS) -> Array:
    """Count the runs in each bin, from fast to slow; all bins span the same ratio of times.

    Runs slower than the scale are counted in the last bin.
    """
    edges = np.geomspace(scale.low, scale.high, bins + 1)
    return np.histogram(np.clip(seconds, scale.low, scale.high), edges)[0]


def _histograms(records: Sequence[TimedRun], names: Sequence[str], scale: Scale) -> list[Shape]:
    """Draw a histogram per function, with horizontal bars, and the median as text."""
    left = LEFT + RUNS + GAP
    wide = (WIDTH - MARGIN - left - 14 * (len(names) - 1)) / len(names)
    shapes: list[Shape] = []
    for n, (name, kind) in enumerate(zip(names, SERIES, strict=False)):
        x, seconds = left + n * (wide + 14), seconds_of(records, name)
        shapes.append(_mark(n, x + 5, TOP - 26, kind))
        shapes.append(Text(x + 14, TOP - 22, clipped(name, wide - 12, 12), size=12, bold=True))
        shapes.append(Line(((x, TOP), (x, TOP + HEIGHT)), "axis"))
        if not seconds:
            continue
        counts = histogram(seconds, scale)
        tall = HEIGHT / BINS
        for at, count in enumerate(counts.tolist()):
            if count:
                y = TOP + HEIGHT - (at + 1) * tall
                bar = Rect(x + 1, y + 1.5, wide * count / max(counts), tall - 3, kind)
                shapes.append(bar)
        middle = seconds_text(float(np.median(seconds)))
        if text_width(middle, 12) <= wide + 10:
            shapes.append(Text(x, TOP - 6, middle, size=12))
        shapes.append(Text(x, TOP + HEIGHT + 16, f"{len(seconds)} runs", "soft", 12))
    return shapes


# --- as text -----------------------------------------------------------------------------------


def timing_lines(records: Sequence[TimedRun], seed: int) -> list[str]:
    """Return a line for each function with its histogram, then the lines of the verdicts."""
    names, scale = names_in(records), scale_of(records)
    width = max(map(len, names))
    lines: list[str] = []
    for name in names:
        seconds = seconds_of(records, name)
        if not seconds:
            lines.append(f"{name:{width}}  only warm-up")
            continue
        counts = histogram(seconds, scale)
        tall = [BLOCKS[-(-8 * c // int(max(counts)))] for c in counts.tolist()]
        middle = seconds_text(float(np.median(seconds)))
        warm = sum(r.warmup for r in records if r.name == name)
        runs = f"{len(seconds):4} runs" + f" + {warm} of warm-up" * bool(warm)
        lines.append(f"{name:{width}} {runs}, median {middle:>8}  |{''.join(tall)}|")
    axis = (
        f"from {seconds_text(scale.low)} to {seconds_text(scale.high)}, equal ratios equally wide"
    )
    return [*lines, axis, *map(str, verdicts_of(records, seed)), method(len(names))]
