"""Loops end where their guard does."""

from __future__ import annotations

from minitvm.tensor import facts_of
from minitvm.tir import (
    Compare,
    Expr,
    For,
    If,
    Stmt,
    Var,
    add,
    all_of,
    rewrite,
    split_terms,
    substitute,
)

from .count import conjuncts


def tighten(s: Stmt) -> Stmt:
    """A loop whose whole body is guarded by its own variable runs only where the guard holds.

        for j in vectorize(16):           for j in vectorize(12):
          if likely(j + 688 < 700):  ->     body(j + 688)
            body(j + 688)

    The shorter range folds indices that the guard did not.
    """

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case For(var, extent, If(cond, body, None, True), kind, thread) if (
                isinstance(extent, int) and kind != "bind"  # threads are as many as was said
            ):
                first, stop, rest = _range(cond, var, extent)
                if (first, stop) == (0, extent):
                    return s
                short = Var(var.name, 0, max(stop - first - 1, 0))
                inner = body if not rest else If(all_of(*rest), body, likely=True)
                inner = substitute(inner, {var: add(short, first)})
                return For(short, max(stop - first, 0), inner, kind, thread)
            case _:
                return s

    return rewrite(s, on_stmt)


def _range(cond: Expr, var: Var, extent: int) -> tuple[int, int, list[Expr]]:
    """(first, stop, other conditions): cond holds where first <= var < stop and the others do."""
    first, stop = 0, extent
    rest: list[Expr] = []
    for c in conjuncts(cond):
        facts = facts_of(c) if isinstance(c, Compare) else ()
        terms, const = split_terms(facts[0]) if len(facts) == 1 else ((), 0)
        if len(terms) != 1 or terms[0][0] is not var:
            rest.append(c)
        elif terms[0][1] < 0:  # const - k*var >= 0
            stop = min(stop, const // -terms[0][1] + 1)
        else:  # k*var + const >= 0
            first = max(first, -(const // terms[0][1]))
    return first, stop, rest
