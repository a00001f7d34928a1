"""The base class of tuners, and the two that learn nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import ArgumentError
from minitvm.tune import (
    Candidate,
    Event,
    Measured,
    MeasureOptions,
    Outcome,
    Trial,
    measure_options,
    run,
)

from ..callback import Callback, LogToFile, ProgressBar
from ..measure import MeasureInput, result_of
from ..space import ConfigEntity, shuffled
from ..task import Task

Row: TypeAlias = tuple[int, ...]


class Tuner:
    """The base class of tuners: a policy that proposes rows of the task's configuration space.

    A tuner overrides `next_row`, or `propose` as a whole.

    best_config, best_flops   the fastest configuration or None; its operations per second
                              (per modelled cycle on a simulated GPU) or 0
    """

    def __init__(self, task: Task, rng: np.random.Generator | None = None) -> None:
        self.task = task
        self.space = task.config_space.space
        self.rng = np.random.default_rng() if rng is None else rng
        self.visited = set[int]()  # keys of the rows that were proposed or measured
        self.trials = list[Trial]()
        self.best: Trial | None = None
        self.drawn = shuffled(self.space.size, self.rng)

    # --- a policy of run ---

    def propose(self, count: int) -> list[Candidate]:
        """Return up to `count` candidates to measure next; none if all have been proposed."""
        candidates = list[Candidate]()
        while len(candidates) < count:
            row = self.next_row()
            if row is None:
                break
            self._visit(row)
            candidates.append(self.task.derived.candidate(row))
        return candidates

    def learn(self, trials: Sequence[Trial]) -> float | None:
        """Take new trials into account."""
        for trial in trials:
            self._visit(self.task.derived.row(trial.candidate))
        self.trials += trials
        return None

    def next_row(self) -> Row | None:
        """Return the row to propose next, here a random unvisited one; None if all are visited."""
        return self.random_row()

    def _visit(self, row: Row) -> None:
        self.visited.add(self.key(row))

    def key(self, row: Row) -> int:
        """Return the key of a row in `visited`."""
        return int(self.space.keys(np.array([row], np.int32))[0])

    def random_row(self) -> Row | None:
        """Draw an allowed row that has not been visited, or return None if all have been."""
        for index in self.drawn:
            row = self.space.row(index)
            if self.key(row) not in self.visited and self.allowed(row):
                return row
        return None

    def allowed(self, row: Row) -> bool:
        """Return whether the filters of the space allow a row."""
        return bool(self.space.legal(np.array([row], np.int32))[0])

    # --- as in TVM ---

    def tune(
        self,
        n_trial: int | None = None,
        measure_option: MeasureOptions | None = None,
        early_stopping: int | None = None,
        callbacks: Iterable[Callback] = (),
        si_prefix: str = "G",
        *,
        seconds: float | None = None,
        **options: Any,
    ) -> Outcome:
        """Measure configurations until a limit is reached, and return all trials and the best one.

        n_trial, seconds   the limits; trials that the log has count
        early_stopping     trials without an improvement, after which to stop
        callbacks          callback.log_to_file, callback.progress_bar, or functions (tuner, inputs,
                           results). The trials in the log are known: the same call resumes
        options            those of run
        """
        if si_prefix not in ("", "K", "M", "G", "T"):
            raise ArgumentError(f"si_prefix {si_prefix!r}", "no such prefix", '"G"')
        callback_list = list(callbacks)
        logs = [c.path for c in callback_list if isinstance(c, LogToFile)]
        if len(logs) > 1:
            raise ArgumentError("callbacks", "two of them are log_to_file", "one")
        listeners = [c.listener() for c in callback_list if isinstance(c, ProgressBar)]
        others = [c for c in callback_list if not isinstance(c, LogToFile | ProgressBar)]

        def on(event: Event) -> None:
            for listener in listeners:
                listener(event)
            if isinstance(event, Measured):
                self.best = event.best
                self._report(event.trial, others)

        outcome = run(
            self.task,
            self,
            trials=n_trial,
            seconds=seconds,
            early_stopping=early_stopping,
            log=logs[0] if logs else None,
            measure=measure_option or measure_options(),
            on=on,
            rng=self.rng,
            **options,
        )
        self.best = outcome.found
        return outcome

    def _report(self, trial: Trial, callbacks: Sequence[Any]) -> None:
        config = self.task.config(trial.candidate)
        inputs = [MeasureInput(self.task.target, self.task, config)]
        for callback in callbacks:
            callback(self, inputs, [result_of(trial)])

    @property
    def best_config(self) -> ConfigEntity | None:
        """Return the fastest configuration so far."""
        return None if self.best is None else self.task.config(self.best.candidate)

    @property
    def best_flops(self) -> float:
        """Return the operations per second of the fastest configuration so far."""
        return 0.0 if self.best is None else self.task.flops / self.best.cost


class RandomTuner(Tuner):
    """Draws configurations at random, each at most once."""


class GridSearchTuner(Tuner):
    """Takes configurations in the order of their numbers."""

    def __init__(self, task: Task, rng: np.random.Generator | None = None) -> None:
        super().__init__(task, rng)
        self.next = 0

    def next_row(self) -> Row | None:
        while self.next < self.space.size:
            row = self.space.row(self.next)
            self.next += 1
            if self.key(row) not in self.visited and self.allowed(row):
                return row
        return None
