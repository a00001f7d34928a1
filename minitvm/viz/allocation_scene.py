"""The rounds of a task scheduler as a picture: the latency, and a lane for each task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from minitvm import auto_scheduler

from .chart import (
    Point,
    Scale,
    axis_titles,
    bottom_axis,
    legend,
    seconds_text,
    side_axis,
    swatch,
    text_lines,
)
from .scene import Line, Rect, Scene, Shape, Text, clipped

WIDTH, MARGIN, LEFT, RIGHT = 808, 10, 232, 596  # pixels
TOP, HEIGHT = 40, 150  # of the curve
LANE, INSIDE = 34, 26  # pixels from lane to lane, and the drawn height of a lane
COLUMNS = (RIGHT + 52, RIGHT + 128, RIGHT + 136)  # x: ends of trials, latency; start of gradient
MOST_LANES = 20
LAST = 1e-3  # a gradient of at most this share of the largest one is drawn in grey


@dataclass(frozen=True, slots=True)
class Lane:
    """A task that has a lane in the picture; `calls` is how often the networks call it."""

    name: str
    calls: float


@dataclass(frozen=True, slots=True)
class Slot:
    """The range of a round on the axis of trials, from `start` to `end`."""

    round: auto_scheduler.TaskRound
    start: int
    end: int
    before: float  # seconds: the latency of the round's task before the round


def slots(rounds: Sequence[auto_scheduler.TaskRound], earlier: int) -> list[Slot]:
    """Return the range of trials of each round; the first one begins after `earlier` trials."""
    found, start = list[Slot](), earlier
    latencies = dict[int, float]()
    for each in rounds:
        end = sum(each.trials)
        found.append(Slot(each, start, end, latencies.get(each.task, math.inf)))
        latencies[each.task], start = each.latencies[each.task], end
    return found


def why(each: auto_scheduler.TaskRound) -> str:
    """Return why a round's task was chosen: "turn" (in turn), "gradient" (lowest) or "random"."""
    if not each.gradients:
        return "turn"
    return "gradient" if each.gradients[each.task] == min(each.gradients) else "random"


def gains(rounds: Sequence[auto_scheduler.TaskRound], count: int) -> list[float]:
    """Return the gain expected from another round of each task, as a share of the largest."""
    now = rounds[-1].gradients if rounds else ()
    most = -min(now, default=0.0)
    return [max(0.0, -g / most) for g in now] if most > 0 else [0.0] * count


def allocation_scene(
    lanes: Sequence[Lane],
    rounds: Sequence[auto_scheduler.TaskRound],
    status: str = "",
    planned: int = 0,
    earlier: int = 0,
) -> Scene:
    """Draw the rounds of several tasks.

    planned   the horizontal axis shows at least this many trials
    earlier   the number of trials that were known before the first round
    """
    placed = slots(rounds, earlier)
    end = max(planned, placed[-1].end if placed else 0, earlier + 1)
    x = Scale(earlier, end, LEFT, RIGHT)
    order = _drawn(lanes, rounds)
    below = TOP + HEIGHT + 76
    shapes: list[Shape] = [
        Text(MARGIN, 20, f"{len(lanes)} tasks", bold=True),
        Text(WIDTH - MARGIN, 20, status, "soft", 12, anchor="end"),
        *_curve(placed, x),
        *_heads(below - 10),
    ]
    shares = gains(rounds, len(lanes))
    for row, n in enumerate(order):
        y = below + row * LANE
        shapes += _lane(n, lanes[n], placed, x, y)
        shapes += _numbers(n, rounds, shares[n], y)
    base, left = below + LANE * len(order), len(lanes) - len(order)
    more = [f"{left} more tasks, which take less time"] * bool(left)
    shapes += text_lines(more, MARGIN, base + 12)
    entries = [
        swatch("grey", "in turn", wide=14),
        swatch("pale_sky", "lowest gradient", wide=14),
        swatch("unroll", "at random", wide=14),
        ([Line(((0, -5), (18, -5)), "blue")], 18.0, "latency, from 0 to that of the first round"),
    ]
    drawn, bottom = legend(entries, base + 20 + 18 * len(more), WIDTH - MARGIN, MARGIN)
    return Scene(WIDTH, bottom + 12, (*shapes, *drawn), "rounds of tasks", status)


def _drawn(lanes: Sequence[Lane], rounds: Sequence[auto_scheduler.TaskRound]) -> list[int]:
    """Return, in increasing order, the numbers of the MOST_LANES tasks that take most time."""
    if len(lanes) <= MOST_LANES:
        return [*range(len(lanes))]
    now = rounds[-1].latencies if rounds else (0.0,) * len(lanes)
    taken = [w.calls * g for w, g in zip(lanes, now, strict=True)]
    return sorted(sorted(range(len(lanes)), key=lambda n: -taken[n])[:MOST_LANES])


