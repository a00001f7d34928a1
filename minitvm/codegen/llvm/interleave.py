"""Merge n stores that each write every n-th element of a row into one interleaved store.

    A[0 : 64 : 4] = a
    A[1 : 65 : 4] = b      ->      A[0 : 64] = a[0], b[0], c[0], d[0], a[1], b[1], ...
    A[2 : 66 : 4] = c
    A[3 : 67 : 4] = d

Without this, each store with a stride would become one store per lane. If there are as many stores
as lanes, the row is the transpose of a square block, which takes one shuffle per vector and level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitvm import tir
from minitvm.base import BOOL

from ..common import flat
from .code import Code, Value
from .expr import address, value
from .memory import Address, advance, interleaved, shuffle, write

STRIDES = (2, 3, 4, 8, 16)  # the numbers of vectors that `interleaved` takes
GROUP = 4  # lanes


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
        fills_slot = s.buffer is buffer and tir.prove_equal(
            flat(buffer, s.indices), tir.add(start, k)
        )
        if not fills_slot or any(
            isinstance(e, tir.Load) and e.buffer is buffer for e in tir.walk(s.value)
        ):
            return 1  # a statement that reads the buffer may depend on the previous store
    return 1 if buffer.dtype is BOOL else n


def _stride(s: tir.Stmt) -> int:
    """Return the stride between the lanes of a store; 0 for other statements and uneven strides."""
    if not isinstance(s, tir.Store):
        return 0
    lane_terms = [
        (a, k) for a, k in tir.split_terms(flat(s.buffer, s.indices))[0] if tir.lanes(a) > 1
    ]
    return (
        lane_terms[0][1] if len(lane_terms) == 1 and isinstance(lane_terms[0][0], tir.Lane) else 0
    )


def store_row(c: Code, row: Sequence[tir.Stmt]) -> None:
    """Emit the statements of a row as one store, or as one store per vector of a square block."""
    stores = [s for s in row if isinstance(s, tir.Store)]
    at = address(c, stores[0].buffer, flat(stores[0].buffer, stores[0].indices))
    vectors = [c.splat(value(c, s.value), at.lanes) for s in stores]
    if len(vectors) == at.lanes and at.lanes >= GROUP:
        for n, v in enumerate(_transposed(c, vectors)):
            write(c, Address(advance(c, v.dtype, at.pointer, n * v.lanes), v.lanes, 1), v, None)
        return
    whole = interleaved(c, vectors)
    write(c, Address(at.pointer, whole.lanes, 1), whole, None)


# --- square blocks -------------------------------------------------------------------------------


def _transposed(c: Code, rows: list[Value]) -> list[Value]:
    """Return the columns of a square block: vector n has lane n of each of the `rows`.

    First, each 4 x 4 block of four adjacent rows is transposed, which x86 can do without moving
    data across its 128-bit lanes. Then whole groups of four lanes are moved.
    """
    quads = [_quad(c, rows[n : n + GROUP]) for n in range(0, len(rows), GROUP)]
    columns = [_groups(c, [quad[n] for quad in quads]) for n in range(GROUP)]
    return [columns[n % GROUP][n // GROUP] for n in range(len(rows))]


def _quad(c: Code, rows: list[Value]) -> list[Value]:
    """Transpose each 4 x 4 block of four rows: row n of the result has lane n of every group."""
    low, high = (0, GROUP, 1, GROUP + 1), (2, GROUP + 2, 3, GROUP + 3)  # of one group of a and b
    left, right = (0, 1, GROUP, GROUP + 1), (2, 3, GROUP + 2, GROUP + 3)
    pairs = [(_in_groups(c, low, *p), _in_groups(c, high, *p)) for p in (rows[:2], rows[2:])]
    return [
        _in_groups(c, half, pairs[0][n], pairs[1][n]) for n in range(2) for half in (left, right)
    ]


def _in_groups(c: Code, order: tuple[int, ...], a: Value, b: Value) -> Value:
    """Make each group of four lanes from lanes `order` of two groups: 0..3 from a, 4..7 from b."""
    picks = [
        start + n if n < GROUP else a.lanes + start + n - GROUP
        for start in range(0, a.lanes, GROUP)
        for n in order
    ]
    return shuffle(c, a, b, picks)


def _groups(c: Code, vectors: list[Value]) -> list[Value]:
    """Transpose a square of groups of four lanes: result n has group n of each vector."""
    if len(vectors) == 1:
        return vectors
    halves = [
        _groups(c, [_alternate(c, odd, *vectors[n : n + 2]) for n in range(0, len(vectors), 2)])
        for odd in (0, 1)
    ]
    return [v for pair in zip(*halves, strict=True) for v in pair]


def _alternate(c: Code, odd: int, a: Value, b: Value) -> Value:
    """Return the even groups of four lanes of a, then of b; if `odd` is 1, the odd groups."""
    groups = range(GROUP * odd, 2 * a.lanes, 2 * GROUP)
    return shuffle(c, a, b, [start + n for start in groups for n in range(GROUP)])
