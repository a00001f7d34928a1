"""Matrix products."""

from __future__ import annotations

from typing import Any

from minitvm import te, tensor, tir
from minitvm.base import INT32, ExprError

from .elementwise import ELEMENTWISE
from .int8 import dot4_rows, int8_matmul
from .operands import check_vector, checks_arguments, product

__all__ = ["batch_matmul", "dense", "matmul"]

MATMUL = "matmul"


@checks_arguments
def matmul(
    a: te.Tensor,
    b: te.Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str = "",
    name: str = "T_matmul",
) -> te.Tensor:
    """Multiply a [M, K] by b [K, N]; with transpose_a, a is [K, M]; with transpose_b, b is [N, K].

    out_dtype: the type of the products and sums; by default the operands' common type. With
    "int32", a product of bytes that is not too small uses the stages described in `topi.int8`; they
    depend on the instructions of the current target.
    """
    m, n, k = _sizes("matmul", (a, b), (transpose_a, transpose_b), 2)

    def left(i: Any, at: Any) -> Any:
        return a(at, i) if transpose_a else a(i, at)

    def right(at: Any, j: Any) -> Any:
        return b(j, at) if transpose_b else b(at, j)

    out_dtype = str(out_dtype)
    rows = dot4_rows((m, n, k), a.dtype, b) if out_dtype == INT32 else None
    if rows is not None:
        return int8_matmul((m, n, k), left, right, a.dtype, rows, not transpose_a, name)
    k_axis = te.reduce_axis((0, k), name="k")

    def body(i: Any, j: Any) -> Any:
        return te.sum(product(left(i, k_axis), right(k_axis, j), out_dtype), axis=k_axis)

    return te.compute((m, n), body, name=name, tag=MATMUL)


@checks_arguments
def batch_matmul(
    a: te.Tensor,
    b: te.Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str = "",
) -> te.Tensor:
    """Multiply a [B, M, K] by b [B, K, N], one matrix product for each of the B pairs.

    If one operand has B = 1, its matrix is multiplied with all matrices of the other operand. The
    options have the same meaning as in `matmul`.
    """
    m, n, k = _sizes("batch_matmul", (a, b), (transpose_a, transpose_b), 3)
    (batch,) = tensor.broadcast_shape("topi.batch_matmul", a.shape[:1], b.shape[:1])
    k_axis, out_dtype = te.reduce_axis((0, k), name="k"), str(out_dtype)

    def body(at: Any, i: Any, j: Any) -> Any:
        batch_a, batch_b = (0 if tir.prove_equal(t.shape[0], 1) else at for t in (a, b))
        x = a(batch_a, k_axis, i) if transpose_a else a(batch_a, i, k_axis)
        y = b(batch_b, j, k_axis) if transpose_b else b(batch_b, k_axis, j)
        return te.sum(product(x, y, out_dtype), axis=k_axis)

    return te.compute((batch, m, n), body, name="T_batch_matmul", tag=MATMUL)


def _sizes(
    name: str, operands: tuple[te.Tensor, te.Tensor], transposed: tuple[bool, bool], rank: int
) -> tuple[tir.Index, tir.Index, tir.Index]:
    """Return (m, n, k) of a product; raise ExprError unless ranks and inner sizes fit."""
    a, b = operands
    what = f"topi.{name} of {a.name} and {b.name}"
    if a.ndim != rank or b.ndim != rank:
        raise ExprError(what, f"they have {a.ndim} and {b.ndim} dimensions, not {rank} and {rank}")
    (m, k), (inner, n) = (
        x.shape[:-3:-1] if swap else x.shape[-2:]
        for x, swap in zip(operands, transposed, strict=True)
    )
    if not tir.prove_equal(k, inner):
        why = f"the inner sizes {tir.text(k)} and {tir.text(inner)} differ"
        fix = "transpose_a=True or transpose_b=True, if a is [K, M] or b is [N, K]"
        raise ExprError(what, why, fix)
    return m, n, k


@checks_arguments
def dense(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str = ""
) -> te.Tensor:
    """Multiply data [M, K] by the transposed weight [N, K] and add bias [N]: a dense layer."""
    out = matmul(data, weight, transpose_b=True, out_dtype=out_dtype, name="T_dense")
    if bias is None:
        return out
    check_vector("topi.dense", bias, out.shape[1])

    def body(i: Any, j: Any) -> Any:
        return out(i, j) + bias(j)

    return te.compute(out.shape, body, name="T_bias", tag=ELEMENTWISE)
