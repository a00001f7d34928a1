"""TuningCurve: every trial of a search while it runs, the best so far, failures, a Stop button."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minitvm import tune
from minitvm.base import ArgumentError

from .chart import text_lines
from .controls import Button, Layout
from .scene import Scene, wrapped
from .tuning_scene import TrialPoint, best_so_far, tuning_lines, tuning_scene
from .visual import Visual

PAUSE = 0.3  # the least number of seconds between two drawings
WIDTH, MARGIN, LINE = 808, 10, 18  # pixels
BATCH = 16  # trials per batch if the batches are not given


class TuningCurve(Visual):
    """Watch a search: each trial's speed, the best so far, the batches, and what failed.

    search   a tune.Search; the Start button starts it, Stop ends it after the current batch
    levels   name -> GFLOP/s of lines to compare with: {"FMA peak": 150.0}

    The search runs in a thread of its own, so the notebook's cell returns at once; search.wait()
    waits for its end. A saved notebook shows no live search, because it differs from run to run;
    it does show TuningCurve.from_trials(task, trials).
    """

    def __init__(self, search: tune.Search, levels: Mapping[str, float] | None = None) -> None:
        self._prepare(search.task, levels)
        self._search: tune.Search | None = search
        super().__init__()
        search.listen(self._hear)

    def _prepare(self, task: tune.Task, levels: Mapping[str, float] | None) -> None:
        self._task = task
        self._levels = _checked(levels or {})
        self._points: list[TrialPoint] = []
        self._batch = 0
        self._planned = 0
        self._status = "not started"
        self._busy, self._ended = False, False
        self._shown, self._pause = 0.0, PAUSE
        self._drawing = threading.Lock()

    @classmethod
    def from_trials(
        cls,
        task: tune.Task,
        trials: Iterable[tune.Trial],
        levels: Mapping[str, float] | None = None,
        batches: Sequence[int] | None = None,
    ) -> TuningCurve:
        """Return a widget that shows recorded trials, given in the order of measuring.

        batches   the number of the batch of each trial; by default a batch has 16 trials
        Final measurements among the trials say which is the best, and are drawn as a level.
        """
        curve = cls.__new__(cls)
        curve._prepare(task, levels)
        curve._search = None
        every = list(trials)
        for n, trial in enumerate(trial for trial in every if not trial.final):
            batch = n // BATCH if batches is None else batches[n]
            curve._points.append(_point(task, trial, batch))
        best = tune.best_trial(every)
        speed = 0.0 if best is None else tune.rate(task, best.seconds)
        curve._status = f"{len(curve._points)} trials, best {speed:.4g} GFLOP/s"
        curve._judge(best)
        Visual.__init__(curve)
        return curve

    # --- events of the search ---

    def _hear(self, event: tune.Event) -> None:
        """Record an event and redraw; a trial just after the last drawing is not drawn at once."""
        match event:
            case tune.Started(earlier=earlier, trials=trials):
                self._points = [_point(self._task, t, 0) for t in earlier]
                self._batch, self._planned = int(bool(earlier)), trials or 0
                self._status, self._busy = "measuring", True
            case tune.Round(number=number):
                self._batch = number
                return
            case tune.Measured(trial=trial):
                self._points.append(_point(self._task, trial, self._batch))
                self._status = self._progress(event)
            case tune.Finished(outcome=outcome):
                self._status = str(outcome).split(": ", 1)[1]
                self._busy, self._ended = False, True
                self._judge(outcome.found)
        start = time.perf_counter()
        if isinstance(event, tune.Measured) and start - self._shown < self._pause:
            return
        self.refresh()
        self._shown = time.perf_counter()
        self._pause = max(PAUSE, 4 * (self._shown - start))  # draw for at most a fifth of the time

    def _judge(self, best: tune.Trial | None) -> None:
        """Draw the speeds of the best candidate and of the default beside it as levels."""
        if best is not None and best.final:
            self._levels["best, measured again"] = tune.rate(self._task, best.seconds)
            if best.default is not None:
                self._levels["default schedule"] = tune.rate(self._task, best.default)

    def _progress(self, event: tune.Measured) -> str:
        """Return the number of trials, the best speed, and the time taken or left, as text."""
        done = (
            f"{event.number} of {self._planned} trials"
            if self._planned
            else f"{event.number} trials"
        )
        best = f"best {best_so_far(self._points)[-1]:.4g} GFLOP/s"
        if not self._planned:
            return f"{done}, {best}, {event.elapsed:.0f} s"
        left = event.elapsed / event.number * (self._planned - event.number)
        return f"{done}, {best}, about {left:.0f} s left"

    # --- what is shown ---

    def refresh(self) -> None:
        """Draw everything again; only one thread draws at a time."""
        with self._drawing:
            super().refresh()

    def scene(self) -> Scene:
        """Draw all trials so far."""
        return tuning_scene(
            _title(self._task), self._points, self._levels, self._status, self._planned
        )

    def picture(self) -> Scene:
        """Draw recorded trials; for a live search, which differs each time, draw a description."""
        if self._search is None:
            return self.scene()
        lines = [part for line in self._plan() for part in wrapped(line, WIDTH - 2 * MARGIN)]
        shapes = text_lines(lines[:1], MARGIN, 22, size=13, bold=True)
        shapes += text_lines(lines[1:], MARGIN, 22 + LINE, size=13, step=LINE)
        height = 22 + LINE * (len(lines) - 1) + MARGIN
        return Scene(WIDTH, height, tuple(shapes), f"tuning of {_title(self._task)}")

    def _plan(self) -> list[str]:
        return [
            f"tuning of {_title(self._task)}",
            "a live search: its trials appear here while it runs, and Stop ends it",
            "viz.TuningCurve.from_trials(task, trials) shows recorded trials",
        ]

    def ascii(self) -> str:
        """Return recorded trials as text; for a live search, return only a description."""
        if self._search is not None:
            return "\n".join(self._plan())
        lines = tuning_lines(_title(self._task), self._points, self._levels, self._status)
        return "\n".join(lines[:25])

    def layout(self) -> Layout:
        """Return the buttons Start and Stop; no controls for recorded trials."""
        if self._search is None:
            return Layout()
        tip = "end the search when the programs under way are measured; all trials are kept"
        idle = not self._busy and not self._ended
        return Layout(
            controls=(
                Button("start", "start", idle, "start the search"),
                Button("stop", "stop", self._busy, tip),
            )
        )

    def on(self, name: str, value: Any) -> str | None:
        """Start or stop the search."""
        assert self._search is not None
        if name == "start":
            self._search.start()
        elif name == "stop":
            self._search.stop()
            return "stopping when the programs under way are measured"
        return None


def _title(task: tune.Task) -> str:
    return " ".join([task.name, *map(str, task.workload)])


def _point(task: tune.Task, trial: tune.Trial, batch: int) -> TrialPoint:
    n, row = trial.candidate
    about = task.sketches[n].space.text(row)
    if trial.result.error:
        detail = trial.result.detail.strip().splitlines()
        return TrialPoint(0.0, batch, trial.result.error, "; ".join([*detail[:1], about]))
    return TrialPoint(tune.rate(task, trial.seconds), batch, "", about)


def _checked(levels: Mapping[str, float]) -> dict[str, float]:
    for name, value in levels.items():
        if not value > 0:
            raise ArgumentError(f"level {name!r}: {value!r}", "not a speed in GFLOP/s", "150.0")
    return dict(levels)
