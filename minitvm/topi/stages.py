"""The axes and the size of a stage, as schedules need them."""

from __future__ import annotations

from minitvm import te, tir


def axes_of(stage: te.StageView) -> tuple[te.Axis, ...]:
    """Return the data axes of a computed stage."""
    assert isinstance(stage.op, te.ComputeOp)
    return stage.op.axis


def reduce_axes_of(stage: te.StageView) -> tuple[te.Axis, ...]:
    """Return the reduce axes of a computed stage."""
    assert isinstance(stage.op, te.ComputeOp)
    return stage.op.reduce_axis


def reduced_points(op: te.ComputeOp) -> tir.Index:
    """Return the number of terms that each output of `op` folds."""
    total: tir.Index = 1
    for a in op.reduce_axis:
        total = tir.mul(total, a.extent)
    return total


def has_points(op: te.ComputeOp, least: int) -> bool:
    """Whether `op` has at least so many points; a symbolic axis counts as long enough."""
    points = 1
    for a in (*op.axis, *op.reduce_axis):
        points *= a.extent if isinstance(a.extent, int) else least
    return points >= least
