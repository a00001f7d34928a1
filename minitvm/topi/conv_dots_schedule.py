"""A good schedule for convolutions of bytes by dot products of four channels."""

from __future__ import annotations

from math import prod

from minitvm import schedule, te
from minitvm.base import Target

from .conv_channels_plan import Sizes, cost, panels_outside
from .convolution import CONVOLUTION, Convolution
from .gemm import WORTH_THREADS
from .int8 import GROUP, dot_tiles, tensorize_groups, vectors_of
from .options import Choose
from .stages import axes_of, reduce_axes_of, worth_threads
from .tile import Tile, in_registers, tile_loops


def schedule_conv_dots(
    s: te.Schedule, op: te.ComputeOp, out: te.StageView, target: Target, _: Choose | None = None
) -> set[str]:
    """Schedule `op`, the stage `dots`, and those around it; return the names of these stages.

    out: the stage in whose loops `dots` is computed, or `dots` itself.

    pack the weights into panels of the tile's groups; pad the image
    for panel, n, yo in parallel:       or n, yo, panel
      for xo:
        tile = 0
        for ky, kx, co:
          tile[yi, xi, oo] += four bytes of image[yo + yi + ky, xo + xi + kx] * panel[oo]
        out[n, yo + yi, xo + xi, o] = tile
    """
    stage, z = s[op.output(0)], _sizes(op)
    t = tile_of(z, target)
    groups = t.vectors
    tile = in_registers(s, op, out)
    n, y, x, *channels = axes_of(out)
    if out.name == stage.name:
        panel, oo = out.split(channels[0], factor=groups)
        inner = [oo, channels[1]]
    else:
        panel, o = out.split(channels[0], factor=t.channels)
        inner = [*out.split(o, factor=GROUP)]
    (yo, yi), (xo, xi) = out.split(y, factor=t.high), out.split(x, factor=t.wide)
    threads = worth_threads(op, target, WORTH_THREADS)
    outer = (panel, n, yo) if panels_outside(z, t, target, threads) else (n, yo, panel)
    tile_loops(out, (*outer, xo), (yi, xi, *inner))
    if threads:
        out.parallel(out.fuse(*outer))
    tile.compute_at(out, xo)
    _inner_loops(s, tile, t)
    image, packed = op.input_tensors
    _pack(s, s[packed], groups)
    names = {stage.name, out.name, tile.name, s[packed].name}
    if isinstance(image.op, te.ComputeOp):
        schedule_padding(s[image], target, threads)
        names.add(s[image].name)
    return names


def _inner_loops(s: te.Schedule, stage: te.StageView, t: Tile) -> None:
    """Schedule the loops that compute a tile: the sum outside unrolled pixels and groups."""
    (_, *axes, oi), (ky, kx, co, ci) = axes_of(stage), reduce_axes_of(stage)
    sizes = (t.high, t.wide, t.vectors)  # constant, also where the image or the channels end
    inner = [stage.split(a, factor=n)[1] for a, n in zip(axes, sizes, strict=True)]
    stage.reorder(ky, kx, co, *inner, oi, ci)
    for axis in inner:
        stage.unroll(axis)
    tensorize_groups(s, stage, oi, ci)


def tile_of(z: Sizes, target: Target) -> Tile:
    """Choose the tile with the least `cost` among those that the registers can hold."""
    vectors = vectors_of(target)
    tiles = [Tile(y, x, v // vectors, GROUP) for y, x, v in dot_tiles(target, z.high, z.wide)]
    return min(tiles, key=lambda t: cost(z, t, target))


def _sizes(op: te.ComputeOp) -> Sizes:
    """Return the sizes of a convolution, in which four bytes count as one term."""
    about: Convolution = op.attrs[CONVOLUTION]
    image, packed = op.input_tensors
    batch, inputs, outputs = op.shape[0], about.inputs, about.outputs
    assert isinstance(inputs, int)
    assert isinstance(outputs, int)
    pixels, weights, terms = (
        prod(n for n in shape if isinstance(n, int))  # all but the batch are constants
        for shape in (image.shape[1:], packed.shape, packed.shape[1:4])
    )
    images = batch if isinstance(batch, int) else 1
    apart = about.wide.stride * inputs
    high, wide = about.high.out, about.wide.out
    return Sizes(images, outputs, high, wide, terms, pixels, weights, 4, apart)


def _pack(s: te.Schedule, packed: te.StageView, groups: int) -> None:
    """Store the groups of a panel next to each other for each term."""
    names = ("o", "y", "x", "c", "l", "i")
    panel = (f"o // {groups}", "y", "x", "c", f"o % {groups}", "l", "i")
    s.apply(schedule.TransformLayout(packed.name, names, panel))
    *_, lane, byte = axes_of(packed)
    tile_loops(packed, (), (byte, lane))


def schedule_padding(image: te.StageView, target: Target, parallel: bool) -> None:
    """Schedule the stage `image` to copy rows in whole vectors."""
    n, y, *pixels = axes_of(image)
    row = image.fuse(*pixels) if len(pixels) > 1 else pixels[0]
    image.vectorize(image.split(row, factor=target.lanes("uint8"))[1])
    if parallel:
        image.parallel(image.fuse(n, y))
