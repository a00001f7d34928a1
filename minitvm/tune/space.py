"""Spaces of candidates, in which a candidate is a row of integers.

A gene is one decision, such as how to split a loop, with a table of options. A row has an option
number for each gene, so that thousands of candidates are one array: numpy draws, changes and
compares them without building a schedule.

    space = Space((split_gene("tile_i", 512, 4), choice_gene("unroll", [0, 16, 64, 512])))
    rows = space.sample(rng, 1000)          int32[1000, 2]
    space.values(rows, 0)                   int64[1000, 4]: the sizes of the four loops
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from minitvm.base import ArgumentError, brief, divisors

Rows: TypeAlias = npt.NDArray[np.int32]  # [candidates, genes]: option numbers
Ints: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]
GeneKind: TypeAlias = Literal["split", "number", "choice"]
LEAST_SHARE = 0.05  # sample() assumes that at least this share of the rows is allowed
TRIES = 32  # rounds of drawing before a space counts as nearly empty
MOST_OPTIONS = 1 << 18  # the most options of a gene
PRIMES = (2, 3, 5, 7, 11, 13)


@dataclass(frozen=True, slots=True, eq=False)
class Gene:
    """One decision of a space and its options.

    kind      "split": the options are the sizes of nested loops; "number": numbers in ascending
              order; "choice": options without an order
    options   the options as Python objects, for printing and for JSON
    values    int64[options, parts]: the numbers that an option puts into the holes of a sketch; for
              a choice, the number of the option
    starts    option n can be mutated into the options near[starts[n] : starts[n + 1]]; an option of
              a choice has no neighbours, and can be mutated into any other option
    """

    name: str
    kind: GeneKind
    options: tuple[Any, ...]
    values: Ints
    starts: Ints
    near: Ints

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.options)


def split_gene(
    name: str,
    extent: int,
    parts: int,
    *,
    innermost: int | None = None,
    keep: Callable[[tuple[int, ...]], bool] = lambda sizes: True,
) -> Gene:
    """Return a gene: the ways to split a loop of length `extent` exactly into `parts` nested loops.

    innermost   the largest size of the innermost loop
    keep        keep(sizes), sizes outermost first, returns whether to offer an option
    A mutation moves a prime factor from one loop to another.
    """
    found = [
        (extent // math.prod(inner), *inner)
        for inner in _inner_sizes(extent, parts - 1)
        if innermost is None or not inner or inner[-1] <= innermost
    ]
    return sizes_gene(name, [sizes for sizes in found if keep(sizes)])


def sizes_gene(name: str, options: Sequence[tuple[int, ...]]) -> Gene:
    """Return a gene of kind "split" with the given options, loop sizes outermost first.

    The outermost size may be -1, meaning as many iterations as needed.
    """
    _check_options(name, len(options))
    number = {sizes: n for n, sizes in enumerate(options)}
    near = [[number[o] for o in _moved(sizes) if o in number] for sizes in options]
    return Gene(
        name, "split", tuple(options), np.array(options, np.int64), *_lists(_or_any(near, options))
    )


def number_gene(name: str, options: Sequence[int]) -> Gene:
    """Return a gene whose options are numbers; a mutation takes the next smaller or larger one."""
    _check_options(name, len(options))
    ordered = sorted(set(options))
    near = [[m for m in (n - 1, n + 1) if 0 <= m < len(ordered)] for n in range(len(ordered))]
    values = np.array(ordered, np.int64)[:, None]
    return Gene(name, "number", tuple(ordered), values, *_lists(_or_any(near, ordered)))


def choice_gene(name: str, options: Sequence[Any]) -> Gene:
    """Return a gene whose options have no order; a mutation takes any other one."""
    _check_options(name, len(options))
    values = np.arange(len(options), dtype=np.int64)[:, None]
    near: list[list[int]] = [[] for _ in options]
    return Gene(name, "choice", tuple(options), values, *_lists(near))


def gene_of(name: str, options: Sequence[Any], kind: GeneKind | None = None) -> Gene:
    """Return a gene of a kind, by default the one that the options have.

    Tuples of numbers of the same length are loop sizes; ascending numbers are numbers.
    """
    genes = {"split": sizes_gene, "number": number_gene, "choice": choice_gene}
    return genes[kind or _kind_of(options)](name, options)


def _kind_of(options: Sequence[Any]) -> GeneKind:
    tuples = [cast("tuple[Any, ...]", o) for o in options if isinstance(o, tuple)]
    sizes = [t for t in tuples if all(type(n) is int for n in t)]
    if len(sizes) == len(options) and len({len(t) for t in sizes}) == 1:
        return "split"
    ascending = len(options) > 1 and all(type(o) is int for o in options)
    return "number" if ascending and list(options) == sorted(set(options)) else "choice"


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
    every = range(len(options))
    return [close or [m for m in every if m != n] or [n] for n, close in enumerate(near)]


def _lists(lists: list[list[int]]) -> tuple[Ints, Ints]:
    """Return lists of numbers as two arrays: the start of each list, and all numbers in a row."""
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return starts, np.array([n for numbers in lists for n in numbers], np.int64)


def _check_options(name: str, count: int) -> None:
    if not 1 <= count <= MOST_OPTIONS:
        fix = "other options" if count == 0 else "fewer parts, or a filter"
        raise ArgumentError(f"gene {name!r}", f"it has {count} options", fix)


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """The candidates that a list of genes describes.

    allowed   allowed(rows) returns a mask of the rows that may be candidates; None allows all
    shaping   the genes that decide formulas or steps, not only numbers in steps. Rows with the same
              options of these genes have the same shape, for which statements are derived once
    """

    genes: tuple[Gene, ...]
    allowed: Callable[[Rows], Mask] | None = None
    shaping: tuple[int, ...] = ()

    __repr__ = brief

    @property
    def size(self) -> int:
        """Return the number of rows, including those that are not allowed."""
        return math.prod(len(g) for g in self.genes)

    def legal(self, rows: Rows) -> Mask:
        """Return which rows are allowed."""
        return np.ones(len(rows), np.bool_) if self.allowed is None else self.allowed(rows)

    @property
    def shape_count(self) -> int:
        """Return the number of shapes."""
        return math.prod(len(self.genes[n]) for n in self.shaping)

    def shapes(self, rows: Rows) -> Ints:
        """Return a number for each row; rows of the same shape have the same number, from 0 on."""
        if not self.shaping:
            return np.zeros(len(rows), np.int64)
        return np.unique(self.keys(rows[:, list(self.shaping)]), return_inverse=True)[1]

    def values(self, rows: Rows, gene: int) -> Ints:
        """Return the values of one gene, int64[candidates, parts]."""
        return self.genes[gene].values[rows[:, gene]]

    def sample(self, rng: np.random.Generator, count: int, shapes: int | None = None) -> Rows:
        """Draw `count` allowed rows, uniformly and independently.

        Returns fewer rows if hardly any row is allowed.

        shapes   draw rows of this many shapes only, because each shape costs milliseconds
        """
        found, like = list[Rows](), self._drawn(rng, shapes or count)
        missing, share = count, 1.0  # share: the estimated share of allowed rows
        for _ in range(TRIES):
            rows = self._drawn(rng, max(math.ceil(missing / share), 64), like)
            good = rows[self.legal(rows)]
            share = max(len(good) / len(rows), LEAST_SHARE)
            found.append(good[:missing])
            missing -= len(found[-1])
            if missing == 0:
                break
            if shapes is None or not len(good):
                like = self._drawn(rng, shapes or missing)
        return np.concatenate(found)

    def _drawn(self, rng: np.random.Generator, count: int, like: Rows | None = None) -> Rows:
        """Draw rows, allowed or not, with the shapes of the rows `like` in turns."""
        sizes = np.array([len(g) for g in self.genes])
        rows = rng.integers(0, sizes, (count, len(sizes)), dtype=np.int32)
        if like is not None and self.shaping:
            of = list(self.shaping)
            rows[:, of] = like[np.arange(count) % len(like)][:, of]
        return rows

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """Return `rows` with one gene of each row changed to a neighbouring option.

        A row keeps its shape, and stays as it is if its change is not allowed.
        """
        new = self._changed(rng, rows, [c for c in range(len(self.genes)) if c not in self.shaping])
        return np.where(self.legal(new)[:, None], new, rows)

    def reshape(self, rng: np.random.Generator, rows: Rows, shapes: int) -> Rows:
        """Return `rows` with other shapes, each like that of one of `rows` but for one gene.

        shapes   the number of these shapes; neighbouring rows get the same shape
        A row stays as it is if its change is not allowed.
        """
        new, of = rows.copy(), list(self.shaping)
        others = self._changed(rng, rows[rng.integers(0, len(rows), shapes)], of)
        new[:, of] = others[np.arange(len(rows)) * shapes // len(rows)][:, of]
        return np.where(self.legal(new)[:, None], new, rows)

    def _changed(self, rng: np.random.Generator, rows: Rows, genes: Sequence[int]) -> Rows:
        """Return `rows` with one of `genes` changed in each row."""
        new, free = rows.copy(), [c for c in genes if len(self.genes[c]) > 1]
        if not free:
            return new
        which = np.array(free)[rng.integers(0, len(free), len(rows))]
        draw = rng.random(len(rows))
        for c in free:
            chosen = np.flatnonzero(which == c)
            gene, now = self.genes[c], rows[chosen, c]
            new[chosen, c] = _neighbour(gene, now, draw[chosen])
        return new

    def neighbours(self, row: Sequence[int]) -> Rows:
        """Return the allowed rows that differ from `row` by a neighbouring option of one gene."""
        found = list[Sequence[int]]()
        for c, (gene, now) in enumerate(zip(self.genes, row, strict=True)):
            near = gene.near[gene.starts[now] : gene.starts[now + 1]] if len(gene.near) else ()
            others: Sequence[int] = [*near] or [n for n in range(len(gene)) if n != now]
            found += [(*row[:c], n, *row[c + 1 :]) for n in others if n != now]
        rows = np.array(found, np.int32).reshape(-1, len(self.genes))
        return rows[self.legal(rows)]

    def cross(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """Mix each row of `a` with a row of `b`, gene by gene; keep that of `a` if not allowed.

        Each row has the shape of one of its parents.
        """
        new = np.where(rng.random(a.shape) < 0.5, a, b)
        if self.shaping:
            of = list(self.shaping)
            new[:, of] = np.where(rng.random((len(a), 1)) < 0.5, a, b)[:, of]
        return np.where(self.legal(new)[:, None], new, a)

    def keys(self, rows: Rows) -> Keys:
        """Return a 64-bit hash of each row, for finding duplicates."""
        key = np.zeros(len(rows), np.uint64)
        for column in rows.T:
            key = _mixed(key + column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        return key

    def index(self, row: Sequence[int]) -> int:
        """Return the number of a row; as in AutoTVM, the first gene varies fastest."""
        found = 0
        for gene, option in zip(reversed(self.genes), reversed(row), strict=True):
            found = found * len(gene) + int(option)
        return found

    def row(self, index: int) -> tuple[int, ...]:
        """Return the row with this number; raise ArgumentError if the space is smaller."""
        if not 0 <= index < self.size:
            raise ArgumentError(f"candidate {index}", f"the space has {self.size} candidates")
        found = list[int]()
        for gene in self.genes:
            index, option = divmod(index, len(gene))
            found.append(option)
        return tuple(found)

    def options(self, row: Sequence[int]) -> dict[str, Any]:
        """Return the option of each gene by the name of the gene."""
        return {gene.name: gene.options[n] for gene, n in zip(self.genes, row, strict=True)}

    def text(self, row: Sequence[int]) -> str:
        """Format a row for people: "tile_i 8x4x16, unroll 64"."""
        shown = list[str]()
        for gene, value in zip(self.genes, self.options(row).values(), strict=True):
            sizes = gene.kind == "split"
            shown.append(f"{gene.name} {'x'.join(map(str, value)) if sizes else value}")
        return ", ".join(shown)


def _neighbour(gene: Gene, now: Ints, draw: npt.NDArray[np.float64]) -> Ints:
    """Return a neighbour of each option in `now`; `draw` has a random number in [0, 1) for each."""
    if not len(gene.near):
        return (now + 1 + (draw * (len(gene) - 1)).astype(np.int64)) % len(gene)
    first, count = gene.starts[now], gene.starts[now + 1] - gene.starts[now]
    return gene.near[first + (draw * count).astype(np.int64)]


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
