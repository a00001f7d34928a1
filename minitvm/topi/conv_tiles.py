"""Convolutions of bytes in NHWC on AMX, the matrix unit of Intel's server CPUs.

A tile of the left operand has a row for each of up to 16 pixels: some bytes of its channels. The
row distance of a load is free, so the windows of a convolution are loaded as they lie in memory. An
image whose rows are shorter than 8 pixels fills a tile with two or more of its rows.

    image[n, y, x, c]                    the padded data; as [n, y*pitch + x, c] for several rows
    packed[oo, co, ky, kx, g, j, b]      kernel[ky, kx, co*depth + g*4 + b, oo*16 + j]
    left[n, yo, xo, co, ky, kx, i, k]    image[n, y*stride + ky, x*stride + kx, co*depth + k], where
                                         (y, x) is pixel i of the tile
    sums[n, yo, xo, oo, i, j]            sum(left[n, yo, xo, co, ky, kx, i, g*4 + b]
                                             * right[oo, co, ky, kx, g, j, b], [co, ky, kx, g, b])
    out[n, y, x, o]                      the sums, from registers to memory

Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, section 20.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from minitvm import schedule, te, tir
from minitvm.base import Target, divisors

from . import amx
from .conv_dots import padded_image
from .conv_dots_schedule import schedule_padding
from .convolution import CONVOLUTION, Convolution
from .gemm import WORTH_THREADS
from .options import Choose
from .shape import INJECTIVE
from .stages import axes_of, reads, reduce_axes_of, worth_threads
from .tile import tile_loops
from .window import padded_pixel

CONV_TILES = "conv_tiles"  # the tag of the stage `sums`
WORD = 4  # bytes that are multiplied together
FEWEST_PIXELS = 7  # in a tile, for which it is worth the unit


class Pixels(NamedTuple):
    """The pixels of a tile: `wide` pixels of `high` rows, which lie `pitch` pixels apart."""

    high: int
    wide: int
    pitch: int

    @property
    def rows(self) -> int:
        """The rows of the tile, including pixels between the end of a row and the next one."""
        return (self.high - 1) * self.pitch + self.wide


def pixels_of(conv: Convolution) -> Pixels:
    """Choose the pixels of a tile: as much of a row as fits, or as many whole rows as fit."""
    pitch, wide, high = conv.wide.span, conv.wide.out, 1
    if conv.wide.stride == conv.high.stride == 1:
        high = max(1, min(conv.high.out, (amx.ROWS - wide) // pitch + 1))
    if wide > amx.ROWS:
        wide = max(n for n in divisors(wide) if n <= amx.ROWS)
    return Pixels(high, wide, pitch)


def fits_tiles(conv: Convolution, kernel: te.Tensor) -> bool:
    """Return whether the unit of the current target computes `conv`, and well.

    The weights must be constant, since packing them takes as long as a few products.
    """
    known = all(isinstance(n, int) for n in (conv.inputs, conv.outputs))
    constant = isinstance(kernel.op, te.PlaceholderOp) and kernel.op.constant
    if not known or not constant or "int8" not in Target.current().amx:
        return False
    has_types = (str(conv.dtype), str(kernel.dtype)) in amx.BYTES
    is_even = conv.inputs % 16 == 0 and conv.outputs % amx.COLUMNS == 0
    is_dense = conv.high.dilation == conv.wide.dilation == 1
    return has_types and is_even and is_dense and pixels_of(conv).rows >= FEWEST_PIXELS


def conv_tiles(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define the convolution `conv`, for which `fits_tiles` must be true."""
    high, wide, p = conv.high, conv.wide, pixels_of(conv)
    inputs, outputs = conv.inputs, conv.outputs
    assert isinstance(inputs, int)
    assert isinstance(outputs, int)
    depth = max(n for n in divisors(inputs) if n <= amx.GROUPS * WORD and n % WORD == 0)
    down = -(-high.out // p.high)  # tiles
    image = _rows(data, conv, down * p.high) if p.high > 1 else padded_image(data, conv, conv.dtype)
    steps, groups = inputs // depth, depth // WORD

    def weight(oo: Any, co: Any, ky: Any, kx: Any, g: Any, j: Any, b: Any) -> Any:
        return kernel(ky, kx, co * depth + g * WORD + b, oo * amx.COLUMNS + j)

    shape = (outputs // amx.COLUMNS, steps, high.kernel, wide.kernel, groups, amx.COLUMNS, WORD)
    packed = te.compute(shape, weight, name="T_packed")
    right = te.compute(shape, packed, name="T_right")

    def byte(n: Any, yo: Any, xo: Any, co: Any, ky: Any, kx: Any, i: Any, k: Any) -> Any:
        at = co * depth + k
        if p.high > 1:
            return image(n, (yo * p.high + ky) * p.pitch + i + kx, at)
        return image(n, yo * high.stride + ky, (xo * p.wide + i) * wide.stride + kx, at)

    tiles = (conv.batch, down, wide.out // p.wide)
    shape = (*tiles, steps, high.kernel, wide.kernel, p.rows, depth)
    left = te.compute(shape, byte, name="T_left")
    extents = {"co": steps, "ky": high.kernel, "kx": wide.kernel, "g": groups, "b": WORD}
    co, ky, kx, g, b = axes = [te.reduce_axis((0, n), name) for name, n in extents.items()]

    def total(n: Any, yo: Any, xo: Any, oo: Any, i: Any, j: Any) -> Any:
        pixel, bytes_ = left(n, yo, xo, co, ky, kx, i, g * WORD + b), right(oo, co, ky, kx, g, j, b)
        return te.sum(pixel.astype("int32") * bytes_.astype("int32"), axis=axes)

    shape, about = (*tiles, outputs // amx.COLUMNS, p.rows, amx.COLUMNS), {CONVOLUTION: conv}
    sums = te.compute(shape, total, name="T_sums", tag=CONV_TILES, attrs=about)

    def element(n: Any, y: Any, x: Any, o: Any) -> Any:
        i = y % p.high * p.pitch + x % p.wide
        return sums(n, y // p.high, x // p.wide, o // amx.COLUMNS, i, o % amx.COLUMNS)

    shape = (conv.batch, high.out, wide.out, outputs)
    return te.compute(shape, element, name="T_conv2d", tag=INJECTIVE, attrs=about)


def _rows(data: te.Tensor, conv: Convolution, out_rows: int) -> te.Tensor:
    """Define the padded image as one row of pixels, long enough for `out_rows` rows of outputs."""
    pitch, rows = conv.wide.span, out_rows + conv.high.reach - 1
    high = replace(conv.high, after=conv.high.after + rows - conv.high.span)
    pixel = padded_pixel(data, conv.layout, high, conv.wide, conv.pad_value)

    def element(n: Any, q: Any, c: Any) -> Any:
        return pixel(n, c, q // pitch, q % pitch)

    return te.compute(
        (conv.batch, rows * pitch, conv.inputs), element, name="T_image", tag=INJECTIVE
    )


class Block(NamedTuple):
    """Tiles of sums that are computed together: rows and columns of tiles, and channel groups."""

    high: int
    wide: int
    panel: int


def _block(op: te.ComputeOp) -> Block:
    """Return a block of 2 x 2 tiles, or of fewer where the image or the channels have only one."""
    down, across, groups = (n if isinstance(n, int) else 1 for n in op.shape[1:4])
    high = 2 if down % 2 == 0 else 1
    wide = 2 if high == 1 and across % 2 == 0 else 1
    return Block(high, wide, 2 if groups % 2 == 0 else 1)


def schedule_conv_tiles(
    s: te.Schedule, op: te.ComputeOp, out: te.StageView, target: Target, _: Choose | None = None
) -> set[str]:
    """Schedule `op`, the stage `sums`, and those around it; return the names of these stages.

    out: the stage in whose loops `sums` is computed, or `sums` itself.

    pack the weights; pad the image
    for panel, n, yo in parallel:
      for xo:
        zero 2 x 2 tiles
        for co, ky, kx: load 2 tiles of the image and 2 of the panel; multiply them
        store 2 x 2 tiles
        out[n, yo + yi, xo + xi, o] = the sums
    """
    b, p, memory = _block(op), pixels_of(op.attrs[CONVOLUTION]), s[op.output(0)]
    tiles = s[s.cache_write(op.output(0), tir.amx.SCOPE)]
    n, y, x, o = axes_of(out)[:4]
    is_epilogue = out.name != memory.name
    size = (p.high, p.wide, amx.COLUMNS) if is_epilogue else (1, 1, 1)
    (yo, yi), (xo, xi), (oo, oi) = (
        out.split(axis, factor=count * one)
        for axis, count, one in zip((y, x, o), b, size, strict=True)
    )
    if is_epilogue:
        out.reorder(oo, n, yo, xo, yi, xi, oi)
        out.vectorize(out.split(oi, factor=amx.COLUMNS)[1])
        memory.set_scope("local")
        memory.compute_at(out, xo)
        inner = _constant_loops(memory, b)
    else:
        inner = [yi, xi, oi]
    i, j = axes_of(memory)[-2:]
    outer = () if is_epilogue else (oo, n, yo, xo)
    memory.reorder(*outer, *inner, i, j)
    _unroll(memory, inner)
    rows = int(memory.op.output(0).shape[-2])
    memory.tensorize(i, amx.store_intrin(rows))
    tiles.compute_at(out, xo)
    _schedule_sums(s, tiles, b, op.attrs[CONVOLUTION].wide.stride)
    threads = worth_threads(op, target, WORTH_THREADS)
    if threads:
        out.parallel(out.fuse(oo, n, yo))
    left, right = reads(tiles.op)
    (image,), (packed,) = reads(left.op), reads(right.op)
    _pack(s, s[packed], b.panel)
    names = {memory.name, out.name, tiles.name, *(s[t].name for t in (left, right, packed))}
    if isinstance(image.op, te.ComputeOp):
        schedule_padding(s[image], target, threads)
        names.add(s[image].name)
    return names


def _constant_loops(stage: te.StageView, b: Block) -> list[te.Axis]:
    """Split the loops over tiles; return the inner ones, which are constant at all borders."""
    return [
        stage.split(axis, factor=count)[1]
        for axis, count in zip(axes_of(stage)[1:4], b, strict=True)
    ]


def _unroll(stage: te.StageView, axes: Iterable[te.Axis]) -> None:
    for axis in axes:
        stage.unroll(axis)


def _schedule_sums(s: te.Schedule, tiles: te.StageView, b: Block, stride: int) -> None:
    """Schedule the products of tiles, and the loads of operands; pixels lie `stride` apart."""
    *_, i, j = axes_of(tiles)
    co, ky, kx, g, byte = reduce_axes_of(tiles)
    inner = _constant_loops(tiles, b)
    tiles.reorder(co, ky, kx, *inner, i, j, g, byte)
    _unroll(tiles, inner)
    left, right = reads(tiles.op)
    types = amx.BYTES[str(left.dtype), str(right.dtype)]
    rows, depth = (int(n) for n in left.shape[-2:])
    tiles.tensorize(i, amx.product_intrin(rows, types, depth // WORD))
    for tile, shape, step in ((left, (rows, depth), stride), (right, right.shape[-3:], 1)):
        stage, sizes = s[tile], tuple(int(n) for n in shape)
        stage.set_scope(tir.amx.SCOPE)
        stage.compute_at(tiles, kx)
        axes = axes_of(stage)
        _unroll(stage, axes[: -len(sizes)])
        stage.tensorize(axes[-len(sizes)], amx.load_intrin(sizes, str(tile.dtype), step))


def _pack(s: te.Schedule, packed: te.StageView, panel: int) -> None:
    """Store the tiles of a panel next to each other for each term."""
    names = ("o", "c", "y", "x", "g", "j", "b")
    by_panel = (f"o // {panel}", "c", "y", "x", f"o % {panel}", "g", "j", "b")
    s.apply(schedule.TransformLayout(packed.name, names, by_panel))
    *_, lane, byte = axes_of(packed)
    tile_loops(packed, (), (byte, lane))
