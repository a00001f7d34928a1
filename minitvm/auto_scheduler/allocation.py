"""Tune several tasks, round by round: keep the state of each task, and choose the next task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from minitvm import tune
from minitvm.base import ArgumentError, MeasureError, Reason, raise_first

from . import objectives
from .objectives import Objective, Progress, Weights
from .rounds import (
    End,
    TaskRound,
    TasksFinished,
    TasksListener,
    TasksOutcome,
    TasksStarted,
    weighted,
)

ObjectiveName: TypeAlias = Literal["sum", "requirements", "geomean", "early-stop"]
Strategy: TypeAlias = Literal["gradient", "round-robin", "sequential"]
Measurers: TypeAlias = Callable[[tune.Task], tune.Measures]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a task scheduler gives rounds to tasks; see TaskScheduler for the fields."""

    tasks: tuple[tune.Task, ...]
    weights: Weights
    objective: ObjectiveName | Objective
    bounds: tuple[float, ...]
    references: tuple[float, ...]
    strategy: Strategy
    alpha: float
    beta: float
    window: int
    epsilon: float

    def __post_init__(self) -> None:
        raise_first(ArgumentError, "TaskScheduler", self._faults())

    def _faults(self) -> Iterator[Reason]:
        if not self.tasks:
            yield "there are no tasks", "at least one"
        if len({task.target.unit for task in self.tasks}) > 1:
            why = "some tasks are measured in seconds, others in modelled cycles"
            yield why, "tasks that are all for a simulated GPU, or none"
        for task in self.tasks:
            if not task.sketches:
                yield f"{task.name} has no sketches", "tasks with a space"
        if any(len(row) != len(self.tasks) for row in self.weights):
            yield f"task_weights are not {len(self.tasks)} numbers", "one for each task"
        if any(not 0 <= w < math.inf for row in self.weights for w in row):
            yield "a weight is negative or not finite", "how often a task is called"
        if self.strategy not in get_args(Strategy):
            yield f"strategy {self.strategy!r}", f"one of {', '.join(get_args(Strategy))}"
        if not callable(self.objective) and self.objective not in get_args(ObjectiveName):
            names = ", ".join(get_args(ObjectiveName))
            yield f"objective {self.objective!r}", f"one of {names}, or a function"
        if self.objective == "requirements" and len(self.bounds) != len(self.weights):
            yield f"{len(self.bounds)} bounds for {len(self.weights)} networks", "one for each"
        if len(self.references) != len(self.weights):
            yield f"{len(self.references)} references, {len(self.weights)} networks", "one for each"
        if not 0 <= self.alpha <= 1 or not 0 <= self.epsilon <= 1:
            yield f"alpha {self.alpha}, epsilon {self.epsilon}", "numbers from 0 to 1"
        if not self.beta > 0 or self.window < 1:
            yield f"beta {self.beta}, backward_window {self.window}", "positive numbers"


