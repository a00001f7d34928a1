"""The axes and the amount of work of a stage, for choosing its schedule."""

from __future__ import annotations

from minitvm import te, tir


def axes_of(stage: te.StageView) -> tuple[te.Axis, ...]:
    """Return the data axes of a stage; its operation must be a te.compute."""
    assert isinstance(stage.op, te.ComputeOp)
    return stage.op.axis


def reduce_axes_of(stage: te.StageView) -> tuple[te.Axis, ...]:
    """Return the reduce axes of a stage; its operation must be a te.compute."""
    assert isinstance(stage.op, te.ComputeOp)
    return stage.op.reduce_axis


def reduced_points(op: te.ComputeOp) -> tir.Index:
    """Return the number of terms that `op` adds up for each output element; 1 if it adds none."""
    total: tir.Index = 1
    for a in op.reduce_axis:
        total = tir.mul(total, a.extent)
    return total


def has_points(op: te.ComputeOp, least: int) -> bool:
    """Return whether the product of the extents of all axes of `op` is at least `least`.

    A symbolic extent is taken to be `least`.
    """
    points = 1
    for a in (*op.axis, *op.reduce_axis):
        points *= a.extent if isinstance(a.extent, int) else least
    return points >= least
