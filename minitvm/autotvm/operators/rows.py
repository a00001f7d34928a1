"""Templates of row reductions: the sum of each row, and softmax.

for i:                                 parallel
  for ko: wide[0 : w] += x[i, ko*w : ko*w + w]        w: the knob "width"
  for v, l: narrow[l] += wide[v*lanes + l]
  for l: out[i] += narrow[l]
  ...                                  elementwise, in vectors of the knob "vectors"
"""

from __future__ import annotations

from typing import Any

from minitvm import te, topi
from minitvm.base import Target

from ..dispatch import get_config
from ..space import Config
from ..templates import template

FEW = (1, 2, 4, 8)


@template("sum_rows")
def sum_rows(rows: int, columns: int) -> Any:
    """Add the elements of each row of x [rows, columns]."""
    x = te.placeholder((rows, columns), name="x")
    out = topi.sum(x, axis=1)
    s, cfg = te.create_schedule(out.op), get_config()
    _define(cfg, columns)
    partials = _fold(cfg, s, s[out], columns)
    row = topi.stages.axes_of(s[out])[0]
    _attach(s, partials, s[out], row)
    if Target.current().num_cores > 1:
        s[out].parallel(row)
    return s, [x, out]


@template("softmax")
def softmax(rows: int, columns: int) -> Any:
    """Compute the softmax of each row of x [rows, columns]."""
    x = te.placeholder((rows, columns), name="x")
    out = topi.softmax(x)
    s, cfg = te.create_schedule(out.op), get_config()
    _define(cfg, columns)
    cfg.define_knob("keep_exp", [0, 1])
    lanes, row = Target.current().lanes(out.dtype), topi.stages.axes_of(s[out])[0]
    for stage in reversed(s.stages):  # readers first
        op = stage.op
        if stage.is_output or not isinstance(op, te.ComputeOp):
            continue
        if not op.reduce_axis and not cfg["keep_exp"].val:
            stage.compute_inline()
            continue
        partials = _fold(cfg, s, stage, columns) if op.reduce_axis else []
        stage.compute_at(s[out], row)
        if not op.reduce_axis:
            _vectorize(cfg, stage, lanes)
        _attach(s, partials, stage, None)
    _vectorize(cfg, s[out], lanes)
    if Target.current().num_cores > 1:
        s[out].parallel(row)
    return s, [x, out]


def _define(cfg: Config, columns: int) -> None:
    lanes = Target.current().lanes("float32")
    fits = [n for n in FEW if n * lanes <= columns] or [1]
    cfg.define_knob("width", [n * lanes for n in fits])
    cfg.define_knob("vectors", fits)
    cfg.define_knob("auto_unroll", [0, 16, 64])


def _vectorize(cfg: Config, stage: te.StageView, lanes: int) -> None:
    """Vectorize the last loop of an elementwise stage."""
    vectors, inner = stage.split(topi.stages.axes_of(stage)[-1], factor=lanes)
    rest, several = stage.split(vectors, factor=cfg["vectors"].val)
    stage.unroll(several)
    stage.vectorize(inner)
    stage.pragma(rest, "auto_unroll_max_step", cfg["auto_unroll"].val)


def _fold(cfg: Config, s: te.Schedule, stage: te.StageView, columns: int) -> list[te.Tensor]:
    """Reduce a row to several vectors, these to one, and then its lanes; return the new stages."""
    lanes = Target.current().lanes(stage.op.output(0).dtype)
    if columns < 2 * lanes:
        return []
    made = list[te.Tensor]()
    for part in dict.fromkeys((cfg["width"].val, lanes)):
        (along,) = topi.stages.reduce_axes_of(stage)
        _, inner = stage.split(along, factor=part)
        made.append(
            s.rfactor(stage.op.output(0), inner, factor_axis=len(topi.stages.axes_of(stage)))
        )
    return made


def _attach(
    s: te.Schedule, partials: list[te.Tensor], stage: te.StageView, row: te.Axis | None
) -> None:
    """Attach the stages of a fold to the loop over rows of `stage`, and vectorize them."""
    at = topi.stages.axes_of(stage)[-1] if row is None else row
    for partial in reversed(partials):
        view = s[partial]
        view.set_scope("local")
        view.compute_at(stage, at)
        view.reorder(*topi.stages.reduce_axes_of(view), topi.stages.axes_of(view)[-1])
        view.vectorize(topi.stages.axes_of(view)[-1])
