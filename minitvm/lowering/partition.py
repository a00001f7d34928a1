"""A pass that splits off the iterations of a loop that need a guard, so that the rest need none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from minitvm import tensor, tir

from .budget import MAX_OPERATIONS, operations
from .regions import loop_variable, sweep

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
    below MAX_OPERATIONS (four versions are always allowed). A loop with a symbolic extent is
    split at a symbolic iteration such as n // 64. A loop with an extent from data is not split.
    """
    return _partition(s, None)


def _partition(s: tir.Stmt, copies: int | None) -> tir.Stmt:
    """Split loops in `s` such that a nest becomes at most _allowed(nest, copies) versions."""
    if isinstance(s, tir.For) and s.kind in ("serial", "parallel"):
        split = _split(s)
        left = 0 if split is None else _allowed(s, copies) // split.versions
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
    """

    loop: tir.For
    first: int
    stop: tir.Index
    certain: set[int]

    @property
    def versions(self) -> int:
        """Return into how many versions of its body the loop is split."""
        if self.loop.kind == "parallel":
            return 2
        return 1 + (self.first > 0) + (not tir.prove_equal(self.stop, self.loop.extent))

    def loops(self, rule: Rule) -> tir.Stmt:
        """Return the split loop, with rule(body) as the body of each version."""
        loop, first, stop = self.loop, self.first, self.stop
        sure = tir.rewrite(loop.body, expr=lambda e: tir.TRUE if id(e) in self.certain else e)
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
    first, stop, certain = _certain(s, s.extent) if isinstance(s.extent, int) else _certain_below(s)
    return _Split(s, first, stop, certain) if certain else None


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


def _certain(loop: tir.For, extent: int) -> tuple[int, int, set[int]]:
    """Return (first, stop, ids of guards): these guards are true in iterations first .. stop-1.

    A guard is ignored if it would leave no such iteration.
    """
    first, stop = 0, extent
    certain: set[int] = set()
    for g in _inner_guards(loop.body):
        lo, hi = certain_iterations(g, loop.var, extent) or (0, 0)
        lo, hi = max(first, lo), min(stop, hi)
        if lo < hi:
            first, stop = lo, hi
            certain.add(id(g))
    return first, stop, certain


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


def _certain_below(loop: tir.For) -> tuple[int, tir.Index, set[int]]:
    """Do the same as _certain for a loop with a symbolic extent; `first` is 0.

    The guard i*4 + j < n, with j in 0..3, is always true in the first n // 4 iterations.
    """
    inner_vars = [n.var for n in tir.every(loop.body) if isinstance(n, tir.For)]
    stop: tir.Index = loop.extent
    certain: set[int] = set()
    for g in _inner_guards(loop.body):
        facts = tensor.facts_of(g)
        terms, const = tir.split_terms(facts[0]) if len(facts) == 1 else ((), 0)
        c = sum(k for a, k in terms if a is loop.var)
        rest = tir.linear((t for t in terms if t[0] is not loop.var), const)
        if c >= 0 or not tir.free_of(rest, (loop.var,)):
            continue
        least = sweep(
            rest, [v for v in tir.variables(rest) if not any(v is i for i in inner_vars)]
        )[0]
        if tir.free_of(least, inner_vars):
            stop = _less(tir.maximum(0, tir.add(tir.floordiv(least, -c), 1)), stop)
            certain.add(id(g))
    return 0, stop, certain


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
