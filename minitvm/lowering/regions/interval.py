"""Interval arithmetic on indices: lower and upper bounds over loop ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable

from minitvm import tir
from minitvm.base import LoweringError

Interval = tuple[tir.Index, tir.Index]


def sweep(e: tir.Index, fixed: Iterable[tir.Var]) -> Interval:
    """Return a lower and an upper bound of `e` over the ranges of all variables not in `fixed`.

    i*4 + j with j in 0..3, i fixed -> (i*4, i*4 + 3). Symbolic sizes count as fixed. A part that
    has no bounds, such as a product that may be negative, stays as it is: the result may then
    depend on variables that are not fixed, and the caller must check.
    """
    return _sweep(e, {id(v) for v in fixed})


def _sweep(e: tir.Index, fixed: set[int]) -> Interval:
    """Return sweep(e, fixed); `fixed` has the ids of the variables."""
    terms, const = tir.split_terms(e)
    if any(isinstance(a, tir.Product) for a, _ in terms):
        bounds = _remainder(e, fixed)
        if bounds is not None:
            return bounds
    lo: tir.Index = const
    hi: tir.Index = const
    for a, c in terms:
        least, greatest = _sweep_atom(a, fixed)
        if c < 0:
            least, greatest = greatest, least
        lo, hi = tir.add(lo, tir.mul(least, c)), tir.add(hi, tir.mul(greatest, c))
    return lo, hi


def _remainder(e: tir.Index, fixed: set[int]) -> Interval | None:
    """Return the bounds of k*(x % b) + rest for a symbolic b; None if `e` has no such part.

    x % b is stored as x - x//b*b. So e = p*(x//b) + r with p = -k*b is k*(x % b) + (r - k*x).
    """
    for d in dict.fromkeys(f for a, _ in tir.split_terms(e)[0] for f in tir.factors(a)):
        if not isinstance(d, tir.FloorDiv) or isinstance(d.b, int):
            continue
        x, b = d.a, d.b
        p, r = tir.coefficient(e, d) or (0, 0)
        k = -tir.ratio(p, b)
        rest = tir.sub(r, tir.mul(x, k))
        if k == 0 or len(tir.split_terms(rest)[0]) >= len(tir.split_terms(r)[0]):
            continue  # no such part, or the new form has more terms
        if tir.prove_equal(*(tir.floordiv(end, b) for end in _sweep(x, fixed))):
            return None  # x//b is constant: bounds term by term are exact
        least, greatest = _sweep(rest, fixed)
        last = tir.mul(tir.sub(b, 1), k)
        return (least, tir.add(greatest, last)) if k > 0 else (tir.add(least, last), greatest)
    return None


def _sweep_atom(a: tir.Expr, fixed: set[int]) -> Interval:
    """Return a lower and an upper bound of an atom, as _sweep does for an index."""
    match a:
        case tir.Var(low=lo, high=hi, top=top):
            if id(a) in fixed or isinstance(lo, float):  # -inf: a size that is not known
                return a, a
            if isinstance(hi, float):
                return (a, a) if top is None else (lo, _sweep(top, fixed)[1])
            return lo, hi
        case tir.Lane(lanes):
            return 0, lanes - 1
        case tir.FloorDiv(x, b):
            least, greatest = _sweep(x, fixed)
            return tir.floordiv(least, b), tir.floordiv(greatest, b)
        case tir.FloorMod(x, b):
            least, greatest = _sweep(x, fixed)
            if tir.prove_equal(tir.floordiv(least, b), tir.floordiv(greatest, b)):
                return tir.floormod(least, b), tir.floormod(greatest, b)
            return 0, tir.sub(b, 1)
        case tir.Extremum(op, x, y):
            pick = tir.minimum if op == "min" else tir.maximum
            (xl, xh), (yl, yh) = _sweep(x, fixed), _sweep(y, fixed)
            return pick(xl, yl), pick(xh, yh)
        case tir.Product(x, y):
            (xl, xh), (yl, yh) = _sweep_atom(x, fixed), _sweep_atom(y, fixed)
            if tir.nonneg(xl) and tir.nonneg(yl):
                return tir.mul(xl, yl), tir.mul(xh, yh)
            return a, a
        case tir.AsIndex(low=lo, high=hi):
            return (int(lo), int(hi)) if abs(lo) + abs(hi) < tir.INF else (a, a)
        case _:
            raise LoweringError(f"bounds of {a!r}", "not an index")


def upper_bound_over(e: tir.Index, gone: Iterable[tir.Var]) -> tir.Index | None:
    """Return an upper bound of `e` that does not mention the variables `gone`; None if unknown.

    Parts that depend on the same variable are compared with each other: (x*10 + 9)//6 - (x*10)//6
    is at most 2, however far apart the separate bounds of the two parts are.
    """
    bound = _upper_bound(e, {id(v) for v in gone})
    simple = tir.upper_bound(e)
    return _best([bound, simple if isinstance(simple, int) else None])


def _best(bounds: list[tir.Index | None]) -> tir.Index | None:
    """Return the least constant in `bounds`, or the first bound if none is constant."""
    numbers = [n for n in bounds if isinstance(n, int)]
    return min(numbers) if numbers else next((e for e in bounds if e is not None), None)


def _worst(first: tir.Index | None, second: tir.Index | None) -> tir.Index | None:
    """Return the greater of two upper bounds; None if one of them is missing."""
    return None if first is None or second is None else tir.maximum(first, second)


def _upper_bound(e: tir.Index, gone: set[int]) -> tir.Index | None:
    terms, total = tir.split_terms(e)
    left: dict[tir.Atom, int] = dict(terms)
    for a, c in terms:
        # pair the term c*a with a term -c*b, and bound c*(a - b)
        for b in [b for b, d in left.items() if c > 0 and d == -c and left.get(a) == c]:
            gap = _gap(a, b, gone)
            if gap is not None:
                del left[a], left[b]
                total = tir.add(total, tir.mul(gap, c))
                break
    rest = tir.linear(left.items())
    for a, c in left.items():
        if isinstance(a, tir.Extremum):
            others = tir.sub(rest, tir.mul(a, c))
            bounds = [_upper_bound(tir.add(others, tir.mul(n, c)), gone) for n in (a.a, a.b)]
            either = (a.op == "min") == (c > 0)  # min(x, y) <= x; max(x, y) needs both
            end = _best(bounds) if either else _worst(*bounds)
            return None if end is None else tir.add(total, end)
    end = _sweep(rest, set())[1]
    return None if any(id(v) in gone for v in tir.walk(end)) else tir.add(total, end)


def _gap(a: tir.Expr, b: tir.Expr, gone: set[int]) -> tir.Index | None:
    """Return an upper bound of a - b for atoms of the same form; None if none is known."""
    match a, b:
        case tir.FloorDiv(x, n), tir.FloorDiv(y, d) if tir.prove_equal(n, d):
            gap = _upper_bound(tir.sub(x, y), gone)
            return None if gap is None else tir.floordiv(tir.add(gap, _last_residue(y, n)), n)
        case tir.Extremum(op, x, bound), tir.Extremum(its, y, limit) if op == its:
            # min(x, n) - min(y, n) <= max(x - y, 0), the same for max: swap until n is second
            if tir.prove_equal(x, limit) or tir.prove_equal(x, y):
                x, bound = bound, x
            if tir.prove_equal(y, bound):
                y, limit = limit, y
            gap = _upper_bound(tir.sub(x, y), gone) if tir.prove_equal(bound, limit) else None
            return None if gap is None else tir.maximum(gap, 0)
        case _:
            return None


def _last_residue(y: tir.Index, n: tir.Index) -> tir.Index:
    """Return an upper bound of y % n: y = x*10, n = 6 -> 4, not 5.

    If n and y's coefficients have a common divisor, y % n takes only some of the residues.
    """
    if not isinstance(n, int):
        return tir.sub(n, 1)
    terms, const = tir.split_terms(y)
    step = math.gcd(n, *(c for _, c in terms))
    return n - step + const % step