def _curve(placed: Sequence[Slot], x: Scale) -> Iterator[Shape]:
    """Draw the weighted latency over the trials, as soon as all tasks have been measured."""
    known = [s for s in placed if math.isfinite(s.round.latency)]
    values = [1e3 * s.round.latency for s in known] or [1.0]
    y = Scale(0.94 * min(values), 1.04 * max(values), TOP + HEIGHT, TOP, log=True)
    for value in y.ticks(5):
        yield Line(((LEFT, y.at(value)), (RIGHT, y.at(value))), "grid")
    yield from side_axis(y, LEFT, y.ticks(5), lambda v: f"{v:.4g}")
    yield from bottom_axis(x, y.start, x.ticks(8, least=1), lambda v: f"{v:g}")
    yield Line(((LEFT, TOP), (LEFT, y.start), (RIGHT, y.start)), "axis")
    yield from axis_titles(x, y, "trials of all tasks", (LEFT - 58, "ms"))
    yield Text(MARGIN, TOP + 60, "weighted latency", size=12)
    yield Text(MARGIN, TOP + 77, "of the network", size=12)
    if known:
        yield Text(RIGHT + 10, y.at(values[-1]) + 4, f"{values[-1]:.4g} ms", size=12, bold=True)
    corners = _steps([(x.at(s.end), y.at(1e3 * s.round.latency)) for s in known])
    if corners:
        yield Line(corners, "blue", "latency")
    for s in known:
        end, at = x.at(s.end), y.at(1e3 * s.round.latency)
        tip = f"{s.end} trials, round {s.round.number}: {seconds_text(s.round.latency, 4)}"
        yield Rect(end - 3, at - 3, 6, 6, "touch", f"total:{s.round.number}", tip)


def _steps(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the corners of a line that runs level to each point, then jumps; () if no points."""
    corners = list(points[:1])
    for (_, above), point in pairwise(points):
        corners += [(point[0], above), point]
    return tuple(corners)


def _heads(y: float) -> Iterator[Shape]:
    trials, latency, gradient = COLUMNS
    yield Text(MARGIN, y, "task, calls", "soft", 12)
    yield Text(LEFT, y, "rounds", "soft", 12)
    yield Text(trials, y, "trials", "soft", 12, anchor="end")
    yield Text(latency, y, "latency", "soft", 12, anchor="end")
    yield Text(gradient, y, "gradient", "soft", 12)


def _lane(n: int, lane: Lane, placed: Sequence[Slot], x: Scale, y: float) -> Iterator[Shape]:
    """Draw the name of a task, its rounds, and its latency."""
    calls = f" x {lane.calls:g}"
    name = clipped(lane.name, LEFT - MARGIN - 16 - 7 * len(calls), 12)
    yield Text(MARGIN, y + 17, name + calls, size=12, tip=lane.name)
    yield Line(((LEFT, y + INSIDE), (RIGHT, y + INSIDE)), "grid")
    own = [s for s in placed if s.round.task == n]
    kinds = {"turn": "grey", "gradient": "pale_sky", "random": "unroll"}
    for s in own:
        left, right = x.at(s.start), x.at(s.end)
        kind, key = kinds[why(s.round)], f"round:{s.round.number}"
        yield Rect(left, y, max(1.0, right - left), INSIDE, kind, key, _told(s))
    known = [(s.end, s.round.latencies[n]) for s in own if math.isfinite(s.round.latencies[n])]
    if not known or not known[0][1]:
        return
    first = known[0][1]
    points = [(x.at(end), y + INSIDE * (1 - g / first)) for end, g in known]
    points.append((x.at(placed[-1].end), points[-1][1]))
    yield Line(_steps(points), "blue", f"latency:{n}")


def _told(slot: Slot) -> str:
    """Describe what a round did, and why its task was chosen."""
    each = slot.round
    now = each.latencies[each.task]
    chosen = {
        "turn": "in turn",
        "gradient": "its gradient was the lowest",
        "random": "drawn at random (epsilon)",
    }[why(each)]
    changed = seconds_text(now, 4)
    if math.isfinite(slot.before):
        changed = f"{seconds_text(slot.before, 4)} -> {changed}"
    return f"round {each.number}, {slot.end - slot.start} trials: {changed}; {chosen}"


def _numbers(
    n: int, rounds: Sequence[auto_scheduler.TaskRound], share: float, y: float
) -> Iterator[Shape]:
    """Draw the trials, the latency and the gradient of a task after the last round."""
    if not rounds:
        return
    trials, latency, gradient = COLUMNS
    now = rounds[-1]
    yield Text(trials, y + 17, f"{now.trials[n]}", size=12, anchor="end")
    if math.isfinite(now.latencies[n]):
        text = seconds_text(now.latencies[n])
        yield Text(latency, y + 17, text, size=12, anchor="end")
    if now.gradients:
        wide = max(1.0, share * (WIDTH - MARGIN - gradient))
        tip = f"before round {now.number}, a round was expected to change the objective by "
        tip += f"{now.gradients[n]:.3g}"
        kind = "serial" if share > LAST else "grey"
        yield Rect(gradient, y + 4, wide, INSIDE - 8, kind, f"gradient:{n}", tip)


def allocation_lines(
    lanes: Sequence[Lane], rounds: Sequence[auto_scheduler.TaskRound], status: str, most: int = 25
) -> list[str]:
    """Return the rounds as text: a line for each task with its trials, latency and gradient."""
    lines = [f"{len(lanes)} tasks: {status}"]
    if not rounds:
        return lines
    last, shares = rounds[-1], gains(rounds, len(lanes))
    lines.append(f"{'task':30} {'calls':>5} {'trials':>6} {'rounds':>6} {'latency':>9}  gradient")
    order = _drawn(lanes, rounds)
    for n in order[: most - 3]:
        count = sum(each.task == n for each in rounds)
        bar = "#" * round(10 * shares[n])
        lines.append(
            f"{lanes[n].name[:30]:30} {lanes[n].calls:5g} {last.trials[n]:6} {count:6} "
            f"{seconds_text(last.latencies[n]):>9}  {bar}".rstrip()
        )
    left = len(lanes) - len(order[: most - 3])
    return lines + [f"... {left} more tasks"] * bool(left)
