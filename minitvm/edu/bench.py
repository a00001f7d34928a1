"""Compare two running times: alternate the runs, take the best, and give up on a busy machine."""

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
    """Time of yours / time of the reference. busy: the machine was too busy to tell."""

    ratio: float
    busy: bool


def time_ratio(
    reference: Callable[[], object],
    yours: Callable[[], object],
    timer: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Return the ratio of the best of 14 alternating runs: ref, yours, ref again, yours again, ...

    Both run twice per round, because the scheduler of a busy machine may interrupt the same place
    of every round. If the two best times of one program differ by more than a tenth, everything is
    measured again, up to three times.
    """
    ratio = float("inf")
    for _ in range(ATTEMPTS):
        turn = {"ref": reference, "yours": yours, "ref again": reference, "yours again": yours}
        best = testing.interleaved(turn, REPEAT, timer)
        refs, own = (best["ref"], best["ref again"]), (best["yours"], best["yours again"])
        ratio = min(own) / max(min(refs), 1e-9)
        if max(refs) <= DRIFT * min(refs) and max(own) <= DRIFT * min(own):
            return Ratio(ratio, False)
    return Ratio(ratio, True)
