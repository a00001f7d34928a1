"""Merge n stores that each write every n-th element of a row into one interleaved store.

    A[0 : 64 : 4] = a
    A[1 : 65 : 4] = b      ->      A[0 : 64] = a[0], b[0], c[0], d[0], a[1], b[1], ...
    A[2 : 66 : 4] = c
    A[3 : 67 : 4] = d

Without this, each store with a stride would become one store per lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitvm import tir
from minitvm.base import BOOL

from ..common import flat
from .code import Code, Value, suffix_of
from .expr import address, value
from .memory import Address, write

STRIDES = (2, 4, 8)  # powers of two: two halves are interleaved repeatedly


def in_rows(parts: Sequence[tir.Stmt]) -> Iterator[Sequence[tir.Stmt]]:
    """Split statements into groups: stores that together fill a row form one group."""
    at = 0
    while at < len(parts):
        n = _filling(parts, at)
        yield parts[at : at + n]
        at += n


def _filling(parts: Sequence[tir.Stmt], at: int) -> int:
    """Return how many statements, from parts[at] on, together fill a row; 1 if they do not."""
    n = _stride(parts[at])
    row = [s for s in parts[at : at + n] if isinstance(s, tir.Store)]
    if n not in STRIDES or len(row) != n:
        return 1
    buffer, start = row[0].buffer, flat(row[0].buffer, row[0].indices)
    for k, s in enumerate(row):
        near = s.buffer is buffer and tir.prove_equal(flat(buffer, s.indices), tir.add(start, k))
        if not near or any(
            isinstance(e, tir.Load) and e.buffer is buffer for e in tir.walk(s.value)
        ):
            return 1  # a statement that reads the buffer may depend on the previous store
    return 1 if buffer.dtype is BOOL else n


def _stride(s: tir.Stmt) -> int:
    """Return the stride between the lanes of a store; 0 for other statements and uneven strides."""
    if not isinstance(s, tir.Store):
        return 0
    across = [(a, k) for a, k in tir.split_terms(flat(s.buffer, s.indices))[0] if tir.lanes(a) > 1]
    return across[0][1] if len(across) == 1 and isinstance(across[0][0], tir.Lane) else 0


def store_row(c: Code, row: Sequence[tir.Stmt]) -> None:
    """Emit the statements of a row as one store."""
    stores = [s for s in row if isinstance(s, tir.Store)]
    at = address(c, stores[0].buffer, flat(stores[0].buffer, stores[0].indices))
    whole = _interleaved(c, [c.splat(value(c, s.value), at.lanes) for s in stores])
    write(c, Address(at.pointer, whole.lanes, 1), whole, None)


def _interleaved(c: Code, vectors: list[Value]) -> Value:
    """Return one vector: lane 0 of each vector, then lane 1 of each vector, ..."""
    if len(vectors) == 1:
        return vectors[0]
    even, odd = _interleaved(c, vectors[::2]), _interleaved(c, vectors[1::2])
    wide = Value("", even.dtype, 2 * even.lanes)
    return c.call(f"llvm.vector.interleave2.{suffix_of(wide.dtype, wide.lanes)}", wide, even, odd)
