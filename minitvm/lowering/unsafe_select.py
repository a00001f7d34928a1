"""A pass that makes selects lazy if an arm may read out of bounds."""

from __future__ import annotations

from typing import Any

from minitvm import tensor, tir


def rewrite_unsafe_select(s: tir.Stmt) -> tir.Stmt:
    """Make select(c, a, b) lazy if an arm may read out of bounds.

        C[i] = select(i < 7, A[i + 1], 0.0)   ->   C[i] = A[i + 1] if i < 7 else 0.0

    A select evaluates both arms, and its replacement only the chosen arm. A read is in bounds if
    the ranges of the enclosing loops and the enclosing conditions prove it.
    """
    return _under(s, ())


def _under(s: tir.Stmt, facts: tensor.Facts) -> tir.Stmt:
    def rule(e: Any) -> Any:
        unsafe = isinstance(e, tir.Select) and not (_safe(e.a, facts) and _safe(e.b, facts))
        return tir.IfThenElse(e.cond, e.a, e.b, e.dtype) if unsafe else e

    def expr(e: Any) -> Any:
        return tir.rewrite_expr(e, rule)

    match s:
        case tir.If(cond, body, orelse, likely):
            new = _under(body, facts + tensor.facts_of(cond))
            else_branch = (
                None if orelse is None else _under(orelse, facts + tensor.facts_of(cond, False))
            )
            c = expr(cond)
            unchanged = new is body and else_branch is orelse and c is cond
            return s if unchanged else tir.If(c, new, else_branch, likely)
        case tir.Seq() | tir.Allocate():
            return tir.map_parts(s, lambda c: _under(c, facts))
        case tir.For() | tir.Pragma():
            return tir.map_children(s, lambda c: _under(c, facts), expr)
        case _:
            return tir.map_children(s, lambda c: c, expr)


def _safe(e: tir.Expr, facts: tensor.Facts) -> bool:
    """Return whether `facts` and the loop ranges prove that every read in `e` is in bounds."""
    return all(_fits(n, facts) for n in tir.walk(e) if isinstance(n, tir.Load))


def _fits(e: tir.Load, facts: tensor.Facts) -> bool:
    flat = len(e.indices) == 1 and len(e.buffer.shape) != 1
    sizes = (tir.elements(e.buffer),) if flat else e.buffer.shape
    return all(tensor.inside(i, n, facts) for i, n in zip(e.indices, sizes, strict=True))
