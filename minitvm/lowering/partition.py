"""A pass that splits off the iterations of a loop that need a guard, so that the rest need none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from minitvm import tensor, tir

from .budget import MOST_OPERATIONS, operations
from .regions import loop_variable, sweep
from .statements import every, inner

Span = tuple[int, int]  # (first, stop): the iterations first <= i < stop
Rule: TypeAlias = Callable[[tir.Stmt], tir.Stmt]  # applied to the body of each version of a loop


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
    below MOST_OPERATIONS (four versions are always allowed). A loop with a symbolic extent is
    split at a symbolic iteration such as n // 64. A loop with an extent from data is not split.
    """
    return _partition(s, None)


def _partition(s: tir.Stmt, copies: int | None) -> tir.Stmt:
    """Split loops in `s` such that a nest becomes at most _allowed(nest, copies) versions."""
    if isinstance(s, tir.For) and s.kind in ("serial", "parallel"):
        split = _split(s)
        left = 0 if split is None else _allowed(s, copies) // split.versions
        if split is not None and left:
            return split.made(lambda part: _partition(part, left))
    if isinstance(s, tir.Seq | tir.Allocate):
        return tir.map_parts(s, lambda part: _partition(part, copies))
    return tir.map_children(s, lambda part: _partition(part, copies), lambda e: e)


