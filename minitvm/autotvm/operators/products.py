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
wide as j3. A part of c that is kept is copied into c when its sum is complete, or read by the
elementwise stage that follows the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm import schedule, te, topi
from minitvm.base import Target

from ..dispatch import get_config
from ..entities import SplitEntity
from ..space import Config
from ..templates import template
from .stages import right_load, right_operand, start, tiles, vectors

WIDEST = 8  # vectors in a row of a tile
TALLEST = 16  # rows of a tile
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


def schedule_product(cfg: Config, outs: Sequence[te.Tensor], product: te.Tensor) -> te.Schedule:
    """Schedule `outs`: one matrix product, and elementwise stages that read it."""
    s, out = start(outs, product)
    i, j = topi.stages.axes_of(s[product])
    (k,) = topi.stages.reduce_axes_of(s[product])
    lanes = Target.current().lanes(product.dtype)
    rows, columns = range(1, TALLEST + 1), [lanes * v for v in range(1, WIDEST + 1)]
    cfg.define_split("tile_i", i, "candidate", candidate=tiles(i.extent, rows))
    cfg.define_split("tile_j", j, "candidate", candidate=tiles(j.extent, columns))
    cfg.define_split("tile_k", k, num_outputs=2)
    cfg.define_knob("cache", [0, 1, 2])
    cfg.define_knob("pack", [0, 1])
    cfg.define_knob("unroll_rows", [0, 1])
    cfg.define_knob("auto_unroll", UNROLLS)
    level, b = cfg["cache"].val, right_operand(s[product])
    if level == 0 and out.name != product.name:
        vectors(out)
    acc = product if out.op is not product.op or not level else s.cache_write(product, "local")
    packed = s.cache_read(b, "global", [acc]) if cfg["pack"].val else None
    stage = s[product] if level == 0 else out
    column = _tiles(cfg, stage, level, packed is not None)
    if level:
        s[acc].set_scope("local")
        s[acc].compute_at(stage, column[level])
        _sum(cfg, s[acc], level)
    if packed is not None:
        if b.op not in schedule.constants(s.state):  # a constant is packed before the calls
            s[packed].compute_at(stage, column[0])
        _pack(s, packed, cfg["tile_j"].size[-1], transposed=_is_transposed(s[acc]))
    return s


def _tiles(cfg: Config, stage: te.StageView, level: int, packs: bool) -> dict[int, te.Axis]:
    """Split and nest the loops of the stage that writes the result.

    Returns the loops at which panels (0) and parts of the result (1 and 2) are computed.
    """
    i = cfg["tile_i"].apply(stage.schedule, stage.name, topi.stages.axes_of(stage)[0])
    j = cfg["tile_j"].apply(stage.schedule, stage.name, topi.stages.axes_of(stage)[1])
    outer = [j[0], i[0]] if packs else [i[0], j[0]]
    if level:
        stage.reorder(*outer, i[1], j[1], i[2], j[2], i[3], j[3])
    else:
        ko, ki = cfg["tile_k"].apply(
            stage.schedule, stage.name, topi.stages.reduce_axes_of(stage)[0]
        )
        stage.reorder(*outer, i[1], j[1], ko, i[2], j[2], ki, i[3], j[3])
        stage.pragma(i[1], "auto_unroll_max_step", cfg["auto_unroll"].val)
    if cfg["unroll_rows"].val:
        stage.unroll(i[3])
    stage.vectorize(j[3])
    last = outer[1]
    if Target.current().num_cores > 1:
        last = stage.fuse(*outer) if not packs else last
        stage.parallel(outer[0] if packs else last)
    return {0: outer[0], 1: last, 2: j[1]}


def _sum(cfg: Config, acc: te.StageView, level: int) -> None:
    """Split and nest the loops that compute a part of the result."""
    i, j, k = (
        topi.stages.axes_of(acc)[0],
        topi.stages.axes_of(acc)[1],
        topi.stages.reduce_axes_of(acc)[0],
    )
    ko, ki = cfg["tile_k"].apply(acc.schedule, acc.name, k)
    inner_i, inner_j = (SplitEntity(cfg[t].size[level:]) for t in ("tile_i", "tile_j"))
    rows = inner_i.apply(acc.schedule, acc.name, i)
    columns = inner_j.apply(acc.schedule, acc.name, j)
    acc.reorder(*rows[:-2], *columns[:-2], ko, rows[-2], columns[-2], ki, rows[-1], columns[-1])
    if cfg["unroll_rows"].val:
        acc.unroll(rows[-1])
    acc.vectorize(columns[-1])
    acc.pragma(acc.leaf_iter_vars[0], "auto_unroll_max_step", cfg["auto_unroll"].val)


def _pack(s: te.Schedule, packed: te.Tensor, columns: int, transposed: bool) -> None:
    """Store the copy `packed` of b as panels of `columns` columns."""
    names = ("j", "k") if transposed else ("k", "j")
    panel = (f"j // {columns}", "k", f"j % {columns}")
    s.apply(schedule.TransformLayout(s[packed].name, names, panel))
    if not transposed:
        s[packed].vectorize(s[packed].split(topi.stages.axes_of(s[packed])[-1], factor=columns)[1])


def _is_transposed(product: te.StageView) -> bool:
    """Return whether the right operand of a product is stored as [n, k]."""
    load = right_load(product.op)
    return load.indices[-1] is not topi.stages.axes_of(product)[-1]
