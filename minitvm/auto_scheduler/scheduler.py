"""The task scheduler of Ansor: it decides which of several tasks to tune next.

    scheduler = auto_scheduler.TaskScheduler(tasks, task_weights)
    print(scheduler.tune(seconds=300, log="network.jsonl"))     calling it again resumes

In each round one task is tuned, namely the task that is expected to lower the objective most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias, cast

import numpy as np

from minitvm.tune import (
    GuidedPolicy,
    Limits,
    Log,
    MeasureOptions,
    Measures,
    Model,
    Policy,
    Processes,
    Searching,
    Stopwatch,
    Task,
    Trial,
    interruptible,
    measurer,
)

from .allocation import Allocation, Measurers, ObjectiveName, Settings, Strategy
from .objectives import Objective, Weights
from .rounds import TasksLine, TasksListener, TasksOutcome

MakePolicy: TypeAlias = Callable[[Task, np.random.Generator], Policy]
STALLED = 64  # "early-stop" leaves a task after this many trials without an improvement


class Options(Protocol):
    """The attributes of TuningOptions that `tune` reads."""

    @property
    def num_measure_trials(self) -> int: ...
    @property
    def early_stopping(self) -> int | None: ...
    @property
    def num_measures_per_round(self) -> int: ...
    @property
    def verbose(self) -> int: ...
    @property
    def log(self) -> str | Path | None: ...
    @property
    def measure(self) -> MeasureOptions: ...


class TaskScheduler:
    """Tunes several tasks; each round tunes the task that should lower the objective most.

    task_weights      how often a network calls each task, by default once; or for several networks,
                      a list for each
    objective         "sum" of the latencies (f1); "requirements": until each network is as fast as
                      its bound (f2); "geomean" of the speed-ups (f3); "early-stop": tasks without
                      an improvement for `early_stopping_task` trials do not count (f4); or a
                      function of the latencies of all tasks, in seconds
    bounds            for "requirements": the latency that each network should reach
    references        for "geomean": the latency of each network to which it is compared
    strategy          "gradient"; "round-robin"; "sequential": one task after the other
    alpha             the weight of the progress in the last rounds; a guess has weight 1 - alpha
    beta              a task should reach at least 1/beta of the speed of the fastest similar task
    backward_window   how many of the last rounds `alpha` refers to
    epsilon           the share of rounds in which a random task is tuned
    load_log_file     a log to learn from, in addition to the log of `tune`
    model             model(task) returns the cost model of a task
    policy            policy(task, rng) returns the policy of a task; by default GuidedPolicy
    measurers         measurers(task) measures a task; by default, processes of this machine
    rng               makes the search repeatable
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        task_weights: Sequence[float] | Weights | None = None,
        *,
        objective: ObjectiveName | Objective = "sum",
        bounds: Sequence[float] = (),
        references: Sequence[float] = (),
        strategy: Strategy = "gradient",
        alpha: float = 0.2,
        beta: float = 2.0,
        backward_window: int = 3,
        epsilon: float = 0.05,
        load_log_file: str | Path | None = None,
        model: Callable[[Task], Model] | None = None,
        policy: MakePolicy | None = None,
        measurers: Measurers | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        all_tasks, weights = tuple(tasks), _networks(task_weights, len(tasks))
        self.settings = Settings(
            all_tasks,
            weights,
            objective,
            tuple(bounds),
            tuple(references) or (1.0,) * len(weights),
            strategy,
            alpha,
            beta,
            backward_window,
            epsilon,
        )
        self.loaded = None if load_log_file is None else Log(load_log_file)
        self.model, self.measurers = model, measurers
        self.policy = policy or self._guided
        self.rng = rng or np.random.default_rng()

    def _guided(self, task: Task, rng: np.random.Generator) -> Policy:
        return GuidedPolicy(task, rng, model=self.model and self.model(task))

    def tune(
        self,
        options: Options | None = None,
        *,
        trials: int | None = None,
        seconds: float | None = None,
        batch: int = 16,
        early_stopping: int | None = None,
        early_stopping_task: int | None = None,
        log: Log | str | Path | None = None,
        measure: MeasureOptions | None = None,
        on: TasksListener | None = None,
        stop: threading.Event | None = None,
        timer: Callable[[], float] = time.perf_counter,
        clock: Callable[[], float] = time.time,
    ) -> TasksOutcome:
        """Tune until a limit is reached.

        options               TVM's TuningOptions, in place of the other arguments up to `on`
        trials                number for all tasks together, including trials in the logs
        seconds               time for building the policies, and wall time from the first result
                              to the final measurements; a batch of one task is always measured
        batch                 trials in a round; fewer if otherwise some task would get no round
        early_stopping        stop after this many trials without a lower objective
        early_stopping_task   leave a task after this many trials without an improvement
        log                   each trial is appended to it; its earlier trials count as trials
        measure               how to measure; cold=True applies to tasks with constants
        on                    is called with each event, in this thread
        stop                  ends tuning when it is set; so does Ctrl-C
        At the end, the fastest candidates of each task are measured alternately with its default.
        """
        if options is not None:
            trials, batch = options.num_measure_trials, options.num_measures_per_round
            early_stopping, measure = options.early_stopping, options.measure
            log = options.log or log
            on = on or (TasksLine() if options.verbose else None)
        tasks, log = self.settings.tasks, Log(log) if isinstance(log, str | Path) else log
        if trials is not None:
            batch = max(1, min(batch, trials // len(tasks)))
        limits = Limits(trials, seconds, early_stopping)
        patience_of_task = None if self.settings.objective == "early-stop" else early_stopping_task
        stop, watch = stop or threading.Event(), Stopwatch(timer)
        rng, *rngs = self.rng.spawn(1 + len(tasks))
        searches = [
            Searching(
                task,
                self.policy(task, generator),
                Limits(trials, seconds, patience_of_task),
                batch,
                log,
                stop=stop,
                watch=watch,
                clock=clock,
                trials=self._loaded(task, log),
            )
            for task, generator in zip(tasks, rngs, strict=True)
        ]
        patience = early_stopping_task or STALLED
        allocation = Allocation(self.settings, searches, limits, batch, patience, rng, watch, on)
        with interruptible(stop):
            allocation.start()
            if log is not None and allocation.over() is None:
                log.check_writable()
            with suppress(KeyboardInterrupt), ExitStack() as stack:
                allocation.run(self.measurers or _Machines(measure, stack).measurer)
        return allocation.outcome()

    def _loaded(self, task: Task, log: Log | None) -> list[Trial]:
        """Return the trials of a task in load_log_file; none if `log` is the same file."""
        if self.loaded is None or (log is not None and log.path == self.loaded.path):
            return []
        return [*self.loaded.read(task).trials]


def _networks(weights: Sequence[float] | Weights | None, count: int) -> Weights:
    """Return the weights of each network."""
    rows = [1.0] * count if weights is None else [*weights]
    if rows and all(isinstance(row, Sequence) for row in rows):
        return tuple(tuple(map(float, row)) for row in cast("Weights", rows))
    return (tuple(map(float, cast("list[float]", rows))),)


class _Machines:
    """Makes measurers; measurers for the same target share their processes."""

    def __init__(self, options: MeasureOptions | None, opened: ExitStack) -> None:
        self.options, self.opened = options or MeasureOptions(), opened
        self.processes = dict[str, Processes]()

    def measurer(self, task: Task) -> Measures:
        """Return a measurer of a task; MeasureError if its default schedule cannot be measured."""
        key, default = repr(task.target), task.default()
        if key not in self.processes:  # they start when they are first needed
            processes = Processes(task.target, self.options.memory)
            self.processes[key] = self.opened.enter_context(processes)
        options = replace(self.options, cold=self.options.cold and bool(default.constants))
        processes = self.processes[key]
        new = measurer(default, task.target, options=options, processes=processes)
        return self.opened.enter_context(new)
