"""Interval arithmetic on indices: the least and greatest value while loops run."""

from __future__ import annotations

from collections.abc import Iterable

from minitvm.base import LoweringError
from minitvm.tir import (
    INF,
    AsIndex,
    Expr,
    Extremum,
    FloorDiv,
    FloorMod,
    Index,
    Lane,
    Product,
    Var,
    add,
    floordiv,
    floormod,
    maximum,
    minimum,
    mul,
    nonneg,
    same,
    split_terms,
    sub,
)

Interval = tuple[Index, Index]


def sweep(e: Index, fixed: Iterable[Var]) -> Interval:
    """The least and greatest value of `e` while every variable but the fixed ones runs its range.

    i*4 + j with j in 0..3, i fixed -> (i*4, i*4 + 3). Symbolic sizes count as fixed.
    """
    kept = {id(v) for v in fixed}
    return _sweep(e, kept)


def _sweep(e: Index, kept: set[int]) -> Interval:
    terms, const = split_terms(e)
    lo: Index = const
    hi: Index = const
    for a, c in terms:
        least, most = _sweep_atom(a, kept)
        if c < 0:
            least, most = most, least
        lo, hi = add(lo, mul(least, c)), add(hi, mul(most, c))
    return lo, hi


def _sweep_atom(a: Expr, kept: set[int]) -> Interval:
    match a:
        case Var(low=lo, high=hi, top=top):
            if id(a) in kept or isinstance(lo, float):
                return a, a
            if isinstance(hi, float):
                return (a, a) if top is None else (lo, _sweep(top, kept)[1])
            return lo, hi
        case Lane(lanes):
            return 0, lanes - 1
        case FloorDiv(x, b):
            least, most = _sweep(x, kept)
            return floordiv(least, b), floordiv(most, b)
        case FloorMod(x, b):
            least, most = _sweep(x, kept)
            if same(floordiv(least, b), floordiv(most, b)):
                return floormod(least, b), floormod(most, b)
            return 0, sub(b, 1)
        case Extremum(op, x, y):
            pick = minimum if op == "min" else maximum
            (xl, xh), (yl, yh) = _sweep(x, kept), _sweep(y, kept)
            return pick(xl, yl), pick(xh, yh)
        case Product(x, y):
            (xl, xh), (yl, yh) = _sweep_atom(x, kept), _sweep_atom(y, kept)
            if nonneg(xl) and nonneg(yl):
                return mul(xl, yl), mul(xh, yh)
            return a, a
        case AsIndex(low=lo, high=hi):
            return (int(lo), int(hi)) if abs(lo) + abs(hi) < INF else (a, a)
        case _:
            raise LoweringError(f"bounds of {a!r}", "not an index")
