"""Templates of convolutions in NHWC and NCHWc, with constant weights.

pack the weights into panels as wide as a tile           before the calls
for n, yo, xo, oo:                    parallel; or panels outside
  for y1, x1, o1:                     tiles
    for co:                           input channels
      for ky, kx, ci:
        for yi, xi, ov, lanes:        a tile in registers: unrolled, vectorized
          out[n, y, x, o] += image[n, y + ky, x + kx, c] * weight[ky, kx, c, o]

The knob "cache" says whether one tile (2) or all tiles of an iteration of the outer loops (1) are
summed at a time; then tiles take turns for each block of input channels. "pad" says when the
padded image is made: before all, for each iteration of the outermost loop, or never, so that each
access tests for the border. An elementwise stage that reads the result is computed tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitvm import schedule, te, tensor, tir, topi
from minitvm.base import Target

from ..dispatch import get_config
from ..space import Config
from ..templates import template
from .stages import register_tiles, start

FEW = (1, 2, 4, 8)  # tiles along an axis in one iteration of the outer loops
LARGEST = 64  # input channels of a block


@template("conv2d_nhwc")
def conv2d_nhwc(
    n: int, h: int, w: int, c: int, o: int, kernel: int, stride: int = 1, pad: int = 0
) -> Any:
    """Convolve images [n, h, w, c] with constant weights [kernel, kernel, c, o]."""
    data = te.placeholder((n, h, w, c), name="data")
    weight = te.placeholder((kernel, kernel, c, o), name="weight", constant=True)
    out = topi.conv2d(data, weight, stride, pad, layout="NHWC")
    return schedule_conv(get_config(), [out], out), [data, weight, out]


@template("conv2d_nchwc")
def conv2d_nchwc(
    n: int,
    h: int,
    w: int,
    c: int,
    o: int,
    kernel: int,
    stride: int = 1,
    pad: int = 0,
    block: int = 16,
) -> Any:
    """Convolve images [n, c / block, h, w, block] with constant weights [o, c, kernel, kernel]."""
    data = te.placeholder((n, c // block, h, w, block), name="data")
    weight = te.placeholder((o, c, kernel, kernel), name="weight", constant=True)
    out = topi.conv2d(data, weight, stride, pad, layout=f"NCHW{block}c")
    return schedule_conv(get_config(), [out], out), [data, weight, out]


def schedule_conv(cfg: Config, outs: Sequence[te.Tensor], conv: te.Tensor) -> te.Schedule:
    """Schedule `outs`: one convolution in NHWC or NCHWc, and elementwise stages that read it."""
    assert isinstance(conv.op, te.ComputeOp)
    image, kernel = (e.buffer for e in tensor.loads(conv.op))
    assert isinstance(image, te.Tensor)
    assert isinstance(kernel, te.Tensor)
    s, out = start(outs, conv, keep=(image,))
    padded = not isinstance(_body(image), tir.Load)
    _define(cfg, conv, padded=padded)
    acc = s[conv if out.op is not conv.op else s.cache_write(conv, "local")]
    weights = s[s.cache_read(kernel, "global", [acc.op.output(0)])]
    acc.set_scope("local")
    _pack(weights, math.prod(cfg["tile"].size[2:]), conv)
    outer, middle, inner = _loops(cfg, out, conv)
    if cfg["order"].val:  # panels outside
        outer = [outer[0], outer[-1], *outer[1:-1]]
    out.reorder(*outer, *middle, *inner)
    _registers(out, inner)
    level, last = cfg["cache"].val, [*outer, *middle][-1]
    acc.compute_at(out, outer[-1] if level == 1 else last)
    _sum(cfg, acc, conv, level)
    row = out.fuse(*outer[:2])
    if Target.current().num_cores > 1:
        out.parallel(row)
    _place_image(cfg, s[image], out, row, padded=padded)
    return s


def _body(image: te.Tensor) -> tir.Expr:
    assert isinstance(image.op, te.ComputeOp)
    return image.op.body[0]


def _is_nhwc(conv: te.Tensor) -> bool:
    return conv.ndim == 4


def _lanes(conv: te.Tensor) -> int:
    """Return the elements of a vector: those of a register, or of a block of channels."""
    lanes = Target.current().lanes(conv.dtype)
    channels = conv.shape[-1]
    assert isinstance(channels, int)
    return min(lanes, 1 << (channels.bit_length() - 1)) if _is_nhwc(conv) else channels


def _define(cfg: Config, conv: te.Tensor, *, padded: bool) -> None:
    """Define the knobs."""
    op, target = conv.op, Target.current()
    assert isinstance(op, te.ComputeOp)
    high, wide = conv.shape[-3:-1]
    vectors = -(-conv.shape[-1] // _lanes(conv)) if _is_nhwc(conv) else conv.shape[1]  # type: ignore[operator]
    assert isinstance(high, int)
    assert isinstance(wide, int)
    assert isinstance(vectors, int)
    tiles = register_tiles(high, wide, vectors, target)
    lanes = _lanes(conv)
    cfg.define_split("tile", 1, "candidate", candidate=[(*tile, lanes) for tile in tiles])
    for name, length in (("rows", high), ("columns", wide), ("panels", vectors)):
        cfg.define_knob(name, [n for n in FEW if n <= length])
    c = op.reduce_axis[0].extent
    assert isinstance(c, int)
    if _is_nhwc(conv):
        cfg.define_split("tile_c", c, max_factor=max(LARGEST, c // 4))
    else:
        cfg.define_split("tile_c", c, "candidate", candidate=[(-1, math.gcd(c, _lanes(conv)))])
    cfg.define_knob("cache", [1, 2])
    cfg.define_knob("order", [0, 1])
    cfg.define_knob("pad", [0, 1, 2] if padded else [2])


def _loops(
    cfg: Config, stage: te.StageView, conv: te.Tensor, inside: int = 0
) -> tuple[list[te.Axis], list[te.Axis], list[te.Axis]]:
    """Split the data loops of a stage; return loops outside, loops over tiles, loops in a tile.

    inside    1 for the stage that sums all tiles of an iteration of the outer loops, 2 for a stage
              that sums one tile; the outer loops of both have one iteration, and are not split off
    """
    high, wide, vectors, width = cfg["tile"].size
    if _is_nhwc(conv):
        n, y, x, o = topi.stages.axes_of(stage)
        o, lanes = stage.split(o, factor=width)
    else:
        n, o, y, x, lanes = topi.stages.axes_of(stage)
    outer, middle, inner = [n], list[te.Axis](), list[te.Axis]()
    for axis, size, name in ((y, high, "rows"), (x, wide, "columns"), (o, vectors, "panels")):
        rest, last = stage.split(axis, factor=size)
        if not inside:
            rest, several = stage.split(rest, factor=cfg[name].val)
            outer.append(rest)
            middle.append(several)
        else:
            middle.append(rest)
        inner.append(last)
    return outer, middle, [*inner, lanes]


def _registers(stage: te.StageView, inner: Sequence[te.Axis]) -> None:
    """Unroll the loops of a tile, and vectorize the last one."""
    for axis in inner[:-1]:
        stage.unroll(axis)
    stage.vectorize(inner[-1])


def _sum(cfg: Config, acc: te.StageView, conv: te.Tensor, level: int) -> None:
    """Schedule the loops that sum one tile or several."""
    outer, middle, inner = _loops(cfg, acc, conv, inside=level)
    c, ky, kx = topi.stages.reduce_axes_of(acc)
    co, ci = cfg["tile_c"].apply(acc.schedule, acc.name, c)
    acc.reorder(*outer, co, *middle, ky, kx, ci, *inner)
    _registers(acc, inner)


def _pack(weights: te.StageView, width: int, conv: te.Tensor) -> None:
    """Store the weights as panels of `width` output channels, in the order of the sum."""
    if _is_nhwc(conv):
        names, panel = ("y", "x", "c", "o"), (f"o // {width}", "y", "x", "c", f"o % {width}")
        weights.vectorize(topi.stages.axes_of(weights)[-1])
    else:
        block = math.gcd(int(topi.stages.axes_of(weights)[1].extent), _lanes(conv))  # type: ignore[arg-type]
        names = ("o", "c", "y", "x")
        panel = (f"o // {width}", f"c // {block}", "y", "x", f"c % {block}", f"o % {width}")
    weights.schedule.apply(schedule.TransformLayout(weights.name, names, panel))


def _place_image(
    cfg: Config, image: te.StageView, out: te.StageView, row: te.Axis, *, padded: bool
) -> None:
    """Compute the padded image at the place that the knob "pad" chooses."""
    if cfg["pad"].val == 2 or not padded:
        image.compute_inline()
        return
    lanes = Target.current().lanes(image.op.output(0).dtype)
    n, *rows, x, c = topi.stages.axes_of(image)
    image.vectorize(image.split(image.fuse(x, c), factor=lanes)[1])
    if cfg["pad"].val:
        image.compute_at(out, row)
    elif Target.current().num_cores > 1:
        image.parallel(image.fuse(n, *rows))
