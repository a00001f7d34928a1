"""A good schedule for a matrix product, found without search from the properties of the CPU.

The product of a and b is computed in tiles of `rows` x `columns`, which stay in vector registers
during the loop over the inner dimension k (Goto and van de Geijn, "Anatomy of High-Performance
Matrix Multiplication", 2008). Each step of k loads a few vectors of b, broadcasts one element of a
for each row, and does rows * columns multiply-adds. The schedule packs b in blocks. A block has
`depth` rows of b and consists of panels that are `columns` wide. All of a is multiplied with one
panel, which stays in the second-level cache, before the next panel. A block has
several panels, so that b is read in long pieces, which the CPU prefetches. The panels of a constant
b are packed before the calls, and may be in no cache. The first tile would wait for its panel, and
the others would find it in L2; so a panel is requested during all tiles of the one before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce

from minitvm import schedule, te, tensor, tir
from minitvm.base import DType, Target, divisors

from .blocks import PAGE, block_side, transpose_by_blocks
from .options import Choose, Options, options_of
from .stages import axes_of, reduce_axes_of, worth_threads
from .tile import AHEAD, register_tiles, tile_loops, vector_length

TLB_PAGES = 1024  # pages whose addresses a CPU can be expected to translate without delay
MATVEC_ROWS = 2  # with at most this many rows, a product is memory-bound by its right operand
PACK_ROWS = 48  # with fewer rows of a, packing a small b costs as much as it saves
WORTH_THREADS = 1 << 21  # multiply-adds; fewer are finished before a second thread starts
STRIP = 8  # rows of b that a matrix-vector product adds before it updates the result
DOTS = 8  # sums that a product with few rows and a transposed b computes at a time

# what a search may choose
TALLEST, WIDEST = 16, 8  # the rows of a tile, and its columns in vectors
SHALLOWEST = 64  # the rows of b in a packed block
PANELS = (1, 2, 4, 8, 16)
FEW = (1, 2, 4, 8, 16)  # strips, and vectors or sums at a time, of a matrix-vector product


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a schedule for a matrix product.

    rows, columns   the shape of a tile, in elements
    lanes           the length of a vector, in elements
    pack            whether b is packed
    parallel        whether the outermost loop runs in parallel
    depth           the rows of b in a packed block; 0 for all of them
    panels          the panels in a packed block
    ahead           the rows of b between a request to the cache and its use; 0 for no requests
    next_panel      whether each panel is requested during the one before
    In a product with few rows, b is read in strips of `depth` rows, or transposed, `columns` rows
    at a time, packed or not; `rows`, `panels` and `next_panel` are not used.
    """

    rows: int
    columns: int
    lanes: int
    pack: bool
    parallel: bool
    depth: int = 0
    panels: int = 1
    ahead: int = 0
    next_panel: bool = False


def plan(
    shape: tuple[tir.Index, tir.Index, tir.Index],
    dtype: DType,
    target: Target,
    gather: bool,
    batches: int = 1,
    splits: bool = False,
) -> Plan:
    """Choose the tile for a product of [m, k] and [k, n], with shape = (m, n, k).

    A tile fits if the registers can store its accumulators, one row of b and one element of a. Of
    all tiles that fit, the one with the best `score` is chosen. gather: whether a row of b is not
    contiguous in memory. splits: whether k can be split into strips, so that every panel fits the
    cache. A symbolic size is taken to be 1024. The blocks of b are chosen by `blocked`.
    """
    m, n, k = (size if isinstance(size, int) else 1 << 10 for size in shape)
    lanes = vector_length(n, target.lanes(dtype))

    def quality(tile: tuple[int, int, int]) -> tuple[float, int, int]:
        rows, _, vectors = tile
        useful_share = _useful(m, rows) * _useful(n, vectors * lanes)
        panel = 0 if splits else k * vectors * lanes * dtype.bytes
        return useful_share * score(rows, vectors, panel, target.l2), rows, vectors

    rows, _, vectors = max(register_tiles(target, max(m, 1)), key=quality)
    packable = isinstance(shape[2], int)  # a panel needs a constant height
    exceeds_l2 = n * k * dtype.bytes > target.l2 // 2 and m >= 2 * rows
    pack = packable and (gather or exceeds_l2 or m >= PACK_ROWS)
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


