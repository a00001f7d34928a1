"""TaskAllocation: the task of each round of a task scheduler, and the gain in latency."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minitvm import auto_scheduler, tune
from minitvm.base import ArgumentError

from .allocation_scene import Lane, Progress
from .boxes import Box
from .live import Live


class TaskAllocation(Live):
    """Watch a task scheduler: the rounds of each task, its latency, and its current gradient.

    scheduler   an auto_scheduler.TaskScheduler; the Start button calls its `tune` with `limits`
                in a thread, and Stop ends it after the current round. wait() returns the outcome
    limits      the arguments of `tune`: seconds=60, log="network.jsonl"

    A widget w without a scheduler can listen to other tuning: graph.tune(net, on=w.hear). A saved
    notebook shows no live tuning, because it differs from run to run; it does show
    TaskAllocation.from_outcome(outcome).
    """

    def __init__(
        self, scheduler: auto_scheduler.TaskScheduler | None = None, **limits: Any
    ) -> None:
        self._scheduler, self._limits = scheduler, limits
        self._progress = Progress()
        self._outcome: auto_scheduler.TasksOutcome | None = None
        self._halt = threading.Event()
        super().__init__()

    @classmethod
    def from_outcome(cls, outcome: auto_scheduler.TasksOutcome) -> TaskAllocation:
        """Return a widget that shows the outcome of tuning that has ended."""
        view = cls()
        view.recorded = True
        view._finished(outcome)
        view.refresh()
        return view

    # --- events of the scheduler ---

    def hear(self, event: auto_scheduler.TasksEvent) -> None:
        """Record an event and redraw; a round just after the last drawing is not drawn at once."""
        match event:
            case auto_scheduler.TasksStarted(tasks=tasks, weights=weights):
                _check_unit(tasks)
                status = "measuring the defaults and the first candidates"
                lanes = _lanes(tasks, weights)
                self._progress = Progress(lanes, (), status, event.trials or 0, event.earlier)
            case auto_scheduler.TaskRound():
                status = f"round {event.number}, {sum(event.trials)} trials"
                rounds = (*self._progress.rounds, event)
                self._progress = replace(self._progress, rounds=rounds, status=status)
            case auto_scheduler.TasksFinished(outcome=outcome):
                self._finished(outcome)
        self.show_soon(at_once=not isinstance(event, auto_scheduler.TaskRound))

    def _finished(self, outcome: auto_scheduler.TasksOutcome) -> None:
        _check_unit([o.task for o in outcome.outcomes])
        lanes = _lanes([o.task for o in outcome.outcomes], outcome.weights)
        trials = sum(len(o.trials) for o in outcome.outcomes)
        end_text = auto_scheduler.ENDS[outcome.ended]
        status = f"{len(outcome.rounds)} rounds, {trials} trials: {end_text}"
        earlier = sum(o.earlier for o in outcome.outcomes)
        self._progress = Progress(lanes, outcome.rounds, status, earlier=earlier)

    # --- the thread ---

    def can_start(self) -> bool | None:
        idle = not (self.running or self._outcome or self.failure)
        return None if self._scheduler is None else idle

    def start(self) -> None:
        if self.can_start():
            self.run_in_thread(self._tune)

    def _tune(self) -> None:
        assert self._scheduler is not None
        try:
            self._outcome = self._scheduler.tune(on=self.hear, stop=self._halt, **self._limits)
        except Exception as e:
            self._progress = replace(self._progress, status=str(e).splitlines()[0])
            raise

    def stop(self) -> None:
        self._halt.set()

    def wait(self, seconds: float | None = None) -> auto_scheduler.TasksOutcome:
        """Wait at most `seconds` for tuning to end; return its outcome, or raise its exception."""
        self.join(seconds)
        if self.failure is not None:
            raise self.failure
        if self._outcome is None:
            raise ArgumentError("TaskAllocation.wait()", "tuning has not ended", "press Start")
        return self._outcome

    # --- what is shown ---

    def title(self) -> str:
        return "rounds of tasks" if self.recorded else self.plan()[0]

    def body(self) -> Box:
        return self._progress.box()

    def lines(self) -> list[str]:
        return self._progress.lines()

    def plan(self) -> list[str]:
        return [
            "rounds of a task scheduler",
            "live tuning: its rounds appear here while it runs, and Stop ends it",
            "viz.TaskAllocation.from_outcome(outcome) shows tuning that has ended",
        ]


def _check_unit(tasks: Sequence[tune.Task]) -> None:
    """Raise ArgumentError for a simulated GPU: the picture has latencies in seconds."""
    if any(task.target.unit == "cycles" for task in tasks):
        why = "its tasks are measured in modelled cycles, and the picture has seconds"
        raise ArgumentError("TaskAllocation", why, "print(outcome), a table")


def _lanes(tasks: Sequence[tune.Task], weights: Sequence[float]) -> list[Lane]:
    return [Lane(tune.shown(t), w) for t, w in zip(tasks, weights, strict=True)]
