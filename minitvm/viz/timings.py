"""Measure functions alternately, and compare their times with a confidence interval.

The speed of a machine drifts, with its clock, its caches and other programs. So each round runs
every function once, in random order, and slow drift cancels in the ratios within a round. The
estimate is the median ratio. A bootstrap over rounds (Efron and Tibshirani, An Introduction to the
Bootstrap, 1993, ch. 13: percentile intervals) gives its uncertainty. If several functions are
compared with one baseline, the error of 5 % is divided among them (Bonferroni).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from minitvm.base import ArgumentError, MeasureError

LEVEL = 0.95  # the confidence level of all intervals together
RESAMPLES = 2000
AT_ONCE = 1_000_000  # ratios drawn at a time, so that long records need little memory
MIN_ROUNDS = 10  # rounds: with fewer a bootstrap interval of a median is too short
MIN_SECONDS = 200e-6  # of one run: shorter functions are called several times in a run
MAX_CALLS = 100_000


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run of a function, in seconds per call; the verdict ignores a run with `warmup`."""

    name: str
    seconds: float
    warmup: bool = False


@dataclass(frozen=True, slots=True)
class Speedup:
    """A comparison of a function with a baseline: how many times as fast it is.

    ratio       the baseline's seconds / the function's, the median over rounds
    low, high   the bounds of the interval around `ratio`
    rounds      the number of rounds; if there are too few, the other three numbers are 0
    """

    name: str
    baseline: str
    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def shown(self) -> bool:
        """Whether the interval shows which of the two functions is faster."""
        return self.rounds >= MIN_ROUNDS and not self.low <= 1 <= self.high

    def __str__(self) -> str:
        title = f"{self.name} against {self.baseline}"
        if self.rounds < MIN_ROUNDS:
            return f"{title}: {self.rounds} rounds tell nothing, {MIN_ROUNDS} are the least"
        slower = self.shown and self.ratio < 1
        low, high = (1 / self.high, 1 / self.low) if slower else (self.low, self.high)
        where = f"{_ratio(low)} to {_ratio(high)} over {self.rounds} rounds"
        if not self.shown:
            return f"{title}: no difference is shown (ratio {where})"
        if slower:
            times = f"takes {1 / self.ratio:.3g} times as long as"
        else:
            times = f"is {self.ratio:.3g} times as fast as"
        return f"{self.name} {times} {self.baseline} ({where})"


def _ratio(value: float) -> str:
    """Return a ratio with three digits: 1.0004 -> 1.00, 0.0123456 -> 0.0123"""
    return f"{value:.2f}" if 0.1 <= value < 10 else f"{value:.3g}"


# --- comparing ---------------------------------------------------------------------------------


def compare_times(
    baseline: Sequence[float],
    other: Sequence[float],
    seed: int = 0,
    *,
    names: tuple[str, str] = ("baseline", "other"),
    level: float = LEVEL,
) -> Speedup:
    """Return how many times as fast `other` is, from the seconds of both in each round.

    The verdict has the median of baseline[r] / other[r] over the rounds r, and its bootstrap
    interval. Rounds that only one of the two has are ignored.
    """
    n = min(len(baseline), len(other))
    if n < MIN_ROUNDS:
        return Speedup(names[1], names[0], 0.0, 0.0, 0.0, n)
    ratios = np.log(np.asarray(baseline[:n])) - np.log(np.asarray(other[:n]))
    rng = np.random.default_rng(seed)
    parts = np.array_split(np.arange(RESAMPLES), math.ceil(RESAMPLES * n / AT_ONCE))
    medians = np.concatenate(
        [np.median(ratios[rng.integers(0, n, (len(part), n))], axis=1) for part in parts]
    )
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    middle = float(np.exp(np.median(ratios)))
    return Speedup(names[1], names[0], middle, float(np.exp(low)), float(np.exp(high)), n)


def verdicts_of(records: Sequence[TimedRun], seed: int = 0) -> tuple[Speedup, ...]:
    """Compare each function's recorded runs with those of the first function."""
    names = names_in(records)
    times = {name: seconds_of(records, name) for name in names}
    level = 1 - (1 - LEVEL) / max(1, len(names) - 1)
    return tuple(
        compare_times(times[names[0]], times[name], seed, names=(names[0], name), level=level)
        for name in names[1:]
    )


def names_in(records: Iterable[TimedRun]) -> list[str]:
    """Return the function names in the order of their first runs."""
    return list(dict.fromkeys(r.name for r in records))


def seconds_of(records: Iterable[TimedRun], name: str) -> list[float]:
    """Return the seconds of one function's runs, without the warm-up runs."""
    return [r.seconds for r in records if r.name == name and not r.warmup]


def checked_records(records: Any) -> tuple[TimedRun, ...]:
    """Return runs as TimedRun objects; a run may also be (name, seconds[, warmup])."""
    if not isinstance(records, Iterable):
        raise ArgumentError(f"records: {records!r}", "not a list of runs", "lab.records")
    runs: list[TimedRun] = []
    for n, row in enumerate(cast("Iterable[Any]", records)):
        parts: Any = row if not isinstance(row, TimedRun) else (row.name, row.seconds, row.warmup)
        name, seconds, warmup = None, None, None
        if isinstance(parts, list | tuple) and 2 <= len(cast("list[Any]", parts)) <= 3:
            name, seconds, warmup = (*cast("list[Any]", parts), False)[:3]
        if not isinstance(name, str) or not isinstance(warmup, bool):
            raise ArgumentError(f"record {n}: {row!r}", "not a run", "(name, seconds, warmup)")
        if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ArgumentError(f"record {n}: {seconds!r} seconds", "a time is more than 0", "1e-3")
        runs.append(TimedRun(name, float(seconds), warmup))
    if not runs:
        raise ArgumentError("records", "there are no runs", "lab.records of a lab")
    return tuple(runs)


# --- measuring ---------------------------------------------------------------------------------


def runs(
    functions: Mapping[str, Callable[..., Any]],
    args: Sequence[Any],
    rounds: int,
    warmup: int,
    seed: int,
    timer: Callable[[], float] = time.perf_counter,
    least: float = MIN_SECONDS,
) -> Iterator[TimedRun]:
    """Yield the runs of `warmup` warm-up rounds, then the runs of `rounds` measured rounds.

    The order within a round is random. A function that takes less than `least` seconds is called
    several times in a run; its warm-up runs determine how often. Raises MeasureError with the name
    of a function that raises an exception.
    """
    rng = np.random.default_rng(seed)
    names = list(functions)
    calls = dict.fromkeys(names, 1)
    for n in range(warmup + rounds):
        for at in rng.permutation(len(names)) if n else range(len(names)):
            name = names[at]
            try:
                seconds = _run(functions[name], args, calls[name], timer)
            except Exception as e:
                raise MeasureError(name, f"{type(e).__name__}: {e}") from e
            yield TimedRun(name, seconds, n < warmup)
            if n < warmup:
                calls[name] = min(MAX_CALLS, max(1, math.ceil(least / seconds)))


def _run(
    f: Callable[..., Any], args: Sequence[Any], calls: int, timer: Callable[[], float]
) -> float:
    """Return the seconds per call over `calls` calls in a row; never 0."""
    start = timer()
    for _ in range(calls):
        f(*args)
    return max(timer() - start, 1e-9) / calls
