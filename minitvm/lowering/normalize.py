"""State -> State without inlined stages: their formulas are put into their readers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minitvm.schedule import Inline, Stage, State, map_bodies, refuse_pending, reread
from minitvm.tensor import ComputeOp, ExternOp, ScanOp, Tensor, tensor_of
from minitvm.tir import Expr, Load, rewrite_expr, substitute


def normalize(state: State) -> State:
    """B inlined:  B[i] = A[i] + 1;  C[i] = B[i] * 2   ->   C[i] = (A[i] + 1) * 2

    Raises LoweringError if an attachment waits for a step that was not taken.
    """
    refuse_pending(state)
    if not any(isinstance(s.attach, Inline) for s in state.stages):
        return state
    formulas: dict[Tensor, tuple[ComputeOp, Expr]] = {}
    renamed: dict[Tensor, Tensor] = {}
    kept: list[Stage] = []
    for s in state.stages:
        op = s.op
        if isinstance(op, ExternOp | ScanOp):
            new = reread(op, renamed)
            for i in range(len(op.dtypes) if new is not op else 0):
                renamed[tensor_of(op, i)] = tensor_of(new, i)
            s = s.change(op=new)  # noqa: PLW2901  the stage, reading what is there now
        if isinstance(op, ComputeOp):
            new = _read_through(op, formulas, renamed)
            for i, body in enumerate(new.body):
                if isinstance(s.attach, Inline):
                    formulas[tensor_of(op, i)] = (new, body)
                elif new is not op:
                    renamed[tensor_of(op, i)] = tensor_of(new, i)
            s = s.change(op=new)  # noqa: PLW2901  the stage, with its readers' formulas put in
        if not isinstance(s.attach, Inline):
            kept.append(s)
    return replace(state, stages=tuple(kept))


def _read_through(
    op: ComputeOp,
    formulas: dict[Tensor, tuple[ComputeOp, Expr]],
    renamed: dict[Tensor, Tensor],
) -> ComputeOp:
    """`op` with loads of inlined tensors replaced by their formula, of renamed ones redirected."""
    if not any(t in formulas or t in renamed for t in op.input_tensors):
        return op

    def rule(e: Any) -> Any:
        if not isinstance(e, Load) or not isinstance(e.buffer, Tensor):
            return e
        if e.buffer in renamed:
            return Load(renamed[e.buffer], e.indices, e.dtype)
        if e.buffer in formulas:
            inlined, body = formulas[e.buffer]
            return substitute(body, dict(zip(inlined.axis, e.indices, strict=True)))
        return e

    return map_bodies(op, lambda e: rewrite_expr(e, rule))
