"""The events that a task scheduler reports while it runs, and the result that it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from minitvm import tune

End: TypeAlias = Literal[
    "trials", "seconds", "early stopping", "stopped", "exhausted", "objective reached"
]
ENDS: dict[End, str] = {
    "trials": "all trials of the budget are done",
    "seconds": "the time of the budget is over",
    "early stopping": "no improvement for a while",
    "stopped": "stopped on request",
    "exhausted": "no task is left that can be improved",
    "objective reached": "no task can lower the objective",
}


@dataclass(frozen=True, slots=True)
class TasksStarted:
    """An event: tuning begins.

    weights            how often the networks call each task
    trials, seconds    the budget, None for no limit; earlier trials count towards `trials`
    earlier            the number of trials that the logs already had
    """

    tasks: tuple[tune.Task, ...]
    weights: tuple[float, ...]
    trials: int | None
    seconds: float | None
    earlier: int


@dataclass(frozen=True, slots=True)
class TaskRound:
    """An event: a task has been tuned for a round.

    number      the number of the round, from 1
    task        the number of the task
    gradients   for each task, the expected change of the objective by a round, as estimated before
                this round; () if the task was chosen in another way
    trials      the number of trials of each task so far
    latencies   the lowest latency of each task so far, in the unit of the targets; the default
                schedule counts
    latency     the latency of the networks: the weighted sum of the latencies
    objective   the value of the objective
    elapsed     how many seconds of the budget are used
    """

    number: int
    task: int
    gradients: tuple[float, ...]
    trials: tuple[int, ...]
    latencies: tuple[float, ...]
    latency: float
    objective: float
    elapsed: float


@dataclass(frozen=True, slots=True)
class TasksOutcome:
    """The result of tuning several tasks; print shows a table.

    outcomes   the outcome of each task
    weights    how often the networks call each task
    ended      why tuning ended
    rounds     all rounds, in order
    refused    the tasks whose default schedule cannot be measured, with the error message
    """

    outcomes: tuple[tune.Outcome, ...]
    weights: tuple[float, ...]
    ended: End
    seconds: float
    rounds: tuple[TaskRound, ...]
    latencies: tuple[float, ...]
    refused: Mapping[int, str]

    @property
    def latency(self) -> float:
        """Return the weighted sum of the latencies, in the unit of the targets."""
        return sum(w * g for w, g in zip(self.weights, self.latencies, strict=True) if w)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        sim = any(o.task.target.unit == "cycles" for o in self.outcomes)
        head = "  Cycles (model)    (FLOP/cycle)" if sim else "  Latency (ms)  Speed (GFLOPS)"
        yield f"  ID  Task                                      Calls{head}  Trials  x Default"
        for n, outcome in enumerate(self.outcomes):
            g, task = self.latencies[n], outcome.task
            known = 0 < g < math.inf
            speed = f"{tune.rate(task, g):14.2f}" if known else f"{'-':>14}"
            latency = (f"{g:14,.0f}" if sim else f"{g * 1e3:12.4f}") if known else f"{'-':>12}"
            yield (
                f"{n:4}  {_short(tune.shown(task)):40}  {self.weights[n]:5g}  {latency}  "
                f"{speed}  {len(outcome.trials):6}  {_gain(outcome.compared):>9}"
            )
        for n, why in self.refused.items():
            yield f"{n:4}  is not tuned: {why.splitlines()[0]}"
        yield from dict.fromkeys(o.unsaved for o in self.outcomes if o.unsaved)
        trials = sum(len(o.trials) for o in self.outcomes)
        total = _total(self.latency, sim)
        yield (
            f"Estimated total latency: {total}  Trials: {trials}  "
            f"Used time: {self.seconds:.0f} s  {ENDS[self.ended]}"
        )


@dataclass(frozen=True, slots=True)
class TasksFinished:
    """An event: tuning has ended."""

    outcome: TasksOutcome


TasksEvent: TypeAlias = TasksStarted | TaskRound | TasksFinished
TasksListener: TypeAlias = Callable[[TasksEvent], None]


class TasksLine(tune.BudgetBar):
    """A listener that draws a progress bar with tqdm: latency, trials, current task, time left."""

    def __call__(self, event: TasksEvent) -> None:
        """Update the bar for an event."""
        match event:
            case TasksStarted():
                self.started = event
                self.open(f"{len(event.tasks)} tasks")
            case TaskRound():
                task, trials = self.started.tasks[event.task], sum(event.trials)
                latency = _total(event.latency, self.started.tasks[0].target.unit == "cycles")
                budget = (trials, self.started.trials), (event.elapsed, self.started.seconds)
                self.draw(f"{latency}, {trials} trials, {task.name}", event.elapsed, *budget)
            case TasksFinished():
                self.bar.close()


def _total(latency: float, sim: bool) -> str:
    """Format the latency of the networks, in modelled cycles if all tasks have them."""
    if not math.isfinite(latency):
        return "-"
    return f"{latency:,.0f} modelled cycles" if sim else f"{latency * 1e3:.3f} ms"


def _gain(gain: tune.Gain | None) -> str:
    if gain is None:
        return "-"
    return f"{gain.middle:.2f}" if gain.is_faster else "no faster"


def _short(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def weighted(weights: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return how often all networks together call each task."""
    return tuple(map(sum, zip(*weights, strict=True)))
