"""A select computes both arms; one that may read outside a buffer must not."""

from __future__ import annotations

from typing import Any

from minitvm.tensor import facts_of, inside
from minitvm.tir import (
    Allocate,
    Expr,
    For,
    If,
    IfThenElse,
    Index,
    Load,
    Pragma,
    Seq,
    Stmt,
    Where,
    elements,
    map_children,
    map_parts,
    rewrite_expr,
    walk,
)

Facts = tuple[Index, ...]  # indices known to be >= 0


def rewrite_unsafe_select(s: Stmt) -> Stmt:
    """select(c, a, b) with a read that may leave its buffer becomes lazy.

        C[i] = select(i < 7, A[i + 1], 0.0)   ->   C[i] = A[i + 1] if i < 7 else 0.0

    What loops and conditions around guarantee is taken into account.
    """
    return _under(s, ())


def _under(s: Stmt, facts: Facts) -> Stmt:
    def rule(e: Any) -> Any:
        unsafe = isinstance(e, Where) and not (_safe(e.a, facts) and _safe(e.b, facts))
        return IfThenElse(e.cond, e.a, e.b, e.dtype) if unsafe else e

    def expr(e: Any) -> Any:
        return rewrite_expr(e, rule)

    match s:
        case If(cond, body, orelse, likely):
            new = _under(body, facts + facts_of(cond))
            other = None if orelse is None else _under(orelse, facts + facts_of(cond, False))
            c = expr(cond)
            kept = new is body and other is orelse and c is cond
            return s if kept else If(c, new, other, likely)
        case Seq() | Allocate():
            return map_parts(s, lambda c: _under(c, facts))
        case For() | Pragma():
            return map_children(s, lambda c: _under(c, facts), expr)
        case _:
            return map_children(s, lambda c: c, expr)


def _safe(e: Expr, facts: Facts) -> bool:
    """Is every read in `e` inside its buffer?"""
    return all(_fits(n, facts) for n in walk(e) if isinstance(n, Load))


def _fits(e: Load, facts: Facts) -> bool:
    flat = len(e.indices) == 1 and len(e.buffer.shape) != 1
    sizes = (elements(e.buffer),) if flat else e.buffer.shape
    return all(inside(i, n, facts) for i, n in zip(e.indices, sizes, strict=True))
