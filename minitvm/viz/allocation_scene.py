"""The rounds of a task scheduler as a picture: the latency, and a lane for each task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

from minitvm import auto_scheduler

from .boxes import SIZE, Anchor, Box, column, indented, legend, row, sized, spread, text
from .chart import seconds_text
from .figure import WIDTH
from .marks import Bar, Dot, Mark, Note, Path
from .plot import Axis, plot
from .scene import clipped

NAME, ROUNDS, NUMBER, GRADIENT = 222, 364, 62, 68  # pixels: the widths of the columns
HEIGHT, LANE, INSET = 156, 34, 4  # pixels: of the curve, of a lane, above and below its rounds
MAX_LANES = 20
LAST = 1e-3  # a gradient of at most this share of the largest one is drawn in grey
KINDS = {"turn": "grey", "gradient": "pale_sky", "random": "unroll"}
REASONS = {
    "turn": "in turn",
    "gradient": "its gradient was the lowest",
    "random": "drawn at random (epsilon)",
}


@dataclass(frozen=True, slots=True)
class Lane:
    """A task that has a lane in the picture; `calls` is how often the networks call it."""

    name: str
    calls: float


class Slot(NamedTuple):
    """The range of a round on the axis of trials, from `start` to `end`."""

    round: auto_scheduler.TaskRound
    start: int
    end: int
    before: float  # seconds: the latency of the round's task before the round


@dataclass(frozen=True)
class Progress:
    """The rounds of several tasks so far.

    planned   the horizontal axis shows at least this many trials
    earlier   the number of trials that were known before the first round
    """

    lanes: Sequence[Lane] = ()
    rounds: Sequence[auto_scheduler.TaskRound] = ()
    status: str = "not started"
    planned: int = 0
    earlier: int = 0

    @cached_property
    def slots(self) -> list[Slot]:
        """The range of trials of each round; the first begins after `earlier` trials."""
        slots, start = list[Slot](), self.earlier
        latencies = dict[int, float]()
        for round_ in self.rounds:
            end = sum(round_.trials)
            slots.append(Slot(round_, start, end, latencies.get(round_.task, math.inf)))
            latencies[round_.task], start = round_.latencies[round_.task], end
        return slots

    def gains(self) -> list[float]:
        """Return the gain expected from another round of each task, as a share of the largest."""
        gradients = self.rounds[-1].gradients if self.rounds else ()
        most = -min(gradients, default=0.0)
        return [max(0.0, -g / most) for g in gradients] if most > 0 else [0.0] * len(self.lanes)

    def slowest(self) -> list[int]:
        """Return, in increasing order, the numbers of the MAX_LANES tasks that take most time."""
        latencies = self.rounds[-1].latencies if self.rounds else (0.0,) * len(self.lanes)
        times = [lane.calls * latency for lane, latency in zip(self.lanes, latencies, strict=True)]
        return sorted(sorted(range(len(times)), key=lambda n: -times[n])[:MAX_LANES])

    # --- as a picture ---

    def box(self) -> Box:
        """Draw the latency of all tasks over the trials, and a lane for each task."""
        left = len(self.lanes) - len(self.slowest())
        samples = {kind: REASONS[why] for why, kind in KINDS.items()}
        samples |= {"pale_sky": "lowest gradient", "unroll": "at random"}
        return column(
            spread(
                text(f"{len(self.lanes)} tasks", size=13, bold=True),
                text(self.status, "soft", anchor="end"),
                WIDTH,
            ),
            self._curve(),
            row(*self._columns(), gap=0),
            text(f"{left} more tasks, which take less time") if left else None,
            legend({**samples, "blue line": "latency, from 0 to that of the first round"}, WIDTH),
        )

    def _trials(self, title: str = "") -> Axis:
        last = self.slots[-1].end if self.slots else 0
        end = max(self.planned, last, self.earlier + 1)
        return Axis(self.earlier, end, title, ticks=8, whole=True, hidden=not title)

    def _curve(self) -> Box:
        """Draw the weighted latency over the trials, as soon as all tasks have been measured."""
        slots = [slot for slot in self.slots if math.isfinite(slot.round.latency)]
        points = [(slot.end, 1e3 * slot.round.latency) for slot in slots]
        values = [value for _, value in points] or [1.0]
        low, high = 0.94 * min(values), 1.04 * max(values)
        y = Axis(low, high, "ms", log=True, ticks=5, label="{:.4g}".format, grid=True)
        marks: list[Mark] = [Path(points, "blue", "latency", steps=True)]
        for slot, at in zip(slots, points, strict=True):
            latency = seconds_text(slot.round.latency, 4)
            tip = f"{slot.end} trials, round {slot.round.number}: {latency}"
            marks.append(Dot(*at, "touch", f"total:{slot.round.number}", tip, 3, "square"))
        if points:
            marks.append(Note(*points[-1], f"{values[-1]:.4g} ms", bold=True))
        words = column(text("weighted latency"), text("of the network"), gap=2)
        curve = plot(self._trials("trials of all tasks"), y, marks, ROUNDS, HEIGHT, inner=True)
        return row(sized(words, NAME - y.side(HEIGHT)), curve, gap=0, down=0.4)

    def _columns(self) -> Iterator[Box]:
        """Yield the names, the rounds and the numbers of the tasks."""
        order, last_round = self.slowest(), self.rounds[-1] if self.rounds else None
        names = (clipped(self.lanes[n].name, NAME - 70, SIZE) for n in order)
        words = [f"{name} x {self.lanes[n].calls:g}" for name, n in zip(names, order, strict=True)]
        tips = [self.lanes[n].name for n in order]
        yield _texts("task, calls", words, NAME, tips=tips)
        marks = [mark for at, n in enumerate(order) for mark in self._lane(n, at)]
        yield _plot("rounds", self._trials(), len(order), marks, ROUNDS)
        if last_round is None:
            return
        yield _texts("trials", [f"{last_round.trials[n]}" for n in order], NUMBER, "end")
        latencies = [last_round.latencies[n] for n in order]
        words = [seconds_text(t) if math.isfinite(t) else "" for t in latencies]
        yield _texts("latency", words, NUMBER, "end")
        bars = list[Mark]()
        for at, n in enumerate(order) if last_round.gradients else ():
            share, change = self.gains()[n], f"{last_round.gradients[n]:.3g}"
            expected = f"a round was expected to change the objective by {change}"
            tip = f"before round {last_round.number}, {expected}"
            kind = "serial" if share > LAST else "grey"
            bars.append(Bar(0, at, share, at + 1, kind, f"gradient:{n}", tip, inset=2 * INSET))
        yield indented(_plot("gradient", Axis(hidden=True), len(order), bars, GRADIENT), 10)

    def _lane(self, n: int, at: int) -> Iterator[Mark]:
        """Draw the rounds of a task, and its latency, in the row `at`."""
        slots = [slot for slot in self.slots if slot.round.task == n]
        yield Path(
            [(None, at + 1 - INSET / LANE), (self._trials().high, at + 1 - INSET / LANE)], "grid"
        )
        for slot in slots:
            key = f"round:{slot.round.number}"
            kind = KINDS[why(slot.round)]
            yield Bar(slot.start, at, slot.end, at + 1, kind, key, _tip(slot), inset=INSET)
        latencies = [(slot.end, slot.round.latencies[n]) for slot in slots]
        known = [(end, t) for end, t in latencies if math.isfinite(t)]
        if known and known[0][1]:
            known.append((self.slots[-1].end, known[-1][1]))
            tall = (1 - 2 * INSET / LANE) / known[0][1]
            points = [(end, at + 1 - INSET / LANE - tall * t) for end, t in known]
            yield Path(points, "blue", f"latency:{n}", steps=True)

    # --- as text ---

    def lines(self, most: int = 25) -> list[str]:
        """Return a line of text for each task with its trials, latency and gradient."""
        lines = [f"{len(self.lanes)} tasks: {self.status}"]
        if not self.rounds:
            return lines
        last, shares = self.rounds[-1], self.gains()
        columns = f"{'calls':>5} {'trials':>6} {'rounds':>6} {'latency':>9}  gradient"
        lines.append(f"{'task':30} {columns}")
        order = self.slowest()[: most - 3]
        for n in order:
            count = sum(round_.task == n for round_ in self.rounds)
            bar = "#" * round(10 * shares[n])
            lines.append(
                f"{self.lanes[n].name[:30]:30} {self.lanes[n].calls:5g} {last.trials[n]:6} "
                f"{count:6} {seconds_text(last.latencies[n]):>9}  {bar}".rstrip()
            )
        left = len(self.lanes) - len(order)
        return lines + [f"... {left} more tasks"] * bool(left)


def why(each: auto_scheduler.TaskRound) -> str:
    """Return why a round's task was chosen: "turn" (in turn), "gradient" (lowest) or "random"."""
    if not each.gradients:
        return "turn"
    return "gradient" if each.gradients[each.task] == min(each.gradients) else "random"


