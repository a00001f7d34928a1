"""Find what is likely slow in a schedule, with reasons and fixes. Nothing here is an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from minitvm import accel, lowering, schedule, tensor, tir
from minitvm.base import Target

from .derive import PrintedLoops, made_by, origin, plain
from .guards import stores_of
from .slow import slow, step_of
from .work import number, work_of

KNOWN = (*schedule.PRAGMAS, "prefetch")  # the keys of pragmas that have an effect
LITTLE = 20_000  # stores; this many take a thread about as long as starting the thread


@dataclass(frozen=True, slots=True, repr=False)
class Caution:
    """A loop or stage that is likely slow, with the reason and what to try.

    stage: the name of the stage. what: the loop or stage in words. why: the reason.
    fix: what to try; "" if nothing is known.
    factor: the estimated slowdown of the program; 1 if there is no estimate, and 0 for a step that
    has no effect, or costs more than it gains, at any program size.
    """

    stage: str
    what: str
    why: str
    fix: str = ""
    factor: float = 0

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" + (f"\n  try: {self.fix}" if self.fix else "")

    __repr__ = __str__


# what, why and fix of a caution, and its factor if it has one
Found: TypeAlias = tuple[str, str, str] | tuple[str, str, str, float]


class Cautions(tuple[Caution, ...]):
    """A tuple of cautions that is printed as a list."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing is likely slow"

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        lines = [str(c).replace("\n ", ";") for c in self]
        return "\n".join(f"- {line}" for line in lines) or str(self)


def cautions(loops: PrintedLoops, final: tir.Stmt, target: Target) -> tuple[Caution, ...]:
    """Return cautions for the hottest loop of the program `final`, then for each stage."""
    found = _hottest(loops, final, target)
    ops = [s.op for s in loops.context.state.stages if isinstance(s.op, tensor.ComputeOp)]
    copies = not all(map(_copies, ops))  # stages that only copy are cheap compared with others
    for stage in loops.context.state.stages:
        if isinstance(stage.op, tensor.ComputeOp) and stage.name not in loops.early:
            busy = not copies or not _copies(stage.op)
            own = list[Found]()
            own += _vectors(loops, stage, stage.op, target) if busy else ()
            own += _useless(loops, stage)
            own += _guarded(stage, final) if busy else ()
            own += _parallel(loops, stage, target) if busy else ()
            own += _unrolled(loops, stage)
            own += _unknown(stage)
            own += _tiny_transfers(loops, stage)
            own += _recomputed(loops, stage, stage.op)
            own += _kept_nothing(loops, stage)
            for what, why, fix, *factor in own:
                found.append(Caution(stage.name, what, why, fix, *factor))
    return tuple(dict.fromkeys(found))


def _copies(op: tensor.ComputeOp) -> bool:
    """Return whether the stage only moves data, with or without padding."""
    moves = tir.Load, tir.Const, tir.IfThenElse, tir.Where, tir.Compare
    return all(
        isinstance(n, moves)
        or tir.is_index(n)
        or (isinstance(n, tir.Binary) and n.op in ("and", "or"))
        for e in op.body
        for n in tir.walk(e)
    )


def compiled(loops: PrintedLoops) -> tir.Stmt:
    """Return the program after all passes except storage_rewrite, which merges buffers."""
    body = loops.body
    for run in lowering.PASSES["llvm"]:
        body = body if run is lowering.storage_rewrite else run(body)
    return body


def _hottest(loops: PrintedLoops, final: tir.Stmt, target: Target) -> list[Caution]:
    """Return cautions for the loop that executes the most operations, the largest factor first."""
    names = {
        loops.context.buffers[tensor.tensor_of(s.op, i)].name: s.name
        for s in loops.context.state.stages
        if isinstance(s.op, tensor.ComputeOp) and s.name not in loops.early
        for i in range(len(s.op.dtypes))
    }
    return [
        Caution(names[c.tensor], c.what, c.why, c.fix, c.factor)
        for c in slow(final, target)
        if c.tensor in names
    ]


def _own_loops(loops: PrintedLoops, stage: schedule.Stage, kind: str) -> Iterator[tir.For]:
    """Yield the stage's loops of kind `kind`, with flat offsets in their bodies."""
    own = {id(v) for v in loops.domain(stage.name).loops.values()}
    for n in tir.walk(lowering.flatten(loops.body)):
        if isinstance(n, tir.For) and id(n.var) in own and n.kind == kind:
            yield n


