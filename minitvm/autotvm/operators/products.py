"""Templates of matrix products: three levels of tiles, packed panels, tiles in registers.

for i0, j0:                           parallel
  for i1, j1:
    for k0:
      for i2, j2:
        for k1:
          for i3, j3:                 unrolled, vectorized
            c[i, j] += a[i, k] * b[k, j]

The knob "cache" says where a part of c is kept while it is summed: nowhere, inside j0 or inside j1.
With "pack", j0 is the outermost loop, and the columns of b that it needs are copied into panels as
wide as j3. An elementwise stage that reads the product is computed part by part; without one, the
copy of the parts into c is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from minitvm import schedule, te, topi
from minitvm.base import Target

from ..dispatch import get_config
from ..space import Config
from ..template import template

LEVELS = 4  # loops that each of i and j becomes
WIDEST = 128  # columns of a tile: eight vectors
TALLEST = 32  # rows of a tile
UNROLLS = (0, 16, 64, 512)


@template("matmul")
def matmul(m: int, n: int, k: int, dtype: str = "float32") -> Any:
    """Multiply a [m, k] by b [k, n]."""
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    c = topi.matmul(a, b)
    return schedule_product(get_config(), [c], c), [a, b, c]


@template("dense")
def dense(m: int, n: int, k: int, dtype: str = "float32", constant: bool = False) -> Any:
    """Multiply data [m, k] by the transposed weight [n, k]; the weight may be constant."""
    a = te.placeholder((m, k), dtype, name="data")
    w = te.placeholder((n, k), dtype, name="weight", constant=constant)
    c = topi.dense(a, w)
    return schedule_product(get_config(), [c], c), [a, w, c]


def schedule_product(cfg: Config, outs: list[te.Tensor], product: te.Tensor) -> te.Schedule:
    """Schedule `outs`, which contain one matrix product and elementwise stages."""
    s = te.create_schedule([t.op for t in outs])
    for stage in s.stages:
        simple = isinstance(stage.op, te.ComputeOp) and not stage.op.reduce_axis
        if simple and not stage.is_output:
            stage.compute_inline()
    i, j = s[product].op.axis
    (k,) = s[product].op.reduce_axis
    cfg.define_split("tile_i", i, num_outputs=LEVELS, filter=lambda e: e.size[-1] <= TALLEST)
    cfg.define_split("tile_j", j, num_outputs=LEVELS, filter=lambda e: e.size[-1] <= WIDEST)
    cfg.define_split("tile_k", k, num_outputs=2)
    cfg.define_knob("cache", [0, 1, 2])
    cfg.define_knob("pack", [0, 1])
    cfg.define_knob("unroll_rows", [0, 1])
    cfg.define_knob("auto_unroll", UNROLLS)
    _apply(cfg, s, outs[0], product, Target.current())
    return s


def _apply(cfg: Config, s: te.Schedule, out: te.Tensor, product: te.Tensor, target: Target) -> None:
    b = topi.right_operand(s[product].op)
    level, fused = cfg["cache"].val, out.op is not product.op
    acc = product
    if not fused and level:
        acc = s.cache_write(product, "local")
    packed = s.cache_read(b.tensor, "global", [acc]) if cfg["pack"].val else None
    outer = s[product] if level == 0 else s[out]
    i, j = [cfg[name].apply(s, outer, axis) for name, axis in zip(("tile_i", "tile_j"), outer.op.axis)]
    ...
