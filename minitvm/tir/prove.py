"""Proofs about symbolic indices: is e >= 0 for all values that its variables take?

`nonneg` only uses interval arithmetic; `prove_nonnegative` also searches. The search eliminates one
atom of e after another: it replaces the goal by a sufficient condition without that atom, until
intervals decide:

    n - 1 - i//4 >= 0       <=   4*n - 1 - i >= 0      replace the quotient by its dividend
                            <=   0 >= 0                replace i by its upper bound, 4*n - 1
    n*m - 1 - i*m - j >= 0  <=   n*m - m - i*m >= 0    j <= m - 1
                            <=   0 >= 0                i <= n - 1, and m >= 0
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from .index import (
    add,
    factors,
    linear,
    lower_bound,
    mul,
    nonneg,
    prove_equal,
    split_terms,
    sub,
)
from .nodes import INF, Atom, Expr, Extremum, FloorDiv, FloorMod, Index, Product, Var
from .walk import substitute

Goals = tuple[Index, ...]  # indices that must all be >= 0
MAX_STEPS = 300  # of one search; most successful proofs take about ten


def prove_nonnegative(e: Index, facts: Iterable[Index] = ()) -> bool:
    """Return whether e >= 0 can be proven, given that every index in `facts` is >= 0."""
    facts = tuple(facts)
    return nonneg(e, facts) or _Search(e, facts).succeeds()


def coefficient(e: Index, a: Atom) -> tuple[Index, Index] | None:
    """Return (p, r) with e = p*a + r; None if `e` is not linear in `a`.

    n*m - i*m - j, i  ->  (-m, n*m - j)
    """
    p: Index = 0
    rest: list[tuple[Atom, int]] = []
    terms, const = split_terms(e)
    for x, c in terms:
        others = [f for f in factors(x) if f is not a]
        times = len(factors(x)) - len(others)
        if times > 1:
            return None
        if times:
            p = add(p, functools.reduce(mul, others, c))
        else:
            rest.append((x, c))
    return p, linear(rest, const)


def ratio(p: Index, b: Index) -> int:
    """Return the constant integer k with p = k*b; 0 if no k exists, or if p or b is constant."""
    if isinstance(b, int) or isinstance(p, int):
        return 0
    a, c = split_terms(b)[0][0]
    k = dict(split_terms(p)[0]).get(a, 0) // c
    return k if prove_equal(p, mul(b, k)) else 0


def _least_of(f: Index) -> tuple[Atom, int] | None:
    """Return (a, least) if the fact f >= 0 means that the atom a is >= least; else None.

    f = 2*n - 3 gives (n, 2).
    """
    terms, const = split_terms(f)
    if len(terms) != 1 or terms[0][1] < 0:
        return None
    a, c = terms[0]
    return a, -(const // c)


def _consequences(facts: Goals) -> Goals:
    """Return `facts` and further facts that they imply about operands: x // 8 >= 2 -> x >= 16.

    Every fact is an index that is >= 0.
    """
    known = dict.fromkeys(facts)
    natural: set[Atom] = set()  # atoms that are >= 0
    for _ in range(3):  # nested parts
        for f in tuple(known):
            bound = _least_of(f)
            if bound is None:
                continue
            a, least = bound
            if least >= 0 or lower_bound(a) >= 0:
                natural.add(a)
            match a:
                case FloorDiv(x, b):  # x // b >= 2  ->  x >= 2*b
                    known[sub(x, mul(b, least))] = None
                case Extremum("min", x, y):
                    known |= {sub(x, least): None, sub(y, least): None}
                case Product() if least >= 1:
                    parts = factors(a)
                    if sum(lower_bound(x) < 0 and x not in natural for x in parts) <= 1:
                        known |= {sub(x, 1): None for x in parts}
                case _:
                    pass
    return tuple(known)


class _Search:
    """A search for a proof. Sizes in goal and facts are shifted to make their lower bound 0."""

    def __init__(self, goal: Index, facts: Goals) -> None:
        known = _consequences(facts)
        least: dict[Var, int] = {}
        for bound in map(_least_of, known):
            if bound is not None and _is_size(bound[0]):
                v, n = bound
                assert isinstance(v, Var)
                least[v] = max(n, least.get(v, n))
        self.shift = {v: add(Var(v.name, 0), n) for v, n in least.items() if n > v.low}
        self.goal = substitute(goal, self.shift)
        self.facts = tuple(substitute(f, self.shift) for f in known)
        self.steps = MAX_STEPS

    def succeeds(self) -> bool:
        """Return whether goal >= 0 is proven, directly or as goal - fact >= 0 for some fact."""
        return self._holds(self.goal) or any(self._holds(sub(self.goal, f)) for f in self.facts)

    def _holds(self, e: Index) -> bool:
        """Return whether `e` >= 0 can be proved in the steps that are left."""
        if lower_bound(e) >= 0:
            return True
        terms, _ = split_terms(e)
        parts = dict.fromkeys(f for a, _ in terms for f in factors(a))
        for a in sorted(parts, key=_rank):
            split = coefficient(e, a)
            for goals in () if split is None else self._sufficient(a, *split):
                self.steps -= 1
                if self.steps < 0:
                    return False
                if all(map(self._holds, goals)):
                    return True
        return False

    def _sufficient(self, a: Atom, p: Index, r: Index) -> Iterator[Goals]:
        """Yield sets of goals without the atom `a`; if all goals of a set hold, p*a + r >= 0."""
        match a:
            case FloorDiv(x, b):
                yield from _without_quotient(x, b, p, r)
            case Extremum(op, x, y) if isinstance(p, int):
                ends = add(mul(x, p), r), add(mul(y, p), r)
                yield from ((e,) for e in ends) if (op == "max") == (p > 0) else (ends,)
            case FloorMod(x) if isinstance(p, int) and p < 0 and lower_bound(x) >= 0:
                yield (add(mul(x, p), r),)
            case Var():
                first, last = self._ends(a)
                if self._sign(p):
                    yield from ((add(mul(e, p), r),) for e in first)
                elif self._sign(mul(p, -1)):
                    yield from ((add(mul(e, p), r),) for e in last)
                else:  # linear in a: it holds between the bounds if it holds at both
                    ends = [(f, g) for f in first for g in last]
                    yield from ((add(mul(f, p), r), add(mul(g, p), r)) for f, g in ends)
            case _:
                return

    def _sign(self, p: Index) -> bool:
        return p >= 0 if isinstance(p, int) else lower_bound(p) >= 0 or self._holds(p)

    def _ends(self, v: Var) -> tuple[list[Index], list[Index]]:
        """Return (lower bounds, upper bounds) of `v`, both declared and implied by facts."""
        first: list[Index] = [v.low] if isinstance(v.low, int) else []
        last: list[Index] = [v.high] if isinstance(v.high, int) else []
        if v.top is not None:
            last.append(substitute(v.top, self.shift))
        for f in self.facts:
            split = coefficient(f, v)
            if split is not None and isinstance(split[0], int) and abs(split[0]) == 1:
                p, r = split
                (first if p == 1 else last).append(mul(r, -p))
        return first, last


def _is_size(a: Expr) -> bool:
    """Return whether `a` is a variable without an upper bound: a size or a scalar argument."""
    return isinstance(a, Var) and a.top is None and a.high == INF


def _rank(a: Expr) -> int:
    """Return a sort key for eliminating atoms: quotients and minima before operands; sizes last."""
    match a:
        case FloorDiv():
            return 0
        case Extremum() | FloorMod():
            return 1
        case _:
            return 3 if _is_size(a) else 2


def _without_quotient(x: Index, b: Index, p: Index, r: Index) -> Iterator[Goals]:
    """Yield goals that each imply p*(x // b) + r >= 0, using x - b < (x // b)*b <= x."""
    if isinstance(p, int):
        if p in (1, -1):  # x // b <= r if and only if x < (r + 1)*b
            yield (add(mul(r, b), x if p == 1 else sub(sub(b, 1), x)),)
        else:
            yield (add(mul(r, b), mul(x if p < 0 else sub(x, sub(b, 1)), p)),)
        return
    k = ratio(p, b)
    if k:  # k*b*(x // b)
        yield (add(r, mul(x if k < 0 else sub(x, sub(b, 1)), k)),)
