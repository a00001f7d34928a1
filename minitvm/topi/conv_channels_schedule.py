"""A good schedule for conv2d in the layouts NHWC and NCHWc, found from the properties of the CPU.

The weights are packed, and tiles, chosen by conv_channels_plan.py, stay in registers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from minitvm import schedule, te, tir
from minitvm.base import Target

from .blocks import block_side, transpose_in_registers
from .conv_channels_plan import Sizes, plan_of, plan_options
from .convolution import CONVOLUTION, Convolution
from .gemm import WORTH_THREADS
from .layouts import NHWC, Layout
from .options import Choose
from .stages import axes_of, reduce_axes_of, reduction_length, worth_threads
from .tile import Tile, in_registers, tile_loops


def schedule_channels(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    target: Target,
    choose: Choose | None = None,
) -> set[str]:
    """Schedule conv2d in NHWC or NCHWc; return the names of the scheduled stages.

    out: the elementwise stage that reads the convolution, or the convolution itself.
    choose: returns the plan.

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
    image is padded before it. Large weights are requested before they are used: in a network, they
    come from the last cache or from memory. Then the first row of tiles would wait for its panel,
    and the others find it in L2; so each panel is requested during all tiles of the panel before.
    """
    conv = s[op.output(0)]
    about: Convolution = op.attrs[CONVOLUTION]
    z, layout = _sizes(op), about.layout
    if z is None:
        return set()
    total, per_group = op.output(0), z.outputs // about.groups
    image, kernel = op.input_tensors
    padded = s[image]
    threads = worth_threads(op, target, WORTH_THREADS)
    p = plan_of(z, layout, per_group, target, target.lanes(op.dtypes[0]), threads)
    if _is_copy(padded):
        p = replace(p, pad="never")
    if choose is not None:
        p = choose(plan_options(conv.name, p, z, layout, per_group, target))
    tile = Tile(*p.tile)
    packed = s[s.cache_read(kernel, "global", [total])]
    _pack(s, kernel, packed, layout, tile.channels, target)
    acc = in_registers(s, op, out)
    n, panels, yo, xo, inner = _tiles(out, layout, tile)
    tile_loops(out, (*((*panels, n, yo) if p.outside else (n, yo, *panels)), xo), inner)
    acc.compute_at(out, xo)
    term = _sum(acc, layout, tile, op)
    if p.ahead:
        acc.prefetch(packed.op.output(0), term, p.ahead)
    if p.next_panel:
        out.prefetch(packed.op.output(0), panels[-1], 1)
    row = yo
    if p.parallel:
        row = out.fuse(*panels, n, yo) if p.outside else out.fuse(n, yo)
        out.parallel(row)
    if p.pad == "never":
        padded.compute_inline()
    else:
        _pad(padded, target, parallel=p.parallel and p.pad == "before")
        if p.pad == "rows":
            padded.compute_at(out, row)
            if not p.parallel:  # a row is copied only once
                padded.store_at(out, n)
    return {conv.name, out.name, acc.name, packed.name, image.name}


def _sizes(op: te.ComputeOp) -> Sizes | None:
    """Return the sizes of a convolution, or None if it is empty or its channels are symbolic.

    A symbolic batch is taken to be one image.
    """
    image, kernel = op.input_tensors
    layout: Layout = op.attrs[CONVOLUTION].layout
    batch, item = op.shape[0], op.dtypes[0].bytes
    high, wide = op.shape[layout.height_axis :][:2]
    results = (layout.channels(op.output(0)), high, wide, reduction_length(op))
    memory = (reduce(tir.mul, shape, item) for shape in (image.shape[1:], kernel.shape))
    pixel = layout.block or image.shape[3]
    apart = tir.mul(op.attrs[CONVOLUTION].wide.stride * item, pixel)
    known = [n for n in (*results, *memory, apart) if isinstance(n, int) and n > 0]
    if len(known) < 7:
        return None
    outputs, high, wide, terms, pixels, weights, apart = known
    images = batch if isinstance(batch, int) else 1
    return Sizes(images, outputs, high, wide, terms, pixels, weights, item, apart)


def _tiles(
    stage: te.StageView, layout: Layout, tile: Tile
) -> tuple[te.Axis, list[te.Axis], te.Axis, te.Axis, list[te.Axis]]:
    """Split the axes of `stage` into tiles.

    Returns the loops over images, over panels, over rows and over columns of tiles, and the loops
    inside a tile, of which the last is a vector.
    """
    n, *blocks, y, x, o = axes_of(stage)
    if layout.block and tile.channels >= layout.block:
        outer, several = stage.split(blocks[0], factor=tile.channels // layout.block)
        panels, channels = [outer], [several, o]
    else:
        outer, last = stage.split(o, factor=tile.channels)
        panels, channels = [*blocks, outer], [last]
    yo, yi = stage.split(y, factor=tile.high)
    xo, xi = stage.split(x, factor=tile.wide)
    vectors = stage.split(channels[-1], factor=tile.lanes)
    return n, panels, yo, xo, [yi, xi, *channels[:-1], *vectors]


def _sum(acc: te.StageView, layout: Layout, tile: Tile, op: te.ComputeOp) -> te.Axis:
    """Schedule the loops that compute a tile; return the innermost loop that is not unrolled.

    Kernel elements and input channels are outer loops; unrolled pixels and vectors are inside. In
    NCHWc, one block of input channels is summed for all kernel elements before the next. The loops
    over kx and c are fused if the fused loop reads adjacent elements of the image and the panel.
    """
    n, panels, yo, xo, inner = _tiles(acc, layout, tile)
    c, ky, kx = reduce_axes_of(acc)
    terms = [ky, kx, c]
    if _blocks_of(layout, c.extent):
        co, c = acc.split(c, factor=layout.block)
        terms = [co, ky, kx, c]
    tile_loops(acc, (n, *panels, yo, xo, *terms), inner)
    pixel = layout.block or op.input_tensors[0].shape[3]  # elements from one pixel to the next
    if op.attrs[CONVOLUTION].wide.dilation == 1 and tir.prove_equal(pixel, c.extent):
        c = acc.fuse(kx, c)
    return c


def _blocks_of(layout: Layout, channels: tir.Index) -> bool:
    """Return whether the input channels of a group are whole blocks of NCHWc."""
    return layout.block > 0 and tir.prove_equal(tir.floormod(channels, layout.block), 0)


def _pack(
    s: te.Schedule,
    kernel: te.Tensor,
    packed: te.StageView,
    layout: Layout,
    width: int,
    target: Target,
) -> None:
    """Store the weights as panels of `width` output channels, in the order in which they are read.

    The last panel ends with unused elements if `width` does not divide the number of channels.
    """
    names = layout.weight("o", "c", "y", "x")
    panel = f"o // {width}", "y", "x", "c", f"o % {width}"
    if _blocks_of(layout, axes_of(packed)[1].extent):
        b = layout.block
        panel = f"o // {width}", f"c // {b}", "y", "x", f"c % {b}", f"o % {width}"
    s.apply(schedule.TransformLayout(packed.name, names, panel))
    if layout == NHWC:
        packed.vectorize(axes_of(packed)[-1])
        return
    o, c, y, x = axes_of(packed)
    side = block_side(target, kernel.dtype, width, c.extent)
    if not tir.prove_equal(tir.floormod(c.extent, side), 0):
        return
    block = s[s.cache_read(kernel, "local", [packed.op.output(0)])]
    s.apply(schedule.TransformLayout(block.name, names, ("c", "y", "x", "o")))
    (oo, oi), (co, ci) = (packed.split(a, factor=side) for a in (o, c))
    packed.reorder(oo, co, y, x, ci, oi)
    packed.vectorize(oi)
    column, *row = axes_of(block)
    _, lanes = block.split(block.fuse(*row), factor=side)  # c, y and x are adjacent in the kernel
    transpose_in_registers(block, packed, co, column, lanes)


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
