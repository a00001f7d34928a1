"""Knobs: the decisions of a space, each with a table of options."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from minitvm.base import ArgumentError, brief, divisors

Ints: TypeAlias = npt.NDArray[np.int64]
KnobKind: TypeAlias = Literal["split", "number", "choice"]
MAX_OPTIONS = 1 << 18  # the most options of a knob
PRIMES = (2, 3, 5, 7, 11, 13)


@dataclass(frozen=True, slots=True, eq=False)
class Knob:
    """One decision of a space and its options.

    kind      "split": the options are the sizes of nested loops; "number": numbers in ascending
              order; "choice": options without an order
    options   the options as Python objects, for printing and for JSON
    values    int64[options, parts]: the numbers to which an option sets parameters; for a
              choice, the number of the option
    starts    option n can be mutated into the options near[starts[n] : starts[n + 1]]; an option of
              a choice has no neighbours, and can be mutated into any other option
    """

    name: str
    kind: KnobKind
    options: tuple[Any, ...]
    values: Ints
    starts: Ints
    near: Ints

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.options)

    def neighbour(self, now: Ints, draw: npt.NDArray[np.float64]) -> Ints:
        """Return a neighbour of each option in `now`; `draw` has a random number in [0, 1) each."""
        if not len(self.near):
            return (now + 1 + (draw * (len(self) - 1)).astype(np.int64)) % len(self)
        first, count = self.starts[now], self.starts[now + 1] - self.starts[now]
        return self.near[first + (draw * count).astype(np.int64)]


def split_knob(
    name: str,
    extent: int,
    parts: int,
    *,
    innermost: int | None = None,
    keep: Callable[[tuple[int, ...]], bool] = lambda sizes: True,
) -> Knob:
    """Return a knob: the ways to split a loop of length `extent` exactly into `parts` nested loops.

    innermost   the largest size of the innermost loop
    keep        keep(sizes), sizes outermost first, returns whether to offer an option
    A mutation moves a prime factor from one loop to another.
    """
    options = [
        (extent // math.prod(inner), *inner)
        for inner in _inner_sizes(extent, parts - 1)
        if innermost is None or not inner or inner[-1] <= innermost
    ]
    return sizes_knob(name, [sizes for sizes in options if keep(sizes)])


def sizes_knob(name: str, options: Sequence[tuple[int, ...]]) -> Knob:
    """Return a knob of kind "split" with the given options, loop sizes outermost first.

    The outermost size may be -1, meaning as many iterations as needed.
    """
    _check_options(name, len(options))
    number = {sizes: n for n, sizes in enumerate(options)}
    neighbours = [[number[o] for o in _moved(sizes) if o in number] for sizes in options]
    return Knob(
        name,
        "split",
        tuple(options),
        np.array(options, np.int64),
        *_lists(_or_any(neighbours, options)),
    )


def number_knob(name: str, options: Sequence[int]) -> Knob:
    """Return a knob whose options are numbers; a mutation takes the next smaller or larger one."""
    _check_options(name, len(options))
    ordered = sorted(set(options))
    neighbours = [[m for m in (n - 1, n + 1) if 0 <= m < len(ordered)] for n in range(len(ordered))]
    values = np.array(ordered, np.int64)[:, None]
    return Knob(name, "number", tuple(ordered), values, *_lists(_or_any(neighbours, ordered)))


def choice_knob(name: str, options: Sequence[Any]) -> Knob:
    """Return a knob whose options have no order; a mutation takes any other one."""
    _check_options(name, len(options))
    values = np.arange(len(options), dtype=np.int64)[:, None]
    neighbours: list[list[int]] = [[] for _ in options]
    return Knob(name, "choice", tuple(options), values, *_lists(neighbours))


def knob_of(name: str, options: Sequence[Any], kind: KnobKind | None = None) -> Knob:
    """Return a knob of a kind, by default the one that the options have.

    Tuples of numbers of the same length are loop sizes; ascending numbers are numbers.
    """
    knobs = {"split": sizes_knob, "number": number_knob, "choice": choice_knob}
    return knobs[kind or _kind_of(options)](name, options)


def _kind_of(options: Sequence[Any]) -> KnobKind:
    tuples = [cast("tuple[Any, ...]", o) for o in options if isinstance(o, tuple)]
    sizes = [t for t in tuples if all(type(n) is int for n in t)]
    if len(sizes) == len(options) and len({len(t) for t in sizes}) == 1:
        return "split"
    are_numbers = len(options) > 1 and all(type(o) is int for o in options)
    return "number" if are_numbers and list(options) == sorted(set(options)) else "choice"


@lru_cache(maxsize=64)
def numbers(knob: Knob) -> dict[str, int]:
    """Return the number of each option of a knob by the option's JSON."""
    return {as_json(option): n for n, option in enumerate(knob.options)}


def as_json(value: Any) -> str:
    """Return a value as JSON, where a tuple is a list, and a numpy number a number."""

    def plain(number: Any) -> Any:
        if isinstance(number, np.generic):
            return cast("Any", number).item()
        raise TypeError(f"{number!r} is not a JSON value")

    return json.dumps(value, default=plain)


def _inner_sizes(extent: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield the tuples of `parts` numbers whose product divides `extent`."""
    if parts == 0:
        yield ()
        return
    for d in divisors(extent):
        for inner in _inner_sizes(extent // d, parts - 1):
            yield (d, *inner)


def _moved(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all sizes that differ from `sizes` by a small prime factor moved to another loop."""
    for (a, n), p, b in product(enumerate(sizes), PRIMES, range(len(sizes))):
        if a != b and (n == -1 or n % p == 0):
            new = list(sizes)
            new[a] = n if n == -1 else n // p
            new[b] = new[b] if new[b] == -1 else new[b] * p
            yield tuple(new)


def _or_any(near: list[list[int]], options: Sequence[Any]) -> list[list[int]]:
    """Make all other options neighbours of an option without any; a single option gets itself."""
    all_options = range(len(options))
    return [close or [m for m in all_options if m != n] or [n] for n, close in enumerate(near)]


def _lists(lists: list[list[int]]) -> tuple[Ints, Ints]:
    """Return lists of numbers as two arrays: the start of each list, and all numbers in a row."""
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return starts, np.array([n for numbers in lists for n in numbers], np.int64)


def _check_options(name: str, count: int) -> None:
    if not 1 <= count <= MAX_OPTIONS:
        fix = "other options" if count == 0 else "fewer parts, or a filter"
        raise ArgumentError(f"knob {name!r}", f"it has {count} options", fix)
