"""Run two programs alternately, and compare their best times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from minitvm import testing

REPEAT = 7
DRIFT = 1.10  # the largest accepted ratio between two measurements of one program
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Ratio:
    """The student's time / the reference's, and whether the machine was too busy to measure."""

    ratio: float
    busy: bool


def time_ratio(
    reference: Callable[[], object],
    yours: Callable[[], object],
    timer: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Return the ratio of the best times, yours / reference, in 14 alternating runs of each.

    A round is ref, yours, ref again, yours again: each program has two positions, because a busy
    machine may interrupt every round at the same position. If the best times at the two positions
    differ by more than a tenth, everything is measured again, three times in all.
    """
    ratio = float("inf")
    for _ in range(ATTEMPTS):
        order = {"ref": reference, "yours": yours, "ref again": reference, "yours again": yours}
        best = testing.interleaved(order, REPEAT, timer)
        refs, answers = (best["ref"], best["ref again"]), (best["yours"], best["yours again"])
        ratio = min(answers) / max(min(refs), 1e-9)
        if max(refs) <= DRIFT * min(refs) and max(answers) <= DRIFT * min(answers):
            return Ratio(ratio, False)
    return Ratio(ratio, True)
