"""A good schedule for conv2d in the layouts NHWC and NCHWc, found from the properties of the CPU.

A tile of the result, a few pixels by a few vectors of output channels, stays in registers during
the sum over kernel elements and input channels. Each step of the sum loads one element of each
pixel and one row of a panel of weights. `plan` chooses the tile and the order of the loops outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product

from minitvm import te, tensor, tir
from minitvm.base import Target

from .gemm import WORTH_THREADS
from .layouts import Layout, layout_of
from .stages import axes_of, has_points, reduce_axes_of, reduced_points

# Times in vector multiply-adds. Where a core can start two of them and two loads in one cycle, half
# of the loads cost nothing; a vector from L2 or from beyond takes longer.
IN_FLIGHT = 8  # multiply-adds that a core starts before the result of the first is ready
LOAD = 0.5  # one element of a pixel, or a vector of weights from L1
LOAD_L2, LOAD_FAR = 1.5, 4.0  # a vector of weights from L2, and from L3 or memory


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a convolution that its schedule depends on.

    batch                 the number of images
    outputs, high, wide   the channels, the rows and the columns of the result
    terms                 the length of each sum
    image, weights        the bytes of one padded image, and of all weights
    item                  the bytes of one element
    """

    batch: int
    outputs: int
    high: int
    wide: int
    terms: int
    image: int
    weights: int
    item: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of the result: `high` x `wide` pixels by `vectors` of `lanes` output channels."""

    high: int
    wide: int
    vectors: int
    lanes: int

    @property
    def channels(self) -> int:
        """The output channels of the tile."""
        return self.vectors * self.lanes


def plan(z: Sizes, layout: Layout, per_group: int, target: Target, lanes: int) -> Tile:
    """Choose the tile with the least `cost` of all that the registers can hold.

    They hold the tile, one row of the panel and one element of a pixel. A tile reads one group of
    `per_group` channels; the blocks of the layout divide it, or it divides a block.
    """
    lanes = math.gcd(lanes, layout.block, per_group if per_group < z.outputs else 0)
    lanes = min(lanes, 1 << (z.outputs.bit_length() - 1))
    best, least = Tile(1, 1, 1, lanes), math.inf
    for vectors in range(1, 5):
        channels = vectors * lanes
        whole = not layout.block or not (channels % layout.block and layout.block % channels)
        if not whole or (per_group < z.outputs and per_group % channels):
            continue
        pixels = max(1, (target.vector_registers - 1 - vectors) // vectors)
        for high in range(1, min(z.high, pixels) + 1):
            for wide in range(1, min(z.wide, pixels // high) + 1):
                tile = Tile(high, wide, vectors, lanes)
                found = cost(z, tile, target)
                if found < least:
                    best, least = tile, found
    return best


def cost(z: Sizes, tile: Tile, target: Target) -> float:
    """Return the time of one step of the sum in all tiles of an image, in vector multiply-adds.

    The tiles at the edges are smaller. A tile with few accumulators waits for their results.
    """
    panel = tile.channels * z.terms * z.item
    load = LOAD if panel <= target.l1 / 2 else LOAD_L2 if panel <= target.l2 else LOAD_FAR
    total = 0.0
    edges = _parts(z.high, tile.high), _parts(z.wide, tile.wide), _parts(z.outputs, tile.channels)
    for (rows, high), (columns, wide), (panels, channels) in product(*edges):
        vectors, pixels = -(-channels // tile.lanes), high * wide
        step = max(vectors * pixels, IN_FLIGHT) + pixels * LOAD + vectors * load
        total += rows * columns * panels * step
    return total


def _parts(size: int, part: int) -> Iterator[tuple[int, int]]:
    """Yield (number, length) of the parts of `size`: those of length `part`, and the rest."""
    yield size // part, part
    if size % part:
        yield 1, size % part


def panels_outside(z: Sizes, tile: Tile, target: Target) -> bool:
    """Return whether to loop over panels of weights outside the loop over rows of pixels.

    The loop outside reads its operand once. The other operand is read in each of its iterations,
    and comes from beyond L2 each time if L2 cannot hold it.
    """
    images = z.batch * z.image
    panels, rows = -(-z.outputs // tile.channels), z.batch * -(-z.high // tile.high)
    again = images * (panels if images > target.l2 else 1)
    return z.weights + again < images + z.weights * (rows if z.weights > target.l2 else 1)


def schedule_channels(
    s: te.Schedule, conv: te.StageView, out: te.StageView, target: Target
) -> set[str]:
    """Schedule conv2d in NHWC or NCHWc; return the names of the scheduled stages.

    out: the elementwise stage that reads the convolution, or the convolution itself.

    pack the weights into panels of the tile's channels
    for n, yo in parallel:              rows of tiles
      copy the padded rows of the image that are new
      for oo:                           panels
        for xo:                         tiles
          tile = 0
          for ky, (kx, c):
            tile[yi, xi, oi] += image[yo + yi + ky, xo + xi + kx, c] * panel[ky, kx, c, oi]
          out[n, yo + yi, xo + xi, oo + oi] = tile[yi, xi, oi]

    If weights are much larger than the image, the loop over panels is outermost, and the whole
    image is padded before it.
    """
    op = conv.op
    assert isinstance(op, te.ComputeOp)
    z, layout = _sizes(op), layout_of("conv2d", op.attrs["layout"])
    if z is None:
        return set()
    lanes, total = target.lanes(op.dtypes[0]), op.output(0)
    tile = plan(z, layout, z.outputs // op.attrs["groups"], target, lanes)
    image, kernel = _operands(op)
    packed, padded = s[s.cache_read(kernel, "global", [total])], s[image]
    _pack(packed, layout, tile.channels)
    acc = s[s.cache_write(total, "local")] if conv.name == out.name else conv
    acc.set_scope("local")
    n, panels, yo, xo, inner = _tiles(out, layout, tile)
    outside = panels_outside(z, tile, target)
    out.reorder(*((*panels, n, yo) if outside else (n, yo, *panels)), xo, *inner)
    for axis in inner[:-1]:
        out.unroll(axis)
    out.vectorize(inner[-1])
    acc.compute_at(out, xo)
    _sum(acc, layout, tile, op)
    threads = target.num_cores > 1 and has_points(op, WORTH_THREADS)
    _pad(padded, target, parallel=threads and outside)
    if _is_copy(padded):
        padded.compute_inline()
    elif not outside and not threads:
        padded.store_at(out, n)
    row = out.fuse(*panels, n, yo) if outside and threads else out.fuse(n, yo) if threads else yo
    if threads:
        out.parallel(row)
    if not outside and not _is_copy(padded):
        padded.compute_at(out, row)
    return {conv.name, out.name, acc.name, packed.name, image.name}


def _operands(op: te.ComputeOp) -> tuple[te.Tensor, te.Tensor]:
    """Return the padded image and the kernel that a convolution reads."""
    image, kernel = (e.buffer for e in tensor.loads(op))
    assert isinstance(image, te.Tensor)
    assert isinstance(kernel, te.Tensor)
    return image, kernel


def _sizes(op: te.ComputeOp) -> Sizes | None:
    """Return the sizes of a convolution, or None if it is empty or its channels are symbolic.

    A symbolic batch is taken to be one image.
    """
    image, kernel = _operands(op)
    layout = layout_of("conv2d", op.attrs["layout"])
    batch, *_ = op.shape
    item = op.dtypes[0].bytes
    _, _, high, wide = layout.pixel(*op.shape)
    found = (layout.channels(op.output(0)), high, wide, reduced_points(op))
    memory = (reduce(tir.mul, shape, item) for shape in (image.shape[1:], kernel.shape))
    sizes = [n for n in (*found, *memory) if isinstance(n, int) and n > 0]
    return Sizes(batch if isinstance(batch, int) else 1, *sizes, item) if len(sizes) == 6 else None


def _tiles(
    stage: te.StageView, layout: Layout, tile: Tile
) -> tuple[te.Axis, list[te.Axis], te.Axis, te.Axis, list[te.Axis]]:
    """Split the axes of `stage` into tiles.

    Returns the loops over images, over panels, over rows and over columns of tiles, and the loops
    inside a tile, of which the last is over adjacent channels.
    """
    if not layout.block:
        n, y, x, o = axes_of(stage)
        outer, last = stage.split(o, factor=tile.channels)
        panels, channels = [outer], [last]
    elif tile.channels < layout.block:
        n, block, y, x, o = axes_of(stage)
        outer, last = stage.split(o, factor=tile.channels)
        panels, channels = [block, outer], [last]
    else:
        n, block, y, x, o = axes_of(stage)
        outer, several = stage.split(block, factor=tile.channels // layout.block)
        panels, channels = [outer], [several, o]
    yo, yi = stage.split(y, factor=tile.high)
    xo, xi = stage.split(x, factor=tile.wide)
    return n, panels, yo, xo, [yi, xi, *channels]


def _sum(acc: te.StageView, layout: Layout, tile: Tile, op: te.ComputeOp) -> None:
    """Schedule the loops that compute a tile.

    Kernel elements and input channels are outside, unrolled pixels and vectors inside. In NCHWc, a
    block of input channels is added up for all kernel elements before the next. The loops over kx
    and c are one loop if it reads consecutive elements of the image and of the panel.
    """
    n, panels, yo, xo, inner = _tiles(acc, layout, tile)
    vectors, lanes = acc.split(inner[-1], factor=tile.lanes)
    c, ky, kx = reduce_axes_of(acc)
    terms = [ky, kx, c]
    if _blocks_of(layout, c.extent):
        co, c = acc.split(c, factor=layout.block)
        terms = [co, ky, kx, c]
    acc.reorder(n, *panels, yo, xo, *terms, *inner[:-1], vectors, lanes)
    pixel = layout.block or _operands(op)[0].shape[3]  # elements from one pixel to the next
    if op.attrs["dilation"][1] == 1 and tir.prove_equal(pixel, c.extent):
        acc.fuse(kx, c)
    for axis in (*inner[:-1], vectors):
        acc.unroll(axis)
    acc.vectorize(lanes)


def _blocks_of(layout: Layout, channels: tir.Index) -> bool:
    """Return whether the input channels of a group are whole blocks of NCHWc."""
    return layout.block > 0 and tir.prove_equal(tir.floormod(channels, layout.block), 0)


def _pack(packed: te.StageView, layout: Layout, width: int) -> None:
    """Store the weights as panels of `width` output channels, in the order in which they are read.

    The weights of the last panel are followed by unused elements if `width` does not divide them.
    """
    block = layout.block
    if layout.name == "NHWC":
        packed.transform_layout(lambda y, x, c, o: (o // width, y, x, c, o % width))
        packed.vectorize(axes_of(packed)[-1])
    elif _blocks_of(layout, axes_of(packed)[1].extent):
        packed.transform_layout(
            lambda o, c, y, x: (o // width, c // block, y, x, c % block, o % width)
        )
    else:
        packed.transform_layout(lambda o, c, y, x: (o // width, y, x, c, o % width))


def _pad(image: te.StageView, target: Target, parallel: bool) -> None:
    """Schedule the stage `image` to copy rows in whole vectors."""
    n, *rows, x, c = axes_of(image)
    lanes = target.lanes(image.op.output(0).dtype)
    if tir.prove_equal(tir.floormod(c.extent, lanes), 0):
        rows.append(x)
    else:
        c = image.fuse(x, c)
    image.vectorize(image.split(c, factor=lanes)[1])
    if parallel:
        image.parallel(image.fuse(n, rows[0]))


def _is_copy(image: te.StageView) -> bool:
    """Return whether the stage `image` adds no padding."""
    assert isinstance(image.op, te.ComputeOp)
    return isinstance(image.op.body[0], tir.Load)
