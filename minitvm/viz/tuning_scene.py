"""A tuning run as a picture: each trial, the best so far, the batches, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from .chart import Scale, axis_titles, bottom_axis, legend, side_axis, swatch, text_lines
from .scene import Circle, Line, Rect, Scene, Shape, Text, text_width, wrapped

WIDTH, MARGIN, LEFT, TOP, HEIGHT = 808, 10, 64, 44, 240  # pixels
MOST_POINTS = 1200  # most drawn trials; if there are more, every second, third, ... is drawn
BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """One trial.

    speed   GFLOP/s; 0 if the trial failed
    batch   the number of the batch it was measured in, from 0
    error   the kind of the failure; "" if the trial succeeded
    about   the text shown at the mouse pointer: the candidate, after the message of a failure
    """

    speed: float
    batch: int
    error: str = ""
    about: str = ""


def best_so_far(points: Sequence[TrialPoint]) -> list[float]:
    """Return the highest speed up to each trial."""
    return list(accumulate((p.speed for p in points), max))


def failures(points: Sequence[TrialPoint]) -> str:
    """Return how many trials failed and why: "5 failed: 3 crash, 2 memory"; "" if none did."""
    kinds = Counter(p.error for p in points if p.error)
    total = sum(kinds.values())
    return f"{total} failed: {', '.join(f'{n} {k}' for k, n in kinds.most_common())}" * bool(total)


def tuning_scene(
    title: str,
    points: Sequence[TrialPoint],
    levels: Mapping[str, float],
    status: str = "",
    planned: int = 0,
) -> Scene:
    """Draw a tuning run.

    levels    name -> GFLOP/s of horizontal lines, such as the default schedule and the peak
    planned   the horizontal axis shows at least this many trials
    """
    count = max(planned, len(points), 1)
    top = 1.08 * (max([*levels.values(), *(p.speed for p in points)], default=0) or 1)
    x = Scale(0, count, LEFT, WIDTH - MARGIN)
    y = Scale(0, top, TOP + HEIGHT, TOP)
    shapes: list[Shape] = [
        Text(MARGIN, 20, title, bold=True),
        Text(WIDTH - MARGIN, 20, status, "soft", 12, anchor="end"),
        *_bands(points, x),
        *_grid(x, y),
        *_levels(levels, x, y),
        *_trials(points, x, y),
        *_best(points, x, y),
    ]
    entries = [swatch("sky", "a trial", wide=10), swatch("blue", "the best so far", wide=18)]
    entries += [swatch("red", "a failed trial", wide=6)] if any(p.error for p in points) else []
    entries += [swatch("faint", "every second batch", wide=18)]
    drawn, base = legend(entries, TOP + HEIGHT + 66, WIDTH - MARGIN, LEFT)
    shapes += drawn
    words = [line for line in wrapped(failures(points), WIDTH - LEFT - MARGIN) if line]
    shapes += text_lines(words, LEFT, base + 22)
    about = f"{status}. {failures(points)}".strip(". ")
    return Scene(WIDTH, base + 12 + 17 * len(words), tuple(shapes), f"tuning of {title}", about)


def _bands(points: Sequence[TrialPoint], x: Scale) -> Iterator[Shape]:
    """Shade every second batch."""
    start = 0
    for batch, group in groupby(points, lambda p: p.batch):
        end = start + len(list(group))
        if batch % 2:
            yield Rect(x.at(start), TOP, x.at(end) - x.at(start), HEIGHT, "faint")
        start = end


def _grid(x: Scale, y: Scale) -> Iterator[Shape]:
    for value in y.ticks(5):
        yield Line(((LEFT, y.at(value)), (WIDTH - MARGIN, y.at(value))), "grid")
    yield from side_axis(y, LEFT, y.ticks(5), lambda v: f"{v:g}")
    yield from bottom_axis(x, y.start, x.ticks(8, least=1), lambda v: f"{v:g}", WIDTH - MARGIN)
    yield Line(((LEFT, TOP), (LEFT, y.start), (WIDTH - MARGIN, y.start)), "axis")
    yield from axis_titles(x, y, "trials", (20, "GFLOP/s"))


def _levels(levels: Mapping[str, float], x: Scale, y: Scale) -> Iterator[Shape]:
    """Draw the named speeds as dashed lines; names that would overlap move apart."""
    taken = list[float]()
    for name, value in sorted(levels.items(), key=lambda item: item[1]):
        at = y.at(value)
        yield Line(((LEFT, at), (WIDTH - MARGIN, at)), "dashed", f"level:{name}")
        base = next(b for b in (at - 5, at + 14, at + 28, at - 19) if _free(b, taken))
        taken.append(base)
        text = f"{name}: {value:.3g}"
        wide = text_width(text, 12)
        yield Rect(WIDTH - MARGIN - wide - 8, base - 11, wide + 6, 14, "paper", radius=3)
        yield Text(WIDTH - MARGIN - 5, base, text, size=12, anchor="end")


def _free(base: float, taken: Sequence[float]) -> bool:
    return all(abs(base - other) >= 14 for other in taken)


def _trials(points: Sequence[TrialPoint], x: Scale, y: Scale) -> Iterator[Shape]:
    step = -(-len(points) // MOST_POINTS)
    for n, p in enumerate(points):
        if n % step:
            continue
        at, tip = x.at(n + 1), f"trial {n + 1}: {p.error or f'{p.speed:.4g} GFLOP/s'}"
        tip = f"{tip}, {p.about}" if p.about else tip
        if p.error:
            yield Line(((at, y.start), (at, y.start - 9)), "red", f"trial:{n}", tip)
        else:
            yield Circle(at, y.at(p.speed), 2.5, "sky", f"trial:{n}", tip)


def _best(points: Sequence[TrialPoint], x: Scale, y: Scale) -> Iterator[Shape]:
    """Draw the best speed so far as steps."""
    corners = list[tuple[float, float]]()
    best = 0.0
    for n, speed in enumerate(best_so_far(points)):
        if speed > best:
            corners += [(x.at(n + 1), y.at(best)), (x.at(n + 1), y.at(speed))]
            best = speed
    if corners:
        yield Line((*corners[1:], (x.at(len(points)), y.at(best))), "blue", "best")


def tuning_lines(
    title: str, points: Sequence[TrialPoint], levels: Mapping[str, float], status: str
) -> list[str]:
    """Return the run as text: a bar for the best speed after each batch, and the failures."""
    lines = [f"tuning of {title}: {status}"]
    lines += [f"{name}: {value:.3g} GFLOP/s" for name, value in levels.items()]
    best = best_so_far(points)
    if best and best[-1]:
        ends = [n for n in range(len(points)) if points[n + 1 : n + 2] == [] or _ends(points, n)]
        bars = "".join(BLOCKS[round(8 * best[n] / best[-1])] for n in ends[-60:])
        lines.append(f"best after each batch  |{bars}|  {best[-1]:.3g} GFLOP/s")
    return [*lines, *filter(None, [failures(points)])]


def _ends(points: Sequence[TrialPoint], n: int) -> bool:
    """Return whether trial n is the last of its batch."""
    return points[n].batch != points[n + 1].batch
