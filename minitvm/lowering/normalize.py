"""Remove inlined stages by substituting their formulas into their readers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError

from .inlined import InlinedFormula, Size, size_after


def normalize(state: schedule.State) -> schedule.State:
    """Remove the inlined stages, and substitute their formulas into the stages that read them.

    B inlined:  B[i] = A[i] + 1;  C[i] = B[i] * 2   ->   C[i] = (A[i] + 1) * 2

    Raises LoweringError if an attachment is still pending, or if a formula becomes too large.
    """
    schedule.refuse_pending(state)
    if not any(isinstance(s.attach, schedule.Inline) for s in state.stages):
        return state
    inlined_formulas: dict[tensor.Tensor, InlinedFormula] = {}
    renamed: dict[tensor.Tensor, tensor.Tensor] = {}
    stages: list[schedule.Stage] = []
    for s in state.stages:
        op = new = s.op
        if isinstance(op, tensor.ExternOp | tensor.ScanOp):
            new = schedule.reread(op, renamed)
        elif isinstance(op, tensor.ComputeOp):
            sizes = _sizes(s, op, inlined_formulas)
            new = _read_through(op, inlined_formulas, renamed)
            if isinstance(s.attach, schedule.Inline):
                for i, (body, size) in enumerate(zip(new.body, sizes, strict=True)):
                    inlined_formulas[tensor.tensor_of(op, i)] = InlinedFormula(new.axis, body, size)
                continue
        if new is not op:
            for i in range(len(op.dtypes)):
                renamed[tensor.tensor_of(op, i)] = tensor.tensor_of(new, i)
        stages.append(s.change(op=new))
    return replace(state, stages=tuple(stages))


def _sizes(
    stage: schedule.Stage, op: tensor.ComputeOp, inlined: dict[tensor.Tensor, InlinedFormula]
) -> list[Size]:
    """Return the sizes that the formulas of `op` have after inlining; raise if one is too large.

    The sizes are computed before anything is substituted, because inlining can grow formulas
    exponentially: ten stages that each read the previous one twice make 1024 copies of the first.
    """
    sizes = [size_after(e, inlined) for e in op.body]
    largest = max(size.operations for size in sizes)
    inlined_inputs = [t for t in op.input_tensors if t in inlined]
    if inlined_inputs and largest > tir.LARGEST:
        worst = max(inlined_inputs, key=lambda t: inlined[t].size.operations)
        raise LoweringError(
            f"compute_inline of {worst.name}",
            f"the formula of {stage.name}, which reads it, would have {largest} operations "
            f"written out, and at most {tir.LARGEST} can be compiled",
            f"leave {worst.name} at root, or use compute_at: its values are then stored and read",
        )
    return sizes


def _read_through(
    op: tensor.ComputeOp,
    inlined: dict[tensor.Tensor, InlinedFormula],
    renamed: dict[tensor.Tensor, tensor.Tensor],
) -> tensor.ComputeOp:
    """Return `op` with loads of inlined tensors replaced by their formulas.

    A load of a tensor t in `renamed` becomes a load of renamed[t].
    """
    if not any(t in inlined or t in renamed for t in op.input_tensors):
        return op

    def rule(e: Any) -> Any:
        if not isinstance(e, tir.Load) or not isinstance(e.buffer, tensor.Tensor):
            return e
        if e.buffer in renamed:
            return tir.Load(renamed[e.buffer], e.indices, e.dtype)
        if e.buffer in inlined:
            formula = inlined[e.buffer]
            values = dict(zip(formula.axes, e.indices, strict=True))
            return tir.substitute(formula.body, values)
        return e

    return schedule.map_bodies(op, lambda e: tir.rewrite_expr(e, rule))
