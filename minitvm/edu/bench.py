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
    """The ratio of the best of 7 runs in turns: ref, yours, ref again, ref, yours, ...

    The reference runs twice in each turn. Where its two best times differ by more than a tenth,
    all is measured again, up to three times.
    """
    ratio = float("inf")
    for _ in range(ATTEMPTS):
        best = interleaved({"ref": reference, "yours": yours, "again": reference}, REPEAT, timer)
        one, other = best["ref"], best["again"]
        ratio = best["yours"] / max(min(one, other), 1e-9)
        if max(one, other) <= DRIFT * min(one, other):
            return Ratio(ratio, False)
    return Ratio(ratio, True)
