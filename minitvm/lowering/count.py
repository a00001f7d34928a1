"""Count exactly how often statements run, from the loops and conditions around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from minitvm import tir

MAX_POINTS = 1 << 22  # points of the largest iteration space that is enumerated
# each counts as one operation, whatever the type of its operands
ARITHMETIC = (
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "pow",
)  # fmt: skip

Conditions: TypeAlias = tuple[tir.Expr, ...]
Around: TypeAlias = tir.For | tir.Pragma | tir.Allocate


@dataclass(frozen=True, slots=True, eq=False)
class GuardedStore:
    """A store, what encloses it (outermost first), and the conditions under which it runs.

    guards: the conditions that keep iterations in bounds; the program marks them `likely`.
    """

    store: tir.Store
    around: tuple[Around, ...]
    conditions: Conditions
    guards: Conditions

    @property
    def loops(self) -> tuple[tir.For, ...]:
        """Return the loops around the store, outermost first."""
        return tuple(n for n in self.around if isinstance(n, tir.For))


def runs(s: tir.Stmt) -> list[GuardedStore]:
    """Return every store in `s` with its loops and conditions, in program order."""
    return list(_runs(s, (), (), ()))


def _runs(
    s: tir.Stmt, around: tuple[Around, ...], conditions: Conditions, guards: Conditions
) -> Iterator[GuardedStore]:
    stack = [(s, around)]
    while stack:
        s, around = stack.pop()
        match s:
            case tir.Store():
                yield GuardedStore(s, around, conditions, guards)
            case tir.Seq(parts):
                stack += [(part, around) for part in reversed(parts)]
            case tir.Allocate(_, body) | tir.Pragma(_, _, body):
                stack.append((body, (*around, s)))
            case tir.For(body=body):
                yield from _runs(body, (*around, s), conditions, guards)
            case tir.If(cond, body, orelse, likely):
                new = conjuncts(cond)
                needed = (*guards, *new) if likely else guards
                yield from _runs(body, around, (*conditions, *new), needed)
                if orelse is not None:
                    yield from _runs(orelse, around, (*conditions, tir.Not(cond)), guards)
            case tir.Evaluate():
                pass


def conjuncts(cond: tir.Expr) -> tuple[tir.Expr, ...]:
    """Split a conjunction into its conditions: a and b and c -> (a, b, c)."""
    if isinstance(cond, tir.Binary) and cond.op == "and":
        return conjuncts(cond.a) + conjuncts(cond.b)
    return (cond,)


def times(run: GuardedStore) -> int | None:
    """Return how often the store runs; None if a loop's extent or a condition is unknown.

    for i in range(3): for j in range(4): if i*4 + j < 10: ...   ->   10

    Conditions that share no variable are counted separately, which keeps the enumerated iteration
    spaces small.
    """
    extents, ends = box((loop.var, loop.extent) for loop in run.loops)
    if len(extents) < len(run.loops):
        return None
    conditions = [c for c in (*ends, *run.conditions) if c is not tir.TRUE]
    total = 1
    for group in _groups(conditions):
        names = {v for c in group for v in tir.variables(c)}
        points = _points(group, {v: n for v, n in extents.items() if v in names})
        if points is None:
            return None
        total *= int(np.count_nonzero(points[0]))
        extents = {v: n for v, n in extents.items() if v not in names}
    return total * math.prod(extents.values())


def known_stores(s: tir.Stmt) -> int:
    """Return how many stores `s` executes in total, leaving out stores whose count is unknown."""
    return sum(times(run) or 0 for run in runs(s))


def work(e: tir.Index) -> int:
    """Count the arithmetic operations on data that every evaluation of `e` performs.

    Index arithmetic, including the indices of loads, and the arms of if_then_else are left out.
    """
    if isinstance(e, int | tir.Load):
        return 0
    counts = (isinstance(e, tir.Binary) and e.op in ARITHMETIC) or (
        isinstance(e, tir.Call) and e.name in tir.INTRINSICS
    )
    parts = [e.cond] if isinstance(e, tir.IfThenElse) else tir.children(e)
    return counts + sum(work(c) for c in parts if isinstance(c, tir.Expr))


def box(loops: Iterable[tuple[tir.Var, tir.Index]]) -> tuple[dict[tir.Var, int], list[tir.Expr]]:
    """Return each loop's maximum extent, and a condition i < extent for each extent that varies.

    Loops whose extent has no upper bound are left out.
    """
    extents: dict[tir.Var, int] = {}
    ends: list[tir.Expr] = []
    for var, extent in loops:
        most = tir.upper_bound(extent)
        if isinstance(most, int):
            extents[var] = max(0, most)
            ends += [] if isinstance(extent, int) else [tir.Compare("<", var, extent)]
    return extents, ends


def distinct(
    values: Iterable[tir.Index], extents: Mapping[tir.Var, int], conditions: Iterable[tir.Expr]
) -> int | None:
    """Count the distinct tuples that the expressions `values` give in the iterations that run.

    extents: the loop variables and their extents. An iteration runs if all `conditions` are true.
    Returns None if the count is unknown.

    i*4 + j for i in range(3), j in range(6)   ->   14: each of 0 .. 13
    """
    if 0 in extents.values():
        return 0
    points = [*(e for e in values if isinstance(e, tir.Expr)), *conditions]
    total = 1
    for group in _groups(points):
        variables = {v for e in group for v in tir.variables(e)}
        sizes = {v: n for v, n in extents.items() if v in variables}
        points = _points([e for e in group if not tir.is_index(e)], sizes)
        if points is None or len(sizes) < len(variables):
            return None
        mask, grid = points
        columns = [
            np.broadcast_to(tir.index_value(e, grid), mask.shape)[mask]
            for e in group
            if tir.is_index(e)
        ]
        total *= len(np.unique(np.stack(columns, 1), axis=0)) if columns else bool(mask.any())
    return total


def _groups(exprs: list[tir.Expr]) -> list[list[tir.Expr]]:
    """Divide the expressions into groups, such that no two groups have a variable in common."""
    groups: list[tuple[set[tir.Var], list[tir.Expr]]] = []
    for c in exprs:
        variables = set(tir.variables(c))
        touching = [g for g in groups if g[0] & variables]
        others = [g for g in groups if not g[0] & variables]
        joined_variables = variables.union(*(g[0] for g in touching))
        members = [e for g in touching for e in g[1]] + [c]
        groups = [*others, (joined_variables, members)]
    return [members for _, members in groups]


def _points(
    conditions: list[tir.Expr], extents: dict[tir.Var, int]
) -> tuple[Any, dict[tir.Var, Any]] | None:
    """Return a mask of the points in the box `extents` where all conditions hold, and the points.

    The points are a mapping from each variable to its values, as numpy arrays that broadcast.
    Returns None if the box is too large, or if a condition reads data or has other variables.
    """
    sizes = list(extents.values())
    known = all(tir.is_decided_by(extents, c) for c in conditions)
    if math.prod(sizes) > MAX_POINTS or not known:
        return None
    grid = dict(zip(extents, np.indices(sizes, sparse=True), strict=True))
    mask: Any = np.ones(sizes, bool)
    for c in conditions:
        mask = mask & tir.index_value(c, grid)
    return mask, grid
