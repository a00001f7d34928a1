"""Make tensor intrinsics that compute a tile of a stage's formula with loops of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from minitvm import tensor, tir
from minitvm.base import as_tuple
from minitvm.testing import pick

from .values import Rng, chance


def tile_intrinsic(
    op: tensor.ComputeOp, tile: Mapping[tensor.Axis, int], name: str, rng: Rng
) -> tensor.TensorIntrin | None:
    """Make an intrinsic that computes a tile of the formula of `op`; return None if impossible.

    C[i, j] = A[i + 1, j]*2, tile {j: 4}   ->   y[j] = x0[0, j]*2, for j in 0 .. 3
    tile      the extent along the last few data axes and, in a reduction, the last reduce axes
    """
    r = op.reduction
    axes = [a for a in op.axis if a in tile]
    old = [a for a in op.reduce_axis if a in tile]
    if r is not None and (r.init or r.where is not tir.TRUE or len(r.sources) > 1 or not old):
        return None
    if not all(map(_is_affine, op.body if r is None else r.sources)):
        return None
    over = [tensor.reduce_axis((0, tile[a]), a.name) for a in old]
    zeros: dict[Any, tir.Index] = dict.fromkeys((*op.axis, *op.reduce_axis), 0)
    operands: list[tensor.Tensor] = []

    def body(*at: tensor.Axis) -> Any:
        values = zeros | dict(zip(axes, at, strict=True)) | dict(zip(old, over, strict=True))
        pieces = op.body if r is None else r.sources
        made = tuple(_on_operands(e, values, operands) for e in pieces)
        return made if r is None else tensor.reduce(r.reducer, made, over)

    outputs: tuple[tensor.Tensor, ...] = as_tuple(
        tensor.compute([tile[a] for a in axes], body, name=f"{name}.y")
    )
    made = outputs[0].op
    assert isinstance(made, tensor.ComputeOp)
    strided = {t: _strided(t) for t in operands} if chance(rng, 0.3) else {}
    forms = (0,) if made.reduction is None else (0, 1, 2, 3)
    return tensor.decl_tensor_intrin(made, _computing(made, pick(rng, forms)), strided, name)


def _is_affine(e: tir.Expr) -> bool:
    """Return whether `e` uses axes only in indices of loads, and these indices are affine."""
    if isinstance(e, tir.Load):
        return all(
            isinstance(n, int | tir.Var | tir.Linear) for i in e.indices for n in tir.walk(i)
        )
    inside = [n for n in tir.children(e) if isinstance(n, tir.Expr)]
    return not isinstance(e, tir.Var) and all(map(_is_affine, inside))


def _on_operands(
    e: tir.Expr, values: Mapping[Any, tir.Index], operands: list[tensor.Tensor]
) -> tir.Expr:
    """Substitute `values` for axes in `e`; add a new tensor to `operands` for each load to read."""

    def rule(n: Any) -> Any:
        if not (isinstance(n, tir.Load) and isinstance(n.buffer, tensor.Tensor)):
            return n
        places = [tir.substitute(i, values) for i in n.indices]
        places = [tir.sub(i, int(tir.lower_bound(i))) for i in places]
        shape = tuple(int(tir.upper_bound(i)) + 1 for i in places)
        operands.append(tensor.placeholder(shape, n.dtype, f"x{len(operands)}"))
        return tir.load(operands[-1], *places)

    return tir.rewrite_expr(e, rule)


def _strided(t: tensor.Tensor) -> tir.DeclaredBuffer:
    """Declare a buffer for `t` with variable strides."""
    steps = [tensor.var(f"{t.name}s{d}") for d in range(t.ndim)]
    return tir.decl_buffer(t.shape, t.dtype, t.name, strides=steps)


# --- statements ----------------------------------------------------------------------------------


def _computing(op: tensor.ComputeOp, form: int) -> Callable[[Any, Any], Any]:
    """Return the fcompute (a function that makes the statements) of an intrinsic for `op`.

    form   0: the body alone; 1: body, reset, update; 2: body and update; 3: reset and update
    """

    def made(ins: list[tir.DeclaredBuffer], outs: list[tir.DeclaredBuffer]) -> Any:
        table = dict(zip(op.input_tensors, ins, strict=True))
        counters = {
            a: tir.Var(a.name, 0, int(tir.upper_bound(a))) for a in (*op.axis, *op.reduce_axis)
        }

        def read(e: tir.Expr) -> tir.Expr:
            return tir.rewrite_expr(tir.substitute(e, counters), lambda n: _redirected(n, table))

        at = tuple(counters[a] for a in op.axis)
        r = op.reduction
        if r is None:
            stores = [tir.Store(b, at, read(e)) for b, e in zip(outs, op.body, strict=True)]
            return _loops(counters, op.axis, tir.seq(*stores))
        (out,) = outs
        (first,) = r.reducer.identity((out.dtype,))
        (new,) = r.reducer.combine((tir.Load(out, at, out.dtype),), (read(r.sources[0]),))
        reset = _loops(counters, op.axis, tir.Store(out, at, first))
        update = _loops(counters, (*op.axis, *op.reduce_axis), tir.Store(out, at, new))
        body = tir.seq(reset, update)
        return (body, (body, reset, update), (body, None, update), (None, reset, update))[form]

    return made


def _redirected(n: Any, table: Mapping[tensor.Tensor, tir.DeclaredBuffer]) -> Any:
    if isinstance(n, tir.Load) and isinstance(n.buffer, tensor.Tensor):
        return tir.Load(table[n.buffer], n.indices, n.dtype)
    return n


def _loops(
    counters: Mapping[tensor.Axis, tir.Var], axes: tuple[tensor.Axis, ...], body: tir.Stmt
) -> tir.Stmt:
    for a in reversed(axes):
        body = tir.For(counters[a], a.extent, body)
    return body
