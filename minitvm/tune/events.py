"""What a search reports while it runs, and what it returns."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from minitvm.base import MeasureError

from .policy import Trial
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
    final      the fastest candidates, measured again alternately with the default schedule; if no
               candidate is new, the final measurements in the log
    default    the result of the default schedule in this measurement; None if there was none
    unsaved    how many records could not be written to the log, and why; "" if all were
    """

    task: Task
    trials: tuple[Trial, ...]
    earlier: int
    ended: End
    seconds: float
    final: tuple[Trial, ...] = ()
    default: Result | None = None
    unsaved: str = ""

    @property
    def found(self) -> Trial | None:
        """Return the fastest trial, from the final measurement if there was one; or None."""
        return fastest(self.final) or fastest(self.trials)

    @property
    def best(self) -> Trial:
        """Return the fastest candidate; raise MeasureError with the first failure if all failed."""
        best = self.found
        if best is None:
            what = f"tuning of {self.task.name}"
            if not self.trials:
                raise MeasureError(what, f"no candidate was measured: {ENDS[self.ended]}")
            raise MeasureError(what, f"every candidate failed\n{failures_text(self.trials)}")
        return best

    @property
    def gain(self) -> float:
        """Return how many times as fast as the default schedule the best candidate is.

        Compares medians of the final measurement. Returns 0 if it did not run the default schedule.
        """
        best = fastest(self.final)
        if best is None or self.default is None or self.default.error:
            return 0.0
        return statistics.median(self.default.seconds) / statistics.median(best.result.seconds)

    def __str__(self) -> str:
        new = len(self.trials) - self.earlier
        text = f"{self.task.name}: {new} trials in {self.seconds:.1f} s, {ENDS[self.ended]}"
        best = self.found
        if best is not None:
            text += f"; best {rate(self.task, best.seconds):.1f} GFLOP/s"
        if best is not None and self.default is not None and self.default.seconds:
            text += f", {self.default.best / best.seconds:.2f} x the default"
        return f"{text}; {self.unsaved}" if self.unsaved else text


@dataclass(frozen=True, slots=True)
class Finished:
    """An event: the search has ended."""

    outcome: Outcome


Event: TypeAlias = Started | Measured | Round | Finished
Listener: TypeAlias = Callable[[Event], None]


def fastest(trials: Sequence[Trial]) -> Trial | None:
    """Return the fastest trial; None if all failed."""
    best = min(trials, key=lambda t: t.seconds, default=None)
    return None if best is None or math.isinf(best.seconds) else best


def rate(task: Task, seconds: float) -> float:
    """Return the speed in GFLOP/s of a program for `task` that takes `seconds` for a call."""
    return task.flops / seconds / 1e9


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
