"""Matrix products."""

from __future__ import annotations

from typing import Any

from minitvm import te, tir
from minitvm.base import INT8, INT32, ExprError

from .elementwise import ELEMENTWISE, broadcast_shape
from .int8 import int8_matmul, is_for_dot4
from .operands import on_tensors

MATMUL = "matmul"


@on_tensors
def matmul(
    a: te.Tensor,
    b: te.Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str = "",
    name: str = "T_matmul",
) -> te.Tensor:
    """The product [M, N] of a [M, K] and b [K, N]; a is [K, M] if transpose_a, b [N, K] likewise.

    out_dtype: what is multiplied and summed in; by default the operands' common type. With
    "int32", uint8 or int8 times int8 becomes the stages of `topi.int8`, unless it is too small.
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ExprError(
            f"topi.matmul of {a.name} and {b.name}",
            f"{a.ndim} and {b.ndim} dimensions, not 2 and 2",
        )
    m, k = _rows_columns(a, transpose_a)
    inner, n = _rows_columns(b, transpose_b)
    if not tir.same(k, inner):
        raise ExprError(
            f"topi.matmul of {a.name} and {b.name}",
            f"the inner sizes {tir.text(k)} and {tir.text(inner)} differ",
            "transpose_a=True or transpose_b=True, if they are stored the other way round",
        )

    def left(i: Any, at: Any) -> Any:
        return a(at, i) if transpose_a else a(i, at)

    def right(at: Any, j: Any) -> Any:
        return b(j, at) if transpose_b else b(at, j)

    out_dtype = str(out_dtype)
    if out_dtype == INT32 and is_for_dot4((m, n, k), a.dtype, b.dtype):
        return int8_matmul((m, n, k), left, right, a.dtype is INT8, not transpose_a, name)
    fold = te.reduce_axis((0, k), name="k")

    def body(i: Any, j: Any) -> Any:
        x, y = left(i, fold), right(fold, j)
        if out_dtype:
            x, y = tir.cast_to(x, out_dtype), tir.cast_to(y, out_dtype)
        return te.sum(x * y, axis=fold)

    return te.compute((m, n), body, name=name, tag=MATMUL)


@on_tensors
def batch_matmul(
    a: te.Tensor,
    b: te.Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str = "",
) -> te.Tensor:
    """The products [B, M, N] of a [B, M, K] and b [B, K, N], one for each of B; as `matmul`.

    A batch of one is used for all of the other operand.
    """
    if a.ndim != 3 or b.ndim != 3:
        raise ExprError(
            f"topi.batch_matmul of {a.name} and {b.name}",
            f"{a.ndim} and {b.ndim} dimensions, not 3 and 3",
        )
    (batch,) = broadcast_shape("batch_matmul", a.shape[:1], b.shape[:1])
    m, k = _rows_columns(a, transpose_a)
    inner, n = _rows_columns(b, transpose_b)
    if not tir.same(k, inner):
        raise ExprError(
            f"topi.batch_matmul of {a.name} and {b.name}",
            f"the inner sizes {tir.text(k)} and {tir.text(inner)} differ",
        )
    fold, out_dtype = te.reduce_axis((0, k), name="k"), str(out_dtype)

    def body(at: Any, i: Any, j: Any) -> Any:
        here, there = (0 if tir.same(t.shape[0], 1) else at for t in (a, b))
        x = a(here, fold, i) if transpose_a else a(here, i, fold)
        y = b(there, j, fold) if transpose_b else b(there, fold, j)
        if out_dtype:
            x, y = tir.cast_to(x, out_dtype), tir.cast_to(y, out_dtype)
        return te.sum(x * y, axis=fold)

    return te.compute((batch, m, n), body, name="T_batch_matmul", tag=MATMUL)


def _rows_columns(x: te.Tensor, transposed: bool) -> tuple[tir.Index, tir.Index]:
    *_, rows, columns = x.shape
    return (columns, rows) if transposed else (rows, columns)


@on_tensors
def dense(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str = ""
) -> te.Tensor:
    """A fully connected layer [M, N]: data [M, K] times weight [N, K] transposed, plus bias [N]."""
    product = matmul(data, weight, transpose_b=True, out_dtype=out_dtype, name="T_dense")
    if bias is None:
        return product
    if bias.ndim != 1 or not tir.same(bias.shape[0], product.shape[1]):
        raise ExprError(
            f"topi.dense: bias {bias.name}", f"its shape is not [{tir.text(product.shape[1])}]"
        )

    def body(i: Any, j: Any) -> Any:
        return product(i, j) + bias(j)

    return te.compute(product.shape, body, name="T_bias", tag=ELEMENTWISE)
