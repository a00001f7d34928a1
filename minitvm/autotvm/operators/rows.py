"""Templates of row reductions: the sum of each row, and softmax.

for i:                                 parallel
  for ko: wide[0 : w] += x[i, ko*w : ko*w + w]        w: the knob "width"
  for v, l: narrow[l] += wide[v*lanes + l]
  for l: out[i] += narrow[l]
  ...                                  elementwise, in vectors of the knob "vectors"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm import te, tensor, topi
from minitvm.base import Target

from ..dispatch import get_config
from ..space import Config
from ..templates import template
from .stages import start

FEW = (1, 2, 4, 8)


@template("sum_rows")
def sum_rows(rows: int, columns: int) -> Any:
    """Add the elements of each row of x [rows, columns]."""
    x = te.placeholder((rows, columns), name="x")
    out = topi.sum(x, axis=1)
    return schedule_sum(get_config(), [out], out), [x, out]


def schedule_sum(cfg: Config, outs: Sequence[te.Tensor], total: te.Tensor) -> te.Schedule:
    """Schedule `outs`: one sum of rows, and elementwise stages that read it."""
    s, out = start(outs, total)
    columns = topi.stages.reduce_axes_of(s[total])[0].extent
    assert isinstance(columns, int)
    _define(cfg, columns)
    partials = _fold(cfg, s, s[total], columns)
    row = topi.stages.axes_of(out)[0]
    if out.name != s[total].name:
        s[total].set_scope("local")
        s[total].compute_at(out, row)
    _attach(s, partials, s[total], topi.stages.axes_of(s[total])[0])
    if Target.current().num_cores > 1:
        out.parallel(row)
    return s


@template("softmax")
def softmax(rows: int, columns: int) -> Any:
    """Compute the softmax of each row of x [rows, columns]."""
    x = te.placeholder((rows, columns), name="x")
    out = topi.softmax(x)
    return schedule_softmax(get_config(), [out], out), [x, out]


def schedule_softmax(cfg: Config, outs: Sequence[te.Tensor], result: te.Tensor) -> te.Schedule:
    """Schedule `outs`: one softmax, and elementwise stages that read it."""
    assert isinstance(result.op, te.ComputeOp)
    reads = [e.buffer for e in tensor.loads(result.op)]
    s, out = start(outs, result, keep=[t for t in reads if isinstance(t, te.Tensor)])
    columns = result.shape[-1]
    assert isinstance(columns, int)
    _define(cfg, columns)
    cfg.define_knob("keep_exp", [0, 1])
    lanes, row = Target.current().lanes(result.dtype), topi.stages.axes_of(out)[0]
    for stage in reversed(s.stages):  # readers first
        op = stage.op
        if stage.is_output or stage.is_inlined or not isinstance(op, te.ComputeOp):
            continue
        if not op.reduce_axis and not cfg["keep_exp"].val:
            stage.compute_inline()
            continue
        partials = _fold(cfg, s, stage, columns) if op.reduce_axis else []
        stage.compute_at(out, row)
        if not op.reduce_axis:
            _vectorize(cfg, stage, lanes)
        _attach(s, partials, stage, None)
    _vectorize(cfg, out, lanes)
    if Target.current().num_cores > 1:
        out.parallel(row)
    return s


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
