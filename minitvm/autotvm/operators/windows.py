"""The template of depthwise convolutions: each channel has a kernel of its own.

for n, yo, xo, co:                    parallel
  for ky, kx:                         unrolled, as the knob "unroll" says
    for yi, xi, vectors, lanes:       a tile in registers: unrolled, vectorized
      out[n, y, x, c] += image[n, y + ky, x + kx, c] * weight[ky, kx, c]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm import te, topi
from minitvm.base import Target

from ..dispatch import get_config
from ..space import Config
from ..templates import template
from .stages import register_tiles, start


@template("depthwise_nhwc")
def depthwise_nhwc(
    n: int, h: int, w: int, c: int, kernel: int, stride: int = 1, pad: int = 0
) -> Any:
    """Convolve each channel of images [n, h, w, c] with weights [kernel, kernel, c, 1]."""
    data = te.placeholder((n, h, w, c), name="data")
    weight = te.placeholder((kernel, kernel, c, 1), name="weight", constant=True)
    out = topi.depthwise_conv2d(data, weight, stride, pad, layout="NHWC")
    return schedule_windows(get_config(), [out], out), [data, weight, out]


def schedule_windows(cfg: Config, outs: Sequence[te.Tensor], fold: te.Tensor) -> te.Schedule:
    """Schedule `outs`: one reduction over windows in NHWC, and elementwise stages that read it."""
    s, out = start(outs, fold)
    target = Target.current()
    sizes = [n for n in fold.shape[1:] if isinstance(n, int)]
    lanes = min(target.lanes(fold.dtype), 1 << (sizes[2].bit_length() - 1))
    tiles = register_tiles(sizes[0], sizes[1], -(-sizes[2] // lanes), target)
    cfg.define_split("tile", 1, "candidate", candidate=tiles)
    cfg.define_knob("order", [0, 1])
    cfg.define_knob("unroll", [0, 1, 2])
    acc = s[fold if out.op is not fold.op else s.cache_write(fold, "local")]
    acc.set_scope("local")
    outer, inner = _tiles(cfg, out, lanes)
    n, yo, xo, co = outer
    order = [n, yo, co, xo] if cfg["order"].val else outer
    out.reorder(*order, *inner)
    _registers(out, inner)
    acc.compute_at(out, order[-1])
    _, inside = _tiles(cfg, acc, lanes)
    ky, kx = topi.stages.reduce_axes_of(acc)
    acc.reorder(ky, kx, *inside)
    _registers(acc, inside)
    for axis in (kx, ky)[: cfg["unroll"].val]:
        acc.unroll(axis)
    if target.num_cores > 1:
        out.parallel(out.fuse(n, yo))
    return s


def _tiles(cfg: Config, stage: te.StageView, lanes: int) -> tuple[list[te.Axis], list[te.Axis]]:
    """Split the data loops of a stage into loops over tiles, and loops inside a tile."""
    n, y, x, c = topi.stages.axes_of(stage)
    high, wide, vectors = cfg["tile"].size
    c, last = stage.split(c, factor=lanes)
    pairs = [stage.split(a, factor=f) for a, f in ((y, high), (x, wide), (c, vectors))]
    return [n, *(o for o, _ in pairs)], [*(i for _, i in pairs), last]


def _registers(stage: te.StageView, inner: Sequence[te.Axis]) -> None:
    for axis in inner[:-1]:
        stage.unroll(axis)
    stage.vectorize(inner[-1])
