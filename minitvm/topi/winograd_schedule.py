"""A good schedule for conv2d_winograd, found without search from the properties of the CPU.

for block in parallel:                      a few rows of tiles of `tile` x `tile` outputs
  for p, co:                                each tile, a vector of channels at a time
    V[0:6, 0:6, p, co] = ...                both data transforms in registers, unrolled
  for i, j:                                 16 or 36 matrix products
    for oo:                                 a panel of U[i, j]: all input channels, a few outputs
      for po:
        acc = 0
        for rc: acc[pi, oi] += V[i, j, po + pi, rc] * U[i, j, oo, rc, oi]
        M[i, j, po + pi, oo + oi] = acc
  for p, oo:
    out[...] = ...                          both output transforms in registers, then the epilogue

The transforms are fast, so nearly all time goes to the products, and most of that beyond the
multiply-adds is waiting for U: it is large, and the few tiles of a block use each of its elements
only a few times. U is therefore packed by panel, so that it is read in order, and requested early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitvm import schedule, te, tir
from minitvm.base import Target, divisors

from .convolution import CONVOLUTION, Convolution
from .gemm import WORTH_THREADS
from .options import Choose, Options, options_of
from .stages import axes_of, reads, reduce_axes_of
from .tile import AHEAD, register_tiles, tile_loops, vector_length
from .winograd import TILE

U_CYCLES = 1.5  # cycles for which loading one vector of U delays the multiply-adds
SHORT = 8  # rows of a register tile for any number of tiles; there is code for each shorter rest
MIN_SUMS = 8  # accumulators of a register tile: two multiply-adds a cycle, with a latency of four
V_CYCLES = 0.25  # for one element of V, which is in the first-level cache
LOOP_CYCLES = 1  # for the loop itself


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a schedule for conv2d_winograd.

    block      the rows of tiles whose V and M are computed together; 0 for those of all images
    tile       (rows, columns) of a register tile of the products: tiles of the image by output
               channels; a panel of U has as many columns
    ahead      how many iterations of the sum before its use a row of U is requested
    lanes      the length of a vector of output channels; data_lanes: of input channels
    parallel   whether the outermost loop runs in parallel
    """

    block: int
    tile: tuple[int, int]
    ahead: int
    lanes: int
    data_lanes: int
    parallel: bool


