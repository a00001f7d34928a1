"""Run two programs alternately, in several rounds, and compare their best times of each round."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from minitvm import testing

REPEAT = 3  # counted runs of each program in a round
ROUNDS, MAX_ROUNDS = 7, 28
SPREAD = 0.05  # the scores of the middle half of all rounds must agree this well


@dataclass(frozen=True, slots=True)
class Ratio:
    """The student's time / the reference's, and whether the machine was too busy to measure."""

    ratio: float
    busy: bool


def cpu_clock() -> Callable[[], float]:
    """Return a timer of the CPU time of this process, or of real time where that is coarse.

    Other programs that get the CPU in between do not count. Nothing that is timed can wait: it is
    compiled loops, on one core.
    """
    fine = time.get_clock_info("process_time").resolution <= 1e-6
    return time.process_time if fine else time.perf_counter


def time_ratio(
    reference: Callable[[], object],
    yours: Callable[[], object],
    timer: Callable[[], float] | None = None,
    score: Callable[[float], float] = math.log,
) -> Ratio:
    """Return the ratio of the times, yours / reference: the median of several rounds.

    A round runs both programs alternately and compares their best times. Rounds are added until
    score(ratio) agrees within SPREAD in the middle half of them; if it still does not in
    MAX_ROUNDS, the machine is busy.
    """
    clock = timer or cpu_clock()
    ratios: list[float] = []
    while len(ratios) < MAX_ROUNDS:
        ratios += [_round(reference, yours, clock) for _ in range(ROUNDS)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        if abs(score(high) - score(low)) <= SPREAD:
            return Ratio(middle, False)
    return Ratio(statistics.median(ratios), True)


def _round(
    reference: Callable[[], object], yours: Callable[[], object], clock: Callable[[], float]
) -> float:
    best = testing.interleaved({"reference": reference, "yours": yours}, REPEAT, clock)
    return max(best["yours"], 1e-9) / max(best["reference"], 1e-9)
