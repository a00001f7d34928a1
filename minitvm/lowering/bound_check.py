"""Accesses that are not proven to stay inside their buffer are checked while the program runs."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import tir
from minitvm.base import BOOL, INT64


def bound_check(s: tir.Stmt) -> tir.Stmt:
    """A program that would leave a buffer stops with an error instead.

        C[i] = A[i + 1]      ->      assert_in_bounds(i + 1, 8)
                                     C[i] = A[i + 1]

    Not among the standard passes: passes=insert(PASSES["python"], 3, bound_check). The interpreter
    and Python code run it; LLVM code cannot stop. Reads in an arm of if_then_else are checked where
    the arm is chosen.
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
    """The checks to make before `e` is computed, in that order."""
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
    """The checks of one access, those left out that are certain to succeed."""
    flat = len(indices) == 1 and (len(b.shape) != 1 or tir.row_strides(b) != (1,))
    for i, n in zip(indices, (tir.elements(b),) if flat else b.shape, strict=True):
        if tir.all_of(tir.compare("<=", 0, i), tir.compare("<", i, n)) is not tir.TRUE:
            yield tir.Evaluate(
                tir.Call(tir.IN_BOUNDS, (tir.Cast(i, INT64), tir.Cast(n, INT64)), BOOL)
            )
