"""The search: a policy proposes, the workers measure, the log keeps, the policy learns."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from minitvm.base import ArgumentError, raise_first

from . import events
from .builder import Program
from .cluster import DaskMeasurer
from .guided import GuidedPolicy
from .limits import Limits
from .machines import measurer as made
from .measure import MeasureOptions
from .policy import Policy, Trial
from .record import Log, record_of
from .stopwatch import Stopwatch
from .task import Candidate, CandidateProgram, Task
from .trial import Result

FINALISTS, FINALS = 5, 8  # candidates in a final measurement; final measurements of a search
STOPPING = "stopping after the running programs; press Ctrl-C again to stop at once"


class Measures(Protocol):
    """The methods of a Measurer that a search uses."""

    @property
    def reference_cost(self) -> float:
        """Return the cost of one call of the default schedule, in the unit of the results."""
        ...

    def measure(self, programs: Iterable[Program]) -> Iterator[Result]:
        """Yield the result of each program, in order."""
        ...

    def remeasure(self, programs: Sequence[Program]) -> list[Result]:
        """Measure programs and the default schedule alternately; the default's result is last."""
        ...


def run(
    task: Task,
    policy: Policy | None = None,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    early_stopping: int | None = None,
    failures: int = 64,
    batch: int = 16,
    log: Log | str | Path | None = None,
    measure: MeasureOptions | None = None,
    measurer: Measures | DaskMeasurer | None = None,
    on: events.Listener | None = None,
    rng: np.random.Generator | None = None,
    stop: threading.Event | None = None,
    timer: Callable[[], float] = time.perf_counter,
    clock: Callable[[], float] = time.time,
) -> events.Outcome:
    """Search for the fastest schedule of a task until a limit is reached; see Limits.

    policy     decides what to measure; by default GuidedPolicy
    batch      candidates that the policy proposes at a time
    log        each trial is appended to it. The policy learns from the trials of this task that it
               already has; they are not measured again, and they count as trials. If the log can
               no longer be written, the search goes on, and Outcome.unsaved says so
    measure    how to measure
    measurer   what measures, by default processes here; a DaskMeasurer uses a cluster
    on         is called with each event, in this thread
    stop       ends the search when it is set; so does Ctrl-C
    timer      the time in seconds, for the budget; `clock` gives the time stamps of the log
    A search that is stopped finishes the programs that are being built or run. At the end, the
    fastest candidates are measured again, alternately with the default schedule.
    """
    limits = Limits(trials, seconds, early_stopping, failures)
    reasons = [("the task has no sketches", "a task with a space")] if not task.sketches else []
    raise_first(ArgumentError, f"search for {task.name}", reasons)
    if batch < 1:
        raise ArgumentError(f"batch of {batch}", "a batch has at least one candidate", "16")
    rng, watch = rng or np.random.default_rng(), Stopwatch(timer)
    policy = policy or GuidedPolicy(task, rng)
    log = Log(log) if isinstance(log, str | Path) else log
    stop = stop or threading.Event()
    search = Searching(task, policy, limits, batch, log, on or _ignore, stop, watch, clock)
    with interruptible(search.stop):
        search.start()
        if search.over() is None:
            if log is not None:
                log.check_writable()
            workers = _opened(task, measurer, measure or MeasureOptions(), rng)
            with suppress(KeyboardInterrupt), workers as measures:
                search.advance(measures)
                search.measure_again(measures)
    return search.outcome()


def _ignore(event: events.Event) -> None:
    """Do nothing."""


def _opened(
    task: Task,
    measurer: Measures | DaskMeasurer | None,
    options: MeasureOptions,
    rng: np.random.Generator,
) -> AbstractContextManager[Measures]:
    """Return the given measurer, which stays open, or a new one, which is closed at the end."""
    if isinstance(measurer, DaskMeasurer):
        return measurer.of(task.default(), task.target, options=options, rng=rng.spawn(1)[0])
    if measurer is not None:
        return nullcontext(measurer)
    return made(task.default(), task.target, options=options, rng=rng.spawn(1)[0])


