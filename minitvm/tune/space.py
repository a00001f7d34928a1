"""Spaces of candidates, in which a candidate is a row of integers.

A knob is one decision, such as how to split a loop, with a table of options (knob.py). A row has an
option number for each knob, so that thousands of candidates are one array: numpy draws, changes and
compares them without building a schedule.

    space = Space((split_knob("tile_i", 512, 4), choice_knob("unroll", [0, 16, 64, 512])))
    rows = space.sample(rng, 1000)          int32[1000, 2]
    space.values(rows, 0)                   int64[1000, 4]: the sizes of the four loops
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm.base import ArgumentError, brief

from .knob import Ints, Knob

Rows: TypeAlias = npt.NDArray[np.int32]  # [candidates, knobs]: option numbers
Keys: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]
MIN_SHARE = 0.05  # sample() assumes that at least this share of the rows is allowed
TRIES = 32  # rounds of drawing before a space counts as nearly empty


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """The candidates that a list of knobs describes.

    allowed   allowed(rows) returns a mask of the rows that may be candidates; None allows all
    shaping   the knobs that decide formulas or steps, not only numbers in steps. Rows with the same
              options of these knobs have the same shape, for which statements are derived once
    """

    knobs: tuple[Knob, ...]
    allowed: Callable[[Rows], Mask] | None = None
    shaping: tuple[int, ...] = ()

    __repr__ = brief

    @property
    def size(self) -> int:
        """Return the number of rows, including those that are not allowed."""
        return math.prod(len(g) for g in self.knobs)

    def legal(self, rows: Rows) -> Mask:
        """Return which rows are allowed."""
        return np.ones(len(rows), np.bool_) if self.allowed is None else self.allowed(rows)

    @property
    def shape_count(self) -> int:
        """Return the number of shapes."""
        return math.prod(len(self.knobs[n]) for n in self.shaping)

    def shapes(self, rows: Rows) -> Ints:
        """Return a number for each row; rows of the same shape have the same number, from 0 on."""
        if not self.shaping:
            return np.zeros(len(rows), np.int64)
        return np.unique(self.keys(rows[:, list(self.shaping)]), return_inverse=True)[1]

    def values(self, rows: Rows, knob: int) -> Ints:
        """Return the values of one knob, int64[candidates, parts]."""
        return self.knobs[knob].values[rows[:, knob]]

    def sample(self, rng: np.random.Generator, count: int, shapes: int | None = None) -> Rows:
        """Draw `count` allowed rows, uniformly and independently.

        Returns fewer rows if hardly any row is allowed.

        shapes   draw rows of this many shapes only, because each shape costs milliseconds
        """
        parts, like = list[Rows](), self._drawn(rng, shapes or count)
        missing, share = count, 1.0  # share: the estimated share of allowed rows
        for _ in range(TRIES):
            rows = self._drawn(rng, max(math.ceil(missing / share), 64), like)
            good = rows[self.legal(rows)]
            share = max(len(good) / len(rows), MIN_SHARE)
            parts.append(good[:missing])
            missing -= len(parts[-1])
            if missing == 0:
                break
            if shapes is None or not len(good):
                like = self._drawn(rng, shapes or missing)
        return np.concatenate(parts)

    def _drawn(self, rng: np.random.Generator, count: int, like: Rows | None = None) -> Rows:
        """Draw rows, allowed or not, which cycle through the shapes of the rows `like`."""
        sizes = np.array([len(g) for g in self.knobs])
        rows = rng.integers(0, sizes, (count, len(sizes)), dtype=np.int32)
        if like is not None and self.shaping:
            columns = list(self.shaping)
            rows[:, columns] = like[np.arange(count) % len(like)][:, columns]
        return rows

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """Return `rows` with one knob of each row changed to a neighbouring option.

        A row keeps its shape, and stays as it is if its change is not allowed.
        """
        new = self._changed(rng, rows, [c for c in range(len(self.knobs)) if c not in self.shaping])
        return np.where(self.legal(new)[:, None], new, rows)

    def reshape(self, rng: np.random.Generator, rows: Rows, shapes: int) -> Rows:
        """Return `rows` with other shapes; each differs from one of theirs in one knob.

        shapes   the number of these shapes; neighbouring rows get the same shape
        A row stays as it is if its change is not allowed.
        """
        new, columns = rows.copy(), list(self.shaping)
        others = self._changed(rng, rows[rng.integers(0, len(rows), shapes)], columns)
        new[:, columns] = others[np.arange(len(rows)) * shapes // len(rows)][:, columns]
        return np.where(self.legal(new)[:, None], new, rows)

    def _changed(self, rng: np.random.Generator, rows: Rows, knobs: Sequence[int]) -> Rows:
        """Return `rows` with one of `knobs` changed in each row."""
        new, free = rows.copy(), [c for c in knobs if len(self.knobs[c]) > 1]
        if not free:
            return new
        columns = np.array(free)[rng.integers(0, len(free), len(rows))]
        draw = rng.random(len(rows))
        for c in free:
            chosen = np.flatnonzero(columns == c)
            new[chosen, c] = self.knobs[c].neighbour(rows[chosen, c], draw[chosen])
        return new

    def neighbours(self, row: Sequence[int]) -> Rows:
        """Return the allowed rows that differ from `row` by a neighbouring option of one knob."""
        near_rows = list[Sequence[int]]()
        for c, (knob, option) in enumerate(zip(self.knobs, row, strict=True)):
            near_options = (
                knob.near[knob.starts[option] : knob.starts[option + 1]] if len(knob.near) else ()
            )
            others: Sequence[int] = [*near_options] or [n for n in range(len(knob)) if n != option]
            near_rows += [(*row[:c], n, *row[c + 1 :]) for n in others if n != option]
        rows = np.array(near_rows, np.int32).reshape(-1, len(self.knobs))
        return rows[self.legal(rows)]

    def cross(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """Mix each row of `a` with a row of `b`, knob by knob; keep rows of `a` if not allowed.

        Each row has the shape of one of its parents.
        """
        new = np.where(rng.random(a.shape) < 0.5, a, b)
        if self.shaping:
            columns = list(self.shaping)
            new[:, columns] = np.where(rng.random((len(a), 1)) < 0.5, a, b)[:, columns]
        return np.where(self.legal(new)[:, None], new, a)

    def keys(self, rows: Rows) -> Keys:
        """Return a 64-bit hash of each row, for finding duplicates."""
        key = np.zeros(len(rows), np.uint64)
        for column in rows.T:
            key = _mixed(key + column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        return key

    def index(self, row: Sequence[int]) -> int:
        """Return the number of a row; as in AutoTVM, the first knob varies fastest."""
        index = 0
        for knob, option in zip(reversed(self.knobs), reversed(row), strict=True):
            index = index * len(knob) + int(option)
        return index

    def indices(self, rows: Rows) -> Ints:
        """Return the numbers of rows, int64[candidates]; see `index`."""
        numbers, scale = np.zeros(len(rows), np.int64), 1
        for column, knob in zip(rows.T, self.knobs, strict=True):
            numbers += column.astype(np.int64) * scale
            scale *= len(knob)
        return numbers

    def row(self, index: int) -> tuple[int, ...]:
        """Return the row with this number; raise ArgumentError if the space is smaller."""
        if not 0 <= index < self.size:
            raise ArgumentError(f"candidate {index}", f"the space has {self.size} candidates")
        row = list[int]()
        for knob in self.knobs:
            index, option = divmod(index, len(knob))
            row.append(option)
        return tuple(row)

    def options(self, row: Sequence[int]) -> dict[str, Any]:
        """Return the option of each knob by the name of the knob."""
        return {knob.name: knob.options[n] for knob, n in zip(self.knobs, row, strict=True)}

    def text(self, row: Sequence[int]) -> str:
        """Format a row for people: "tile_i 8x4x16, unroll 64"."""
        shown = list[str]()
        for knob, value in zip(self.knobs, self.options(row).values(), strict=True):
            sizes = knob.kind == "split"
            shown.append(f"{knob.name} {'x'.join(map(str, value)) if sizes else value}")
        return ", ".join(shown)


def _mixed(x: Keys) -> Keys:
    """Mix the bits of 64-bit numbers (the finaliser of splitmix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def first_of_each(keys: Keys, seen: Keys) -> Ints:
    """Return the positions of the first occurrences of keys that are not in `seen`, in order."""
    values, first = np.unique(keys, return_index=True)
    if len(seen):
        known = np.sort(seen)  # much faster than the stable sort of np.isin
        at = np.minimum(np.searchsorted(known, values), len(known) - 1)
        first = first[known[at] != values]
    return np.sort(first)
