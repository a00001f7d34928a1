"""A pass that fills the edges of ragged tiles with zeros, so that the products need no guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import lowering, schedule, tir

from .kernels import map_kernels, most_iterations

FAST = ("shared", "local")
MAX_POINTS = 1 << 16  # iterations that are enumerated


def pad_tiles(body: tir.Stmt) -> tir.Stmt:
    """Fetch zeros beyond the edge of a tensor, and multiply without a guard.

        if likely(i < 1000):                  S[i_inner] = A[i] if i < 1000 else 0.0
          S[i_inner] = A[i]
        if likely(i < 1000):          ->      R[0] = R[0] + S[i_inner]
          R[0] = R[0] + S[i_inner]

    A guard goes only where the program reads nothing of what the extra iterations write: each
    element beyond the edge is written beyond the edge alone. So the guard of a reduce axis stays,
    and that of a store to global memory.

    A guard inside the loops over registers costs more than the products: with it, 36 % of the main
    loop's instructions are multiply-adds, without it 86 % (1000 x 1000 x 1000, tiles of 128 x 128,
    sm_90).
    """
    return map_kernels(body, lambda kernel: _Padding(kernel).visit(kernel))


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    """A store to fast memory of known size.

    guards   the guards around it that a pass may drop, each with the number of its statement
    others   whether other conditions are around it
    loops    the loops in which the element may change while the buffer lives: without those around
             its allocation and, for local memory, without those over threads
    """

    store: tir.Store
    guards: tuple[tuple[int, tir.Expr], ...]
    others: bool
    loops: tuple[tir.For, ...]

    @property
    def is_update(self) -> bool:
        """Whether the new value depends on the old one."""
        return any(n.buffer is self.store.buffer for n in _loads(self.store.value))


class _Padding:
    """Drops guards of one kernel.

    writes    all stores to each buffer
    dropped   the guards that go: (number of the statement, condition)
    filled    the statements whose stores to shared memory then write zeros
    """

    def __init__(self, kernel: tir.Stmt) -> None:
        self.writes: dict[tir.Buffer, list[_Write]] = {}
        self.guarded: dict[int, tir.If] = {}
        self.collect(kernel, (), (), {}, others=False)
        self.filled = {n for n, s in self.guarded.items() if _may_be_zero(s)}
        self.dropped = {
            (n, c)
            for n, s in self.guarded.items()
            if _is_simple(s.body) and (n in self.filled or all(map(_fits, _loads_in(s.body))))
            for c in lowering.conjuncts(s.cond)
            if all(self.is_beyond(w, n, c) for w in self.inside(n))
        }
        while unsafe := {key for key in self.dropped if self.reads_partial(key[0])}:
            self.dropped -= unsafe

    def inside(self, number: int) -> list[_Write]:
        """Return the stores inside a guarded statement."""
        all_writes = (w for writes in self.writes.values() for w in writes)
        return [w for w in all_writes if any(n == number for n, _ in w.guards)]

    def collect(
        self,
        s: tir.Stmt,
        loops: tuple[tir.For, ...],
        guards: tuple[tuple[int, tir.Expr], ...],
        born: Mapping[tir.Buffer, int],
        *,
        others: bool,
    ) -> None:
        """Note all stores to fast memory; born: how many loops are around each allocation."""
        match s:
            case tir.For(body=body):
                self.collect(body, (*loops, s), guards, born, others=others)
            case tir.If(cond, body, None, likely=True):
                self.guarded[id(s)] = s
                more = tuple((id(s), c) for c in lowering.conjuncts(cond))
                self.collect(body, loops, (*guards, *more), born, others=others)
            case tir.If(_, body, orelse):
                for arm in (body, orelse or tir.NOTHING):
                    self.collect(arm, loops, guards, born, others=True)
            case tir.Allocate(buffer, body):
                self.collect(body, loops, guards, {**born, buffer: len(loops)}, others=others)
            case tir.Seq(parts):
                for part in parts:
                    self.collect(part, loops, guards, born, others=others)
            case tir.Pragma(_, _, body):
                self.collect(body, loops, guards, born, others=others)
            case tir.Store(buffer) if schedule.scope_kind(buffer.scope) in FAST:
                first = born.get(buffer, 0)
                threads = [x for x in loops[:first] if x.thread in schedule.THREADS]
                varying = [*threads, *loops[first:]]
                if schedule.scope_kind(buffer.scope) == "local":
                    varying = [x for x in varying if x.thread not in schedule.THREADS]
                varying = [x for x in varying if x.thread not in schedule.BLOCKS]
                write = _Write(s, guards, others, tuple(varying))
                self.writes.setdefault(buffer, []).append(write)
            case _:
                pass

    # which guards go

    def is_beyond(self, w: _Write, number: int, cond: tir.Expr) -> bool:
        """Return whether the elements that `w` writes where `cond` is false are not read.

        They are not if no store writes them where its guard is true.
        """
        if not _fits(w.store) or not _determines(w, cond):
            return False
        return all(
            write is w or any(_same(c, cond, write, w) for _, c in write.guards)
            for write in self.writes[w.store.buffer]
        )

    def reads_partial(self, number: int) -> bool:
        """Return whether a statement may read elements that stay unwritten."""
        if number in self.filled:
            return False
        loads = {n.buffer for n in _loads_in(self.guarded[number].body)}
        return any(self.is_partial(w) for b in loads for w in self.writes.get(b, ()))

    def is_partial(self, w: _Write) -> bool:
        """Return whether guards that stay keep the store from some elements."""
        if w.is_update:
            return False
        left = [c for n, c in w.guards if (n, c) not in self.dropped]
        if not left and not w.others:
            return False
        grid = _grid(w.loops, [w.store.indices[0], *left])
        if w.others or grid is None or not all(tir.is_decided_by(grid, c) for c in left):
            return True
        index = _index_in(w, grid)
        if index is None:
            return True
        mask = np.logical_and.reduce(
            [np.broadcast_to(tir.index_value(c, grid), index.shape) for c in left]
        )
        size = tir.elements(w.store.buffer)
        covered_elements = set(np.unique(index).tolist()) & set(
            range(size if isinstance(size, int) else 0)
        )
        return not covered_elements <= set(np.unique(index[mask]).tolist())

    def visit(self, s: tir.Stmt) -> tir.Stmt:
        """Return the statement without the dropped guards."""
        match s:
            case tir.For(var, extent, body, kind, thread):
                return tir.For(var, extent, self.visit(body), kind, thread)
            case tir.If(cond, body, orelse, likely):
                inner = self.visit(body)
                else_branch = None if orelse is None else self.visit(orelse)
                if id(s) not in self.guarded:
                    return tir.If(cond, inner, else_branch, likely)
                dropped_conds = [c for c in lowering.conjuncts(cond) if (id(s), c) in self.dropped]
                kept_conds = [c for c in lowering.conjuncts(cond) if (id(s), c) not in self.dropped]
                if dropped_conds and id(s) in self.filled:
                    inner = _or_zero(tir.all_of(*dropped_conds), inner)
                return tir.If(tir.all_of(*kept_conds), inner, None, likely) if kept_conds else inner
            case tir.Seq(parts):
                return tir.seq(*map(self.visit, parts))
            case tir.Allocate(buffer, body):
                return tir.Allocate(buffer, self.visit(body))
            case tir.Pragma(key, value, body):
                return tir.Pragma(key, value, self.visit(body))
            case _:
                return s


def _or_zero(cond: tir.Expr, s: tir.Stmt) -> tir.Stmt:
    """Return `s`, but its stores write 0 where `cond` is false."""

    def padded(x: tir.Stmt) -> tir.Stmt:
        if not isinstance(x, tir.Store):
            return x
        all_conditions, value, zero = cond, x.value, tir.const(0, x.buffer.dtype)
        match value:
            case tir.IfThenElse(inner, e, tir.Const(0)):  # a guard inside this one
                all_conditions, value = tir.all_of(cond, inner), e
            case _:
                pass
        padded_value = tir.IfThenElse(all_conditions, value, zero, x.buffer.dtype)
        return tir.Store(x.buffer, x.indices, padded_value)

    return tir.rewrite(s, padded)


# --- statements ----------------------------------------------------------------------------------


def _is_simple(s: tir.Stmt) -> bool:
    """Return whether `s` stores to fast memory only, inside its bounds, and does nothing else."""
    statements = list(tir.every(s))
    stores = [x for x in statements if isinstance(x, tir.Store)]
    return not any(isinstance(x, tir.Evaluate) for x in statements) and all(map(_fits, stores))


def _may_be_zero(s: tir.If) -> bool:
    """Return whether the statement copies to shared memory what it could replace by zeros."""
    statements = list(tir.every(s.body))
    stores = [x for x in statements if isinstance(x, tir.Store)]
    written = {x.buffer for x in stores}
    outside = [n for n in _loads_in(s.body) if not _fits(n)]
    conditions = [n for x in statements if isinstance(x, tir.If) for n in _loads(x.cond)]
    return (
        bool(outside)
        and all(map(_fits, conditions))
        and all(schedule.scope_kind(b.scope) == "shared" for b in written)
        and not any(n.buffer in written for n in _loads_in(s.body))
    )


def _loads(e: tir.Expr) -> Iterator[tir.Load]:
    return (n for n in tir.walk(e) if isinstance(n, tir.Load))


def _loads_in(s: tir.Stmt) -> list[tir.Load]:
    return [n for n in tir.walk(s) if isinstance(n, tir.Load)]


def _fits(access: tir.Load | tir.Store) -> bool:
    """Return whether an access of fast memory stays inside the buffer even without a guard."""
    size, (index, *_) = tir.elements(access.buffer), access.indices
    return (
        schedule.scope_kind(access.buffer.scope) in FAST
        and isinstance(size, int)
        and tir.lower_bound(index) >= 0
        and tir.upper_bound(index) < size
    )


# --- elements ------------------------------------------------------------------------------------


def _determines(w: _Write, cond: tir.Expr) -> bool:
    """Return whether the element that `w` writes determines the variables of `cond`.

    R[i] with i < n does; R[0] with k < n does not, in a loop over k: some k write it, some do not.
    """
    loop_vars = {x.var for x in w.loops}
    decisive = [v for v in tir.variables(cond) if v in loop_vars]
    if any(isinstance(n, tir.Load) for n in tir.walk(cond)):
        return False
    if not decisive:
        return True
    grid = _grid(w.loops, [w.store.indices[0], cond])
    index = None if grid is None else _index_in(w, grid)
    if grid is None or index is None:
        return False
    rows = [np.broadcast_to(a, index.shape).ravel() for a in (index, *(grid[v] for v in decisive))]
    return len(np.unique(rows[0])) == np.unique(np.stack(rows), axis=1).shape[1]


def _grid(
    loops: Sequence[tir.For], used: Sequence[tir.Index]
) -> dict[tir.Var, np.ndarray[Any, Any]] | None:
    """Return the values of loop variables in all iterations; None if there are too many.

    Each array has one axis per loop that occurs in `used`; loops over one thread index share it.
    """
    names = {v for e in used for v in tir.variables(e)}
    axes: dict[object, list[tir.For]] = {}
    for s in (s for s in loops if s.var in names):
        axes.setdefault(s.thread if s.thread in schedule.THREADS else s, []).append(s)
    extents = [max(most_iterations(s) or 0 for s in group) for group in axes.values()]
    if any(n < 1 for n in extents) or np.prod(extents, dtype=float) > MAX_POINTS:
        return None
    return {
        s.var: np.arange(n).reshape(-1, *[1] * (len(extents) - d - 1))
        for d, (n, group) in enumerate(zip(extents, axes.values(), strict=True))
        for s in group
    }


def _index_in(
    w: _Write, grid: Mapping[tir.Var, np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any] | None:
    """Return the element that `w` writes in each iteration, up to a constant; None if unknown."""
    terms, const = tir.split_terms(w.store.indices[0])
    parts = [(a, c) for a, c in terms if set(tir.variables(a)) & set(grid)]
    index = tir.linear(parts, const if len(parts) == len(terms) else 0)
    if not tir.is_decided_by(grid, index):
        return None
    shape = np.broadcast_shapes(*(a.shape for a in grid.values()))
    return np.broadcast_to(tir.index_value(index, grid), shape)


def _same(a: tir.Expr, b: tir.Expr, x: _Write, y: _Write) -> bool:
    """Return whether `a`, around `x`, is true for the same elements as `b`, around `y`."""
    if a is b and x.store.indices[0] is y.store.indices[0]:
        return True
    renamed = _renamed(x.store.indices[0], y.store.indices[0])
    if renamed is None or not (isinstance(a, tir.Compare) and isinstance(b, tir.Compare)):
        return False
    sides = [tir.substitute(e, renamed) for e in (a.a, a.b)]
    return a.op == b.op and all(
        tir.is_index(p) and tir.is_index(q) and tir.prove_equal(p, q)
        for p, q in zip(sides, (b.a, b.b), strict=True)
    )


def _renamed(x: tir.Index, y: tir.Index) -> dict[tir.Var, tir.Var] | None:
    """Return which variables of `y` replace those of `x` to make the indices equal, or None.

    i*4 + j, y*4 + x   ->   {i: y, j: x}
    """
    (xs, a), (ys, b) = tir.split_terms(x), tir.split_terms(y)
    var_of_factor = {c: v for v, c in ys}
    if a != b or sorted(c for _, c in xs) != sorted(var_of_factor):
        return None
    renamed: dict[tir.Var, tir.Var] = {}
    for v, c in xs:
        w = var_of_factor[c]
        if isinstance(v, tir.Var) and isinstance(w, tir.Var):
            renamed[v] = w
        elif not tir.prove_equal(v, w):
            return None
    return renamed
