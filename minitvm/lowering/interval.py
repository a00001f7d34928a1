"""Interval arithmetic on indices: the least and greatest value while loops run."""

from __future__ import annotations

import math
from collections.abc import Iterable

from minitvm.base import LoweringError
from minitvm.tir import (
    INF,
    AsIndex,
    Atom,
    Expr,
    Extremum,
    FloorDiv,
    FloorMod,
    Index,
    Lane,
    Product,
    Var,
    add,
    coefficient,
    factors,
    floordiv,
    floormod,
    high,
    linear,
    maximum,
    minimum,
    mul,
    nonneg,
    ratio,
    same,
    split_terms,
    sub,
    walk,
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
    if any(isinstance(a, Product) for a, _ in terms):
        found = _remainder(e, kept)
        if found is not None:
            return found
    lo: Index = const
    hi: Index = const
    for a, c in terms:
        least, most = _sweep_atom(a, kept)
        if c < 0:
            least, most = most, least
        lo, hi = add(lo, mul(least, c)), add(hi, mul(most, c))
    return lo, hi


def _remainder(e: Index, kept: set[int]) -> Interval | None:
    """The ends of k*(x % b) + rest, where b is symbolic, so that x % b is x - x//b*b."""
    for d in dict.fromkeys(f for a, _ in split_terms(e)[0] for f in factors(a)):
        if not isinstance(d, FloorDiv) or isinstance(d.b, int):
            continue
        x, b = d.a, d.b
        p, r = coefficient(e, d) or (0, 0)
        k = -ratio(p, b)
        rest = sub(r, mul(x, k))
        if k == 0 or len(split_terms(rest)[0]) >= len(split_terms(r)[0]):
            continue
        if same(*(floordiv(end, b) for end in _sweep(x, kept))):
            return None
        least, most = _sweep(rest, kept)
        last = mul(sub(b, 1), k)
        return (least, add(most, last)) if k > 0 else (add(least, last), most)
    return None


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


def most(e: Index, fixed: Iterable[Var]) -> Index | None:
    """An upper bound of `e` that mentions none of the `fixed` variables; None if there is none.

    Two parts that move together are compared with each other: (x*10 + 9)//6 - (x*10)//6 is at
    most 2, though one ends at 13 and the other begins at 0.
    """
    found = _most(e, {id(v) for v in fixed})
    simple = high(e)
    return _best([found, simple if isinstance(simple, int) else None])


def _best(bounds: list[Index | None]) -> Index | None:
    """The least of some upper bounds; if none is a constant, the first that there is."""
    numbers = [n for n in bounds if isinstance(n, int)]
    return min(numbers) if numbers else next((e for e in bounds if e is not None), None)


def _worst(bounds: list[Index | None]) -> Index | None:
    """The greatest of some upper bounds; None if one of them is missing."""
    first, second = bounds
    return None if first is None or second is None else maximum(first, second)


def _most(e: Index, moving: set[int]) -> Index | None:
    terms, total = split_terms(e)
    left: dict[Atom, int] = dict(terms)
    for a, c in terms:
        for b in [b for b, d in left.items() if c > 0 and d == -c and left.get(a) == c]:
            gap = _gap(a, b, moving)
            if gap is not None:
                del left[a], left[b]
                total = add(total, mul(gap, c))
                break
    rest = linear(left.items())
    for a, c in left.items():
        if isinstance(a, Extremum):
            others = sub(rest, mul(a, c))
            found = [_most(add(others, mul(n, c)), moving) for n in (a.a, a.b)]
            either = (a.op == "min") == (c > 0)  # min(x, y) <= x; max(x, y) needs both
            end = _best(found) if either else _worst(found)
            return None if end is None else add(total, end)
    end = _sweep(rest, set())[1]
    return None if any(id(v) in moving for v in walk(end)) else add(total, end)


def _gap(a: Expr, b: Expr, moving: set[int]) -> Index | None:
    """An upper bound of a - b, two atoms of one form; None if they have little in common."""
    match a, b:
        case FloorDiv(x, n), FloorDiv(y, d) if same(n, d):
            apart = _most(sub(x, y), moving)
            return None if apart is None else floordiv(add(apart, _last_residue(y, n)), n)
        case Extremum(op, x, bound), Extremum(its, y, limit) if op == its:
            if same(x, limit) or same(x, y):
                x, bound = bound, x
            if same(y, bound):
                y, limit = limit, y
            apart = _most(sub(x, y), moving) if same(bound, limit) else None
            return None if apart is None else maximum(apart, 0)
        case _:
            return None


def _last_residue(y: Index, n: Index) -> Index:
    """An upper bound of y % n: where n and y's coefficients have a divisor, only every so many
    residues occur. y = x*10, n = 6: 4, not 5."""
    if not isinstance(n, int):
        return sub(n, 1)
    terms, const = split_terms(y)
    step = math.gcd(n, *(c for _, c in terms))
    return n - step + const % step
