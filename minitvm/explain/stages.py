"""Find what is likely slow in the stages of a schedule, with reasons and fixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from minitvm import accel, lowering, schedule, tensor, tir
from minitvm.base import Target

from .derive import PrintedLoops, made_by, origin, plain
from .guards import stores_of
from .hottest import hottest_loop, step_of
from .warning import PerformanceWarning
from .work import number, work_of

KNOWN = (*schedule.PRAGMAS, *schedule.SET_BY_STEPS)  # the keys of pragmas that have an effect
LITTLE = 20_000  # stores; this many take a thread about as long as starting the thread

# what, why and fix of a warning, and its factor if it has one
Facts: TypeAlias = tuple[str, str, str] | tuple[str, str, str, float]


def performance_warnings(
    loops: PrintedLoops, final: tir.Stmt, target: Target
) -> tuple[PerformanceWarning, ...]:
    """Return warnings for the hottest loop of the program `final`, then for each stage."""
    stages = [
        _ExaminedStage(loops, s, s.op, lowering.flatten(loops.body))
        for s in loops.context.state.stages
        if isinstance(s.op, tensor.ComputeOp) and s.name not in loops.prepacked
    ]
    names = {
        loops.context.buffers[tensor.tensor_of(s.op, i)].name: s.stage.name
        for s in stages
        for i in range(len(s.op.dtypes))
    }
    hottest = [w for w in hottest_loop(final, target) if w.stage in names]
    warnings = [replace(w, stage=names[w.stage]) for w in hottest]
    # stages that only copy are cheap compared with others
    ops = [s.op for s in loops.context.state.stages if isinstance(s.op, tensor.ComputeOp)]
    all_copy = all(map(_only_moves_data, ops))
    for s in stages:
        warnings += s.warnings(final, target, all_copy or not _only_moves_data(s.op))
    return tuple(dict.fromkeys(warnings))


def compiled(loops: PrintedLoops) -> tir.Stmt:
    """Return the program after all passes except storage_rewrite, which merges buffers."""
    body = loops.body
    for run in lowering.PASSES["llvm"]:
        body = body if run is lowering.storage_rewrite else run(body)
    return body


@dataclass(frozen=True, slots=True)
class _ExaminedStage:
    """A stage whose loops are examined; `flat` is the program with flat offsets."""

    loops: PrintedLoops
    stage: schedule.Stage
    op: tensor.ComputeOp
    flat: tir.Stmt

    def warnings(self, final: tir.Stmt, target: Target, busy: bool) -> Iterator[PerformanceWarning]:
        """Yield what is likely slow.

        `busy` is False for a stage that only copies while others compute: its speed does not
        matter.
        """
        facts = list[Facts]()
        facts += self.vectors(target) if busy else ()
        facts += self.short_loops()
        facts += self.guards(final) if busy else ()
        facts += self.threads(target) if busy else ()
        facts += self.unrolled()
        facts += self.unknown_pragmas()
        facts += self.tiny_transfers()
        facts += self.recomputed()
        for what, why, fix, *factor in facts:
            yield PerformanceWarning(
                self.stage.name, f"{what} of {self.stage.name}", why, fix, *factor
            )

    def own_loops(self, kind: tir.LoopKind) -> Iterator[tir.For]:
        """Yield the stage's loops of kind `kind`, with flat offsets in their bodies."""
        counters = {id(v) for v in self.domain.loops.values()}
        for n in tir.every(self.flat):
            if isinstance(n, tir.For) and id(n.var) in counters and n.kind == kind:
                yield n

    @property
    def domain(self) -> lowering.Domain:
        return self.loops.domain(self.stage.name)

    # --- vectors ---

    def vectors(self, target: Target) -> Iterator[Facts]:
        """Yield why a vectorized loop stays a plain loop, or makes slow vectors."""
        for loop in self.own_loops("vectorize"):
            name = f"vectorized loop {self.loops.show(loop.var)}"
            inner_loops = [n for n in tir.every(loop.body) if isinstance(n, tir.For)]
            second = next((n for n in inner_loops if n.kind == "vectorize"), None)
            if second is not None:
                inner = self.loops.show(second.var)
                why = f"it stays a plain loop: loop {inner} inside it is vectorized"
                yield name, why, "vectorize only one of the two"
                continue
            if not lowering.lanewise(loop.var, loop.body):
                why = "its iterations store to one element, or differ in length"
                fix = "a loop on which every stored index depends"
                yield name, f"it stays a plain loop: {why}", fix
                continue
            for why, fix in _strides(loop):
                yield name, why, fix, 1
            rolled = [n for n in inner_loops if n.kind != "unroll"]
            if rolled:
                yield (
                    name,
                    f"it is not innermost: loop {self.loops.show(rolled[0].var)} runs inside it, "
                    "once per vector",
                    f"reorder(..., {rolled[0].var.name}, {loop.var.name})",
                    1,
                )
            full = target.lanes(self.op.dtypes[0])
            longest = max((tir.upper_bound(a.extent) for a in self.op.axis), default=0)
            if isinstance(loop.extent, int) and loop.extent % full and longest >= full:
                yield (
                    name,
                    f"{loop.extent} lanes of {self.op.dtypes[0]} are not a multiple of the {full} "
                    "that fill a register",
                    f"split by {full}, and vectorize the inner part",
                    -(-loop.extent // full) * full / loop.extent,
                )

    def short_loops(self) -> Iterator[Facts]:
        """Yield vectorized and parallel loops that have only one iteration."""
        stage = self.stage
        for a in stage.leaves:
            kind = stage.note(a).kind
            if kind in ("vectorize", "parallel") and a not in self.domain.loops:
                relation = made_by(stage, a)
                origin_text = (
                    f" (from {origin(self.loops.state, stage, relation)})" if relation else ""
                )
                what = f"{kind} of {self.loops.loop(stage, a)}"
                yield what, f"it has one iteration{origin_text}", f"{kind} a longer loop"

    # --- guards, threads, size ---

    def guards(self, final: tir.Stmt) -> Iterator[Facts]:
        """Yield the first guard, if every store of the stage has one in its innermost loop."""
        copies = [store for store in stores_of(self.stage, final) if store.loops]
        inner = [_inner_guard(store) for store in copies]
        if copies and all(inner):
            cond, loop = inner[0] or ("", "")
            yield (
                f"guard {cond}",
                f"it is tested in the innermost loop, {loop}, in every iteration",
                "a factor that divides, or the loop with the remainder further out",
                1,
            )

    def threads(self, target: Target) -> Iterator[Facts]:
        """Yield why a parallel loop keeps the threads idle."""
        for loop in self.own_loops("parallel"):
            name = f"parallel loop {self.loops.show(loop.var)}"
            if not isinstance(loop.extent, int):
                continue
            if loop.extent < target.num_cores:
                yield (
                    name,
                    f"{loop.extent} iterations for {target.num_cores} threads: "
                    "some have nothing to do",
                    "parallel over a longer loop, or over two fused ones",
                    target.num_cores / max(1, loop.extent),
                )
            counts = [lowering.times(store) for store in lowering.runs(loop)]
            total = sum(n for n in counts if n is not None)
            if None not in counts and total < LITTLE:
                why = f"{total} stores in all: waking the threads takes longer"
                yield name, why, "a loop further out, or none"

    def unrolled(self) -> Iterator[Facts]:
        """Yield the loops that are too large to be unrolled as marked."""
        for loop in self.own_loops("unroll"):
            times = loop.extent if isinstance(loop.extent, int) else 0
            size = times * lowering.operations(lowering.unroll(loop.body)) if times else 0
            if size > lowering.MAX_OPERATIONS:
                yield (
                    f"unrolled loop {self.loops.show(loop.var)}",
                    f"it stays a loop: {size} operations, and at most {lowering.MAX_OPERATIONS} "
                    "are written out",
                    "split it, and unroll the inner part",
                )

    def unknown_pragmas(self) -> Iterator[Facts]:
        """Yield the pragmas that have no effect."""
        for a in self.stage.leaves:
            for key in (key for key, _ in self.stage.note(a).pragmas if key not in KNOWN):
                yield (
                    f"pragma {key} on loop {a.name}",
                    "no pass knows it, so it has no effect",
                    f"a pass of your own; or one of {', '.join(schedule.PRAGMAS)}",
                )

    def tiny_transfers(self) -> Iterator[Facts]:
        """Yield a copy to or from the accelerator that moves one element at a time."""
        leaves = self.stage.leaves
        depths = [n for n, a in enumerate(leaves) if "dma_copy" in dict(self.stage.note(a).pragmas)]
        whole = [n for a in leaves if isinstance(n := self.domain.extents[a], int)]
        if not depths or len(whole) < len(leaves):
            return
        memory = lowering.SCOPES.get(self.stage.scope, accel.Memory.OUT)
        transfers, numbers = prod(whole[: depths[0]]), prod(whole[depths[0] :])
        if transfers > 1 and numbers <= lowering.element_size(memory):
            yield (
                f"pragma dma_copy on loop {leaves[depths[0]].name}",
                f"{transfers} transfers of {numbers} numbers: each costs dozens of cycles, "
                "however small",
                "the pragma on the outermost axis of the copy",
            )

    def recomputed(self) -> Iterator[Facts]:
        """Yield why the stage computes elements repeatedly, unless it only copies elements."""
        factor = work_of(self.loops, self.stage).factor
        is_attached = isinstance(self.stage.attach, schedule.At) and not any(
            map(_is_element_or_constant, self.op.body)
        )
        if is_attached and factor is not None and factor > 2:
            yield (
                "compute_at",
                f"each element is computed {number(factor)} times",
                "a loop further out, or larger tiles of the reader",
                float(factor),
            )
        domain = self.domain
        if domain.no_reuse and (factor is None or factor > 1):
            times = "" if factor is None else f", each element {number(factor)} times"
            yield (
                "store_at",
                f"nothing is kept: {domain.no_reuse} loop {self.loops.show(domain.around[-1])}, "
                f"so each iteration computes all that it needs{times}",
                "store_at along a serial loop with which one unsplit axis moves; "
                "or compute_at the loop where it is stored",
            )


def _strides(loop: tir.For) -> Iterator[tuple[str, str]]:
    """Yield (why, fix) for each access in a vectorized loop whose stride is not 0 or 1.

    Buffers allocated inside the loop and buffers in local memory are left out.
    """
    allocated = {id(n.buffer) for n in tir.every(loop.body) if isinstance(n, tir.Allocate)}
    for n in tir.walk(loop.body):
        if not isinstance(n, tir.Load | tir.Store):
            continue
        if id(n.buffer) in allocated or n.buffer.scope == "local":
            continue
        step = step_of(n.indices[0], loop.var)
        verb = "loads" if isinstance(n, tir.Load) else "stores"
        if step is None:
            why = f"{verb} of {n.buffer.name} are gathered: their lanes have no constant stride"
        elif step not in (0, 1):
            why = f"{verb} of {n.buffer.name} have stride {step}: each lane is fetched by itself"
        else:
            continue
        fix = f"vectorize the loop that runs along the last dimension of {n.buffer.name}"
        yield why, fix + (f", or give {n.buffer.name} another layout" if verb == "loads" else "")


def _inner_guard(r: lowering.GuardedStore) -> tuple[str, str] | None:
    """Return the first guard between the innermost loop and the store, and the loop's name.

    Returns None if there is no such guard.
    """
    loop = r.loops[-1]
    for n in tir.walk(loop.body):
        if isinstance(n, tir.If) and n.likely and any(m is r.store for m in tir.walk(n.body)):
            mask = " (a mask)" if tir.lanes(n.cond) > 1 else ""
            return f"{tir.text(n.cond)}{mask}", plain(loop.var.name)
    return None


def _only_moves_data(op: tensor.ComputeOp) -> bool:
    """Return whether the stage only moves data, with or without padding."""
    moves = tir.Load, tir.Const, tir.IfThenElse, tir.Select, tir.Compare
    return all(
        isinstance(n, moves)
        or tir.is_index(n)
        or (isinstance(n, tir.Binary) and n.op in ("and", "or"))
        for e in op.body
        for n in tir.walk(e)
    )


def _is_element_or_constant(e: tir.Expr) -> bool:
    """Return whether the value is an element of a tensor, or a constant outside the tensor."""
    match e:
        case tir.Load() | tir.Const():
            return True
        case tir.IfThenElse(a=a, b=b) | tir.Select(a=a, b=b):
            return _is_element_or_constant(a) and _is_element_or_constant(b)
        case _:
            return False