def _tip(slot: Slot) -> str:
    """Describe what a round did, and why its task was chosen."""
    round_ = slot.round
    changed = seconds_text(round_.latencies[round_.task], 4)
    if math.isfinite(slot.before):
        changed = f"{seconds_text(slot.before, 4)} -> {changed}"
    reason = REASONS[why(round_)]
    return f"round {round_.number}, {slot.end - slot.start} trials: {changed}; {reason}"


def _texts(
    head: str,
    words: Sequence[str],
    width: float,
    anchor: Anchor = "start",
    tips: Sequence[str] = (),
) -> Box:
    """Return a column with its head and a line of text for each lane."""
    lines = (
        text(word, width=width, anchor=anchor, tip=tip)
        for word, tip in zip_longest(words, tips, fillvalue="")
    )
    lanes = (sized(line, width, LANE, down=0.5) for line in lines)
    return column(text(head, "soft", width=width, anchor=anchor), *lanes, gap=0)


def _plot(head: str, x: Axis, count: int, marks: Sequence[Mark], width: float) -> Box:
    """Return a column with its head and a plot with a row for each lane."""
    lanes = Axis(names=[""] * count, hidden=True)
    return column(
        text(head, "soft"), plot(x, lanes, marks, width, LANE * count) if count else None, gap=0
    )
