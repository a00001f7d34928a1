"""Turn the statements of candidates into the arrays that the kernel reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minitvm import cachesim

from .affine import Num, Part
from .kernel import Floats, Packed, footprints
from .statements import Batch, Statement


def rows_of(numbers: Sequence[Num], count: int) -> Floats:
    """Return one row of `count` numbers for each of `numbers`."""
    found = np.empty((len(numbers), count))
    for row, n in zip(found, numbers, strict=True):
        row[:] = n
    return found


def extents(s: Statement, count: int) -> Floats:
    """Return the extents of the loops of a statement, float64[loops, candidates]."""
    return rows_of([loop.extent for loop in s.loops], count)


def packed(s: Statement, batch: Batch) -> Packed:
    """Return a statement as arrays."""
    digits = [d for loop in s.loops for d in loop.digits]
    number = {d: g for g, d in enumerate(digits)}
    base, strides, dim_of, part_of = list[int](), list[Num](), [0], [0]
    parts, moves = list[Part](), list[tuple[int, int, Num]]()
    dims, owners = list[int](), list[int]()
    for b, a in enumerate(s.accesses):
        for index, spread, size, stride in zip(
            a.indices, a.spread, a.shape, a.strides, strict=True
        ):
            for p in index or ():
                if p.terms:
                    moves += [(number[d], len(parts), c) for d, c in p.terms.items()]
                    parts.append(p)
                    dims.append(len(base))
                    owners.append(b)
            base.append(spread if index is not None else int(np.max(size)) - 1)
            strides.append(stride)
            part_of.append(len(parts))
        dim_of.append(len(base))
    moves.sort(key=lambda move: move[0])
    return Packed(
        extents(s, batch.count),
        np.cumsum([0, *(len(loop.digits) for loop in s.loops)], dtype=np.int64),
        rows_of([batch.radix[d] for d in digits], batch.count),
        np.searchsorted([g for g, _, _ in moves], np.arange(len(digits) + 1)).astype(np.int64),
        np.array([p for _, p, _ in moves], np.int64),
        rows_of([c for _, _, c in moves], batch.count),
        np.array(dims, np.int64),
        np.array([abs(p.factor) for p in parts], np.float64),
        rows_of([p.div for p in parts], batch.count),
        rows_of([p.mod for p in parts], batch.count),
        np.array([p.affine for p in parts], np.bool_),
        np.array(base, np.float64),
        rows_of(strides, batch.count),
        np.array(dim_of, np.int64),
        np.array(part_of, np.int64),
        np.array(owners, np.int64),
    )


class Footprint:
    """What a statement touches, for all candidates; see kernel.footprints."""

    def __init__(self, s: Statement, batch: Batch) -> None:
        self.packed = packed(s, batch)
        n, loops, accesses = batch.count, len(s.loops), len(s.accesses)
        self.extent: Floats = self.packed.extent
        self.sizes: Floats = np.array([a.bytes for a in s.accesses], np.float64)
        self.touched: Floats = np.empty((n, loops + 1, accesses))
        self.step: Floats = np.empty((n, loops, accesses))
        self.run: Floats = np.empty((n, accesses))
        cachesim.compiled(footprints)(self.packed, self.touched, self.step, self.run)

    @property
    def iterations(self) -> npt.NDArray[Any]:
        """Return how often the statement runs."""
        return self.extent.prod(axis=0)
