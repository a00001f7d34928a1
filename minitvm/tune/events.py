"""What a search reports while it runs, and what it returns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from minitvm.base import MeasureError, Target, brief

from .history import Gain, by_speed, gain_of
from .policy import Trial
from .record import Record
from .task import Task
from .trial import Result

End: TypeAlias = Literal["trials", "seconds", "early stopping", "stopped", "failures", "exhausted"]

ENDS: dict[End, str] = {
    "trials": "all trials of the budget are done",
    "seconds": "the time of the budget is over",
    "early stopping": "no improvement for a while",
    "stopped": "stopped on request",
    "failures": "too many programs in a row failed in the same way",
    "exhausted": "no candidate is left that differs from the measured ones",
}


@dataclass(frozen=True, slots=True)
class Started:
    """An event: the search begins.

    earlier            the trials that the log already had
    trials, seconds    the budget, None for no limit; earlier trials count towards `trials`
    """

    task: Task
    earlier: tuple[Trial, ...]
    trials: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """An event: a candidate has been measured.

    number    the number of the trial, from 1; earlier trials count
    best      the fastest trial so far; None if all have failed
    elapsed   how many seconds of the budget are used
    """

    number: int
    trial: Trial
    best: Trial | None
    elapsed: float


@dataclass(frozen=True, slots=True)
class Round:
    """An event: the policy has learned from the trials so far and proposed a batch of candidates.

    number     the number of the round, from 1
    trials     how many trials the policy had learned from
    accuracy   the share of pairs of the newest trials that the policy had predicted in the right
               order; None if it had not predicted them
    seconds    the time for learning and proposing
    """

    number: int
    trials: int
    accuracy: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a search.

    trials     all trials, also those that the log had before
    earlier    how many trials the log had before
    ended      why the search ended
    seconds    how long the search took in all
    final      all measurements of the fastest candidates, alternately with the default schedule, at
               the end of this search and of earlier ones in the log
    unsaved    how many records could not be written to the log, and why; "" if all were
    """

    task: Task
    trials: tuple[Trial, ...]
    earlier: int
    ended: End
    seconds: float
    final: tuple[Trial, ...] = ()
    unsaved: str = ""

    __repr__ = brief

    @property
    def found(self) -> Trial | None:
        """Return the measurement of the best candidate; None if all failed."""
        return best_trial((*self.trials, *self.final))

    @property
    def best(self) -> Trial:
        """Return the best candidate; raise MeasureError with the first failure if all failed."""
        best = self.found
        if best is None:
            what = f"tuning of {self.task.name}"
            if not self.trials:
                raise MeasureError(what, f"no candidate was measured: {ENDS[self.ended]}")
            raise MeasureError(what, f"every candidate failed\n{failures_text(self.trials)}")
        return best

    @property
    def default(self) -> Result | None:
        """Return the default schedule's cost in the last final measurement; None without one."""
        last = next((t.default for t in reversed(self.final) if t.default is not None), None)
        if last is None:
            return None
        return Result((), cycles=(last,)) if self.task.target.unit == "cycles" else Result((last,))

    @property
    def compared(self) -> Gain | None:
        """Return the gain of the best candidate over the default schedule, and its interval.

        Returns None if the candidate was not measured alternately with the default schedule.
        """
        return gain_of(self.found)

    @property
    def gain(self) -> float:
        """Return how many times as fast as the default the best candidate is; 0 if not known."""
        return self.compared.middle if self.compared else 0.0

    def __str__(self) -> str:
        new = len(self.trials) - self.earlier
        text = f"{self.task.name}: {new} trials in {self.seconds:.1f} s, {ENDS[self.ended]}"
        best = self.found
        if best is not None:
            text += f"; best {rate(self.task, best.cost):.1f} {rate_unit(self.task)}"
        text += f", {self.compared}" if self.compared else ""
        return f"{text}; {self.unsaved}" if self.unsaved else text


@dataclass(frozen=True, slots=True)
class Finished:
    """An event: the search has ended."""

    outcome: Outcome


Event: TypeAlias = Started | Measured | Round | Finished
Listener: TypeAlias = Callable[[Event], None]


def best_trials(trials: Iterable[Trial]) -> list[Trial]:
    """Return the measurement that counts for each candidate of a task, the best candidate first."""
    return by_speed(trials, lambda trial: trial.candidate)


def best_trial(trials: Iterable[Trial]) -> Trial | None:
    """Return the measurement of the best candidate of a task; None if all failed."""
    return next(iter(best_trials(trials)), None)


def fastest(trials: Sequence[Trial]) -> Trial | None:
    """Return the fastest trial; None if all failed."""
    best = min(trials, key=lambda t: t.cost, default=None)
    return None if best is None or math.isinf(best.cost) else best


def rate(of: Task | Record, cost: float) -> float:
    """Return the speed of a program that has the cost `cost`, in the unit of rate_unit."""
    return of.flops / cost / (1 if Target(of.target).unit == "cycles" else 1e9)


def rate_unit(of: Task | Record) -> str:
    """Return "GFLOP/s", or for a simulator "FLOP/cycle": operations in a modelled cycle."""
    return "FLOP/cycle" if Target(of.target).unit == "cycles" else "GFLOP/s"


def cost_text(of: Task | Record, cost: float) -> str:
    """Format the cost of a call: "0.1234 ms", or "12,345 modelled cycles"."""
    if Target(of.target).unit == "cycles":
        return f"{cost:,.0f} modelled cycles"
    return f"{cost * 1e3:.4g} ms"


def failures_text(trials: Sequence[Trial]) -> str:
    """Return how many trials failed in each way, then the whole message of the first failure."""
    failed = [t for t in trials if t.result.error]
    if not failed:
        return ""
    kinds = Counter(t.result.error for t in failed)
    lines = [f"{len(failed)} of {len(trials)} trials failed:"]
    lines += [f"{count:6}  {kind}" for kind, count in kinds.most_common()]
    first = failed[0]
    lines.append(f"the first, {first.candidate}, {first.result.error}: {first.result.detail}")
    return "\n".join(lines)