@contextmanager
def interruptible(stop: threading.Event) -> Generator[None]:
    """Make the first Ctrl-C set `stop`; the second one raises KeyboardInterrupt as usual.

    Searches let it through, so that nothing else is begun; they return what they have found.
    """
    before = signal.getsignal(signal.SIGINT) or signal.default_int_handler
    ignored = before is signal.SIG_IGN  # as a shell does for jobs in the background
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(*_: Any) -> None:
        stop.set()
        print(f"\n{STOPPING}", file=sys.stderr, flush=True)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class Searching:
    """A search in steps: call start(), then advance(workers) while over() is None, then outcome().

    The fields up to `clock` are the arguments of `run`; `batch` may change between rounds.
    Another thread may iterate over `programs`, a few programs ahead of the results. The policy
    learns and proposes in that thread, while the last programs of the batch before are measured.
    """

    task: Task
    policy: Policy
    limits: Limits
    batch: int = 16
    log: Log | None = None
    on: events.Listener = _ignore
    stop: threading.Event = field(default_factory=threading.Event)
    watch: Stopwatch = field(default_factory=Stopwatch)
    clock: Callable[[], float] = time.time
    trials: list[Trial] = field(default_factory=list[Trial])
    started: list[tuple[Candidate, int]] = field(default_factory=list[tuple[Candidate, int]])
    rounds: list[events.Round] = field(default_factory=list[events.Round])
    final: list[Trial] = field(default_factory=list[Trial])
    reference: float = math.inf  # the cost of the default; infinity if not known yet
    earlier: int = 0
    batches: int = 0  # how many batches earlier searches in the log had
    learned: int = 0  # how many trials the policy has learned from
    reported: int = 0  # how many rounds were reported to the listener
    ended: events.End | None = None
    failure: Exception | None = None  # raised in `programs`
    best: Trial | None = None
    improved: int = 0  # the number of the best trial, from 1

    def start(self) -> None:
        """Read the log, and pause the stopwatch until the first result."""
        if self.log is not None:
            reading = self.log.read(self.task)
            self.trials += reading.trials
            self.batches = max(reading.batches, default=0)
            self.reference = min(self.reference, reading.default or math.inf)
            self.final += reading.final
        self.earlier = len(self.trials)
        self.best = events.fastest(self.trials)
        self.improved = 0 if self.best is None else self.trials.index(self.best) + 1
        limits = self.limits
        self.watch.ready()
        self.on(events.Started(self.task, tuple(self.trials), limits.trials, limits.seconds))

    def over(self) -> events.End | None:
        """Return which limit has been reached; None while more programs may be started."""
        limits = self.limits
        if self.stop.is_set():
            return "stopped"
        if limits.trials is not None and self.earlier + len(self.started) >= limits.trials:
            return "trials"
        if self.watch.is_over(limits.seconds):
            return "seconds"
        since = len(self.trials) - self.improved
        if limits.early_stopping is not None and since >= limits.early_stopping:
            return "early stopping"
        return "failures" if self._same_failures() else None

    def _same_failures(self) -> bool:
        """Return whether the last trials of this run all failed in the same way."""
        last = self.trials[self.earlier :][-self.limits.failures :]
        kinds = {trial.result.error for trial in last}
        return len(last) == self.limits.failures and len(kinds) == 1 and "" not in kinds

    def programs(self, rounds: int | None = None) -> Iterator[Program]:
        """Yield programs to be measured, until a limit is reached or after `rounds` rounds."""
        last = None if rounds is None else len(self.rounds) + rounds
        try:
            while len(self.rounds) != last:
                candidates = self._proposed()
                if not candidates:
                    self.ended = self.over() or "exhausted"
                    return
                for candidate in candidates:
                    self.ended = self.over()
                    if self.ended is not None:
                        return
                    self.started.append((candidate, self.batches + len(self.rounds)))
                    yield CandidateProgram(self.task, candidate)
                self.watch.is_batch_begun = True
        except Exception as e:
            self.failure = e
            raise

    def _proposed(self) -> Sequence[Candidate]:
        """Let the policy learn from the new trials and propose a batch."""
        if self.over() is not None:
            return ()
        begin = self.watch.timer()
        new = self.trials[self.learned :]
        self.learned += len(new)
        accuracy = self.policy.learn(new)
        left = self.batch
        if self.limits.trials is not None:
            left = min(left, self.limits.trials - self.earlier - len(self.started))
        candidates = self.policy.propose(left)
        seconds = self.watch.timer() - begin
        self.rounds.append(events.Round(len(self.rounds) + 1, self.learned, accuracy, seconds))
        return candidates

    def advance(self, workers: Measures, rounds: int | None = None) -> None:
        """Measure programs for `rounds` rounds, or until a limit is reached; `ended` says which."""
        for result in workers.measure(self.programs(rounds)):
            self._report_rounds()
            self._keep(result, workers.reference_cost)
        self._report_rounds()
        if self.failure is not None:
            raise self.failure

    def _keep(self, result: Result, default: float) -> None:
        """Record the result of the next program."""
        self.watch.measured()
        candidate, batch = self.started[len(self.trials) - self.earlier]
        known = default if math.isfinite(default) else None
        trial = Trial(candidate, result, self.clock(), known)
        if self.log is not None:
            self.log.save(record_of(self.task, trial, batch=batch))
        self.trials.append(trial)
        if not result.error and (self.best is None or trial.cost < self.best.cost):
            self.best, self.improved = trial, len(self.trials)
        self.on(events.Measured(len(self.trials), trial, self.best, self.watch.counted()))

    def _report_rounds(self) -> None:
        """Report the rounds that have begun since the last report."""
        for event in self.rounds[self.reported :]:
            self.reported += 1
            self.on(event)

    def finalists(self) -> list[Candidate]:
        """Return the candidates before the best one that was measured again, FINALISTS at most."""
        order = events.best_trials((*self.trials, *self.final))
        ahead = takewhile(lambda trial: not trial.final, order)
        return [trial.candidate for trial in ahead][:FINALISTS]

    def measure_again(self, workers: Measures) -> None:
        """Measure the best candidates again, alternately with the default schedule.

        A trial may be fast by luck. If the lucky ones are slower when they are measured again, the
        next candidates follow, until the best one has been measured again.
        """
        for _ in range(FINALS):
            chosen = self.finalists()
            if not chosen:
                return
            programs = [CandidateProgram(self.task, candidate) for candidate in chosen]
            *results, reference = workers.remeasure(programs)
            default = reference.median if math.isfinite(reference.median) else None
            for candidate, result in zip(chosen, results, strict=True):
                trial = Trial(candidate, result, self.clock(), default, final=True)
                if self.log is not None:
                    self.log.save(record_of(self.task, trial))
                self.final.append(trial)

    def outcome(self) -> events.Outcome:
        """Return the result, and report it."""
        reason = self.ended or self.over() or "stopped"
        seconds = self.watch.total()
        trials, final = tuple(self.trials), tuple(self.final)
        unsaved = ""
        if self.log is not None and self.log.unsaved:
            unsaved = f"{len(self.log.unsaved)} records are not in the log: {self.log.fault}"
        outcome = events.Outcome(self.task, trials, self.earlier, reason, seconds, final, unsaved)
        self.on(events.Finished(outcome))
        return outcome
