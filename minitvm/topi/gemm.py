"""A good schedule for a matrix product, found without search from the properties of the CPU.

The product of a and b is computed in tiles of `rows` x `columns`, which stay in vector registers
during the loop over the whole inner dimension k (Goto and van de Geijn, "Anatomy of
High-Performance Matrix Multiplication", 2008). Each step of k loads a few vectors of b, broadcasts
one element of a for each row, and does rows * columns multiply-adds. A panel of b, with all its
rows and `columns` wide, is packed once and stays in the second-level cache while all of a is
multiplied with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitvm import schedule, te, tir
from minitvm.base import DType, Target

from .stages import axes_of, reduce_axes_of

FEW_ROWS = 48  # with fewer rows of a, packing b costs as much as it saves
WORTH_THREADS = 1 << 24  # multiply-adds; fewer are finished before a second thread starts


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a schedule for a matrix product.

    rows, columns   the shape of a tile, in elements
    lanes           the length of a vector, in elements
    pack            whether b is copied panel by panel
    parallel        whether the outermost loop runs in parallel
    """

    rows: int
    columns: int
    lanes: int
    pack: bool
    parallel: bool


def plan(
    shape: tuple[tir.Index, tir.Index, tir.Index],
    dtype: DType,
    target: Target,
    gather: bool,
    batches: int = 1,
) -> Plan:
    """Choose the tile for a product of [m, k] and [k, n], with shape = (m, n, k).

    A tile fits if the registers can store its accumulators, one row of b and one element of a. Of
    all tiles that fit, the one with the best `score` is chosen. gather: whether a row of b is not
    contiguous in memory. A symbolic size is taken to be 1024.
    """
    m, n, k = (size if isinstance(size, int) else 1 << 10 for size in shape)
    lanes = min(target.lanes(dtype), 1 << (max(n, 1).bit_length() - 1))
    best = (0.0, 1, 1)
    for vectors in range(1, 5):
        tallest = (target.vector_registers - 1 - vectors) // vectors
        for rows in range(1, max(1, min(m, tallest)) + 1):
            columns = vectors * lanes
            useful = _useful(m, rows) * _useful(n, columns)
            panel = k * columns * dtype.bytes
            best = max(best, (useful * score(rows, vectors, panel, target.l2), rows, vectors))
    _, rows, vectors = best
    panel_has_a_size = isinstance(shape[2], int)  # otherwise it cannot be packed
    pack = panel_has_a_size and (gather or m >= FEW_ROWS)
    parallel = target.num_cores > 1 and batches * m * n * k >= WORTH_THREADS
    return Plan(rows, vectors * lanes, lanes, pack, parallel)


def score(rows: int, vectors: int, panel: int, cache: int) -> float:
    """Return the multiply-adds per load of a tile, reduced if its panel overflows the cache.

    vectors: the width of the tile in vectors. panel, cache: sizes in bytes. Half of the cache is
    for the panel, the rest for a and the result.
    """
    fits = min(1.0, cache / 2 / max(panel, 1))
    return rows * vectors / (rows + vectors) * fits**0.5


def _useful(size: int, part: int) -> float:
    """Return the share of useful work if `size` is split into parts of `part` elements.

    The share is reduced by another tenth if the last part is shorter than the others.
    """
    parts = -(-size // part)
    return 1.0 if parts * part == size else 0.9 * size / (parts * part)


def schedule_matmul(
    s: te.Schedule,
    product: te.Tensor,
    out: te.Tensor,
    b: te.Tensor,
    b_transposed: bool,
    target: Target,
) -> None:
    """Schedule `product`, a reduction over k of a[i, k] * b[k, j].

    `out` is the elementwise stage that reads the product, or the product itself. With
    `b_transposed`, b is stored as [n, k]. Batches become outer loops.

    for jo in parallel:                 columns of out
      pack the panel of b
      for io:                           rows of out
        tile = 0
        for k: tile[ii, ji] += a[io*rows + ii, k] * panel[k, ji]       unrolled, vectorized
        out[...] = tile
    """
    op = s[product].op
    assert isinstance(op, te.ComputeOp)
    *_, m, n = op.shape
    p = plan((m, n, op.reduce_axis[0].extent), product.dtype, target, b_transposed)
    packed = s.cache_read(b, "global", [product]) if p.pack else None
    fused = product.op is not out.op
    tile = product if fused else s.cache_write(product, "local")
    if fused:
        s[tile].set_scope("local")
    *batch, i, j = axes_of(s[out])
    io, jo, ii, ji = s[out].tile(i, j, p.rows, p.columns)
    s[out].reorder(*batch, jo, io, ii, ji)
    s[out].unroll(ii)
    s[out].vectorize(ji)
    outer = s[out].fuse(*batch, jo) if batch else jo
    if p.parallel:
        s[out].parallel(outer)
    s[tile].compute_at(s[out], io)
    _inner_product(s, tile, p)
    if packed is not None:
        if b.op not in schedule.constants(s.state):  # otherwise it is packed before the calls
            s[packed].compute_at(s[out], outer)
        _pack(s, packed, p.columns, b_transposed)


def _inner_product(s: te.Schedule, tile: te.Tensor, p: Plan) -> None:
    """Schedule the loops that compute a tile: k outside, unrolled rows and vectors inside."""
    (*_, i, j), (k,) = axes_of(s[tile]), reduce_axes_of(s[tile])
    _, i = s[tile].split(i, factor=p.rows)  # the tile's size is constant, also where that
    _, j = s[tile].split(j, factor=p.columns)  # of the product is symbolic
    vectors, lanes = s[tile].split(j, factor=p.lanes)
    s[tile].reorder(k, i, vectors, lanes)
    s[tile].unroll(i)
    s[tile].unroll(vectors)
    s[tile].vectorize(lanes)


def _pack(s: te.Schedule, packed: te.Tensor, columns: int, transposed: bool) -> None:
    """Schedule the copy `packed` of b, which is stored as a sequence of panels [k, columns]."""
    batch = tuple(f"n{d}" for d in range(packed.ndim - 2))
    names = (*batch, *(("j", "k") if transposed else ("k", "j")))
    panel = (*batch, f"j // {columns}", "k", f"j % {columns}")
    s.apply(schedule.TransformLayout(s[packed].name, names, panel))
    if not transposed:
        j = axes_of(s[packed])[-1]
        if not isinstance(j.extent, int):  # symbolic: one panel has a constant size
            _, j = s[packed].split(j, factor=columns)
        s[packed].vectorize(j)


STRIP = 8  # rows of b that a matrix-vector product adds before it updates the result


def schedule_matvec(s: te.Schedule, product: te.Tensor, target: Target) -> None:
    """Schedule a product with very few rows, so that b is read from memory once and in order.

    for ko:                             strips of b
      for jo:
        out[i, j] += a[i, ko*8] * b[ko*8, j] + ... + a[i, ko*8 + 7] * b[ko*8 + 7, j]
    """
    (i, j), (k,) = axes_of(s[product]), reduce_axes_of(s[product])
    lanes = 4 * target.lanes(product.dtype)
    ko, ki = s[product].split(k, factor=STRIP)
    jo, ji = s[product].split(j, factor=lanes)
    s[product].reorder(i, ko, jo, ki, ji)
    s[product].unroll(ki)
    s[product].vectorize(ji)
