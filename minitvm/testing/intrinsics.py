"""Tensor intrinsics made to fit: a tile of a stage's own formula, with loops of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from minitvm.base import as_tuple
from minitvm.tensor import (
    Axis,
    ComputeOp,
    Tensor,
    TensorIntrin,
    compute,
    decl_tensor_intrin,
    placeholder,
    reduce,
    reduce_axis,
    var,
)
from minitvm.tir import (
    TRUE,
    DeclaredBuffer,
    Expr,
    For,
    Index,
    Linear,
    Load,
    Stmt,
    Store,
    Var,
    children,
    decl_buffer,
    high,
    load,
    low,
    rewrite_expr,
    seq,
    sub,
    substitute,
    walk,
)

from .values import Rng, chance, pick


def tile_intrinsic(
    op: ComputeOp, tile: Mapping[Axis, int], name: str, rng: Rng
) -> TensorIntrin | None:
    """The formula of `op` on the last of its axes, so many values of each; None if there is none.

    C[i, j] = A[i + 1, j]*2 by j: 4   ->   y[j] = x0[0, j]*2, for j of 4
    tile      the last few data axes, and if it is a reduction, the last few reduce axes
    """
    r = op.reduction
    axes = [a for a in op.axis if a in tile]
    old = [a for a in op.reduce_axis if a in tile]
    if r is not None and (r.init or r.where is not TRUE or len(r.sources) > 1 or not old):
        return None
    if not all(map(_is_even, op.body if r is None else r.sources)):
        return None
    over = [reduce_axis((0, tile[a]), a.name) for a in old]
    zeros: dict[Any, Index] = dict.fromkeys((*op.axis, *op.reduce_axis), 0)
    operands: list[Tensor] = []

    def body(*at: Axis) -> Any:
        values = zeros | dict(zip(axes, at, strict=True)) | dict(zip(old, over, strict=True))
        pieces = op.body if r is None else r.sources
        made = tuple(_on_operands(e, values, operands) for e in pieces)
        return made if r is None else reduce(r.reducer, made, over)

    outputs: tuple[Tensor, ...] = as_tuple(compute([tile[a] for a in axes], body, name=f"{name}.y"))
    made = outputs[0].op
    assert isinstance(made, ComputeOp)
    strided = {t: _strided(t) for t in operands} if chance(rng, 0.3) else {}
    forms = (0,) if made.reduction is None else (0, 1, 2)
    return decl_tensor_intrin(made, _computing(made, pick(rng, forms)), strided, name)


def _is_even(e: Expr) -> bool:
    """Does `e` use axes only to load, at sums of axes and constants?"""
    if isinstance(e, Load):
        return all(isinstance(n, int | Var | Linear) for i in e.indices for n in walk(i))
    inside = [n for n in children(e) if isinstance(n, Expr)]
    return not isinstance(e, Var) and all(map(_is_even, inside))


def _on_operands(e: Expr, values: Mapping[Any, Index], operands: list[Tensor]) -> Expr:
    """`e` at `values`; each part of a tensor that it loads is an operand of its own."""

    def rule(n: Any) -> Any:
        if not (isinstance(n, Load) and isinstance(n.buffer, Tensor)):
            return n
        places = [substitute(i, values) for i in n.indices]
        places = [sub(i, int(low(i))) for i in places]
        shape = tuple(int(high(i)) + 1 for i in places)
        operands.append(placeholder(shape, n.dtype, f"x{len(operands)}"))
        return load(operands[-1], *places)

    return rewrite_expr(e, rule)


def _strided(t: Tensor) -> DeclaredBuffer:
    """A buffer for `t` that learns its strides where it is used."""
    steps = [var(f"{t.name}s{d}") for d in range(t.ndim)]
    return decl_buffer(t.shape, t.dtype, t.name, strides=steps)


# --- statements ----------------------------------------------------------------------------------


def _computing(op: ComputeOp, form: int) -> Callable[[Any, Any], Any]:
    """What makes the statements of an intrinsic that computes `op`, on its buffers.

    form   0: the body alone; 1: body, reset and update; 2: body and update
    """

    def made(ins: list[DeclaredBuffer], outs: list[DeclaredBuffer]) -> Any:
        table = dict(zip(op.input_tensors, ins, strict=True))
        counters = {a: Var(a.name, 0, int(high(a))) for a in (*op.axis, *op.reduce_axis)}

        def read(e: Expr) -> Expr:
            return rewrite_expr(substitute(e, counters), lambda n: _redirected(n, table))

        at = tuple(counters[a] for a in op.axis)
        r = op.reduction
        if r is None:
            stores = [Store(b, at, read(e)) for b, e in zip(outs, op.body, strict=True)]
            return _loops(counters, op.axis, seq(*stores))
        (out,) = outs
        (first,) = r.reducer.identity((out.dtype,))
        (new,) = r.reducer.combine((Load(out, at, out.dtype),), (read(r.sources[0]),))
        reset = _loops(counters, op.axis, Store(out, at, first))
        update = _loops(counters, (*op.axis, *op.reduce_axis), Store(out, at, new))
        body = seq(reset, update)
        return (body, (body, reset, update), (body, None, update))[form]

    return made


def _redirected(n: Any, table: Mapping[Tensor, DeclaredBuffer]) -> Any:
    if isinstance(n, Load) and isinstance(n.buffer, Tensor):
        return Load(table[n.buffer], n.indices, n.dtype)
    return n


def _loops(counters: Mapping[Axis, Var], axes: tuple[Axis, ...], body: Stmt) -> Stmt:
    for a in reversed(axes):
        body = For(counters[a], a.extent, body)
    return body
