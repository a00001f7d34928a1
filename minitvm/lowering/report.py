"""Report how often each statement of a program runs, and which elements each loop touches.

A cost model can compute its features from these reports: extents, annotations, and the elements
that a loop touches. They are found by interval arithmetic on the indices, one statement at a time.
This is slow, but easy to check, and works for every program that can be lowered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from minitvm import tir

from .count import GuardedStore, runs, times
from .regions import Interval, sweep

_Access: TypeAlias = tuple[tir.Buffer, tuple[tir.Index, ...], bool]  # whether it writes


@dataclass(frozen=True, slots=True)
class LoopReport:
    """A loop around a statement.

    var       the name of its variable in print(program)
    extent    the number of iterations: an int, or an expression of sizes and outer variables
    kind      "serial", "parallel", "vectorize", "unroll" or "bind"
    thread    the thread that it is bound to, such as "threadIdx.x"; else ""
    pragmas   of this loop and the loops around it: {"auto_unroll_max_step": 16}
    touched   buffer name -> the extents of the region that this loop touches in one iteration of
              the loops around it; conditions are ignored
    """

    var: str
    extent: tir.Index
    kind: str
    thread: str
    pragmas: Mapping[str, object]
    touched: Mapping[str, tuple[tir.Index, ...]]


@dataclass(frozen=True, slots=True)
class AccessReport:
    """A load or store of a statement: the buffer's name, and the indices as they are printed."""

    buffer: str
    write: bool
    indices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllocationReport:
    """A temporary that is alive at a statement.

    loops   how many of the statement's loops are around the allocation
    """

    buffer: str
    shape: tuple[tir.Index, ...]
    dtype: str
    scope: str
    loops: int


@dataclass(frozen=True, slots=True)
class StatementReport:
    """A store of a program and what surrounds it, outermost first.

    text         the statement as it is printed
    accesses     the distinct loads as they are printed, then the store
    conditions   the conditions under which it runs, as they are printed
    times        how often it runs; None if that depends on data, or on sizes that are not known
    """

    text: str
    loops: tuple[LoopReport, ...]
    accesses: tuple[AccessReport, ...]
    conditions: tuple[str, ...]
    times: int | None
    allocations: tuple[AllocationReport, ...]


def report(func: tir.PrimFunc) -> tuple[StatementReport, ...]:
    """Report every store of `func`, such as tvm.lower(s, args, until="nest"), in program order.

    Names are as in print(func). Stores inside calls, as after tensorize, are not included.
    """
    printer = func.printer()
    return tuple(_statement(run, printer) for run in runs(func.body))


def _statement(run: GuardedStore, printer: tir.Printer) -> StatementReport:
    (text,) = printer.lines(run.store)
    accesses = _accesses(run.store)
    loops: list[LoopReport] = []
    allocations: list[AllocationReport] = []
    pragmas: dict[str, object] = {}
    for n in run.around:
        match n:
            case tir.Pragma(key, value):
                pragmas = {**pragmas, key: value}
            case tir.Allocate(b):
                name, dtype = printer.name(b), str(b.dtype)
                allocations.append(AllocationReport(name, b.shape, dtype, b.scope, len(loops)))
            case tir.For(var, extent, _, kind, thread):
                touched = _touched(accesses, [m.var for m in run.loops[: len(loops)]], printer)
                name = printer.name(var)
                loops.append(LoopReport(name, extent, kind, thread, pragmas, touched))
    shown = dict.fromkeys(
        AccessReport(printer.name(b), write, tuple(map(printer.expr, indices)))
        for b, indices, write in accesses
    )
    return StatementReport(
        text,
        tuple(loops),
        tuple(shown),
        tuple(map(printer.expr, run.conditions)),
        times(run),
        tuple(allocations),
    )


def _accesses(store: tir.Store) -> list[_Access]:
    """Return the loads in a store, in the order in which they are printed, and the store itself."""
    found = [n for e in (store.value, *store.indices) for n in tir.walk(e)]
    loads = [(n.buffer, n.indices, False) for n in found if isinstance(n, tir.Load)]
    return [*loads, (store.buffer, store.indices, True)]


def _touched(
    accesses: list[_Access], fixed: list[tir.Var], printer: tir.Printer
) -> dict[str, tuple[tir.Index, ...]]:
    """Return the extents of the region of each buffer for fixed values of the variables `fixed`."""
    regions: dict[tir.Buffer, list[Interval]] = {}
    for buffer, indices, _ in accesses:
        now = [sweep(i, fixed) for i in indices]
        old = regions.get(buffer, now)
        regions[buffer] = [
            (tir.minimum(a, c), tir.maximum(b, d)) for (a, b), (c, d) in zip(old, now, strict=True)
        ]
    return {
        printer.name(buffer): tuple(
            tir.minimum(tir.add(tir.sub(last, first), 1), n)
            for (first, last), n in zip(region, _extents(buffer, len(region)), strict=True)
        )
        for buffer, region in regions.items()
    }


def _extents(buffer: tir.Buffer, dimensions: int) -> tuple[tir.Index, ...]:
    """Return the shape of a buffer; after the pass `flatten`, its number of elements."""
    return buffer.shape if len(buffer.shape) == dimensions else (tir.elements(buffer),)