def blocked(
    p: Plan, shape: tuple[int, int, int], dtype: DType, target: Target, batches: int = 1
) -> Plan:
    """Choose the blocks in which b is packed: `depth` and `panels` of the plan `p`.

    With at most TLB_PAGES rows, a panel is one block. With more, a block is wider, so that each
    address translation serves a longer piece of a row, and k is split into strips. If the result
    stays in the second-level cache, adding strips to it costs little; then a block is about as deep
    as wide and stays there, too. Otherwise only a panel stays, and a block is up to a page wide.
    """
    m, n, k = shape
    if k <= TLB_PAGES:
        return p
    half, wide = target.l2 // 2, p.columns * dtype.bytes  # half of L2, a row of a panel: bytes
    small = m * n * dtype.bytes <= half
    fewest = -(-k * wide // half)  # strips of k with which a panel fits half of L2
    strips = max(fewest, round(k / math.sqrt(half / dtype.bytes))) if small else fewest
    # prefer a number that divides k
    strips = next((d for d in divisors(k) if strips <= d <= 2 * strips), strips)
    depth = -(-k // strips)
    widest = half // depth if small else min(PAGE, target.l3 // 8 // depth)
    least = -(-target.num_cores // batches) if p.parallel else 1  # blocks, one for each core
    panels = -(-n // p.columns)
    fits = [d for d in divisors(panels) if d * wide <= widest and panels // d >= least]
    return replace(p, depth=depth if strips > 1 else 0, panels=max(fits, default=1))


def schedule_product(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    target: Target,
    choose: Choose | None = None,
) -> set[str]:
    """Schedule the matrix product `op`; return the names of the scheduled stages.

    out: the epilogue of the product, or the product itself. choose: returns the plan.
    """
    stage = s[op.output(0)]
    before = {v.name for v in s.stages}
    right = _right_operand(op)
    if right is None:
        return set()
    b, is_transposed = right
    constant = b.op in schedule.constants(s.state)
    p = _plan_for(op, is_transposed, constant, target)
    if choose is not None:
        p = choose(_options(stage.name, p, op, is_transposed, constant, target))
    if _is_matvec(op, is_transposed, target):
        schedule_matvec(s, op.output(0), b, is_transposed, p)
        return {stage.name, *({v.name for v in s.stages} - before)}
    schedule_matmul(s, op.output(0), out.op.output(0), b, is_transposed, p, target)
    return {stage.name, out.name, *(v.name for v in s.stages if v.name not in before)}


def _is_matvec(op: te.ComputeOp, transposed: bool, target: Target) -> bool:
    """Return whether `op` has so few rows that reading b takes all the time.

    If b is transposed, its rows must be a few vectors long, and their length constant.
    """
    rows, k = op.shape[-2], op.reduce_axis[0].extent
    has_few_rows = isinstance(rows, int) and rows <= MATVEC_ROWS and len(op.shape) == 2
    return has_few_rows and (
        not transposed or (isinstance(k, int) and k >= 2 * target.lanes(op.dtypes[0]))
    )


def _options(
    name: str, p: Plan, op: te.ComputeOp, transposed: bool, constant: bool, target: Target
) -> Options:
    """Return what a search may choose for the product `op`, whose default plan is `p`."""
    *_, m, n = (size if isinstance(size, int) else 1 << 10 for size in op.shape)
    k = op.reduce_axis[0].extent
    if _is_matvec(op, transposed, target):
        if transposed:
            return options_of(name, p, columns=FEW)
        return options_of(name, p, columns=(p.lanes * v for v in FEW), depth=FEW)
    columns = [p.lanes * v for v in range(1, min(WIDEST, -(-n // p.lanes)) + 1)]
    return options_of(
        name,
        p,
        rows=range(1, min(TALLEST, m) + 1),
        columns=columns,
        pack=(False, True),
        depth=(0, *(d for d in divisors(k) if SHALLOWEST <= d < k)) if isinstance(k, int) else (),
        panels=PANELS,
        ahead=(0, *(_ahead(c, op.dtypes[0]) for c in columns)) if constant else (),
        next_panel=(False, True) if constant else (),
    )


def _ahead(columns: int, dtype: DType) -> int:
    """Return how many rows of a panel are AHEAD bytes."""
    return max(1, AHEAD // (columns * dtype.bytes))


def _right_operand(op: te.ComputeOp) -> tuple[te.Tensor, bool] | None:
    """Return the right operand of the product `op`, and whether it is transposed.

    Return None if no operand is indexed by the product's columns.
    """
    for e in tensor.loads(op):
        for d, i in enumerate(e.indices):
            if i is op.axis[-1] and isinstance(e.buffer, te.Tensor):
                return e.buffer, d < e.buffer.ndim - 1
    return None


def schedule_matmul(
    s: te.Schedule,
    product: te.Tensor,
    out: te.Tensor,
    b: te.Tensor,
    b_transposed: bool,
    p: Plan,
    target: Target,
) -> None:
    """Schedule `product`, a reduction over k of a[i, k] * b[k, j].

    `out` is the elementwise stage that reads the product, or the product itself. With
    `b_transposed`, b is stored as [n, k]. Batches become outer loops.

    for jc in parallel:                 a few panels of columns at a time
      for ko:                           strips of k, if a panel overflows the cache
        pack the block of b
        for jo:                         panels of the block
          for io:                       rows of out
            tile = 0
            for k: tile[ii, ji] += a[io*rows + ii, k] * panel[k, ji]       unrolled, vectorized
            out[...] = tile             or product[...] += tile, if there are strips
      out[...] = product                if there are strips
    """
    op = s[product].op
    assert isinstance(op, te.ComputeOp)
    fused, strips = product.op is not out.op, list[te.Axis]()
    if p.depth:
        s[product].split(op.reduce_axis[0], factor=p.depth)
        tile = s.rfactor(product, s[product].leaf_iter_vars[-2])
        strips = [*reduce_axes_of(s[product])]
    else:
        tile = product if fused else s.cache_write(product, "local")
    if fused or strips:
        s[tile].set_scope("local")
    packed = s.cache_read(b, "global", [tile]) if p.pack else None
    stage, outer = s[out], _outer_loop(s[out], p, target)
    if fused and strips:
        stage = s[product]
        stage.compute_at(s[out], outer)
        s[out].vectorize(s[out].split(s[out].leaf_iter_vars[-1], factor=p.columns)[1])
    i, j = [a for a in stage.leaf_iter_vars if a.kind == "data"][-2:]
    io, ii = stage.split(i, factor=p.rows)
    panels = list[te.Axis]()
    if p.panels > 1 or (fused and strips):
        jo, j = stage.split(j, factor=p.columns)
        panels = [jo]
    tile_loops(stage, (*strips, *panels, io), (ii, j))
    s[tile].compute_at(stage, io)
    k = _inner_product(s, tile, p)
    if p.ahead:
        s[tile].prefetch(b if packed is None else packed, k, p.ahead)
    if p.next_panel:
        stage.prefetch(b if packed is None else packed, panels[0] if panels else outer)
    if packed is not None:
        if b.op not in schedule.constants(s.state):  # a constant is packed before the calls
            s[packed].compute_at(*((stage, strips[0]) if strips else (s[out], outer)))
        _pack(s, b, packed, p.columns, b_transposed, target)


def _plan_for(op: te.ComputeOp, transposed: bool, constant: bool, target: Target) -> Plan:
    """Return the plan for the product `op`, with blocks of b if all sizes are constants.

    A constant b is packed before the calls, so it may be in no cache, and is requested.
    """
    *batch, m, n = op.shape
    k, dtype = op.reduce_axis[0].extent, op.dtypes[0]
    if _is_matvec(op, transposed, target):
        lanes = target.lanes(dtype)
        columns = DOTS if transposed else 4 * lanes
        parallel = transposed and worth_threads(op, target, WORTH_THREADS)
        pack = transposed and constant and isinstance(n, int)
        ahead = max(1, AHEAD // (columns * lanes * dtype.bytes)) if pack else 0
        return Plan(MATVEC_ROWS, columns, lanes, pack, parallel, depth=STRIP, ahead=ahead)
    match m, n, k, reduce(tir.mul, batch, 1):
        case int(), int(), int(), int(batches):
            p = plan((m, n, k), dtype, target, transposed, batches, splits=True)
            p = blocked(p, (m, n, k), dtype, target, batches) if p.pack else p
        case _:
            p = plan((m, n, k), dtype, target, transposed)
    if not (constant and p.pack):
        return p
    height = p.depth or k
    panel = height * p.columns * dtype.bytes if isinstance(height, int) else target.l2
    several = isinstance(m, int) and m > p.rows  # tiles in a panel, whose number must be known
    fits = 4 * panel <= target.l2 and several and not p.parallel
    return replace(p, ahead=_ahead(p.columns, dtype), next_panel=fits)


def _outer_loop(stage: te.StageView, p: Plan, target: Target) -> te.Axis:
    """Split the columns into blocks; return the loop over the blocks, fused with the batches.

    The loops over the rows and over the columns of a block are the innermost ones. If the last
    block is shorter, the batches stay a loop of their own: lowering cannot split the last block off
    a fused loop, and would mask every multiply-add. Few batches for many cores are fused, though.
    """
    *batch, i, j = axes_of(stage)
    width, columns = p.columns * p.panels, j.extent
    jc, j = stage.split(j, factor=width)
    stage.reorder(*batch, jc, i, j)
    outer = jc
    if batch:
        outer = stage.fuse(*batch) if len(batch) > 1 else batch[0]
        is_short = p.parallel and isinstance(outer.extent, int) and outer.extent < target.num_cores
        if is_short or tir.prove_equal(tir.floormod(columns, width), 0):
            outer = jc = stage.fuse(outer, jc)
    if p.parallel:
        stage.parallel(outer)
    return jc


def _inner_product(s: te.Schedule, tile: te.Tensor, p: Plan) -> te.Axis:
    """Schedule the loops that compute a tile, k outside unrolled rows and vectors; return k."""
    (*_, i, j), (k,) = axes_of(s[tile]), reduce_axes_of(s[tile])
    _, i = s[tile].split(i, factor=p.rows)  # the tile's size is constant, even where the size
    _, j = s[tile].split(j, factor=p.columns)  # of the product is symbolic
    tile_loops(s[tile], (k,), (i, *s[tile].split(j, factor=p.lanes)))
    return k


def _pack(
    s: te.Schedule, b: te.Tensor, packed: te.Tensor, columns: int, transposed: bool, target: Target
) -> None:
    """Schedule the copy `packed` of b: a sequence of panels [k, columns].

    If b is transposed, square blocks of it are transposed in registers.
    """
    batch = tuple(f"n{d}" for d in range(packed.ndim - 2))
    names = (*batch, *(("j", "k") if transposed else ("k", "j")))
    panel = (*batch, f"j // {columns}", "k", f"j % {columns}")
    s.apply(schedule.TransformLayout(s[packed].name, names, panel))
    if not transposed:
        s[packed].vectorize(s[packed].split(axes_of(s[packed])[-1], factor=columns)[1])
        return
    block = s.cache_read(b, "local", [packed])
    s.apply(schedule.TransformLayout(s[block].name, names, (*batch, "k", "j")))
    *outer, j, k = axes_of(s[packed])
    side = block_side(target, packed.dtype, columns, k.extent)
    transpose_by_blocks(s[block], axes_of(s[block])[-1], s[packed], outer, (k, j), side, target)


def schedule_matvec(
    s: te.Schedule, product: te.Tensor, b: te.Tensor, b_transposed: bool, p: Plan
) -> None:
    """Schedule a product with very few rows, so that b is read from memory once and in order.

    for ko:                             strips of b
      for jo:
        out[i, j] += a[i, ko*8] * b[ko*8, j] + ... + a[i, ko*8 + 7] * b[ko*8 + 7, j]

    If b is transposed, a few of its rows are multiplied by a row of `a`, one vector at a time:

    for jo in parallel:                 if the product is large
      for ko: sums[ji, l] += a[i, ko*16 + l] * b[jo*8 + ji, ko*16 + l]
      out[i, jo*8 + ji] = sums[ji, 0] + ... + sums[ji, 15]

    A constant b is packed before the calls, so that it is one stream of bytes instead of eight.
    """
    (i, j), (k,) = axes_of(s[product]), reduce_axes_of(s[product])
    if not b_transposed:
        ko, ki = s[product].split(k, factor=p.depth)
        jo, ji = s[product].split(j, factor=p.columns)
        tile_loops(s[product], (i, ko, jo), (ki, ji))
        return
    _, ki = s[product].split(k, factor=p.lanes)
    sums = s.rfactor(product, ki, factor_axis=2)
    sum_vectors(s, product, sums, p.columns, p.parallel)
    (row, column, lane), (ko,) = axes_of(s[sums]), reduce_axes_of(s[sums])
    tile_loops(s[sums], (row, ko), (column, lane))
    if p.pack:
        packed = pack_rows(s, b, sums, p.columns, p.lanes)
        s[sums].prefetch(packed, ko, p.ahead)


def sum_vectors(
    s: te.Schedule, product: te.Tensor, sums: te.Tensor, columns: int, parallel: bool
) -> None:
    """Compute `columns` vectors of `sums` in registers, and add the numbers of each vector."""
    i, j = axes_of(s[product])
    jo, ji = s[product].split(j, factor=columns)
    s[product].reorder(jo, i, ji, *reduce_axes_of(s[product]))
    s[product].unroll(ji)
    if parallel:
        s[product].parallel(jo)
    s[sums].set_scope("local")
    s[sums].compute_at(s[product], i)


def pack_rows(s: te.Schedule, b: te.Tensor, reader: te.Tensor, rows: int, length: int) -> te.Tensor:
    """Return b [N, K], packed as [N / rows, K / length, rows, length] for `reader`."""
    packed = s.cache_read(b, "global", [reader])
    index = (f"j // {rows}", f"k // {length}", f"j % {rows}", f"k % {length}")
    s.apply(schedule.TransformLayout(s[packed].name, ("j", "k"), index))
    s[packed].vectorize(axes_of(s[packed])[-1])
    return packed
