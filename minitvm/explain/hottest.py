"""Find why a program's hottest loop is slower than the CPU's peak, with estimated factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from minitvm import lowering, tir
from minitvm.base import Target

from .derive import plain
from .warning import PerformanceWarning

SMALL = 10**6  # operations; no causes are reported for a program with fewer
WORTH_CORES = 1 << 22  # operations of a sum; with fewer, topi's schedules use one core, too
LINE = 64  # bytes of a cache line
PAGE = 4096  # bytes; addresses this far apart map to the same set of the first-level cache
IN_FLIGHT = 8  # multiply-adds in flight in a core: 2 per cycle with a latency of 4 cycles


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
        return times * sum(lowering.width(s) * _arithmetic(s.value) for s in self.stores)

    @property
    def var(self) -> tir.Var:
        """Return the variable of the innermost loop."""
        return self.loops[-1].var

    @property
    def output(self) -> tir.Buffer:
        """Return the buffer of the first store."""
        return self.stores[0].buffer

    @property
    def sums(self) -> bool:
        """Return whether every store adds to, or otherwise updates, the element that it writes."""
        return all(any(_same_place(n, s) for n in tir.walk(s.value)) for s in self.stores)

    @property
    def carried(self) -> bool:
        """Return whether each iteration updates the same elements as the iteration before."""
        return self.sums and all(tir.free_of(s.indices[0], (self.var,)) for s in self.stores)

    def places(self) -> dict[tuple[tir.Buffer, str], tir.Store]:
        """Map each distinct place that is stored, (buffer, index as text), to its last store."""
        return {(s.buffer, tir.text(s.indices[0])): s for s in self.stores}

    def loads(self) -> list[tuple[tir.Load, tir.Store]]:
        """Return (load, store) for each load that does not read the element its store updates."""
        return [
            (n, s)
            for s in self.stores
            for n in tir.walk(s.value)
            if isinstance(n, tir.Load) and not _same_place(n, s)
        ]

    def warning(self, factor: float, why: str, fix: str, what: str = "") -> PerformanceWarning:
        """Return the warning that the loop takes about `factor` times as long, for this reason.

        what: the loop in words; "loop" by default. The stage of the warning is the stored tensor.
        """
        what = f"{what or 'loop'} {plain(self.var.name)} of {self.output.name}"
        why = f"{why}; about {factor:.0f} times slower"
        return PerformanceWarning(self.output.name, what, why, fix, factor)


def hottest_loop(body: tir.Stmt, target: Target) -> list[PerformanceWarning]:
    """Return at most three reasons why the hottest loop is slow, the largest slowdown first.

    `body` is the program after unrolling. The hottest loop is the innermost loop that executes the
    most operations. Returns [] if these are fewer than SMALL or unknown, or for targets other than
    llvm.
    """
    hot = max(_innermost_loops(body, ()), key=lambda b: b.operations, default=None)
    if target.kind != "llvm" or hot is None or hot.operations < SMALL:
        return []
    warnings = [
        *_scalar(hot, target),
        *_strided(hot, target),
        *_chain(hot, target),
        *_untiled(hot),
        *_one_core(hot, target),
    ]
    return sorted(warnings, key=lambda w: -w.factor)[:3]


def is_small(body: tir.Stmt) -> bool:
    """Return whether the program has fewer than SMALL operations.

    A program with an unknown number of operations counts as large.
    """
    counts = [b.operations for b in _innermost_loops(body, ()) if b.stores]
    return all(counts) and sum(counts) < SMALL


def _innermost_loops(s: tir.Stmt, loops: tuple[tir.For, ...]) -> Iterator[InnermostLoop]:
    if isinstance(s, tir.For):
        loops = (*loops, s)
        statements = list(tir.every(s.body))
        if not any(isinstance(n, tir.For) for n in statements):
            yield InnermostLoop(loops, tuple(n for n in statements if isinstance(n, tir.Store)))
            return
    for part in tir.inner(s):
        yield from _innermost_loops(part, loops)


def _arithmetic(e: tir.Expr) -> int:
    return sum(lowering.cost(n) for n in tir.walk(e) if not isinstance(n, tir.Load))


def _same_place(n: object, s: tir.Store) -> bool:
    return (
        isinstance(n, tir.Load)
        and n.buffer is s.buffer
        and tir.text(n.indices[0]) == tir.text(s.indices[0])
    )


# --- causes ---------------------------------------------------------------------------------------


def _scalar(b: InnermostLoop, target: Target) -> Iterator[PerformanceWarning]:
    """Warn if no loop is vectorized."""
    full = target.lanes(b.output.dtype)
    if full > 1 and max(map(lowering.width, b.stores)) == 1:
        yield b.warning(
            full,
            f"no loop is vectorized, so only one of {full} lanes works",
            "vectorize the loop that runs along the last dimension of the output: split it by "
            f"{full}, and reorder the inner part to the end",
        )


def _strided(b: InnermostLoop, target: Target) -> Iterator[PerformanceWarning]:
    """Yield a warning if a load reads another cache line in each iteration.

    The loop must be so long that a line is evicted from the cache before it is used again.
    """
    for n, s in b.loads():
        step = step_of(n.indices[0], b.var)
        size = n.dtype.bytes
        if not step or not isinstance(step, int):
            continue
        away = abs(step) * size
        capacity = target.l1 // PAGE * (PAGE // max(LINE, gcd(away, PAGE)))
        factor = min(away, LINE) // (size * lowering.width(s))
        if factor > 1 and isinstance(b.loops[-1].extent, int) and b.loops[-1].extent > capacity:
            why = (
                f"it is innermost, and moves {step} elements of {n.buffer.name} at a time: "
                "each iteration loads another cache line"
            )
            fix = f"reorder: the loop along the last dimension of {n.buffer.name} innermost"
            yield InnermostLoop(b.loops, (s,)).warning(factor, why, fix)
            return


def _chain(b: InnermostLoop, target: Target) -> Iterator[PerformanceWarning]:
    """Warn if too few independent sums hide the latency of additions."""
    if not b.carried:
        return
    stores = b.places().values()
    sums = sum(-(-lowering.width(s) // target.lanes(s.buffer.dtype)) for s in stores)
    if sums * 2 <= IN_FLIGHT:
        yield b.warning(
            IN_FLIGHT // sums,
            f"each operation waits for the one before it: {sums} of the {IN_FLIGHT} that a core "
            "could overlap",
            "reorder a loop over the output inside it, and unroll that: independent sums overlap",
            "reduction loop",
        )


def _untiled(b: InnermostLoop) -> Iterator[PerformanceWarning]:
    """Yield a warning if a reduction loads operands again that could stay in registers."""
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
    results = len(b.places())
    moves = len(reads) if b.carried else max(len(reads) + results, 2 * results)
    factor = moves / len(b.stores)
    if factor >= 2:
        yield b.warning(
            factor,
            "it moves more than it computes: nothing stays in a register for a second use",
            "tile both output loops, unroll the tile inside the reduction, "
            "and accumulate it in cache_write(..., 'local')",
        )


def _one_core(b: InnermostLoop, target: Target) -> Iterator[PerformanceWarning]:
    cores = target.num_cores
    is_short = b.sums and b.operations < WORTH_CORES
    if cores > 1 and not is_short and all(n.kind != "parallel" for n in b.loops):
        outermost = plain(b.loops[0].var.name)
        yield PerformanceWarning(
            b.output.name,
            f"loop {outermost} of {b.output.name}",
            f"it runs on one of {cores} cores; about {cores} times slower",
            f"parallel({outermost}), if it is no reduction loop",
            cores,
        )


def step_of(i: tir.Index, var: tir.Var) -> tir.Index | None:
    """Return by how much the index `i` grows when `var` grows by 1; None if this varies."""
    terms = tir.split_terms(i)[0]
    rest = tir.linear(t for t in terms if t[0] is not var)
    if not tir.free_of(rest, (var,)):
        return None
    return sum(c for a, c in terms if a is var)
