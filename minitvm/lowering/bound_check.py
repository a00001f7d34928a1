"""Accesses that are not proven to stay inside their buffer are checked while the program runs."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm.base import BOOL, INT64
from minitvm.tir import (
    IN_BOUNDS,
    TRUE,
    Buffer,
    Call,
    Cast,
    Evaluate,
    Expr,
    For,
    If,
    IfThenElse,
    Index,
    Load,
    Stmt,
    Store,
    all_of,
    children,
    compare,
    elements,
    rewrite,
    row_strides,
    seq,
)


def bound_check(s: Stmt) -> Stmt:
    """A program that would leave a buffer stops with an error instead.

        C[i] = A[i + 1]      ->      assert_in_bounds(i + 1, 8)
                                     C[i] = A[i + 1]

    Not among the standard passes: passes=insert(PASSES["python"], 3, bound_check). The interpreter
    and Python code run it; LLVM code cannot stop. Reads in an arm of if_then_else are checked where
    the arm is chosen.
    """

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case Store(buffer, indices, value):
                inner = (*indices, value)
                return seq(*_all(inner), *_access(buffer, indices), s)
            case Evaluate(value):
                return seq(*_all((value,)), s)
            case If(cond):
                return seq(*_all((cond,)), s)
            case For(_, extent):
                return seq(*_all((extent,)), s)
            case _:
                return s

    return rewrite(s, on_stmt)


def _all(parts: tuple[Index, ...]) -> Iterator[Stmt]:
    for e in parts:
        if isinstance(e, Expr):
            yield from _checks(e)


def _checks(e: Expr) -> Iterator[Stmt]:
    """The checks to make before `e` is computed, in that order."""
    if isinstance(e, IfThenElse):
        yield from _checks(e.cond)
        a, b = seq(*_checks(e.a)), seq(*_checks(e.b))
        if list(_checks(e.a)) or list(_checks(e.b)):
            yield If(e.cond, a, b)
        return
    for c in children(e):
        if isinstance(c, Expr):
            yield from _checks(c)
    if isinstance(e, Load):
        yield from _access(e.buffer, e.indices)


def _access(b: Buffer, indices: tuple[Index, ...]) -> Iterator[Stmt]:
    """The checks of one access, those left out that are certain to succeed."""
    flat = len(indices) == 1 and (len(b.shape) != 1 or row_strides(b) != (1,))
    for i, n in zip(indices, (elements(b),) if flat else b.shape, strict=True):
        if all_of(compare("<=", 0, i), compare("<", i, n)) is not TRUE:
            yield Evaluate(Call(IN_BOUNDS, (Cast(i, INT64), Cast(n, INT64)), BOOL))
