"""A pass that turns n-dimensional accesses into element offsets."""

from __future__ import annotations

from typing import Any

from minitvm import tir


def flatten(s: tir.Stmt) -> tir.Stmt:
    """Replace n indices by one offset: A[i, j] -> A[i*n + j], with n the stride of dimension 0."""

    def on_expr(e: Any) -> Any:
        return (
            tir.Load(e.buffer, (offset(e.buffer, e.indices),), e.dtype)
            if isinstance(e, tir.Load)
            else e
        )

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.Store):
            return tir.Store(s.buffer, (offset(s.buffer, s.indices),), s.value)
        return s

    return tir.rewrite(s, on_stmt, on_expr)


def offset(b: tir.Buffer, indices: tuple[tir.Index, ...]) -> tir.Index:
    """Return the distance in elements from the start of `b` to b[indices]."""
    total: tir.Index = 0
    for i, stride in zip(indices, tir.row_strides(b), strict=True):
        total = tir.add(total, tir.mul(i, stride))
    return total
