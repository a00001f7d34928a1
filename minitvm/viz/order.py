"""The order in which a loop program accesses memory: one tick per store.

A program with too many ticks to watch is cut to a corner: its largest loops are shortened until
few ticks remain. The order and the tiling stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from minitvm import tir
from minitvm.base import ArgumentError

MAX_TICKS = 640
MAX_LANES = 64  # most lanes of a vectorized loop; all its lanes are one tick
Values = Mapping[tir.Var, int]
Element = tuple[tir.Buffer, tuple[int, ...]]  # one element of a buffer


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """One step of a program: a store, in all lanes at once if its loops are vectorized.

    stmt            the store
    values          (variable, value) of the loops around it, outermost first, vectorized excluded
    writes, reads   the elements that it accesses
    """

    stmt: tir.Store
    values: tuple[tuple[tir.Var, int], ...]
    writes: tuple[Element, ...]
    reads: tuple[Element, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The ticks of a program, or of the part that remains if its loops are shortened.

    total   the number of ticks of the whole program; an upper bound if it has conditions and was
            not run to its end
    cut     loop variable -> how many iterations are run, for the loops that were shortened
    """

    ticks: tuple[Tick, ...]
    total: int
    cut: dict[tir.Var, int]


def order_of(body: tir.Stmt, most: int = MAX_TICKS) -> Order:
    """Return the first ticks of `body`, at most `most`; a larger program is cut to a corner.

    Raises ArgumentError if sizes are symbolic, or if data decide which elements are accessed.
    """
    loops = [n for n in tir.walk(body) if isinstance(n, tir.For)]
    limits: dict[tir.Var, int] = {}
    for f in loops:
        if not isinstance(f.extent, int):
            what = f"loop {f.var.name} of {tir.text(f.extent)} iterations"
            why = "the number of iterations is not known before the program runs"
            raise ArgumentError(what, why, "constant sizes")
        limits[f.var] = min(f.extent, MAX_LANES) if f.kind == "vectorize" else f.extent
    total, whole = _count(body, limits), dict(limits)
    _shorten(body, loops, limits, most)
    ticks = tuple(islice(_run(body, {}, limits), most + 1))
    if len(ticks) <= most and limits == whole:
        total = len(ticks)  # conditions may leave out some
    ticks = ticks[:most]
    cut = {f.var: limits[f.var] for f in loops if limits[f.var] != f.extent}
    return Order(ticks, total, cut)


# --- counting, cutting ---------------------------------------------------------------------------


def _count(s: tir.Stmt, limits: Mapping[tir.Var, int]) -> int:
    """Return the most ticks that `s` may have: both branches of each condition are counted."""
    match s:
        case tir.For(var, _, body, kind):
            return _count(body, limits) * (1 if kind == "vectorize" else limits[var])
        case tir.Seq(parts):
            return sum(_count(p, limits) for p in parts)
        case tir.If(_, body, orelse):
            return _count(body, limits) + (0 if orelse is None else _count(orelse, limits))
        case tir.Allocate(_, body) | tir.Pragma(_, _, body):
            return _count(body, limits)
        case tir.Store():
            return 1
        case tir.Evaluate():
            return 0


def _shorten(body: tir.Stmt, loops: list[tir.For], limits: dict[tir.Var, int], most: int) -> None:
    """Halve the longest loop, or the outermost of several, until at most `most` ticks remain.

    A loop i and the loop i.init that initialises the same elements are halved together.
    """
    same_limits: dict[tuple[str, int], list[tir.Var]] = {}
    for f in loops:
        same_limits.setdefault((f.var.name.removesuffix(".init"), limits[f.var]), []).append(f.var)
    while _count(body, limits) > most:
        largest_group = max(same_limits.values(), key=lambda vs: limits[vs[0]])
        limit = limits[largest_group[0]]
        if limit <= 2:
            return
        for v in largest_group:
            limits[v] = (limit + 1) // 2


# --- running -------------------------------------------------------------------------------------


def _run(s: tir.Stmt, values: dict[tir.Var, int], limits: Mapping[tir.Var, int]) -> Iterator[Tick]:
    """Yield the ticks of `s` in order, for these values of the loops around it."""
    match s:
        case tir.For(var, _, body, "vectorize"):
            yield from _vector(var, body, values, limits)
        case tir.For(var, _, body):
            for i in range(limits[var]):
                values[var] = i
                yield from _run(body, values, limits)
            values.pop(var, None)
        case tir.Seq(parts):
            for p in parts:
                yield from _run(p, values, limits)
        case tir.If(cond, body, orelse):
            if tir.index_value(cond, values):
                yield from _run(body, values, limits)
            elif orelse is not None:
                yield from _run(orelse, values, limits)
        case tir.Allocate(_, body) | tir.Pragma(_, _, body):
            yield from _run(body, values, limits)
        case tir.Store():
            yield Tick(s, tuple(values.items()), (_place(s, values),), tuple(_reads(s, values)))
        case tir.Evaluate():
            return


def _vector(
    var: tir.Var, body: tir.Stmt, values: dict[tir.Var, int], limits: Mapping[tir.Var, int]
) -> Iterator[Tick]:
    """Yield one tick per store, for all lanes of a vectorized loop."""
    outer_values = tuple(values.items())
    lanes: list[list[Tick]] = []
    for i in range(limits[var]):
        values[var] = i
        lanes.append(list(_run(body, values, limits)))
    values.pop(var, None)
    for stmt in dict.fromkeys(t.stmt for lane in lanes for t in lane):
        ticks = [t for lane in lanes for t in lane if t.stmt is stmt]
        writes = tuple(dict.fromkeys(p for t in ticks for p in t.writes))
        reads = tuple(dict.fromkeys(p for t in ticks for p in t.reads))
        yield Tick(stmt, outer_values, writes, reads)


def _place(s: tir.Store | tir.Load, values: Values) -> Element:
    return s.buffer, tuple(int(tir.index_value(i, values)) for i in s.indices)


def _reads(s: tir.Store, values: Values) -> Iterator[Element]:
    """Yield each element that a store reads once, ignoring branches that are not taken."""
    elements: dict[Element, None] = {}
    stack: list[Any] = [s.value, *s.indices]
    while stack:
        e = stack.pop()
        if isinstance(e, tir.IfThenElse):
            stack.append(e.a if tir.index_value(e.cond, values) else e.b)
            continue
        if isinstance(e, tir.Load):
            elements[_place(e, values)] = None
        if isinstance(e, tir.Expr):
            stack += tir.children(e)
    return iter(elements)