def _allowed(nest: tir.For, copies: int | None) -> int:
    """Return into how many versions `nest` may be split.

    This is `copies` if an outer loop has set it, otherwise as many as compile in reasonable time,
    but at least four. Without a limit, guards at seven depths would make 128 versions or more.
    """
    return copies if copies is not None else max(4, MOST_OPERATIONS // operations(nest))


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """A possible split of a loop.

    versions: the number of versions of the body.
    made: made(rule) returns the split loop, with rule(body) as the body of each version.
    """

    versions: int
    made: Callable[[Rule], tir.Stmt]


def _split(s: tir.For) -> _Split | None:
    """Return how to split the loop `s`; None if no iteration makes a guard in it always true."""
    if isinstance(s.extent, int):
        (first, stop), held = _certain(s.var, s.extent, s.body)
        if not held:
            return None
        if s.kind == "parallel":
            return _Split(2, partial(_split_parallel, s, s.extent, (first, stop), held))
        versions = 1 + (first > 0) + (stop < s.extent)
        return _Split(versions, partial(_split_serial, s, s.extent, (first, stop)))
    if tensor.is_from_data(s.extent):
        return None
    end, held = _certain_below(s)
    return _Split(2, partial(_split_symbolic, s, end, held)) if held else None


def _inner_guards(s: tir.Stmt) -> list[tir.Expr]:
    """Return the comparisons in those guards that are inside a loop of `s`."""
    found: dict[int, tir.Expr] = {}

    waiting = [(s, False)]  # statements, and whether they are inside a loop of `s`
    while waiting:
        s, looped = waiting.pop()
        for guard in _guards(s) if looped else ():
            found.update((id(c), c) for c in tir.walk(guard) if isinstance(c, tir.Compare))
        waiting += [(part, looped or isinstance(s, tir.For)) for part in reversed(inner(s))]
    return list(found.values())


def _guards(s: tir.Stmt) -> list[tir.Expr]:
    """Return the condition of `s` if it is marked `likely`, or the conditions in a stored value."""
    match s:
        case tir.If(cond, likely=True):
            return [cond]
        case tir.Store(value=value):
            return [e.cond for e in tir.walk(value) if isinstance(e, tir.IfThenElse)]
        case _:
            return []


def _certain(var: tir.Var, extent: int, body: tir.Stmt) -> tuple[Span, set[int]]:
    """Return the iterations of the loop over `var` in which guards are always true.

    Also return the ids of those guards. A guard is ignored if it would leave no such iteration.
    """
    first, stop = 0, extent
    held: set[int] = set()
    for g in _inner_guards(body):
        lo, hi = holds(g, var, extent)
        lo, hi = max(first, lo), min(stop, hi)
        if lo < hi:
            first, stop = lo, hi
            held.add(id(g))
    return (first, stop), held


def holds(guard: tir.Expr, var: tir.Var, extent: int) -> Span:
    """Return the values of `var` for which the affine `guard` is always true; (0, 0) if unknown.

    The guard i*64 + j < 700, with j in 0..63, is always true for i in 0..9: (0, 10).
    """
    facts = tensor.facts_of(guard)
    if len(facts) != 1:  # i == 5 is two inequalities
        return 0, 0
    terms, const = tir.split_terms(facts[0])
    c = sum(k for a, k in terms if a is var)
    rest = tir.linear((t for t in terms if t[0] is not var), const)
    least = tir.lower_bound(rest)
    if c == 0 or least == -tir.INF or not tir.free_of(rest, (var,)):
        return 0, 0
    if c < 0:
        return 0, min(extent, int(least) // -c + 1)
    return max(0, -(int(least) // c)), extent


def _piece(loop: tir.For, first: int, stop: int, go: Rule) -> tir.Stmt | None:
    """Return iterations first .. stop-1 of `loop`, rewritten by `go`; None if there are none."""
    if first >= stop:
        return None
    if stop - first == 1:
        return go(tir.substitute(loop.body, {loop.var: first}))
    var = tir.Var(loop.var.name, 0, stop - first - 1)
    body = tir.substitute(loop.body, {loop.var: tir.add(var, first)})
    return tir.For(var, stop - first, go(body), loop.kind, loop.thread)


def _split_serial(loop: tir.For, extent: int, span: Span, go: Rule) -> tir.Stmt:
    first, stop = span
    return tir.seq(
        _piece(loop, 0, first, go), _piece(loop, first, stop, go), _piece(loop, stop, extent, go)
    )


def _split_parallel(loop: tir.For, extent: int, span: Span, held: set[int], go: Rule) -> tir.Stmt:
    first, stop = span
    sure = tir.rewrite(loop.body, expr=lambda e: tir.TRUE if id(e) in held else e)
    rest = loop.body
    if extent - (stop - first) == 1:  # one iteration is left: all its conditions fold
        rest = tir.substitute(rest, {loop.var: extent - 1 if first == 0 else 0})
    inside = tir.all_of(tir.compare("<=", first, loop.var), tir.compare("<", loop.var, stop))
    body = tir.If(inside, go(sure), go(rest))
    return tir.For(loop.var, extent, body, loop.kind, loop.thread)


# --- symbolic extents ----------------------------------------------------------------------------


def _certain_below(loop: tir.For) -> tuple[tir.Index, set[int]]:
    """Return (stop, ids of guards): these guards are true in all of the first `stop` iterations.

    The guard i*4 + j < n, with j in 0..3, is always true in the first n // 4 iterations.
    """
    inside = [n.var for n in every(loop.body) if isinstance(n, tir.For)]
    stop: tir.Index = loop.extent
    held: set[int] = set()
    for g in _inner_guards(loop.body):
        facts = tensor.facts_of(g)
        terms, const = tir.split_terms(facts[0]) if len(facts) == 1 else ((), 0)
        c = sum(k for a, k in terms if a is loop.var)
        rest = tir.linear((t for t in terms if t[0] is not loop.var), const)
        if c >= 0 or not tir.free_of(rest, (loop.var,)):
            continue
        least = sweep(rest, [v for v in tir.variables(rest) if not any(v is i for i in inside)])[0]
        if tir.free_of(least, inside):
            stop = _less(tir.maximum(0, tir.add(tir.floordiv(least, -c), 1)), stop)
            held.add(id(g))
    return stop, held


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


def _split_symbolic(loop: tir.For, stop: tir.Index, held: set[int], go: Rule) -> tir.Stmt:
    """Split off the first `stop` iterations; in them, remove the guards whose ids are in `held`."""
    sure = tir.rewrite(loop.body, expr=lambda e: tir.TRUE if id(e) in held else e)
    if loop.kind == "parallel":
        below = tir.compare("<", loop.var, stop)
        body = sure if below is tir.TRUE else tir.If(below, go(sure), go(loop.body))
        return tir.For(loop.var, loop.extent, body, loop.kind, loop.thread)
    more = tir.sub(loop.extent, stop)
    first, rest = (loop_variable(loop.var.name, n) for n in (stop, more))
    tail = tir.substitute(loop.body, {loop.var: tir.add(rest, stop)})
    return tir.seq(
        tir.For(first, stop, go(tir.substitute(sure, {loop.var: first})), loop.kind, loop.thread),
        tir.For(rest, more, go(tail), loop.kind, loop.thread),
    )
