"""Turn the statements of candidates into the arrays that the kernel reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from minitvm import cachesim

from .affine import Num, Part
from .kernel import CHUNK, Floats, Packed, footprints, steps
from .statements import Batch, Statement


def rows_of(numbers: Sequence[Num], count: int) -> Floats:
    """Return `numbers` as a matrix with `count` columns; an int fills a whole row."""
    matrix = np.empty((len(numbers), count))
    for row, n in zip(matrix, numbers, strict=True):
        row[:] = n
    return matrix


def all_packed(batch: Batch) -> list[Packed]:
    """Return each statement of a batch as arrays."""
    return [packed(s, batch) for s in batch.statements]


def packed(s: Statement, batch: Batch) -> Packed:
    """Return a statement as arrays."""
    digits = [d for loop in s.loops for d in loop.digits]
    number = {d: g for g, d in enumerate(digits)}
    base, strides, dim_of, part_of = list[int](), list[Num](), [0], [0]
    parts, owners = list[Part](), list[tuple[int, int]]()
    terms = list[tuple[int, int, Num]]()
    for b, a in enumerate(s.accesses):
        for d, index in enumerate(a.indices):
            for p in index or ():
                if p.terms:
                    terms += [(number[digit], len(parts), c) for digit, c in _moving(p).items()]
                    parts.append(p)
                    owners.append((b, len(base)))
            base.append(a.spread[d] if index is not None else int(np.max(a.shape[d])) - 1)
            strides.append(a.strides[d])
            part_of.append(len(parts))
        dim_of.append(len(base))
    terms.sort(key=lambda term: term[0])
    ratios = [p for p in parts if not p.affine]
    where = [-1 if p.affine else sum(not q.affine for q in parts[:n]) for n, p in enumerate(parts)]
    of_digit = [g for g, _, _ in terms]
    count, ints = batch.count, np.int64
    return Packed(
        extent=rows_of([loop.extent for loop in s.loops], count),
        digit_of=np.cumsum([0, *(len(loop.digits) for loop in s.loops)], dtype=ints),
        radix=rows_of([batch.radix[d] for d in digits], count),
        term_of=np.searchsorted(of_digit, np.arange(len(digits) + 1)).astype(ints),
        part=np.array([p for _, p, _ in terms], ints),
        digit=np.array(of_digit, ints),
        coef=rows_of([c for _, _, c in terms], count),
        dim=np.array([d for _, d in owners], ints),
        access=np.array([b for b, _ in owners], ints),
        factor=np.array([abs(p.factor) for p in parts], np.float64),
        ratio=np.array(where, ints),
        div=rows_of([p.div for p in ratios], count),
        mod=rows_of([p.mod for p in ratios], count),
        base=np.array(base, np.float64),
        stride=rows_of(strides, count),
        dim_of=np.array(dim_of, ints),
        part_of=np.array(part_of, ints),
    )


def _moving(p: Part) -> dict[int, Num]:
    """Return the terms of a part, without terms that its `% mod` makes zero, as in 32*i % 16."""
    if isinstance(p.mod, int) and p.mod == 0:
        return p.terms
    return {d: np.where(c % (p.div * p.mod) == 0, 0, c) for d, c in p.terms.items()}


class Footprint(NamedTuple):
    """What a statement touches, for a few candidates starting at number `begin`; see kernel.py."""

    begin: int
    touched: Floats
    step: Floats
    run: Floats


def footprint_chunks(
    s: Packed, unit: Floats | None = None, period: Floats | None = None, sets: Floats | None = None
) -> Iterator[Footprint]:
    """Yield what a statement touches, for a few candidates at a time.

    Counts elements by default; kernel.footprints explains unit, period and sets. All chunks share
    the memory of their arrays: use a chunk before you take the next one.
    """
    loops, count = s.extent.shape
    accesses, most = len(s.dim_of) - 1, min(CHUNK, count)
    unit = np.ones((1, len(s.base))) if unit is None else unit
    period = s.stride[None] if period is None else period
    sets = np.zeros(len(unit)) if sets is None else sets
    shapes = (len(unit), loops + 1, accesses), (loops, accesses), (accesses,)
    memory = [np.empty(math.prod(shape) * most) for shape in shapes]
    for begin in range(0, count, CHUNK):
        n = min(most, count - begin)
        touched, step, run = (
            m[: math.prod(shape) * n].reshape(*shape, n)
            for m, shape in zip(memory, shapes, strict=True)
        )
        cachesim.compiled(footprints)(s, begin, unit, period, sets, touched, run)
        cachesim.compiled(steps)(s, begin, step)
        yield Footprint(begin, touched, step, run)