@dataclass(slots=True)
class Allocation:
    """A run of the task scheduler: call start(), run(measurers) and outcome().

    searches   a search for each task, not started yet
    batch      the number of trials in a round
    patience   objective "early-stop" leaves a task after this many trials without an improvement
    watch      counts the seconds of the budget; the searches share it
    """

    settings: Settings
    searches: Sequence[tune.Searching]
    limits: tune.Limits
    batch: int
    patience: int
    rng: np.random.Generator
    watch: tune.Stopwatch
    on: TasksListener | None
    similar: list[set[int]] = field(default_factory=list[set[int]])
    measurers: dict[int, tune.Measures] = field(default_factory=dict[int, tune.Measures])
    refused: dict[int, str] = field(default_factory=dict[int, str])
    rounds: list[TaskRound] = field(default_factory=list[TaskRound])
    best: float = math.inf  # lowest objective so far
    improved: int = 0  # the number of trials when `best` was found
    ended: End = "stopped"  # unless `run` comes to another end

    # --- the state of each task ------------------------------------------------------------------

    def latency(self, n: int) -> float:
        """Return the lowest latency so far of a task's default schedule and its candidates."""
        search = self.searches[n]
        cost = search.reference if search.best is None else search.best.cost
        return 0.0 if n in self.refused else min(cost, search.reference)

    @property
    def latencies(self) -> list[float]:
        return [self.latency(n) for n in range(len(self.searches))]

    @property
    def trials(self) -> int:
        """Return the number of trials of all tasks, including trials that the logs already had."""
        return sum(len(s.trials) for s in self.searches)

    def alive(self) -> list[int]:
        """Return the numbers of the tasks that can still be tuned."""
        return [
            n
            for n, s in enumerate(self.searches)
            if n not in self.refused and s.ended is None and s.over() is None
        ]

    def progress(self, n: int) -> Progress:
        """Return the progress of a task, from which its gradient is computed."""
        trials, before = self.searches[n].trials, None
        past = len(trials) - self.settings.window * self.batch
        if past > 0:
            before = min(self.searches[n].reference, *(t.cost for t in trials[:past]))
        flops = self.settings.tasks[n].flops
        return Progress(self.latency(n), len(trials) / self.batch, before, flops)

    def objective(self) -> Objective:
        """Return the current objective; f4 changes when tasks have stalled for long."""
        choice, weights = self.settings.objective, self.settings.weights
        match choice:
            case "sum":
                return objectives.total(weights)
            case "requirements":
                return objectives.requirements(weights, self.settings.bounds)
            case "geomean":
                return objectives.geomean(weights, self.settings.references)
            case "early-stop":
                stalled = [len(s.trials) - s.improved >= self.patience for s in self.searches]
                pairs = zip(self.latencies, stalled, strict=True)
                return objectives.early_stop(weights, [g if over else 0.0 for g, over in pairs])
            case _:
                return choice

    # --- choosing --------------------------------------------------------------------------------

    def over(self) -> End | None:
        """Return why tuning ends; None if it continues."""
        if self.searches[0].stop.is_set():
            return "stopped"
        limits = self.limits
        if limits.trials is not None and self.trials >= limits.trials:
            return "trials"
        if self.watch.is_over(limits.seconds):
            return "seconds"
        since = self.trials - self.improved
        if limits.early_stopping is not None and since >= limits.early_stopping:
            return "early stopping"
        return None if self.alive() else "exhausted"

    def chosen(self) -> tuple[int, tuple[float, ...]] | End:
        """Return the next task and the gradients, () if they were not used; or why tuning ends."""
        alive = self.alive()
        if self.settings.strategy == "sequential":
            return self._in_order(alive), ()
        if self.settings.strategy == "round-robin":
            return min(alive, key=lambda n: len(self.searches[n].trials)), ()
        untried = [n for n in alive if not self.searches[n].trials]
        if untried:  # first the tasks with the most operations, as the budget may be short
            return max(untried, key=self._work), ()
        gradients = self.gradients(alive)
        if min(gradients) >= 0:
            return "objective reached"
        if self.rng.random() < self.settings.epsilon:
            return int(self.rng.choice(alive)), gradients
        return int(np.argmin(gradients)), gradients

    def gradients(self, alive: Sequence[int]) -> tuple[float, ...]:
        """Return how a round of each task should change the objective; 0 if not in `alive`."""
        s, objective, latencies = self.settings, self.objective(), self.latencies
        tasks = [self.progress(n) for n in range(len(self.searches))]
        similar = [sorted(group) for group in self.similar]
        slopes = objectives.slopes(tasks, similar, alpha=s.alpha, beta=s.beta, window=s.window)
        return tuple(
            objectives.derivative(objective, latencies, n) * slope if n in alive else 0.0
            for n, slope in enumerate(slopes)
        )

    def _work(self, n: int) -> float:
        """Return how many operations all calls of a task in all networks take together."""
        return sum(row[n] for row in self.settings.weights) * self.settings.tasks[n].flops

    def _in_order(self, alive: Sequence[int]) -> int:
        """Return the first task that has not used up its equal share of the budget."""
        count, share = len(self.searches), 0
        if self.limits.seconds is not None:
            share = int(count * self.watch.counted() / self.limits.seconds)
        budget = math.inf if self.limits.trials is None else self.limits.trials / count
        for n in alive:
            if n >= share and len(self.searches[n].trials) < budget:
                return n
        return alive[-1]

    # --- running ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the logs and report the start."""
        s = self.settings
        self.similar = objectives.neighbours(s.tasks)
        for search in self.searches:
            search.start()
        self._improve()
        if self.on is not None:
            limits, calls = self.limits, weighted(s.weights)
            self.on(TasksStarted(s.tasks, calls, limits.trials, limits.seconds, self.trials))

    def run(self, measurers: Callable[[tune.Task], tune.Measures]) -> None:
        """Tune one task in each round until a limit is reached; then measure the best again."""
        while True:
            end = self.over()
            choice = end or self.chosen()
            if isinstance(choice, str):
                self.ended = choice
                break
            self._round(*choice, measurers)
        for n, search in enumerate(self.searches):
            if n not in self.refused and search.finalists():
                measurer = self._measurer(n, measurers)
                if measurer is not None:
                    search.measure_again(measurer)
        if len(self.refused) == len(self.searches):
            raise MeasureError("tuning", next(iter(self.refused.values())))

    def _measurer(
        self, n: int, measurers: Callable[[tune.Task], tune.Measures]
    ) -> tune.Measures | None:
        """Return the measurer of a task; None if the task's default schedule cannot be measured."""
        search = self.searches[n]
        if n not in self.measurers and n not in self.refused:
            try:
                measurer = measurers(self.settings.tasks[n])
                search.reference = min(search.reference, measurer.reference_cost)
                self.measurers[n] = measurer
            except MeasureError as e:
                self.refused[n] = str(e)
        return self.measurers.get(n)

    def _round(
        self,
        n: int,
        gradients: tuple[float, ...],
        measurers: Callable[[tune.Task], tune.Measures],
    ) -> None:
        """Tune a task for a round, and report it."""
        measurer, search = self._measurer(n, measurers), self.searches[n]
        if measurer is None:
            return
        left = self.batch
        if self.limits.trials is not None:
            left = min(left, self.limits.trials - self.trials)
        search.batch = left
        search.advance(measurer, rounds=1)
        tasks = [self.progress(k) for k in range(len(self.searches))]
        objectives.part_from(self.similar, tasks, n, beta=self.settings.beta)
        self._improve()
        objective, latencies = self.objective(), tuple(self.latencies)
        event = TaskRound(
            len(self.rounds) + 1,
            n,
            gradients,
            tuple(len(s.trials) for s in self.searches),
            latencies,
            objectives.total(self.settings.weights)(latencies),
            objective(latencies),
            self.watch.counted(),
        )
        self.rounds.append(event)
        if self.on is not None:
            self.on(event)

    def _improve(self) -> None:
        """Update `best` and `improved` if the objective is lower than before."""
        objective = self.objective()(self.latencies)
        if objective < self.best or math.isinf(objective):
            self.best, self.improved = objective, self.trials

    def outcome(self) -> TasksOutcome:
        """Return the result, and report it."""
        outcome = TasksOutcome(
            tuple(s.outcome() for s in self.searches),
            weighted(self.settings.weights),
            self.ended,
            self.watch.total(),
            tuple(self.rounds),
            tuple(self.latencies),
            self.refused,
        )
        if self.on is not None:
            self.on(TasksFinished(outcome))
        return outcome
