"""Index arithmetic: constructors that return simplified indices, bounds, and simple proofs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal
from weakref import WeakValueDictionary

from minitvm.base import ExprError

from .nodes import (
    ATOMS,
    AsIndex,
    Atom,
    Bound,
    Buffer,
    Expr,
    Extremum,
    FloorDiv,
    FloorMod,
    Index,
    Interned,
    Lane,
    Linear,
    Product,
    Var,
)

# an entry is removed together with its atom, so ids in keys always belong to living atoms
_atoms: WeakValueDictionary[tuple[Any, ...], Atom] = WeakValueDictionary()


def _key(e: Index) -> object:
    """Return a hashable key of the index `e`; equal indices have equal keys while both exist."""
    if isinstance(e, int):
        return e
    if type(e) is Linear:
        return (frozenset((id(a), c) for a, c in e.terms), e.const)
    return (frozenset(((id(e), 1),)), 0)


def _intern(cls: Any, key: tuple[Any, ...], *fields: Any) -> Any:
    """Return the interned atom of class `cls` for `key`; make it from `fields` if it is new."""
    full = (cls, *key)
    atom = _atoms.get(full)
    if atom is None:
        atom = _atoms.setdefault(full, cls(*fields))
    return atom


# --- taking apart, bounds, proofs ----------------------------------------------------------------


def is_index(e: object) -> bool:
    """Return whether `e` is a mathematical integer, as opposed to a typed value."""
    if isinstance(e, Expr):
        return isinstance(e, (Linear, *ATOMS))
    return isinstance(e, int) and not isinstance(e, bool)


def split_terms(e: Index) -> tuple[tuple[tuple[Atom, int], ...], int]:
    """Split an index into (terms, const): 2*i + 3 -> (((i, 2),), 3)."""
    if isinstance(e, int):
        return (), e
    if type(e) is Linear:
        return e.terms, e.const
    return ((e, 1),), 0  # type: ignore[return-value]  # an index that is not Linear is an atom


def lower_bound(e: Index) -> Bound:
    """Return a constant lower bound of `e`; -inf if none is known."""
    if isinstance(e, int):
        return e
    terms, total = split_terms(e)
    for a, c in terms:
        total += (a.low if c > 0 else a.high) * c
    return total


def upper_bound(e: Index) -> Bound:
    """Return a constant upper bound of `e`; inf if none is known."""
    if isinstance(e, int):
        return e
    terms, total = split_terms(e)
    for a, c in terms:
        total += (a.high if c > 0 else a.low) * c
    return total


def nonneg(e: Index, facts: Iterable[Index] = ()) -> bool:
    """Return whether e >= 0 can be proven, given that every index in `facts` is >= 0.

    The proof uses symbolic upper bounds (n - i - 1 >= 0 since i <= n-1) and c*(x // c) <= x.
    """
    if _nonneg(e):
        return True
    return any(_nonneg(sub(e, f)) for f in facts)


def _nonneg(e: Index) -> bool:
    for _ in range(8):  # each round replaces one unbounded atom by something smaller
        if lower_bound(e) >= 0:
            return True
        terms, const = split_terms(e)
        for a, c in terms:
            least = _least(a, c)
            if least is not None:
                rest = linear(((b, d) for b, d in terms if b is not a), const)
                e = add(rest, least)
                break
        else:
            return False
    return False


def _least(a: Atom, c: int) -> Index | None:
    """Return a symbolic lower bound of c*a if `a` has no numeric bound; None if unknown."""
    if isinstance(a, Var) and c < 0 and a.top is not None:
        return mul(a.top, c)
    if isinstance(a, FloorDiv) and isinstance(a.b, int) and c % a.b == 0:
        return mul(a.a if c < 0 else sub(a.a, a.b - 1), c // a.b)
    return None


def prove_equal(a: Index, b: Index) -> bool:
    """Return whether two indices are provably equal."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and int.__eq__(a, b)
    return a is b or _key(a) == _key(b)


# --- indices: constructors -----------------------------------------------------------------------


def linear(terms: Iterable[tuple[Atom, int]], const: int = 0) -> Index:
    """Return sum(c * atom) + const in normal form: equal atoms merged, zero terms dropped."""
    merged: dict[Atom, int] = {}
    mods = False
    for a, c in terms:
        merged[a] = merged.get(a, 0) + c
        mods = mods or type(a) is FloorMod
    if mods:
        const += _join_div_mod(merged)
    return _sum(tuple([(a, c) for a, c in merged.items() if c]), const)


def _sum(terms: tuple[tuple[Atom, int], ...], const: int) -> Index:
    """Return sum(c * atom) + const for terms that are already in normal form."""
    if not terms:
        return const
    if const == 0 and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return Linear(terms, const)


def _join_div_mod(merged: dict[Atom, int]) -> int:
    """Replace (y // b)*b*k + (y % b)*k by y*k in `merged`; return the constant part of all y*k.

    Nested quotients are recognized: x//6*6 + x//3%2*3  ->  x//3*3, since x//6 is (x//3)//2.
    """
    for m in [a for a in merged if type(a) is FloorMod]:
        k, b = merged[m], m.b
        if k == 0 or not isinstance(b, int):
            continue
        for d in [a for a in merged if type(a) is FloorDiv]:
            if merged[d] != k * b or not isinstance(d.b, int) or d.b % b:
                continue
            y = floordiv(d.a, d.b // b)
            if floormod(y, b) is m:
                del merged[d], merged[m]
                terms, const = split_terms(y)
                for a, c in terms:
                    merged[a] = merged.get(a, 0) + c * k
                return const * k + _join_div_mod(merged)
    return 0


def add(a: Index, b: Index) -> Index:
    """Return the index a + b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        if a == 0:
            return b
    elif isinstance(b, int) and b == 0:
        return a
    ta, ca = split_terms(a)
    tb, cb = split_terms(b)
    if not ta or not tb:
        return _sum(ta or tb, ca + cb)
    return linear((*ta, *tb), ca + cb)


def sub(a: Index, b: Index) -> Index:
    """Return the index a - b."""
    return add(a, mul(b, -1))


def mul(a: Index, b: Index) -> Index:
    """Return the index a * b, with products of sums expanded."""
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int):
        if isinstance(a, int):
            return a * b
        if b == 1:
            return a
        terms, const = split_terms(a)
        return _sum(tuple([(x, c * b) for x, c in terms]), const * b) if b else 0
    (ta, ca), (tb, cb) = split_terms(a), split_terms(b)
    total: Index = ca * cb
    for x, c in ta:
        total = add(total, mul(x, c * cb))
        for y, d in tb:
            total = add(total, mul(_product(x, y), c * d))
    for y, d in tb:
        total = add(total, mul(y, d * ca))
    return total


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def factors(a: Atom) -> tuple[Atom, ...]:
    """Return the factors of the product `a`: n*m*m -> (n, m, m); (a,) if it is not a product."""
    return (*factors(a.a), *factors(a.b)) if type(a) is Product else (a,)


def _product(a: Atom, b: Atom) -> Atom:
    """Return the interned product of two atoms; (n*m)*p and n*(p*m) are the same object."""
    if type(b) is Product:
        return _product(_product(a, b.a), b.b)  # left-nested: b.b is no product
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    key = tuple(sorted(map(id, (*factors(a), b))))
    return _intern(Product, key, a, b, min(ends), max(ends))


def _divide(x: Bound, c: int) -> Bound:
    return x // c if isinstance(x, int) else x


def _split_by(e: Index, g: int) -> tuple[Index, Index]:
    """Return (q, r) with e = g*q + r; r has those terms whose coefficients g does not divide."""
    terms, const = split_terms(e)
    quotient = linear(((a, c // g) for a, c in terms if c % g == 0), const // g)
    return quotient, linear(((a, c) for a, c in terms if c % g), const % g)


def floordiv(a: Index, b: Index) -> Index:
    """Return a // b, rounded down: (8*x + y) // 8 gives x + y // 8, and x if 0 <= y < 8."""
    if not isinstance(a, int) or not isinstance(b, int):
        _check_indices("//", a, b)
    if not isinstance(b, int):
        return _floordiv_symbolic(a, b)
    _positive(b, "//")
    if isinstance(a, int):
        return a // b
    if b == 1:
        return a
    q, r = _split_by(a, b)
    lo, hi = _divide(lower_bound(r), b), _divide(upper_bound(r), b)
    if lo == hi and isinstance(lo, int):
        return add(q, lo)
    for g in _divisors_in(r, b):
        big, small = _split_by(r, g)
        if lower_bound(small) >= 0 and upper_bound(small) < g:  # (g*x + small) // (g*c) -> x // c
            return add(q, floordiv(big, b // g))
    if type(r) is FloorDiv and isinstance(r.b, int):
        return add(q, floordiv(r.a, r.b * b))
    return add(q, _intern(FloorDiv, (_key(r), b), r, b, lo, hi))


def floormod(a: Index, b: Index) -> Index:
    """Return a % b, in 0 .. b-1: (8*x + y) % 8 gives y % 8, and y if 0 <= y < 8."""
    if not isinstance(a, int) or not isinstance(b, int):
        _check_indices("%", a, b)
    if not isinstance(b, int):
        _, rest = _whole_parts(a, b)
        if _is_below(rest, b):
            return rest
        return sub(a, mul(floordiv(a, b), b if lower_bound(b) >= 1 else maximum(b, 1)))
    _positive(b, "%")
    if isinstance(a, int):
        return a % b
    if b == 1:
        return 0
    terms, const = split_terms(a)
    r = linear(((x, c % b) for x, c in terms), const % b)
    if lower_bound(r) >= 0 and upper_bound(r) < b:
        return r
    r = linear(((x, c if 2 * c <= b else c - b) for x, c in split_terms(r)[0]), const % b)
    if lower_bound(r) >= 0 and upper_bound(r) < b:
        return r
    for g in _divisors_in(r, b):
        big, small = _split_by(r, g)
        # (g*x + small) % (g*c) -> g*(x % c) + small
        if lower_bound(small) >= 0 and upper_bound(small) < g:
            return add(mul(floormod(big, b // g), g), small)
    if type(r) is FloorMod and isinstance(r.b, int) and r.b % b == 0:
        return floormod(r.a, b)
    top = min(b - 1, upper_bound(r)) if lower_bound(r) >= 0 else b - 1
    return _intern(FloorMod, (_key(r), b), r, b, 0, top)


def _check_indices(op: str, a: object, b: object) -> None:
    for e in (a, b):
        if type(e) is not int and not is_index(e):
            kind = e.dtype if isinstance(e, Expr) else type(e).__name__
            raise ExprError(f"{op} of a {kind}", "it takes indices", f"x {op} y of values")


def _divisors_in(e: Index, b: int) -> list[int]:
    """Return gcd(b, c) for each coefficient c of `e`, if it is in 2 .. b-1, largest first."""
    divisors = {math.gcd(c, b) for _, c in split_terms(e)[0]}
    return sorted((g for g in divisors if 1 < g < b), reverse=True)


def _positive(b: int, op: str) -> None:
    if b <= 0:
        raise ExprError(f"index {op} {b}", "the divisor must be positive")


def _floordiv_symbolic(a: Index, b: Expr) -> Index:
    """Return a // b, assuming that b >= 1; (i*n + j) // n gives i if 0 <= j < n is proven."""
    quotient, rest = _whole_parts(a, b)
    if _is_below(rest, b):
        return quotient
    if lower_bound(b) < 1:  # no program may divide by zero
        quotient, rest, divisor = 0, a, maximum(b, 1)
    else:
        divisor: Index = b
    lo, hi = min(0, lower_bound(rest)), max(-1, upper_bound(rest))
    return add(quotient, _intern(FloorDiv, (_key(rest), _key(divisor)), rest, divisor, lo, hi))


def _is_below(rest: Index, b: Expr) -> bool:
    return nonneg(rest) and nonneg(sub(sub(b, rest), 1))


def ceildiv(a: Index, b: Index) -> Index:
    """Return a / b rounded up: ceildiv(10, 4) = 3, ceildiv(n*m, m) = n. Assumes b >= 1."""
    if isinstance(b, int):
        return floordiv(add(a, b - 1), b)
    quotient, rest = _whole_parts(a, b)
    if isinstance(rest, int) and rest == 0:
        return quotient
    return add(floordiv(sub(a, 1), b), 1)


def _whole_parts(a: Index, b: Expr) -> tuple[Index, Index]:
    """Return (q, r) with a = q*b + r, where q*b has the terms of `a` that `b` divides."""
    if prove_equal(a, b):
        return 1, 0
    quotient: Index = 0
    rest: Index = a
    for x, c in split_terms(a)[0]:
        whole = _cancel(x, b)
        if whole is not None:
            part = mul(whole, c)
            quotient, rest = add(quotient, part), sub(rest, mul(part, b))
    return quotient, rest


def _cancel(x: Atom, b: Expr) -> Index | None:
    """Return x / b if `x` contains all factors of `b`, else None: (n*m*p) / m -> n*p."""
    left = list(factors(x))
    for f in factors(b) if type(b) is Product else (b,):
        at = [d for d, g in enumerate(left) if g is f]
        if not at:
            return None
        del left[at[0]]
    return functools.reduce(mul, left, 1)


def minimum(a: Index, b: Index) -> Index:
    """Return the index min(a, b)."""
    return _extremum("min", a, b)


def maximum(a: Index, b: Index) -> Index:
    """Return the index max(a, b)."""
    return _extremum("max", a, b)


def _extremum(op: Literal["min", "max"], a: Index, b: Index) -> Index:
    pick = min if op == "min" else max
    if isinstance(a, int) and isinstance(b, int):
        return pick(a, b)
    if nonneg(sub(b, a)):
        return a if op == "min" else b
    if nonneg(sub(a, b)):
        return b if op == "min" else a
    lo, hi = pick(lower_bound(a), lower_bound(b)), pick(upper_bound(a), upper_bound(b))
    return _intern(Extremum, (op, frozenset((_key(a), _key(b)))), op, a, b, lo, hi)


def as_index(value: Expr, lo: Bound, hi: Bound) -> Index:
    """Return the typed integer `value` as an index; the caller ensures that it is in lo .. hi."""
    return _intern(AsIndex, (id(value), lo, hi), value, lo, hi)


_lanes: dict[int, Lane] = {}  # one Lane per width; widths are few


def lane(lanes: int) -> Index:
    """Return the vector index 0, 1, ..., lanes-1; the scalar 0 if lanes is 1."""
    if lanes == 1:
        return 0
    return _lanes.setdefault(lanes, Lane(lanes, 0, lanes - 1))


def free_of_lane(e: Index) -> bool:
    """Return whether the index `e` is surely a scalar. Data used as an index may be a vector."""
    if isinstance(e, int | Var):
        return True
    match e:
        case Lane():
            return False
        case Linear(terms):
            return all(free_of_lane(a) for a, _ in terms)
        case Product(a, b) | FloorDiv(a, b) | FloorMod(a, b) | Extremum(_, a, b):
            return free_of_lane(a) and free_of_lane(b)
        case _:
            return False  # data may be a vector


def _unbounded(make: Callable[..., Index]) -> Callable[..., Index]:
    """Return a function that calls `make` without its last two arguments, the bounds of a node."""

    def of_fields(*parts: Any) -> Index:
        return make(*parts[:-2])

    return of_fields


FOLDED: dict[type, Callable[..., Index]] = {  # for all fields of a node, the node in normal form
    Linear: linear,
    Lane: _unbounded(lane),
    Product: _unbounded(mul),
    FloorDiv: _unbounded(floordiv),
    FloorMod: _unbounded(floormod),
    Extremum: _unbounded(_extremum),
    AsIndex: as_index,
}


def unpickled(cls: type, *parts: Any) -> Index:
    """Return the interned atom of class `cls` with these fields. Pickle calls this on load."""
    return FOLDED[cls](*parts)


Interned.again = staticmethod(unpickled)

# --- buffers -------------------------------------------------------------------------------------


def row_strides(b: Buffer) -> tuple[Index, ...]:
    """Return the strides of `b` in elements; by default row-major: shape (4, 8) -> (8, 1)."""
    if b.strides:
        return b.strides
    strides: list[Index] = []
    step: Index = 1
    for n in reversed(b.shape):
        strides.append(step)
        step = mul(step, n)
    return tuple(reversed(strides))


def elements(b: Buffer) -> Index:
    """Return the number of elements that the memory of `b` spans, including gaps between rows."""
    size: Index = 1
    if b.strides:  # from the first element to the last
        for n, s in zip(b.shape, b.strides, strict=True):
            size = add(size, mul(sub(n, 1), s))
        return maximum(0, size)  # an extent of 0 can make `size` negative
    for n in b.shape:
        size = mul(size, n)
    return size
