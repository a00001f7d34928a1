"""N-dimensional accesses become element offsets."""

from __future__ import annotations

from typing import Any

from minitvm.tir import Buffer, Index, Load, Stmt, Store, add, mul, rewrite, row_strides


def flatten(s: Stmt) -> Stmt:
    """A[i, j]  ->  A[i*n + j], where n is the stride of the first dimension."""

    def on_expr(e: Any) -> Any:
        return Load(e.buffer, (offset(e.buffer, e.indices),), e.dtype) if isinstance(e, Load) else e

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Store):
            return Store(s.buffer, (offset(s.buffer, s.indices),), s.value)
        return s

    return rewrite(s, on_stmt, on_expr)


def offset(b: Buffer, indices: tuple[Index, ...]) -> Index:
    """The distance in elements from the start of `b` to b[indices]."""
    total: Index = 0
    for i, stride in zip(indices, row_strides(b), strict=True):
        total = add(total, mul(i, stride))
    return total
