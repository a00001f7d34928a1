"""A pass that checks at run time those accesses that are not proven to be in bounds."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import tir
from minitvm.base import BOOL, INT64


def bound_check(s: tir.Stmt) -> tir.Stmt:
    """Insert a run-time check before every access that is not proven to be in bounds.

        C[i] = A[i + 1]      ->      assert_in_bounds(i + 1, 8)
                                     C[i] = A[i + 1]

    Not a standard pass: use passes=insert(PASSES["python"], 3, bound_check). The interpreter and
    Python code raise an error; LLVM code does not support the check. Reads in an arm of
    if_then_else are checked only if the arm is chosen.
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.Store(buffer, indices, value):
                inner = (*indices, value)
                return tir.seq(*_all(inner), *_access(buffer, indices), s)
            case tir.Evaluate(value):
                return tir.seq(*_all((value,)), s)
            case tir.If(cond):
                return tir.seq(*_all((cond,)), s)
            case tir.For(_, extent):
                return tir.seq(*_all((extent,)), s)
            case _:
                return s

    return tir.rewrite(s, on_stmt)


def _all(parts: tuple[tir.Index, ...]) -> Iterator[tir.Stmt]:
    for e in parts:
        if isinstance(e, tir.Expr):
            yield from _checks(e)


def _checks(e: tir.Expr) -> Iterator[tir.Stmt]:
    """Yield the checks of the loads in `e`, in the order in which the loads are executed."""
    if isinstance(e, tir.IfThenElse):
        yield from _checks(e.cond)
        a, b = tir.seq(*_checks(e.a)), tir.seq(*_checks(e.b))
        if list(_checks(e.a)) or list(_checks(e.b)):
            yield tir.If(e.cond, a, b)
        return
    for c in tir.children(e):
        if isinstance(c, tir.Expr):
            yield from _checks(c)
    if isinstance(e, tir.Load):
        yield from _access(e.buffer, e.indices)


def _access(b: tir.Buffer, indices: tuple[tir.Index, ...]) -> Iterator[tir.Stmt]:
    """Yield the checks of one access, except checks that are certain to succeed."""
    flat = len(indices) == 1 and (len(b.shape) != 1 or tir.row_strides(b) != (1,))
    for i, n in zip(indices, (tir.elements(b),) if flat else b.shape, strict=True):
        if tir.all_of(tir.compare("<=", 0, i), tir.compare("<", i, n)) is not tir.TRUE:
            yield tir.Evaluate(
                tir.Call(tir.IN_BOUNDS, (tir.Cast(i, INT64), tir.Cast(n, INT64)), BOOL)
            )