def plan(conv: Convolution, tile: int, target: Target) -> Plan:
    """Choose the parameters from the convolution and the properties of the CPU."""
    batch, inputs, outputs = conv.sizes
    data_lanes, lanes = (vector_length(n, target.lanes(conv.dtype)) for n in (inputs, outputs))
    tile_rows, tile_columns = conv.tiles(tile)
    products = (tile + 2) ** 2 * inputs * outputs
    parallel = target.num_cores > 1 and products * batch * tile_rows * tile_columns >= WORTH_THREADS
    row = (tile + 2) ** 2 * tile_columns * (inputs + outputs) * conv.dtype.bytes
    total = batch * tile_rows
    cores = target.num_cores if parallel else 1
    block = _block(conv, tile, row, products * conv.dtype.bytes, target.l2 // 2, cores)
    most = target.vector_registers if block else SHORT
    rows, vectors = _register_tile((block or total) * tile_columns, most, outputs, lanes, target)
    columns = vectors * lanes
    ahead = max(1, AHEAD // (columns * conv.dtype.bytes))
    return Plan(block, (rows, columns), ahead, lanes, data_lanes, parallel)


def _block_sizes(conv: Convolution, tile: int) -> Sequence[int]:
    """Return how many rows of tiles a block may have; see _output.

    They divide the rows of all images, or, if the batch is symbolic, the rows of one image.
    """
    rows, _ = conv.tiles(tile)
    if not isinstance(conv.batch, int):
        return divisors(rows)
    return divisors(conv.batch * rows) if conv.batch > 1 else range(1, rows + 1)


def _block(conv: Convolution, tile: int, row: int, u: int, cache: int, cores: int) -> int:
    """Choose the number of rows of tiles in a block by the bytes that miss half the L2 cache.

    row: the bytes of V and M for one row of tiles. u: the bytes of U. cache: half the bytes of the
    second-level cache, since its sets fill unevenly: they are chosen by physical addresses, and
    pages are at random ones.

    If U, V and M of a block fit, nothing misses. Otherwise each block reads U again, and writes and
    reads the part of V and M that does not fit. Returns 0 if that of all images misses least, and
    the batch is symbolic, so that no number of rows stands for all images.
    """
    total = conv.sizes[0] * conv.tiles(tile)[0]

    def missing(block: int) -> int:
        if u + block * row <= cache:
            return 0
        return -(-total // block) * (u + 2 * max(0, block * row - cache))

    most = max(1, -(-total // cores))
    fits = [n for n in _block_sizes(conv, tile) if n <= most]
    best = min(fits, key=lambda block: (missing(block), -block))
    if not isinstance(conv.batch, int) and missing(total) < missing(best):
        return 0
    equal = -(-most // -(-most // best))  # blocks of nearly equal size
    return equal if equal in fits else best


def _register_tile(
    tiles: int, most: int, outputs: int, lanes: int, target: Target
) -> tuple[int, int]:
    """Choose the rows, at most `most`, and vectors of a register tile by the products' cycles.

    A CPU is taken to do two multiply-adds per cycle. The registers must hold the accumulators, a
    row of U and one element of V.
    """

    def cycles(tile: tuple[int, int, int]) -> float:
        rows, _, vectors = tile
        loads = vectors * U_CYCLES + rows * V_CYCLES
        step = rows * vectors / 2 + loads + LOOP_CYCLES
        panels = -(-outputs // (vectors * lanes))
        uneven = 1.1 if outputs % (vectors * lanes) else 1.0  # a shorter last panel needs guards
        return -(-tiles // rows) * panels * step * uneven

    shapes = register_tiles(target, most)
    rows, _, vectors = min(shapes, key=lambda shape: (cycles(shape), shape))
    return rows, vectors


def _options(name: str, known: Plan, conv: Convolution, tile: int, target: Target) -> Options:
    """Return what a search may choose for a convolution whose default plan is `known`."""
    batch, _, outputs = conv.sizes
    total = batch * conv.tiles(tile)[0]
    smallest = {
        -(-total // block): block for block in reversed(_block_sizes(conv, tile))
    }  # for each count of blocks
    widest = -(-outputs // known.lanes)
    tiles = [
        (rows, vectors * known.lanes)
        for rows, _, vectors in register_tiles(target, target.vector_registers)
        if vectors <= widest and rows * vectors >= MIN_SUMS
    ]
    return options_of(name, known, block=smallest.values(), tile=tiles)


def schedule_winograd(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    target: Target,
    choose: Choose | None = None,
) -> set[str]:
    """Schedule all stages of conv2d_winograd; return their names.

    op: the output transform. out: the elementwise stage that reads it, or its own stage.
    choose: returns the plan.
    """
    stage = s[op.output(0)]
    conv: Convolution = op.attrs[CONVOLUTION]
    tile: int = op.attrs[TILE]
    p = plan(conv, tile, target)
    if choose is not None:
        p = choose(_options(stage.name, p, conv, tile, target))
    (half_out,) = op.input_tensors
    (product,) = reads(half_out.op)
    v, u = reads(product.op)
    (half_data,) = reads(v.op)
    block = _output(s, stage, out, half_out, tile, p)
    acc = _product(s, product, u, p)
    if block is not None:
        s[product].compute_at(out, block)
        s[v].compute_at(out, block)
    _data(s, v, half_data, conv.tiles(tile)[1], p)
    half_kernel = _kernel(s, u, p)
    parts = (half_out, product, acc, v, half_data, u, half_kernel)
    return {stage.name, out.name, *(s[t].name for t in parts)}


def _output(
    s: te.Schedule, stage: te.StageView, out: te.StageView, half: te.Tensor, tile: int, p: Plan
) -> te.Axis | None:
    """Schedule both output transforms and the epilogue; return the loop over blocks, if any.

    The rows of several images are one loop, and blocks divide it evenly. Otherwise lowering could
    not show that a block does not return to the first image, and would compute all of V and M.
    """
    n, y, x, o = axes_of(out)
    row, yi = out.split(y, factor=tile)
    column, xi = out.split(x, factor=tile)
    oo, oi = out.split(o, factor=p.lanes)
    rows = row if tir.prove_equal(n.extent, 1) else out.fuse(n, row)
    block = None
    if p.block:
        block, row = out.split(rows, factor=p.block)
    outer = (rows,) if block is None else (block, row)
    tile_loops(out, (*outer, column, oo), (yi, xi, oi))
    if p.parallel:
        out.parallel(outer[0])
    if stage.op is not out.op:
        stage.set_scope("local")
        stage.compute_at(out, oo)
        tile_loops(stage, (), axes_of(stage)[1:])
    s[half].set_scope("local")
    s[half].compute_at(out, oo)
    tiles, y, j, o = axes_of(s[half])
    tile_loops(s[half], (tiles,), (j, y, o))
    return block


def _product(s: te.Schedule, product: te.Tensor, u: te.Tensor, p: Plan) -> te.Tensor:
    """Schedule the matrix products; return the accumulators.

    Rows of V and M are padded by a vector: otherwise, the rows of a register tile could be in the
    same few sets of the cache.
    """
    v, _ = reads(s[product].op)
    acc, (rows, columns) = s.cache_write(product, "local"), p.tile
    i, j, tiles, o = axes_of(s[product])
    po, pi = s[product].split(tiles, factor=rows)
    oo, oi = s[product].split(o, factor=columns)
    tile_loops(s[product], (i, j, oo, po), (pi, *s[product].split(oi, factor=p.lanes)))
    s[acc].compute_at(s[product], po)
    i, j, pi, oi = axes_of(s[acc])
    (rc,) = reduce_axes_of(s[acc])
    _, pi = s[acc].split(pi, factor=rows)
    tile_loops(s[acc], (i, j, rc), (pi, *s[acc].split(oi, factor=p.lanes)))
    s[acc].prefetch(u, rc, p.ahead)
    if p.block:
        s[product].prefetch(u, oo)
    elif p.parallel:
        s[product].parallel(s[product].fuse(*axes_of(s[product])[:2]))
    for t, lanes in ((v, p.data_lanes), (product, p.lanes)):
        s[t].storage_align(axes_of(s[t])[2], 4 * lanes, lanes)
    return acc


def _data(s: te.Schedule, v: te.Tensor, half: te.Tensor, across: int, p: Plan) -> None:
    """Schedule both data transforms, tile by tile.

    Tiles are split into rows, so that the tests for padding are constant inside a row.
    """
    i, j, tiles, c = axes_of(s[v])
    row, column = s[v].split(tiles, factor=across)
    co, ci = s[v].split(c, factor=p.data_lanes)
    tile_loops(s[v], (row, column, co), (i, j, ci))
    if p.parallel and not p.block:
        s[v].parallel(row)
    s[half].set_scope("local")
    s[half].compute_at(s[v], co)
    tiles, i, q, c = axes_of(s[half])
    tile_loops(s[half], (tiles,), (q, i, c))


def _kernel(s: te.Schedule, u: te.Tensor, p: Plan) -> te.Tensor:
    """Schedule the transforms of the kernel, and pack U by panel; return the inner transform.

    Both stay at root, so that they are computed beforehand if the kernel is constant.
    """
    (half,) = reads(u.op)
    _, columns = p.tile
    panels = ("i", "j", f"o // {columns}", "c", f"o % {columns}")
    s.apply(schedule.TransformLayout(s[u].name, ("i", "j", "c", "o"), panels))
    i, j, c, o = axes_of(s[u])
    oo, oi = s[u].split(o, factor=columns)
    ov, ol = s[u].split(oi, factor=p.lanes)
    s[u].reorder(i, j, oo, c, ov, ol)
    s[u].vectorize(ol)
    if p.parallel:
        s[u].parallel(s[u].fuse(i, j, oo))
    s[half].vectorize(s[half].split(axes_of(s[half])[-1], factor=p.lanes)[1])
    return half
