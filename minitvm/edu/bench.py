"""Honest ratios of times: in turns, the best of several, and no verdict on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from minitvm.testing import interleaved

REPEAT = 7
DRIFT = 1.10  # two measurements of one program may differ by so much
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Ratio:
    """time of yours / time of the reference; busy: the machine was too busy to tell."""

    ratio: float
    busy: bool


def race(
    reference: Callable[[], object],
    yours: Callable[[], object],
    timer: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """The ratio of the best of 14 runs in turns: ref, yours, ref again, yours again, ref, ...

    Both run twice in each turn: the scheduler of a busy machine may interrupt one place in the turn
    every time. Where two best times of one program differ by more than a tenth, all is measured
    again, up to three times.
    """
    ratio = float("inf")
    for _ in range(ATTEMPTS):
        turn = {"ref": reference, "yours": yours, "ref again": reference, "yours again": yours}
        best = interleaved(turn, REPEAT, timer)
        refs, own = (best["ref"], best["ref again"]), (best["yours"], best["yours again"])
        ratio = min(own) / max(min(refs), 1e-9)
        if max(refs) <= DRIFT * min(refs) and max(own) <= DRIFT * min(own):
            return Ratio(ratio, False)
    return Ratio(ratio, True)
