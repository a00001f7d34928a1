"""Find why a program's hottest loop is slower than the CPU's peak, with estimated factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from minitvm import lowering, tir
from minitvm.base import Target

from .derive import plain

SMALL = 10**6  # operations; no causes are reported for a program with fewer
WORTH_CORES = 1 << 22  # operations of a sum; with fewer, topi's schedules use one core, too
LINE = 64  # bytes of a cache line
PAGE = 4096  # bytes; addresses this far apart map to the same set of the first-level cache
IN_FLIGHT = 8  # multiply-adds in flight in a core: 2 per cycle with a latency of 4 cycles


@dataclass(frozen=True, slots=True)
class Slow:
    """One cause of slowness.

    tensor   the name of the tensor that the loop computes
    factor   the estimated slowdown
    what     the loop in words; why: the cause; fix: what to try
    """

    tensor: str
    factor: float
    what: str
    why: str
    fix: str


@dataclass(frozen=True)
class InnermostLoop:
    """An innermost loop: its stores, and all loops around them, the innermost loop last."""

    loops: tuple[tir.For, ...]
    stores: tuple[tir.Store, ...]

    @cached_property
    def operations(self) -> int:
        """Return the number of scalar operations in all iterations; 0 if it is unknown."""
        extents = [n.extent for n in self.loops]
        times = prod(n if isinstance(n, int) else 0 for n in extents)
        return times * sum(width(s) * _arithmetic(s.value) for s in self.stores)

    @property
    def var(self) -> tir.Var:
        """Return the variable of the innermost loop."""
        return self.loops[-1].var

    @property
    def sums(self) -> bool:
        """Return whether every store adds to, or otherwise updates, the element that it writes."""
        return all(any(_same_place(n, s) for n in tir.walk(s.value)) for s in self.stores)

    @property
    def carried(self) -> bool:
        """Return whether each iteration updates the same elements as the iteration before."""
        return self.sums and all(tir.free_of(s.indices[0], (self.var,)) for s in self.stores)

    def loads(self) -> list[tuple[tir.Load, tir.Store]]:
        """Return (load, store) for each load that does not read the element its store updates."""
        return [
            (n, s)
            for s in self.stores
            for n in tir.walk(s.value)
            if isinstance(n, tir.Load) and not _same_place(n, s)
        ]


def slow(body: tir.Stmt, target: Target) -> list[Slow]:
    """Return at most three reasons why the hottest loop is slow, the largest slowdown first.

    `body` is the program after unrolling. The hottest loop is the innermost loop that executes the
    most operations. Returns [] if these are fewer than SMALL or unknown, or for targets other than
    llvm.
    """
    hot = max(_blocks(body, ()), key=lambda b: b.operations, default=None)
    if target.kind != "llvm" or hot is None or hot.operations < SMALL:
        return []
    found = [
        *_scalar(hot, target),
        *_strided(hot, target),
        *_chain(hot, target),
        *_untiled(hot),
        *_one_core(hot, target),
    ]
    return sorted(found, key=lambda c: -c.factor)[:3]


def is_small(body: tir.Stmt) -> bool:
    """Return whether the program has fewer than SMALL operations.

    A program with an unknown number of operations counts as large.
    """
    counts = [b.operations for b in _blocks(body, ()) if b.stores]
    return all(counts) and sum(counts) < SMALL


def _blocks(s: tir.Stmt, loops: tuple[tir.For, ...]) -> Iterator[InnermostLoop]:
    """Yield every innermost loop with its stores."""
    if isinstance(s, tir.For):
        loops = (*loops, s)
        if not any(isinstance(n, tir.For) for n in lowering.every(s.body)):
            yield InnermostLoop(
                loops, tuple(n for n in lowering.every(s.body) if isinstance(n, tir.Store))
            )
            return
    for part in lowering.inner(s):
        yield from _blocks(part, loops)


def width(s: tir.Store) -> int:
    """Return the number of lanes of a store."""
    return max(tir.lanes(e) for e in (*s.indices, s.value))


def _arithmetic(e: tir.Expr) -> int:
    return sum(
        tir.CALL if isinstance(n, tir.Call) else 1
        for n in tir.walk(e)
        if not isinstance(n, tir.Const | tir.Load) and not tir.is_index(n)
    )


def _same_place(n: object, s: tir.Store) -> bool:
    return (
        isinstance(n, tir.Load)
        and n.buffer is s.buffer
        and tir.text(n.indices[0]) == tir.text(s.indices[0])
    )


# --- causes ---------------------------------------------------------------------------------------


def _scalar(b: InnermostLoop, target: Target) -> Iterator[Slow]:
    out = b.stores[0].buffer
    full = target.lanes(out.dtype)
    if full > 1 and max(map(width, b.stores)) == 1:
        yield Slow(
            out.name,
            full,
            f"loop {plain(b.var.name)} of {out.name}",
            f"no loop is vectorized, so one of {full} lanes works; about {full} times slower",
            "vectorize the loop that runs along the last dimension of the output: split it by "
            f"{full}, and reorder the inner part to the end",
        )


def _strided(b: InnermostLoop, target: Target) -> Iterator[Slow]:
    """Yield a cause if a load reads another cache line in each iteration.

    The loop must be so long that a line is evicted from the cache before it is used again.
    """
    for n, s in b.loads():
        step = step_of(n.indices[0], b.var)
        size = n.dtype.bytes
        if not step or not isinstance(step, int):
            continue
        away = abs(step) * size
        kept = target.l1 // PAGE * (PAGE // max(LINE, gcd(away, PAGE)))
        factor = min(away, LINE) // (size * width(s))
        if factor > 1 and isinstance(b.loops[-1].extent, int) and b.loops[-1].extent > kept:
            yield Slow(
                s.buffer.name,
                factor,
                f"loop {plain(b.var.name)} of {s.buffer.name}",
                f"it is innermost, and moves {step} elements of {n.buffer.name} at a time: "
                f"each iteration loads another cache line; about {factor} times slower",
                f"reorder: the loop along the last dimension of {n.buffer.name} innermost",
            )
            return


def _chain(b: InnermostLoop, target: Target) -> Iterator[Slow]:
    if not b.carried:
        return
    places = {(s.buffer, tir.text(s.indices[0])): s for s in b.stores}
    sums = sum(-(-width(s) // target.lanes(s.buffer.dtype)) for s in places.values())
    if sums * 2 <= IN_FLIGHT:
        factor = IN_FLIGHT // sums
        yield Slow(
            b.stores[0].buffer.name,
            factor,
            f"reduction loop {plain(b.var.name)} of {b.stores[0].buffer.name}",
            f"each operation waits for the one before it: {sums} of the {IN_FLIGHT} that a core "
            f"could overlap; about {factor} times slower",
            "reorder a loop over the output inside it, and unroll that: independent sums overlap",
        )


def _untiled(b: InnermostLoop) -> Iterator[Slow]:
    """Yield a cause if a reduction loads operands again that could stay in registers."""
    if not b.sums:
        return
    data = [n.var for n in b.loops if not tir.free_of(b.stores[0].indices[0], (n.var,))]
    loads = b.loads()
    if not loads or not all(any(tir.free_of(n.indices[0], (v,)) for v in data) for n, _ in loads):
        return
    reads = {
        (n.buffer, tir.text(n.indices[0]))
        for n, _ in loads
        if b.carried or not tir.free_of(n.indices[0], (b.var,))
    }
    places = {(s.buffer, tir.text(s.indices[0])) for s in b.stores}
    moved = len(reads) if b.carried else max(len(reads) + len(places), 2 * len(places))
    factor = moved / len(b.stores)
    if factor >= 2:
        yield Slow(
            b.stores[0].buffer.name,
            factor,
            f"loop {plain(b.var.name)} of {b.stores[0].buffer.name}",
            "it moves more than it computes: nothing stays in a register for a second use; "
            f"about {factor:.0f} times slower",
            "tile both output loops, unroll the tile inside the reduction, "
            "and accumulate it in cache_write(..., 'local')",
        )


def _one_core(b: InnermostLoop, target: Target) -> Iterator[Slow]:
    cores = target.num_cores
    is_short = b.sums and b.operations < WORTH_CORES
    if cores > 1 and not is_short and all(n.kind != "parallel" for n in b.loops):
        yield Slow(
            b.stores[0].buffer.name,
            cores,
            f"loop {plain(b.loops[0].var.name)} of {b.stores[0].buffer.name}",
            f"it runs on one of {cores} cores; about {cores} times slower",
            f"parallel({plain(b.loops[0].var.name)}), if it is no reduction loop",
        )


def step_of(i: tir.Index, var: tir.Var) -> tir.Index | None:
    """Return by how much the index `i` grows when `var` grows by 1; None if this varies."""
    terms = tir.split_terms(i)[0]
    rest = tir.linear(t for t in terms if t[0] is not var)
    if not tir.free_of(rest, (var,)):
        return None
    return sum(c for a, c in terms if a is var)
