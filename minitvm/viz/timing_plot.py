"""Runs as points over time, with a histogram of the times of each function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .boxes import Box, column, icon, indented, paragraph, row, spread, text
from .chart import seconds_text
from .figure import WIDTH
from .marks import Bar, Dot, Mark, Path, Rule
from .plot import EDGE, Axis, plot
from .reads import Array
from .timings import TimedRun, names_in, seconds_of, verdicts_of

RUNS, GAP, HEIGHT = 424, 14, 230  # pixels: width of the runs, between histograms, height of both
BINS = 30
MAX_POINTS = 800
SERIES = ("blue", "orange", "green", "pink", "sky", "red")
FORMS = ("disc", "square", "triangle", "rhombus", "dash", "wedge")  # of the points of each series
BLOCKS = " ▁▂▃▄▅▆▇█"


def axis_of(records: Sequence[TimedRun]) -> Axis:
    """Return a logarithmic axis that contains all runs except, perhaps, the slowest 4 %."""
    counted_seconds = [r.seconds for r in records if not r.warmup] or [r.seconds for r in records]
    low, high = min(counted_seconds), float(np.quantile(counted_seconds, 0.96))
    return Axis(low / 1.03, max(high * 1.1, low * 1.1), log=True, label=seconds_text, grid=True)


def timing_box(records: Sequence[TimedRun], seed: int, status: str = "") -> Box:
    """Draw every run over time, a histogram of each function, and the verdicts."""
    names, seconds = names_in(records), axis_of(records)
    last, step = len(records), every(records)
    label = "run" if step == 1 else f"run, one of {step} drawn"
    order = Axis(0, last + 1, label, ticks=(1, last), label="{:.0f}".format)
    marks = [m for n in range(len(names)) for m in _points(records, names, n, seconds)]
    warmup = sum(r.warmup for r in records)
    if warmup:
        marks.append(Bar(0, None, warmup + 0.5, None, "faint"))
    points = plot(order, seconds, marks, RUNS, HEIGHT, inner=True)
    shade = row(icon("faint"), text("warm-up", "soft"), gap=6)
    left = column(indented(shade, seconds.side(HEIGHT)) if warmup else None, points, gap=2)
    wide = (WIDTH - points.width - GAP * len(names)) / len(names)
    histograms = [_histogram(records, name, n, seconds, wide) for n, name in enumerate(names)]
    return column(
        spread(
            text("time of a call, run by run", size=13, bold=True),
            text(status, "soft", anchor="end"),
            WIDTH,
        ),
        row(left, *histograms, gap=GAP, down=1),
        column(
            *(paragraph(str(v), WIDTH, size=13, bold=True) for v in verdicts_of(records, seed)),
            text(method(len(names)), "soft"),
            gap=2,
        ),
    )


def method(count: int) -> str:
    """Explain in one line how the verdict about `count` functions was computed."""
    level = 100 * (1 - 0.05 / max(1, count - 1))
    return (
        f"median of the ratios within rounds, {level:.3g} % bootstrap interval over rounds;"
        f" warm-up left out"
    )


def every(records: Sequence[TimedRun]) -> int:
    """Return n, where every n-th run is drawn; n is 1 for up to MAX_POINTS runs."""
    return -(-len(records) // MAX_POINTS)


def _points(
    records: Sequence[TimedRun], names: Sequence[str], series: int, seconds: Axis
) -> Iterator[Mark]:
    """Draw the runs of one function and their median; a run above the axis is an arrow up."""
    name, kind = names[series], SERIES[series]
    runs = [(n, r) for n, r in enumerate(records, 1) if r.name == name]
    counted_runs = [(n, r.seconds) for n, r in runs if not r.warmup]
    if counted_runs:
        median = float(np.median([t for _, t in counted_runs]))
        ends = (counted_runs[0][0], median), (len(records) + 1, median)
        yield Path(ends, "dashed", f"median:{name}")
    for n, r in runs:
        if (n - 1) % every(records) == 0:
            tip = f"run {n}: {name}, {seconds_text(r.seconds)}" + ", warm-up" * r.warmup
            above = r.seconds > seconds.high
            y, form = (None, "triangle") if above else (r.seconds, FORMS[series])
            yield Dot(n, y, kind, f"run:{n - 1}", tip, 3, form)


def histogram(
    seconds: Sequence[float], axis: Axis, bins: int = BINS
) -> list[tuple[float, float, int]]:
    """Return (low, high, runs) of each bin, from fast to slow; all span the same ratio of times.

    Runs slower than the axis are counted in the last bin.
    """
    edges = np.geomspace(axis.low, axis.high, bins + 1)
    counts: Array = np.histogram(np.clip(seconds, axis.low, axis.high), edges)[0]
    return [*zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)]


def _histogram(
    records: Sequence[TimedRun], name: str, series: int, axis: Axis, width: float
) -> Box:
    """Draw a histogram with horizontal bars below the name and the median of a function."""
    seconds = seconds_of(records, name)
    bins = histogram(seconds, axis)
    most = max(count for _, _, count in bins) or 1
    bars = (Bar(0, a, count, b, SERIES[series], inset=1.5) for a, b, count in bins if count)
    total = Axis(0, most, f"{len(seconds)} runs" if seconds else "only warm-up", ticks=())
    marks = (Rule(0, kind="axis"), *bars)  # the bars cover the line: it is unreadable on them
    chart = plot(total, replace(axis, hidden=True), marks, width - EDGE, HEIGHT, inner=True)
    label = row(icon(SERIES[series], FORMS[series]), text(name, bold=True, width=width - 14), gap=4)
    middle = seconds_text(float(np.median(seconds))) if seconds else ""
    return column(label, text(middle), chart, gap=2)


# --- as text -----------------------------------------------------------------------------------


def timing_lines(records: Sequence[TimedRun], seed: int) -> list[str]:
    """Return a line for each function with its histogram, then the lines of the verdicts."""
    names, axis = names_in(records), axis_of(records)
    width = max(map(len, names))
    lines: list[str] = []
    for name in names:
        seconds = seconds_of(records, name)
        if not seconds:
            lines.append(f"{name:{width}}  only warm-up")
            continue
        counts = [count for _, _, count in histogram(seconds, axis)]
        tall = [BLOCKS[-(-8 * count // max(counts))] for count in counts]
        middle = seconds_text(float(np.median(seconds)))
        warm = sum(r.warmup for r in records if r.name == name)
        runs = f"{len(seconds):4} runs" + f" + {warm} of warm-up" * bool(warm)
        lines.append(f"{name:{width}} {runs}, median {middle:>8}  |{''.join(tall)}|")
    span = f"from {seconds_text(axis.low)} to {seconds_text(axis.high)}, equal ratios equally wide"
    return [*lines, span, *map(str, verdicts_of(records, seed)), method(len(names))]
