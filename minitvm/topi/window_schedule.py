"""A good schedule for depthwise convolution and pooling.

Both reduce a window of pixels in each channel separately. A tile of the result, a few
pixels by a few vectors of channels, stays in registers during the reduction. In NCHW, where the
columns of an image are adjacent and not the channels, a tile is a few rows by a few vectors of
columns. There is no padded copy of the image: the loops are partitioned so that only tiles at its
border test for padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from minitvm import schedule, te, tensor, tir
from minitvm.base import Target

from .layouts import NCHW, Layout
from .options import Choose, options_of
from .stages import axes_of, reduce_axes_of, worth_threads
from .tile import (
    Tile,
    in_registers,
    parts,
    register_tiles,
    tile_loops,
    tiles_to_search,
    vector_length,
)
from .window import SHARED

MAX_RESULTS = 8  # more would load less, but from more cache lines at a time
IN_FLIGHT = 4  # operations that hide the latency of one another; the next tile's help to hide it
MAX_WEIGHTS = 6  # those of a longer row are operands in memory
LOAD = 1 / 2  # the time to load a vector from the first cache, in operations on a vector
FETCH = 3 / 4  # the time to bring a vector to the first cache from the second
WORTH_THREADS = 1 << 18  # operations; fewer are finished before a second thread starts
UNROLLED = 256  # most operations in the body of the innermost loop that is not unrolled


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that the schedule of a reduction over windows depends on.

    high, wide   the rows and the columns of the result; in NCHW, wide is 1
    channels     the adjacent channels; in NCHW, the columns
    windows      (kernel, stride) of the window along the height and the width; four rows of dot
                 products count as one
    weighted     whether the elements of a window are multiplied by weights
    shared       the rows of the result whose dot products read the same pixels; 1 otherwise
    """

    high: int
    wide: int
    channels: int
    windows: tuple[tuple[int, int], tuple[int, int]]
    weighted: bool
    shared: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a schedule: (rows, columns, vectors, lanes) of a tile, and the loops over
    the window that are unrolled: none, that over its columns, or both.
    """

    tile: Tile
    unroll: int


def plan(z: Sizes, target: Target, lanes: int) -> Tile:
    """Choose the tile with the least `cost` of those whose results and pixels fit the registers."""
    lanes = vector_length(z.channels, lanes)
    widths = [v for v in (1, 2, 4, 8) if v == 1 or v * lanes <= z.channels]
    tiles = [Tile(*t, lanes) for t in register_tiles(target, z.high, z.wide, widths)]
    usable = [
        t
        for t in reversed(tiles)  # prefer tall tiles, which load fewest rows twice
        if t.high * t.wide * t.vectors <= MAX_RESULTS
        and t.high % z.shared == 0
        and _registers(z, t) <= target.vector_registers
    ]
    return min(usable, key=lambda t: cost(z, t), default=Tile(1, 1, 1, lanes))


def _registers(z: Sizes, tile: Tile) -> int:
    """Return how many registers a tile needs: for results, a row of weights, and pixels.

    A row of the window is applied to all rows of the tile before the next one. So all rows of
    pixels but one are read again, by the row of the tile above. Of that one, two pixels suffice.
    """
    kernel, stride = z.windows[1]
    pixels = (tile.high - 1) * _covered(tile.wide, kernel, stride) + 2
    return tile.high * tile.wide * tile.vectors + min(kernel, MAX_WEIGHTS) + pixels


def cost(z: Sizes, tile: Tile) -> float:
    """Return the time of all tiles of an image, in operations on a vector.

    The tiles at the edges are smaller. A tile with few results waits for each of them. It loads
    each pixel that its windows cover once, and each weight. Pixels that the tile beside it has
    loaded are in the first cache; those of the tile above it no longer are.
    """
    (ky, sy), (kx, sx) = z.windows
    total = 0.0
    edges = parts(z.high, tile.high), parts(z.wide, tile.wide), parts(z.channels, tile.channels)
    for (rows, high), (columns, wide), (several, channels) in product(*edges):
        vectors = -(-channels // tile.lanes)
        operations = max(high * wide * vectors, IN_FLIGHT) * ky * kx
        rows_covered, columns_covered = _covered(high, ky, sy), _covered(wide, kx, sx)
        loads = vectors * (rows_covered * columns_covered + (ky * kx if z.weighted else 0))
        fetches = vectors * rows_covered * wide * min(sx, kx)
        total += rows * columns * several * (operations + LOAD * loads + FETCH * fetches)
    return total


def _covered(positions: int, kernel: int, stride: int) -> int:
    """Return how many pixels a kernel covers at `positions` adjacent positions."""
    return kernel + (positions - 1) * min(stride, kernel)


def schedule_window(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    target: Target,
    choose: Choose | None = None,
) -> set[str]:
    """Schedule a reduction over windows; return the names of the scheduled stages.

    out: the elementwise stage that reads the reduction, or the reduction itself.
    choose: returns the plan.

    for n, yo in parallel:              rows of tiles
      for xo, co:                       tiles
        tile = 0
        for ky, kx: tile[yi, xi, ci] += pixel[yo + yi + ky, xo + xi + kx, co + ci] * weight
        out[n, yo + yi, xo + xi, co + ci] = tile[yi, xi, ci]
    """
    fold = s[op.output(0)]
    layout, z = op.attrs["layout"], _sizes(op)
    if z is None:
        return set()
    tile = plan(z, target, target.lanes(op.dtypes[0]))
    p = Plan(tile, _unrolled(z, tile))
    if choose is not None:
        tiles = tiles_to_search(target, z.high, z.wide, z.channels, tile.lanes)
        p = choose(options_of(fold.name, p, tile=tiles, unroll=(0, 1, 2)))
    tile = Tile(*p.tile)
    names = _pack(s, op, layout)
    acc = in_registers(s, op, out)
    outer, inner = _tiles(out, layout, tile)
    tile_loops(out, outer, inner)
    if worth_threads(op, target, WORTH_THREADS):
        out.parallel(out.fuse(*outer[:-2]))
    acc.compute_at(out, outer[-1])
    _fold(acc, layout, tile, p.unroll)
    return names | {fold.name, out.name, acc.name}


def _sizes(op: te.ComputeOp) -> Sizes | None:
    """Return the sizes of a reduction over windows; None if they are symbolic or 0."""
    layout: Layout = op.attrs["layout"]
    high, wide = op.shape[layout.height_axis :][:2]
    if layout == NCHW:
        wide = 1
    sizes = [n for n in (high, wide, op.shape[-1]) if isinstance(n, int) and n > 0]
    if len(sizes) < 3 or tir.prove_equal(op.shape[0], 0):
        return None
    has_weights = len({e.buffer for e in tensor.loads(op)}) > 1
    rows, columns = op.attrs["windows"]
    taps = -(-rows.kernel // 4) if SHARED in op.attrs else rows.kernel
    window, shared = (
        ((taps, rows.stride), (columns.kernel, columns.stride)),
        op.attrs.get(SHARED, 1),
    )
    return Sizes(sizes[0], sizes[1], sizes[2], window, has_weights, shared)


def _tiles(stage: te.StageView, layout: Layout, tile: Tile) -> tuple[list[te.Axis], list[te.Axis]]:
    """Split the axes of `stage` into tiles; return the loops over tiles, and those inside a tile.

    The loops over columns and adjacent channels are the last of the loops over tiles.
    """
    if layout == NCHW:
        *outer, y, x = axes_of(stage)
        yo, yi = stage.split(y, factor=tile.high)
        xo, xi = stage.split(x, factor=tile.channels)
        return [*outer, yo, xo], [yi, xi]
    *outer, y, x, c = axes_of(stage)
    yo, yi = stage.split(y, factor=tile.high)
    xo, xi = stage.split(x, factor=tile.wide)
    co, ci = stage.split(c, factor=tile.channels)
    return [*outer, yo, xo, co], [yi, xi, ci]


def _unrolled(z: Sizes, tile: Tile) -> int:
    """Return how many loops over the window have a body of at most UNROLLED operations."""
    (ky, _), (kx, _) = z.windows
    size = tile.high * tile.wide * tile.vectors * kx
    return (size <= UNROLLED) + (size * ky <= UNROLLED)


def _fold(acc: te.StageView, layout: Layout, tile: Tile, unroll: int) -> None:
    """Schedule the loops that compute a tile: one row of the window after the other.

    Few pixels and weights are then needed at a time. Loops that are not unrolled are outermost.
    """
    outer, (*pixels, last) = _tiles(acc, layout, tile)
    vectors, lanes = acc.split(last, factor=tile.lanes)
    ky, kx = reduce_axes_of(acc)
    rolled_axes, unrolled_axes = (
        ([ky, kx], [vectors, *pixels]),
        ([ky], [vectors, *pixels, kx]),
        ([], [vectors, ky, *pixels, kx]),
    )[unroll]
    tile_loops(acc, (*outer, *rolled_axes), (*unrolled_axes, lanes))


def _pack(s: te.Schedule, op: te.ComputeOp, layout: Layout) -> set[str]:
    """Store the weights of an NCHWc convolution as [C / c, KH, KW, c], if there are any."""
    kernels = [t for t in op.input_tensors if t.ndim == 4]
    if not layout.block or not kernels or not tir.prove_equal(kernels[0].shape[1], 1):
        return set()
    (kernel,) = kernels
    packed, block = s[s.cache_read(kernel, "global", [op.output(0)])], layout.block
    panel = (f"c // {block}", "m", "y", "x", f"c % {block}")
    s.apply(schedule.TransformLayout(packed.name, ("c", "m", "y", "x"), panel))
    return {packed.name}
