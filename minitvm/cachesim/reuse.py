"""Reuse distances, and what follows from them for caches of every size at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm.base import ArgumentError, check_unmasked

from .kernels import Ints, compiled, distances
from .lines import Given, previous


def reuse_distances(addresses: Given, line: int = 64) -> Ints:
    """int64[n]: distinct other lines used since the last use of this line; -1 for the first use.

    A B C A   ->   -1 -1 -1 2

    A fully associative LRU cache of c lines hits exactly the accesses with 0 <= distance < c.
    Exact, O(n log n). Source: Mattson et al. 1970, "Evaluation techniques for storage hierarchies".
    """
    seen = previous(addresses, line)
    found = np.empty(len(seen), np.int64)
    compiled(distances)(seen, found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How many accesses have which reuse distance.

    cold     accesses without one: the first to their line
    low      int64[m]: the least distance of each bin: 0, 1, 2, 4, 8, ...
    counts   int64[m]: accesses from low[k] up to, without, low[k + 1]
    """

    cold: int
    low: Ints
    counts: Ints

    def __str__(self) -> str:
        bins = zip(self.low.tolist(), self.counts.tolist(), strict=True)
        return "\n".join([f"cold {self.cold}", *(f">= {low}: {n}" for low, n in bins)])


def histogram(found: Any) -> Histogram:
    """The distances in bins that double: 0, 1, 2-3, 4-7, 8-15, ..."""
    row = _checked(found)
    warm = row[row >= 0]
    bins = np.frexp(warm.astype(np.float64))[1]  # 0 -> 0, 1 -> 1, 2 and 3 -> 2, 4 .. 7 -> 3
    counts = np.bincount(bins)
    low = np.array([0, *(1 << k for k in range(len(counts) - 1))], np.int64)[: len(counts)]
    return Histogram(len(row) - len(warm), low, counts)


def miss_ratio_curve(found: Any) -> Ints:
    """float64[m]: at position c the share of accesses that miss in c lines, LRU, fully associative.

    m - 1 lines hold all that is ever used again: more would not help. Raises ArgumentError if
    there are no accesses.
    """
    row = _checked(found)
    if not len(row):
        raise ArgumentError("miss_ratio_curve", "there are no accesses")
    hits = np.cumsum(np.bincount(row[row >= 0], minlength=1))
    return 1 - np.concatenate([[0], hits]) / len(row)


def _checked(found: Any) -> Ints:
    """`found` if it is a row of distances."""
    row = np.asarray(check_unmasked("distances", found))
    if not row.size:
        return np.zeros(0, np.int64)
    if row.ndim != 1 or row.dtype.kind != "i" or row.min() < -1:
        raise ArgumentError(
            f"distances of type {row.dtype}, {row.ndim} dimensions",
            "whole numbers from -1 on are needed",
            "reuse_distances(addresses)",
        )
    return row.astype(np.int64, copy=False)
