"""Measure reuse distances, and derive the miss ratio of caches of every size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm.base import ArgumentError, check_unmasked

from .kernels import Ints, compiled, distances
from .lines import Given, previous


def reuse_distances(addresses: Given, line: int = 64) -> Ints:
    """Return the reuse distance of each access: int64[n].

    This is the number of distinct other lines used since the last use of the access's line, or -1
    for the first use of a line. `line` is the bytes of a cache line.

    A B C A   ->   -1 -1 -1 2

    In a fully associative LRU cache of c lines, exactly the accesses with 0 <= distance < c hit.
    The result is exact and takes O(n log n) time. Source: Mattson et al. 1970, "Evaluation
    techniques for storage hierarchies".
    """
    last_use = previous(addresses, line)
    reuse = np.empty(len(last_use), np.int64)
    compiled(distances)(last_use, reuse)
    return reuse


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """The number of accesses for each range of reuse distances.

    cold     the number of accesses that are the first to their line
    low      int64[m]: the smallest distance in each bin: 0, 1, 2, 4, 8, ...
    counts   int64[m]: the number of accesses with low[k] <= distance < low[k + 1]
    """

    cold: int
    low: Ints
    counts: Ints

    def __str__(self) -> str:
        bins = zip(self.low.tolist(), self.counts.tolist(), strict=True)
        return "\n".join([f"cold {self.cold}", *(f">= {low}: {n}" for low, n in bins)])


def histogram(reuse: Any) -> Histogram:
    """Count the reuse distances `reuse` in bins of doubling width: 0, 1, 2-3, 4-7, 8-15, ..."""
    row = _checked(reuse)
    warm = row[row >= 0]
    bins = np.frexp(warm.astype(np.float64))[1]  # 0 -> 0, 1 -> 1, 2 and 3 -> 2, 4 .. 7 -> 3
    counts = np.bincount(bins)
    low = np.array([0, *(1 << k for k in range(len(counts) - 1))], np.int64)[: len(counts)]
    return Histogram(len(row) - len(warm), low, counts)


def miss_ratio_curve(reuse: Any) -> Ints:
    """Return the miss ratio of fully associative LRU caches of 0, 1, ... lines: float64[m].

    `reuse` are reuse distances. A cache of more than m - 1 lines has the same miss ratio as one of
    m - 1 lines. Raises ArgumentError if there are no accesses.
    """
    row = _checked(reuse)
    if not len(row):
        raise ArgumentError("miss_ratio_curve", "there are no accesses")
    hits = np.cumsum(np.bincount(row[row >= 0], minlength=1))
    return 1 - np.concatenate([[0], hits]) / len(row)


def _checked(reuse: Any) -> Ints:
    """Return the reuse distances `reuse` as int64[n]; raise ArgumentError if they are not valid."""
    row = np.asarray(check_unmasked("distances", reuse))
    if not row.size:
        return np.zeros(0, np.int64)
    if row.ndim != 1 or row.dtype.kind != "i" or row.min() < -1:
        what = f"distances of type {row.dtype}, {row.ndim} dimensions"
        why = "not a one-dimensional array of integers >= -1"
        raise ArgumentError(what, why, "reuse_distances(addresses)")
    return row.astype(np.int64, copy=False)
