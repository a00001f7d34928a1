"""Run two programs alternately, in several rounds, and compare their best times of each round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

REPEAT = 3  # timed runs of each program in a round
ROUNDS, MAX_ROUNDS = 7, 28
SPREAD = 0.05  # the scores of the middle half of all rounds must agree this well


@dataclass(frozen=True, slots=True)
class Ratio:
    """The student's time / the reference's, and whether the machine was too busy to measure."""

    ratio: float
    busy: bool


def time_ratio(
    reference: Callable[[], float],
    yours: Callable[[], float],
    score: Callable[[float], float] = math.log,
) -> Ratio:
    """Return the ratio of the times, yours / reference: the median of several rounds.

    Both functions run their program a few times, and return the seconds of the best run. They are
    called in turn. Rounds are added until score(ratio) agrees within SPREAD in the middle half of
    them; if it still does not in MAX_ROUNDS, the machine is busy.
    """
    ratios: list[float] = []
    while len(ratios) < MAX_ROUNDS:
        for _ in range(ROUNDS):
            reference_seconds = max(reference(), 1e-9)
            ratios.append(max(yours(), 1e-9) / reference_seconds)
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        if abs(score(high) - score(low)) <= SPREAD:
            return Ratio(middle, False)
    return Ratio(statistics.median(ratios), True)