# --- vectors --------------------------------------------------------------------------------------


def _vectors(
    loops: PrintedLoops, stage: schedule.Stage, op: tensor.ComputeOp, target: Target
) -> Iterator[Found]:
    for loop in _own_loops(loops, stage, "vectorize"):
        name = f"vectorized loop {loops.show(loop.var)} of {stage.name}"
        inside = [n for n in tir.walk(loop.body) if isinstance(n, tir.For)]
        other = next((n for n in inside if n.kind == "vectorize"), None)
        if other is not None:
            why = f"it stays a plain loop: loop {loops.show(other.var)} inside it is vectorized"
            yield name, why, "vectorize only one of the two"
            continue
        if not lowering.lanewise(loop.var, loop.body):
            why = "it stays a plain loop: its iterations store to one element, or differ in length"
            yield name, why, "a loop on which every stored index depends"
            continue
        yield from _strides(stage, loop, name)
        inner = [n for n in inside if n.kind != "unroll"]
        if inner:
            yield (
                name,
                f"it is not innermost: loop {loops.show(inner[0].var)} runs inside it, "
                "once per vector",
                f"reorder(..., {inner[0].var.name}, {loop.var.name})",
                1,
            )
        full = target.lanes(stage.op.dtypes[0])
        longest = max((tir.upper_bound(a.extent) for a in op.axis), default=0)
        if isinstance(loop.extent, int) and loop.extent % full and longest >= full:
            yield (
                name,
                f"{loop.extent} lanes of {stage.op.dtypes[0]} are not a multiple of the {full} "
                "that fill a register",
                f"split by {full}, and vectorize the inner part",
                -(-loop.extent // full) * full / loop.extent,
            )


def _strides(stage: schedule.Stage, loop: tir.For, name: str) -> Iterator[Found]:
    """Yield cautions for accesses in the vectorized `loop` with a stride other than 0 or 1.

    Accesses to tiles in registers are left out.
    """
    inside = {id(n.buffer) for n in tir.walk(loop.body) if isinstance(n, tir.Allocate)}
    for n in tir.walk(loop.body):
        if (
            not isinstance(n, tir.Load | tir.Store)
            or id(n.buffer) in inside
            or n.buffer.scope == "local"
        ):
            continue
        step = step_of(n.indices[0], loop.var)
        verb = "loads" if isinstance(n, tir.Load) else "stores"
        if step is None:
            why = f"{verb} of {n.buffer.name} are gathered: lanes are at no fixed distance"
        elif step not in (0, 1):
            why = f"{verb} of {n.buffer.name} have stride {step}: each lane is fetched by itself"
        else:
            continue
        fix = f"vectorize the loop that runs along the last dimension of {n.buffer.name}"
        fix += f", or give {n.buffer.name} another layout" if verb == "loads" else ""
        yield name, why, fix, 1


def _useless(loops: PrintedLoops, stage: schedule.Stage) -> Iterator[Found]:
    """Yield cautions for vectorized or parallel loops that have only one iteration."""
    domain = loops.domain(stage.name)
    for a in stage.leaves:
        kind = stage.note(a).kind
        if kind in ("vectorize", "parallel") and a not in domain.loops:
            made = made_by(stage, a)
            by = "" if made is None else f" (from {origin(loops.state, stage, made)})"
            yield (
                f"{kind} of {loops.loop(stage, a)} of {stage.name}",
                f"it has one iteration{by}",
                f"{kind} a longer loop",
            )


# --- guards, threads, size ------------------------------------------------------------------------


def _guarded(stage: schedule.Stage, final: tir.Stmt) -> Iterator[Found]:
    """Yield a caution if all stores of a stage are guarded in their innermost loops."""
    copies = [r for r in stores_of(stage, final) if r.loops]
    held = [_inner_guard(r) for r in copies]
    if copies and all(held):
        cond, loop = held[0] or ("", "")
        yield (
            f"guard {cond} of {stage.name}",
            f"it is tested in the innermost loop, {loop}, in every iteration",
            "a factor that divides, or the loop with the remainder further out",
            1,
        )


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


def _parallel(loops: PrintedLoops, stage: schedule.Stage, target: Target) -> Iterator[Found]:
    for loop in _own_loops(loops, stage, "parallel"):
        name = f"parallel loop {loops.show(loop.var)} of {stage.name}"
        if not isinstance(loop.extent, int):
            continue
        if loop.extent < target.num_cores:
            yield (
                name,
                f"{loop.extent} iterations for {target.num_cores} threads: some have nothing to do",
                "parallel over a longer loop, or over two fused ones",
                target.num_cores / max(1, loop.extent),
            )
        counts = [lowering.times(r) for r in lowering.runs(loop)]
        stores = sum(n for n in counts if n is not None)
        if None not in counts and stores < LITTLE:
            yield (
                name,
                f"{stores} stores in all: waking the threads takes longer",
                "a loop further out, or none",
            )


def _unrolled(loops: PrintedLoops, stage: schedule.Stage) -> Iterator[Found]:
    for loop in _own_loops(loops, stage, "unroll"):
        times = loop.extent if isinstance(loop.extent, int) else 0
        size = times * lowering.operations(lowering.unroll(loop.body)) if times else 0
        if size > lowering.MOST_OPERATIONS:
            yield (
                f"unrolled loop {loops.show(loop.var)} of {stage.name}",
                f"it stays a loop: {size} operations, and at most {lowering.MOST_OPERATIONS} are "
                "written out",
                "split it, and unroll the inner part",
            )


def _unknown(stage: schedule.Stage) -> Iterator[Found]:
    for a in stage.leaves:
        for key in (key for key, _ in stage.note(a).pragmas if key not in KNOWN):
            yield (
                f"pragma {key} on loop {a.name} of {stage.name}",
                "no pass knows it, so it has no effect",
                f"a pass of your own; or one of {', '.join(schedule.PRAGMAS)}",
            )


def _tiny_transfers(loops: PrintedLoops, stage: schedule.Stage) -> Iterator[Found]:
    """Yield a caution for a copy to or from the accelerator that moves one element at a time."""
    domain, leaves = loops.domain(stage.name), stage.leaves
    marked = [n for n, a in enumerate(leaves) if "dma_copy" in dict(stage.note(a).pragmas)]
    whole = [n for a in leaves if isinstance(n := domain.extents[a], int)]
    if not marked or len(whole) < len(leaves):
        return
    transfers, numbers = prod(whole[: marked[0]]), prod(whole[marked[0] :])
    if transfers > 1 and numbers <= lowering.element_size(
        lowering.SCOPES.get(stage.scope, accel.Memory.OUT)
    ):
        yield (
            f"pragma dma_copy on loop {leaves[marked[0]].name} of {stage.name}",
            f"{transfers} transfers of {numbers} numbers: each costs dozens of cycles, "
            "however small",
            "the pragma on the outermost axis of the copy",
        )


def _recomputed(
    loops: PrintedLoops, stage: schedule.Stage, op: tensor.ComputeOp
) -> Iterator[Found]:
    """Yield a caution if a stage computes elements repeatedly, unless it only copies elements."""
    if not isinstance(stage.attach, schedule.At) or any(map(_is_copied, op.body)):
        return
    factor = work_of(loops, stage).factor
    if factor is not None and factor > 2:
        yield (
            f"compute_at of {stage.name}",
            f"each element is computed {number(factor)} times",
            "a loop further out, or larger tiles of the reader",
            float(factor),
        )


def _kept_nothing(loops: PrintedLoops, stage: schedule.Stage) -> Iterator[Found]:
    """Yield a caution if store_at has no effect, because each iteration computes all it needs."""
    domain, factor = loops.domain(stage.name), work_of(loops, stage).factor
    if domain.no_reuse and (factor is None or factor > 1):
        times = "" if factor is None else f", each element {number(factor)} times"
        yield (
            f"store_at of {stage.name}",
            f"nothing is kept: {domain.no_reuse} loop {loops.show(domain.around[-1])}, "
            f"so each iteration computes all that it needs{times}",
            "store_at along a serial loop with which one unsplit axis moves; "
            "or compute_at the loop where it is stored",
        )


def _is_copied(e: tir.Expr) -> bool:
    """Return whether the value is an element of a tensor, or a constant outside the tensor."""
    match e:
        case tir.Load() | tir.Const():
            return True
        case tir.IfThenElse(a=a, b=b) | tir.Where(a=a, b=b):
            return _is_copied(a) and _is_copied(b)
        case _:
            return False
