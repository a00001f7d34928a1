"""A pass that replaces a guard on a loop variable by a shorter loop."""

from __future__ import annotations

from minitvm import tir

from .count import conjuncts
from .partition import certain_iterations


def tighten(s: tir.Stmt) -> tir.Stmt:
    """Shorten loops whose whole body is guarded by the loop variable.

        for j in vectorize(16):           for j in vectorize(12):
          if likely(j + 688 < 700):  ->     body(j + 688)
            body(j + 688)

    The shorter range lets more index expressions fold.
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.For(var, extent, tir.If(cond, body, None, True), kind, thread) if (
                isinstance(extent, int) and kind != "bind"  # the number of threads is fixed
            ):
                first, stop, rest = _range(cond, var, extent)
                if (first, stop) == (0, extent):
                    return s
                short = tir.Var(var.name, 0, max(stop - first - 1, 0))
                inner = body if not rest else tir.If(tir.all_of(*rest), body, likely=True)
                inner = tir.substitute(inner, {var: tir.add(short, first)})
                return tir.For(short, max(stop - first, 0), inner, kind, thread)
            case _:
                return s

    return tir.rewrite(s, on_stmt)


def _range(cond: tir.Expr, var: tir.Var, extent: int) -> tuple[int, int, list[tir.Expr]]:
    """Split `cond` into first <= var < stop and other conditions; return (first, stop, others)."""
    first, stop = 0, extent
    rest: list[tir.Expr] = []
    for c in conjuncts(cond):
        has_only_var = isinstance(c, tir.Compare) and all(v is var for v in tir.variables(c))
        span = certain_iterations(c, var, extent) if has_only_var else None
        if span is None:
            rest.append(c)
        else:
            first, stop = max(first, span[0]), min(stop, span[1])
    return first, stop, rest
