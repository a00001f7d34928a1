"""TaskAllocation: the task of each round of a task scheduler, and the gain in latency."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from minitvm import auto_scheduler, tune
from minitvm.base import ArgumentError

from .allocation_scene import Lane, allocation_lines, allocation_scene
from .chart import text_lines
from .controls import Button, Layout
from .scene import Scene
from .visual import Visual

PAUSE = 0.3  # the least number of seconds between two drawings
WIDTH, MARGIN, LINE = 808, 10, 18  # pixels


class TaskAllocation(Visual):
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
        self._prepare()
        self._scheduler, self._limits = scheduler, limits
        self._outcome: auto_scheduler.TasksOutcome | None = None
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._recorded = False
        super().__init__()

    def _prepare(self) -> None:
        self._lanes: list[Lane] = []
        self._rounds: list[auto_scheduler.TaskRound] = []
        self._planned, self._earlier = 0, 0
        self._status = "not started"
        self._shown, self._pause = 0.0, PAUSE
        self._drawing = threading.Lock()

    @classmethod
    def from_outcome(cls, outcome: auto_scheduler.TasksOutcome) -> TaskAllocation:
        """Return a widget that shows the outcome of tuning that has ended."""
        view = cls()
        view._recorded = True
        view._finished(outcome)
        view.refresh()
        return view

    # --- events of the scheduler ---

    def hear(self, event: auto_scheduler.TasksEvent) -> None:
        """Record an event and redraw; a round just after the last drawing is not drawn at once."""
        match event:
            case auto_scheduler.TasksStarted(tasks=tasks, weights=weights):
                self._lanes, self._rounds = _lanes(tasks, weights), []
                self._planned, self._earlier = event.trials or 0, event.earlier
                self._status = "measuring the defaults and the first candidates"
            case auto_scheduler.TaskRound():
                self._rounds.append(event)
                self._status = f"round {event.number}, {sum(event.trials)} trials"
            case auto_scheduler.TasksFinished(outcome=outcome):
                self._finished(outcome)
        start = time.perf_counter()
        if isinstance(event, auto_scheduler.TaskRound) and start - self._shown < self._pause:
            return
        self.refresh()
        self._shown = time.perf_counter()
        self._pause = max(PAUSE, 4 * (self._shown - start))  # draw for at most a fifth of the time

    def _finished(self, outcome: auto_scheduler.TasksOutcome) -> None:
        self._lanes = _lanes([o.task for o in outcome.outcomes], outcome.weights)
        self._rounds = [*outcome.rounds]
        self._planned, self._earlier = 0, sum(o.earlier for o in outcome.outcomes)
        trials = sum(len(o.trials) for o in outcome.outcomes)
        ended = auto_scheduler.ENDS[outcome.ended]
        self._status = f"{len(self._rounds)} rounds, {trials} trials: {ended}"

    # --- the thread ---

    def _run(self) -> None:
        assert self._scheduler is not None
        try:
            self._outcome = self._scheduler.tune(on=self.hear, stop=self._stop, **self._limits)
        except Exception as e:  # raised in another thread: wait() raises it again
            self._failure, self._status = e, str(e).splitlines()[0]
        self.refresh()

    def wait(self, seconds: float | None = None) -> auto_scheduler.TasksOutcome:
        """Wait at most `seconds` for tuning to end; return its outcome, or raise its exception."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        if self._failure is not None:
            raise self._failure
        if self._outcome is None:
            raise ArgumentError("TaskAllocation.wait()", "tuning has not ended", "press Start")
        return self._outcome

    # --- what is shown ---

    def refresh(self) -> None:
        """Draw everything again; only one thread draws at a time."""
        with self._drawing:
            super().refresh()

    def scene(self) -> Scene:
        """Draw all rounds so far."""
        shown = self._lanes, self._rounds, self._status
        return allocation_scene(*shown, self._planned, self._earlier)

    def picture(self) -> Scene:
        """Draw recorded tuning; for live tuning, which differs each time, draw a description."""
        if self._recorded:
            return self.scene()
        first, *others = self._plan()
        shapes = text_lines([first], MARGIN, 22, size=13, bold=True)
        shapes += text_lines(others, MARGIN, 22 + LINE, size=13, step=LINE)
        return Scene(WIDTH, 22 + LINE * len(others) + MARGIN, tuple(shapes), first)

    def _plan(self) -> list[str]:
        return [
            "rounds of a task scheduler",
            "live tuning: its rounds appear here while it runs, and Stop ends it",
            "viz.TaskAllocation.from_outcome(outcome) shows tuning that has ended",
        ]

    def ascii(self) -> str:
        """Return recorded tuning as text; for live tuning, return only a description."""
        if not self._recorded:
            return "\n".join(self._plan())
        return "\n".join(allocation_lines(self._lanes, self._rounds, self._status))

    def layout(self) -> Layout:
        """Return the buttons Start and Stop if there is a scheduler, otherwise no controls."""
        if self._scheduler is None:
            return Layout()
        tip = "end tuning when the programs under way are measured; all trials are kept"
        busy = self._thread.is_alive() and self._outcome is None and self._failure is None
        return Layout(
            controls=(
                Button("start", "start", self._thread.ident is None, "start tuning"),
                Button("stop", "stop", busy, tip),
            )
        )

    def on(self, name: str, value: Any) -> str | None:
        """Start or stop tuning."""
        if name == "start" and self._thread.ident is None:
            self._thread.start()
        elif name == "stop":
            self._stop.set()
            return "stopping when the programs under way are measured"
        return None


def _lanes(tasks: Sequence[tune.Task], weights: Sequence[float]) -> list[Lane]:
    return [Lane(tune.shown(t), w) for t, w in zip(tasks, weights, strict=True)]
