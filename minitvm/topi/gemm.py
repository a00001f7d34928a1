"""A good schedule for a matrix product, from the numbers of the machine alone.

The product is computed in tiles of `rows` x `columns` that live in vector registers while the
whole inner dimension streams by (Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", 2008). Each step of k loads a few vectors of b, broadcasts one element of a for
each row, and does rows * columns multiply-adds. A panel of b, all rows of it and `columns` wide,
is copied together once and stays in the second-level cache while all of a passes over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitvm.base import DType, Target
from minitvm.te import Axis, ComputeOp, Schedule, Tensor
from minitvm.tir import Index

PAGE = 4096  # bytes; rows a multiple of this apart fall into the same few cache sets
FEW_ROWS = 256  # with fewer rows of a, copying b costs more than it saves


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of a schedule: tile shape in elements, vector length, whether b is packed."""

    rows: int
    columns: int
    lanes: int
    pack: bool


def plan(m: Index, n: Index, k: Index, dtype: DType, target: Target, strided: bool) -> Plan:
    """The tile for a product [m, k] x [k, n]. `strided`: rows of b are not contiguous in memory.

    Of the tiles whose accumulators, one row of b and one element of a fit in the registers, the
    one with the most multiply-adds per load is taken, counting only columns inside the matrix and
    panels of b that fit in half of the second-level cache.
    """
    lanes = target.lanes(dtype)
    rows = m if isinstance(m, int) else FEW_ROWS
    if isinstance(n, int) and n < lanes:
        lanes = 1 << (n.bit_length() - 1) if n else 1
    best = (0.0, 1, 1)
    for vectors in range(1, 5 if rows > 1 else 9):
        height = min(rows, (target.vector_registers - 1 - vectors) // vectors)
        for r in range(1, max(1, height) + 1):
            best = max(
                best, (_score(r, vectors * lanes, lanes, m, n, k, dtype, target), r, vectors)
            )
    _, r, vectors = best
    return Plan(r, vectors * lanes, lanes, _worth_packing(rows, n, dtype, strided))


def _score(
    rows: int, columns: int, lanes: int, m: Index, n: Index, k: Index, dtype: DType, target: Target
) -> float:
    """Useful multiply-adds per load of one tile, lowered where the tile fits badly."""
    vectors = columns // lanes
    score = rows * vectors / (rows + vectors)
    if isinstance(n, int) and n:
        score *= n / (-(-n // columns) * columns)  # columns computed in vain
    if isinstance(m, int) and m:
        score *= m / (-(-m // rows) * rows)
    if isinstance(k, int) and vectors > 1 and k * columns * dtype.bytes > target.l2 * 5 // 8:
        score *= 0.5
    return score


def _worth_packing(rows: int, n: Index, dtype: DType, strided: bool) -> bool:
    pages = isinstance(n, int) and n * dtype.bytes % PAGE == 0
    return strided or rows >= FEW_ROWS or (pages and rows >= FEW_ROWS // 8)


def schedule_matmul(
    s: Schedule, product: Tensor, out: Tensor, b: Tensor, b_transposed: bool, target: Target
) -> None:
    """Schedule `product`, a reduction over k of a[i, k] * b[k, j], for the stage `out` that reads
    it element by element (or is it).

    for jo in parallel:                 columns of out
      pack the panel of b
      for io:                           rows of out
        tile = 0
        for k: tile[ii, ji] += a[io*rows + ii, k] * panel[k, ji]       unrolled, vectorized
        out[...] = tile
    """
    op = s[product].op
    assert isinstance(op, ComputeOp)
    (m, n), k = op.shape, op.reduce_axis[0].extent
    p = plan(m, n, k, product.dtype, target, b_transposed)
    packed = s.cache_read(b, "global", [product]) if p.pack else None
    fused = product.op is not out.op
    tile = product if fused else s.cache_write(product, "local")
    if fused:
        s[tile].set_scope("local")
    i, j = s[out].op.axis  # type: ignore[union-attr]  # out is computed
    io, jo, ii, ji = s[out].tile(i, j, p.rows, p.columns)
    s[out].reorder(jo, io, ii, ji)
    s[out].unroll(ii)
    s[out].vectorize(ji)
    if target.num_cores > 1:
        s[out].parallel(jo)
    s[tile].compute_at(s[out], io)
    _inner_product(s, tile, p)
    if packed is not None:
        s[packed].compute_at(s[out], jo)
        _pack(s, packed, p, b_transposed)


def _inner_product(s: Schedule, tile: Tensor, p: Plan) -> None:
    """Loops of one tile: k outside, then rows and vectors written out."""
    op = s[tile].op
    assert isinstance(op, ComputeOp)
    (i, j), (k,) = op.axis, op.reduce_axis
    vectors, lanes = s[tile].split(j, factor=p.lanes)
    s[tile].reorder(k, i, vectors, lanes)
    s[tile].unroll(i)
    s[tile].unroll(vectors)
    s[tile].vectorize(lanes)


def _pack(s: Schedule, packed: Tensor, p: Plan, transposed: bool) -> None:
    """The panel of b as [k, columns], whatever b's own layout."""
    axes: tuple[Axis, ...] = s[packed].op.axis  # type: ignore[union-attr]  # a copy is computed
    c = p.columns
    if transposed:
        s[packed].transform_layout(lambda j, k: (j // c, k, j % c))
    else:
        s[packed].transform_layout(lambda k, j: (j // c, k, j % c))
        s[packed].vectorize(axes[1])
