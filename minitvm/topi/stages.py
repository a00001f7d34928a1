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


def reduction_length(op: te.ComputeOp) -> tir.Index:
    """Return the number of terms that `op` reduces to one output element; 1 without a reduction."""
    total: tir.Index = 1
    for a in op.reduce_axis:
        total = tir.mul(total, a.extent)
    return total


def has_iterations(op: te.ComputeOp, least: int) -> bool:
    """Return whether the loops over all axes of `op` have at least `least` iterations together.

    A symbolic extent is taken to be large enough.
    """
    total = 1
    for a in (*op.axis, *op.reduce_axis):
        total *= a.extent if isinstance(a.extent, int) else least
    return total >= least
