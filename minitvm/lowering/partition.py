"""A pass that splits off the iterations of a loop that need a guard; the others then need none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from minitvm import tensor, tir

from .budget import MAX_OPERATIONS, operations
from .regions import loop_variable, sweep

Span = tuple[int, int]  # (first, stop): the iterations first <= i < stop
Rule: TypeAlias = Callable[[tir.Stmt], tir.Stmt]  # applied to the body of each version of a loop
MOST_RESTS = 7  # versions of the rest of a loop; tiles of more rows are rarely unrolled


def partition(s: tir.Stmt) -> tir.Stmt:
    """Split loops where a guard stops being certain.

        for i in range(11):               for i in range(10):
          for j in range(64):               for j in range(64):
            if likely(i*64 + j < 700):  ->    body(i, j)
              body(i, j)                  for j in range(64):
                                            if likely(j < 60):
                                              body(10, j)

    A guard is certain in an iteration if it is true for all values of the inner loops' variables.
    The conditions of `a if cond else b` count as guards, too: they are the tests of padding.

    A parallel loop stays one loop: the two versions become the arms of an `if` inside it. Loops
    are split outermost first, only for guards inside inner loops, and only while the nest stays
    below MAX_OPERATIONS (four versions are always allowed). A loop with a symbolic extent is
    split at a symbolic iteration such as n // 64. If its rest is part of an unrolled tile, the rest
    has a version for each size that it may have, without guards. A loop with an extent from data is
    not split.
    """
    return _partition(s, None)


def _partition(s: tir.Stmt, copies: int | None) -> tir.Stmt:
    """Split loops in `s` such that a nest becomes at most _allowed(nest, copies) versions."""
    if isinstance(s, tir.For) and s.kind in ("serial", "parallel"):
        split, most = _split(s), _allowed(s, copies)
        if split is not None and split.versions > most:
            split = replace(split, tile=0)
        left = 0 if split is None else most // split.versions
        if split is not None and left:
            return split.loops(lambda part: _partition(part, left))
    if isinstance(s, tir.Seq | tir.Allocate):
        return tir.map_parts(s, lambda part: _partition(part, copies))
    return tir.map_children(s, lambda part: _partition(part, copies), lambda e: e)


def _allowed(nest: tir.For, copies: int | None) -> int:
    """Return into how many versions `nest` may be split.

    This is `copies` if an outer loop has set it, otherwise as many as compile in reasonable time,
    but at least four. Without a limit, guards at seven depths would make 128 versions or more.
    """
    return copies if copies is not None else max(4, MAX_OPERATIONS // operations(nest))


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """A possible split of `loop`: in iterations first .. stop-1, some guards are always true.

    certain   the ids of these guards
    tile      the size of an unrolled tile, if the loop is over `total` // tile of them and a rest
    """

    loop: tir.For
    first: int
    stop: tir.Index
    certain: set[int]
    tile: int = 0
    total: tir.Index = 0

    @property
    def versions(self) -> int:
        """Return into how many versions of its body the loop is split."""
        if self.loop.kind == "parallel":
            return 2
        if self.tile:
            return 1 + len(self._rests)
        return 1 + (self.first > 0) + (not tir.prove_equal(self.stop, self.loop.extent))

    def loops(self, rule: Rule) -> tir.Stmt:
        """Return the split loop, with rule(body) as the body of each version."""
        loop, first, stop = self.loop, self.first, self.stop
        sure = tir.rewrite(loop.body, expr=lambda e: tir.TRUE if id(e) in self.certain else e)
        if self.tile:
            rests = (self._rest(size, rule) for size in self._rests)
            return tir.seq(_piece(loop, 0, stop, sure, rule), *rests)
        if loop.kind == "serial":
            return tir.seq(
                _piece(loop, 0, first, loop.body, rule),
                _piece(loop, first, stop, sure, rule),
                _piece(loop, stop, loop.extent, loop.body, rule),
            )
        rest = loop.body
        if tir.prove_equal(tir.sub(loop.extent, tir.sub(stop, first)), 1):  # its conditions fold
            rest = tir.substitute(rest, {loop.var: stop if first == 0 else 0})
        in_range = tir.all_of(tir.compare("<=", first, loop.var), tir.compare("<", loop.var, stop))
        body = rule(sure) if in_range is tir.TRUE else tir.If(in_range, rule(sure), rule(rest))
        return tir.For(loop.var, loop.extent, body, loop.kind, loop.thread)

    @property
    def _rests(self) -> list[int]:
        """The sizes that the rest may have: n*4 % 8 is 0 or 4."""
        terms, const = tir.split_terms(self.total)
        step = math.gcd(self.tile, *(k for _, k in terms))
        return [size for size in range(1, self.tile) if (size - const) % step == 0]

    def _rest(self, size: int, rule: Rule) -> tir.Stmt:
        """Return the last iteration if its tile has `size` elements: i*6 + j < n is j < size."""

        def guard(e: tir.Expr) -> tir.Expr:
            if id(e) not in self.certain:
                return e
            within = tir.sub(tir.sub(self.total, 1), _without(tensor.facts_of(e)[0], self.loop.var))
            return tir.compare("<", within, size)

        body = tir.substitute(tir.rewrite(self.loop.body, expr=guard), {self.loop.var: self.stop})
        return tir.If(tir.compare("==", tir.floormod(self.total, self.tile), size), rule(body))


def _without(e: tir.Index, var: tir.Var) -> tir.Index:
    """Return the affine expression `e` without its term in `var`."""
    terms, const = tir.split_terms(e)
    return tir.linear((t for t in terms if t[0] is not var), const)


def _piece(
    loop: tir.For, first: tir.Index, stop: tir.Index, body: tir.Stmt, rule: Rule
) -> tir.Stmt | None:
    """Return iterations first .. stop-1 of `loop` with another body; None if there are none."""
    extent = tir.sub(stop, first)
    if isinstance(extent, int) and extent <= 0:
        return None
    if isinstance(extent, int) and extent == 1:
        return rule(tir.substitute(body, {loop.var: first}))
    var = loop_variable(loop.var.name, extent)
    body = tir.substitute(body, {loop.var: tir.add(var, first)})
    return tir.For(var, extent, rule(body), loop.kind, loop.thread)


def _split(s: tir.For) -> _Split | None:
    """Return how to split the loop `s`; None if no iteration makes a guard in it always true."""
    if tensor.is_from_data(s.extent):
        return None
    split = _certain(s, s.extent) if isinstance(s.extent, int) else _certain_below(s)
    return split if split.certain else None


def _inner_guards(s: tir.Stmt) -> list[tir.Expr]:
    """Return the comparisons in those guards that are inside a loop of `s`."""
    comparisons: dict[int, tir.Expr] = {}
    stack = [(s, False)]  # statements, and whether they are inside a loop of `s`
    while stack:
        s, in_loop = stack.pop()
        for guard in _guards(s) if in_loop else ():
            comparisons.update((id(c), c) for c in tir.walk(guard) if isinstance(c, tir.Compare))
        stack += [(part, in_loop or isinstance(s, tir.For)) for part in reversed(tir.inner(s))]
    return list(comparisons.values())


def _guards(s: tir.Stmt) -> list[tir.Expr]:
    """Return the condition of `s` if it is marked `likely`, or the conditions in a stored value."""
    match s:
        case tir.If(cond, likely=True):
            return [cond]
        case tir.Store(value=value):
            return [e.cond for e in tir.walk(value) if isinstance(e, tir.IfThenElse)]
        case _:
            return []


def _certain(loop: tir.For, extent: int) -> _Split:
    """Return how to split `loop`; a guard is ignored if it would leave no certain iteration."""
    first, stop = 0, extent
    certain: set[int] = set()
    for g in _inner_guards(loop.body):
        lo, hi = certain_iterations(g, loop.var, extent) or (0, 0)
        lo, hi = max(first, lo), min(stop, hi)
        if lo < hi:
            first, stop = lo, hi
            certain.add(id(g))
    return _Split(loop, first, stop, certain)


def certain_iterations(guard: tir.Expr, var: tir.Var, extent: int) -> Span | None:
    """Return the values of `var` for which the affine `guard` is always true; None if unknown.

    The guard i*64 + j < 700, with j in 0..63, is always true for i in 0..9: (0, 10).
    """
    facts = tensor.facts_of(guard)
    if len(facts) != 1:  # i == 5 is two inequalities
        return None
    terms, const = tir.split_terms(facts[0])
    c = sum(k for a, k in terms if a is var)
    rest = tir.linear((t for t in terms if t[0] is not var), const)
    least = tir.lower_bound(rest)
    if c == 0 or least == -tir.INF or not tir.free_of(rest, (var,)):
        return None
    if c < 0:
        return 0, min(extent, int(least) // -c + 1)
    return max(0, -(int(least) // c)), extent


def _certain_below(s: tir.For) -> _Split:
    """Do the same as _certain for a loop with a symbolic extent; `first` is 0.

    The guard i*4 + j < n, with j in 0..3, is always true in the first n // 4 iterations.
    """
    inner = [n for n in tir.every(s.body) if isinstance(n, tir.For)]
    stop: tir.Index = s.extent
    certain, totals = set[int](), list[tuple[int, tir.Index]]()
    for g in _inner_guards(s.body):
        facts = tensor.facts_of(g)
        terms, _ = tir.split_terms(facts[0]) if len(facts) == 1 else ((), 0)
        c = sum(k for a, k in terms if a is s.var)
        rest = _without(facts[0], s.var) if c < 0 else 0
        if c >= 0 or not tir.free_of(rest, (s.var,)):
            continue
        own = [n for n in inner if not tir.free_of(rest, (n.var,))]
        used = {id(n.var) for n in own}
        least = sweep(rest, [v for v in tir.variables(rest) if id(v) not in used])[0]
        if tir.free_of(least, [n.var for n in inner]):
            stop = _less(tir.maximum(0, tir.add(tir.floordiv(least, -c), 1)), stop)
            certain.add(id(g))
            is_tile = all(n.kind == "unroll" for n in own)
            totals.append((-c if is_tile else 0, tir.add(least, -c)))
    tile, total = totals[0] if totals else (0, 0)
    is_tiled = (
        s.kind == "serial"
        and 1 < tile <= MOST_RESTS + 1
        and all(t == tile and tir.prove_equal(x, total) for t, x in totals)
        and tir.prove_equal(stop, tir.floordiv(total, tile))
        and tir.prove_equal(s.extent, tir.ceildiv(total, tile))
    )
    return _Split(s, 0, stop, certain, tile if is_tiled else 0, total)


def _less(a: tir.Index, b: tir.Index) -> tir.Index:
    """Return the minimum of `a` and `b`; for n // 4 and (n + 3) // 4 it is known to be n // 4."""
    if (
        isinstance(a, tir.FloorDiv)
        and isinstance(b, tir.FloorDiv)
        and isinstance(a.b, int)
        and a.b == b.b
    ):
        return a if tir.nonneg(tir.sub(b.a, a.a)) else tir.minimum(a, b)
    return tir.minimum(a, b)
