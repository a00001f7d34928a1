"""What a schedule asks about stages: their axes and work, their kind, and their epilogue."""

from __future__ import annotations

from collections.abc import Mapping

from minitvm import schedule, te, tensor, tir
from minitvm.base import Target

from .reduction import REDUCTION


def axes_of(stage: te.StageView) -> tuple[te.Axis, ...]:
    """Return the data axes of a stage; its operation must be a te.compute."""
    assert isinstance(stage.op, te.ComputeOp)
    return stage.op.axis


def reduce_axes_of(stage: te.StageView) -> tuple[te.Axis, ...]:
    """Return the reduce axes of a stage; its operation must be a te.compute."""
    assert isinstance(stage.op, te.ComputeOp)
    return stage.op.reduce_axis


def reads(op: tensor.Operation) -> tuple[te.Tensor, ...]:
    """Return the tensors that `op`, a te.compute, reads, in order of first use."""
    assert isinstance(op, te.ComputeOp)
    return op.input_tensors


def reduction_length(op: te.ComputeOp) -> tir.Index:
    """Return the number of terms that `op` reduces to one output element; 1 without a reduction."""
    total: tir.Index = 1
    for a in op.reduce_axis:
        total = tir.mul(total, a.extent)
    return total


def worth_threads(op: te.ComputeOp, target: Target, least: int) -> bool:
    """Return whether to run `op` on several threads.

    This is so if the target has several cores, and the loops over all axes of `op` have at least
    `least` iterations together. A symbolic extent is taken to be large enough.
    """
    total = 1
    for a in (*op.axis, *op.reduce_axis):
        total *= a.extent if isinstance(a.extent, int) else least
    return target.num_cores > 1 and total >= least


# --- kinds of operations -------------------------------------------------------------------------


def is_elementwise(op: tensor.Operation) -> bool:
    """Return whether each element reads tensors only at its own indices, as in relu(x + bias).

    The indices of a load must be the axes in order; with broadcasting, an axis may be missing or
    replaced by a constant.
    """
    if not isinstance(op, te.ComputeOp) or op.reduction is not None:
        return False
    number_of = {id(a): n for n, a in enumerate(op.axis)}
    for e in tensor.loads(op):
        used = [number_of.get(id(i), -1) for i in e.indices if not isinstance(i, int)]
        if -1 in used or used != sorted(set(used)):
            return False
    return True


def nodes_after_inlining(op: tensor.Operation, inlined: Mapping[tensor.Operation, int]) -> int:
    """Return the number of nodes that the formula of `op` has after inlining.

    inlined: the sizes of the formulas of the operations that are inlined.
    """
    if not isinstance(op, te.ComputeOp):
        return 0
    nodes = [n for e in tensor.parts(op) for n in tir.walk(e)]
    reads = [n.buffer for n in nodes if isinstance(n, tir.Load)]
    return len(nodes) + sum(inlined.get(t.op, 0) for t in reads if isinstance(t, te.Tensor))


def is_product(op: te.ComputeOp) -> bool:
    """Return whether `op` sums a[..., i, k] * b[..., k, j] over k; operands may be transposed."""
    r = op.reduction
    if r is None or r.reducer is not tensor.SUM or len(op.reduce_axis) != 1 or len(op.axis) < 2:
        return False
    product, (k,) = r.sources[0], op.reduce_axis
    if len(r.sources) > 1 or not isinstance(product, tir.Binary) or product.op != "mul":
        return False
    *batch, i, j = op.axis
    operands = [_indices(_load(e), batch) for e in (product.a, product.b)]
    return operands in ([{i, k}, {k, j}], [{k, j}, {i, k}])


def _load(e: tir.Expr) -> tir.Load | None:
    """Strip type conversions from `e`; return the rest if it is a load, otherwise None."""
    while isinstance(e, tir.Cast) and isinstance(e.value, tir.Expr):
        e = e.value
    return e if isinstance(e, tir.Load) else None


def _indices(e: tir.Load | None, batch: list[te.Axis]) -> set[te.Axis] | None:
    """Return the axes of the last two indices of the load `e`, or None if it does not fit.

    The indices before them must be the axes in `batch` or constants.
    """
    *outer, y, x = e.indices if e is not None and len(e.indices) >= 2 else (0, 0)
    fits = len(outer) == len(batch) and all(
        i is b or isinstance(i, int) for i, b in zip(outer, batch, strict=False)
    )
    if not fits or not isinstance(y, te.Axis) or not isinstance(x, te.Axis):
        return None
    return {y, x}


def reads_once(op: tensor.Operation, source: tensor.Operation) -> bool:
    """Return whether `op` is a reduction that reads each element of `source` once."""
    if not isinstance(op, te.ComputeOp) or op.tag != REDUCTION:
        return False
    loads = [e for e in tensor.loads(op) if getattr(e.buffer, "op", None) is source]
    return len(loads) == 1 and {*op.axis, *op.reduce_axis} <= {*loads[0].indices}


# --- epilogues -----------------------------------------------------------------------------------


def epilogue_or_self(s: te.Schedule, stage: te.StageView, done: set[str]) -> te.StageView:
    """Return the epilogue of `stage`, or `stage` itself if it has none.

    An epilogue is the only reader of `stage`; it is elementwise, has the same shape, and is not in
    `done`, the names of the scheduled stages. `stage` can be computed in its loops. A stage that is
    computed from constants, before the calls, has no epilogue that is computed in each call.
    """
    names = schedule.effective_readers(s.state)[stage.name]
    if stage.is_output or len(names) != 1 or names[0] in done:
        return stage
    reader, early = s[names[0]], schedule.from_constants(s.state)
    stage_shape, reader_shape = stage.op.output(0).shape, reader.op.output(0).shape
    same_shape = len(stage_shape) == len(reader_shape) and all(
        map(tir.prove_equal, stage_shape, reader_shape)
    )
    fits = same_shape and is_elementwise(reader.op)
    return reader if fits and (stage.name in early) == (reader.name in early) else stage


def epilogue_through(s: te.Schedule, stage: te.StageView, done: set[str]) -> te.StageView:
    """Return the stage in whose loops `stage` can be computed, if its only reader moves elements.

    This is the epilogue of the reader, which is then inlined, or the reader. It is `stage` itself
    if it has several readers, or if the reader is inlined into stages that are no epilogue.
    """
    names = schedule.readers(s.state)[stage.name]
    if stage.is_output or len(names) != 1:
        return stage
    mover = s[names[0]]
    output = epilogue_or_self(s, mover, done)
    if output.name == mover.name:
        return stage if mover.is_inlined else mover
    if not mover.is_inlined:
        mover.compute_inline()
    return output
