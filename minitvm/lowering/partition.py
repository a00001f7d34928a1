"""Guards leave the hot part of a loop: its last iterations get code of their own."""

from __future__ import annotations

from typing import Any

from minitvm.tensor import facts_of, is_from_data
from minitvm.tir import (
    INF,
    TRUE,
    Allocate,
    Compare,
    Expr,
    FloorDiv,
    For,
    If,
    Index,
    Seq,
    Stmt,
    Var,
    add,
    all_of,
    compare,
    floordiv,
    free_of,
    high,
    linear,
    low,
    map_children,
    map_parts,
    maximum,
    minimum,
    nonneg,
    rewrite,
    seq,
    split_terms,
    sub,
    substitute,
    variables,
    walk,
)

from .interval import sweep
from .statements import every, inner

Span = tuple[int, int]  # first, stop: the iterations first <= i < stop


def partition(s: Stmt) -> Stmt:
    """Split loops where a guard stops being certain.

        for i in range(11):               for i in range(10):
          for j in range(64):               for j in range(64):
            if likely(i*64 + j < 700):  ->    body(i, j)
              body(i, j)                  for j in range(64):
                                            if likely(j < 60):
                                              body(10, j)

    A parallel loop stays one loop: the two versions become the arms of an `if` inside it. Loops
    are split outermost first, and only for guards that sit inside further loops. Of a symbolic
    loop the first n // 64 iterations, say, go without the guard; one whose length is read from
    data stays as it is.
    """
    if isinstance(s, For) and isinstance(s.extent, int) and s.kind in ("serial", "parallel"):
        span, held = _certain(s.var, s.extent, s.body)
        if held and s.kind == "serial":
            return _split_serial(s, s.extent, span)
        if held:
            return _split_parallel(s, s.extent, span, held)
    elif isinstance(s, For) and s.kind in ("serial", "parallel") and not is_from_data(s.extent):
        stop, held = _certain_below(s)
        if held:
            return _split_symbolic(s, stop, held)
    if isinstance(s, Seq | Allocate):
        return map_parts(s, partition)
    return map_children(s, partition, _same)


def _same(e: Any) -> Any:
    return e


def _inner_guards(s: Stmt) -> list[Expr]:
    """The conditions of the likely guards inside the loops of `s`, conjunctions taken apart."""
    found: dict[int, Expr] = {}

    waiting = [(s, False)]  # statements, and whether a loop of `s` is around
    while waiting:
        s, looped = waiting.pop()
        if looped and isinstance(s, If) and s.likely:
            found.update((id(c), c) for c in walk(s.cond) if isinstance(c, Compare))
        waiting += [(part, looped or isinstance(s, For)) for part in reversed(inner(s))]
    return list(found.values())


def _certain(var: Var, extent: int, body: Stmt) -> tuple[Span, set[int]]:
    """Where guards on `var` hold whatever else varies, and which do (by id)."""
    first, stop = 0, extent
    held: set[int] = set()
    for g in _inner_guards(body):
        lo, hi = holds(g, var, extent)
        lo, hi = max(first, lo), min(stop, hi)
        if lo < hi:
            first, stop = lo, hi
            held.add(id(g))
    return (first, stop), held


def holds(guard: Expr, var: Var, extent: int) -> Span:
    """The values of `var` for which the affine `guard` is certain; an empty span if unknown.

    i*64 + j < 700 with j in 0..63: certain for i in 0..9.
    """
    facts = facts_of(guard)
    if len(facts) != 1:  # i == 5 is two
        return 0, 0
    terms, const = split_terms(facts[0])
    c = sum(k for a, k in terms if a is var)
    rest = linear((t for t in terms if t[0] is not var), const)
    least = low(rest)
    if c == 0 or least == -INF or not free_of(rest, (var,)):
        return 0, 0
    if c < 0:
        return 0, min(extent, int(least) // -c + 1)
    return max(0, -(int(least) // c)), extent


def _piece(loop: For, first: int, stop: int) -> Stmt | None:
    """The iterations first .. stop-1 of `loop`; shorter ranges fold more conditions."""
    if first >= stop:
        return None
    if stop - first == 1:
        return partition(substitute(loop.body, {loop.var: first}))
    var = Var(loop.var.name, 0, stop - first - 1)
    body = substitute(loop.body, {loop.var: add(var, first)})
    return For(var, stop - first, partition(body), loop.kind, loop.thread)


def _split_serial(loop: For, extent: int, span: Span) -> Stmt:
    first, stop = span
    return seq(_piece(loop, 0, first), _piece(loop, first, stop), _piece(loop, stop, extent))


def _split_parallel(loop: For, extent: int, span: Span, held: set[int]) -> Stmt:
    first, stop = span
    sure = rewrite(loop.body, expr=lambda e: TRUE if id(e) in held else e)
    rest = loop.body
    if extent - (stop - first) == 1:  # a single other iteration: all its conditions fold
        rest = substitute(rest, {loop.var: extent - 1 if first == 0 else 0})
    inside = all_of(compare("<=", first, loop.var), compare("<", loop.var, stop))
    body = If(inside, partition(sure), partition(rest))
    return For(loop.var, extent, body, loop.kind, loop.thread)


# --- symbolic extents ----------------------------------------------------------------------------


def _certain_below(loop: For) -> tuple[Index, set[int]]:
    """(stop, guards): in the first `stop` iterations the guards (ids) hold whatever else varies.

    i*4 + j < n with j in 0..3: the first n // 4.
    """
    inside = [n.var for n in every(loop.body) if isinstance(n, For)]
    stop: Index = loop.extent
    held: set[int] = set()
    for g in _inner_guards(loop.body):
        facts = facts_of(g)
        terms, const = split_terms(facts[0]) if len(facts) == 1 else ((), 0)
        c = sum(k for a, k in terms if a is loop.var)
        rest = linear((t for t in terms if t[0] is not loop.var), const)
        if c >= 0 or not free_of(rest, (loop.var,)):
            continue
        least = sweep(rest, [v for v in variables(rest) if not any(v is i for i in inside)])[0]
        if free_of(least, inside):
            stop = _less(maximum(0, add(floordiv(least, -c), 1)), stop)
            held.add(id(g))
    return stop, held


def _less(a: Index, b: Index) -> Index:
    """The smaller one; n // 4 is not more than (n + 3) // 4."""
    if isinstance(a, FloorDiv) and isinstance(b, FloorDiv) and isinstance(a.b, int) and a.b == b.b:
        return a if nonneg(sub(b.a, a.a)) else minimum(a, b)
    return minimum(a, b)


def _split_symbolic(loop: For, stop: Index, held: set[int]) -> Stmt:
    """The first `stop` iterations without the guards in `held`, the others with them."""
    sure = rewrite(loop.body, expr=lambda e: TRUE if id(e) in held else e)
    if loop.kind == "parallel":
        below = compare("<", loop.var, stop)
        body = sure if below is TRUE else If(below, partition(sure), partition(loop.body))
        return For(loop.var, loop.extent, body, loop.kind, loop.thread)
    more = sub(loop.extent, stop)
    first, rest = _counter(loop.var, stop), _counter(loop.var, more)
    tail = substitute(loop.body, {loop.var: add(rest, stop)})
    return seq(
        For(first, stop, partition(substitute(sure, {loop.var: first})), loop.kind, loop.thread),
        For(rest, more, partition(tail), loop.kind, loop.thread),
    )


def _counter(var: Var, extent: Index) -> Var:
    last = sub(extent, 1)
    return Var(var.name, 0, high(last), None if isinstance(last, int) else last)
