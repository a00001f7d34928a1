"""Combinations for tests of several parameters: any two values meet, without the whole product."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def covering(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return combinations of one value per axis in which any two values of two axes meet.

    Each is the one of the product that adds the most new pairs, so the result is short.
    """
    values = [list(axis) for axis in axes]
    every = {
        picks: set(combinations(enumerate(picks), 2))
        for picks in product(*(range(len(axis)) for axis in values))
    }
    missing, chosen = set[Any]().union(*every.values()), list[tuple[int, ...]]()
    while missing:
        chosen.append(max(every, key=lambda picks: len(every[picks] & missing)))
        missing -= every[chosen[-1]]
    return [tuple(axis[n] for axis, n in zip(values, picks, strict=True)) for picks in chosen]
