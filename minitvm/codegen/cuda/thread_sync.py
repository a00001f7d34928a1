"""A pass that puts barriers between accesses of different threads to the same element.

Source: the pass ThreadSync of TVM, which inserts a barrier unless both indices are equal. Here the
elements are enumerated (conflicts.py), so a double buffer gets one barrier an iteration, not two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from minitvm import schedule, simt, tir
from minitvm.base import LoweringError

from .conflicts import Access, Later, Threads
from .kernels import BARRIER, WARP_BARRIER, is_barrier, is_hardware, map_kernels

Guards: TypeAlias = tuple[tir.Expr, ...]


def thread_sync(body: tir.Stmt) -> tir.Stmt:
    """Insert the barriers that a kernel needs, and no others.

        for k in range(8):                         for k in range(8):
          S[tx] = A[k*32 + tx]                       S[tx] = A[k*32 + tx]
          C[tx] = C[tx] + S[31 - tx]        ->       syncthreads()
                                                     C[tx] = C[tx] + S[31 - tx]
                                                     syncthreads()

    The first barrier is between the store and the loads of other threads, the second one between
    these loads and the stores of the next iteration. Memory of scope "warp" gets syncwarp().

    Raises LoweringError where a barrier would be inside a condition or a loop that differs between
    threads, because it would wait for threads that never come.
    """
    for scopes, barrier in ((("shared", "global"), BARRIER), (("warp",), WARP_BARRIER)):
        body = map_kernels(body, lambda kernel: _Planner(kernel, scopes, barrier).kernel())  # noqa: B023
    return body


@dataclass(frozen=True, slots=True)
class _Planned:
    """A statement with barriers inside.

    head    the accesses before its first barrier, and tail those after its last one
    passes  whether every way through it passes a barrier
    """

    stmt: tir.Stmt
    head: tuple[Access, ...] = ()
    tail: tuple[Access, ...] = ()
    passes: bool = False


class _Planner:
    """Inserts the barriers of one kernel.

    loops      the loops around the present statement that each thread runs
    guards     the conditions around it
    divergent  the text of a loop or condition around it that differs between threads, or ""
    """

    def __init__(self, kernel: tir.Stmt, scopes: tuple[str, ...], barrier: tir.Stmt) -> None:
        self.root, self.barrier = kernel, barrier
        self.warp = barrier is WARP_BARRIER
        self.threads = Threads(kernel)
        stored = {s.buffer for s in tir.every(kernel) if isinstance(s, tir.Store)}
        self.watched = {b for b in stored if schedule.scope_kind(b.scope) in scopes}
        self.loops: tuple[tir.For, ...] = ()
        self.guards: tuple[tir.Expr, ...] = ()
        self.divergent = ""

    def kernel(self) -> tir.Stmt:
        is_one_thread = self.threads.batch.launch.threads == 1
        return self.plan(self.root).stmt if self.watched and not is_one_thread else self.root

    def plan(self, s: tir.Stmt) -> _Planned:
        if is_barrier(s, warp=self.warp):
            return _Planned(s, passes=True)
        match s:
            case tir.For(var, extent, body, kind, thread) if is_hardware(s):
                inner = self.plan(body)
                loop = tir.For(var, extent, inner.stmt, kind, thread)
                return _Planned(loop, inner.head, inner.tail, inner.passes)
            case tir.For():
                return self.loop(s)
            case tir.Seq(parts):
                return self.sequence(parts)
            case tir.If():
                return self.branch(s)
            case tir.Allocate(buffer, body):
                inner = self.plan(body)
                stmt = tir.Allocate(buffer, inner.stmt)
                return _Planned(stmt, inner.head, inner.tail, inner.passes)
            case tir.Pragma(key, value, body):
                inner = self.plan(body)
                stmt = tir.Pragma(key, value, inner.stmt)
                return _Planned(stmt, inner.head, inner.tail, inner.passes)
            case _:
                accesses = tuple(self.accesses(s))
                self.refuse_in_place(accesses)
                return _Planned(s, accesses, accesses)

    def loop(self, s: tir.For) -> _Planned:
        outer = self.loops, self.divergent
        self.loops = (*self.loops, s)
        if self.differs(s.extent):
            text = f"for {s.var.name} in range({tir.text(s.extent)})"
            self.divergent = self.divergent or text
        inner = self.plan(s.body)
        body, passes, tail = inner.stmt, inner.passes, inner.tail
        pair = self.first_conflict(tail, inner.head, Later(s, next_only=passes))
        if pair is not None:
            self.refuse_divergent(*pair)
            body, tail, passes = tir.seq(body, self.barrier), (), True
        self.loops, self.divergent = outer
        certain = isinstance(s.extent, int) and s.extent > 0
        return _Planned(
            tir.For(s.var, s.extent, body, s.kind, s.thread),
            inner.head,
            tail if certain or not passes else (*inner.head, *tail),
            passes and certain,
        )

    def sequence(self, parts: Sequence[tir.Stmt]) -> _Planned:
        stmts = list[tir.Stmt]()
        head = list[Access]()
        pending = list[Access]()
        is_past_barrier = False
        for part in parts:
            plan = self.plan(part)
            pair = self.first_conflict(pending, plan.head, None)
            if pair is not None:
                self.refuse_divergent(*pair)
                stmts.append(self.barrier)
                pending, is_past_barrier = [], True
            if not is_past_barrier:
                head += plan.head
            is_past_barrier = is_past_barrier or plan.passes
            pending = [*plan.tail] if plan.passes else [*pending, *plan.tail]
            stmts.append(plan.stmt)
        return _Planned(tir.seq(*stmts), tuple(head), tuple(pending), is_past_barrier)

    def branch(self, s: tir.If) -> _Planned:
        condition = tuple(self.accesses(s))
        outer = self.guards, self.divergent
        if self.differs(s.cond):
            self.divergent = self.divergent or f"if {tir.text(s.cond)}"
        self.guards = (*outer[0], s.cond)
        body = self.plan(s.body)
        self.guards = (*outer[0], tir.negate(s.cond))
        else_plan = _Planned(tir.NOTHING) if s.orelse is None else self.plan(s.orelse)
        self.guards, self.divergent = outer
        stmt = tir.If(s.cond, body.stmt, None if s.orelse is None else else_plan.stmt, s.likely)
        passes = body.passes and else_plan.passes
        head, tail = (*condition, *body.head, *else_plan.head), (*body.tail, *else_plan.tail)
        return _Planned(stmt, head, tail if passes else (*condition, *tail), passes)

    # accesses and conflicts

    def accesses(self, s: tir.Stmt) -> list[Access]:
        """Return the accesses of a statement, without the accesses of nested statements."""
        parts = [e for e in tir.children(s) if isinstance(e, tir.Expr)]
        loads = [pair for e in parts for pair in _loads(e, self.guards)]
        accesses = [self.access(n, guards) for n, guards in loads if n.buffer in self.watched]
        if isinstance(s, tir.Store) and s.buffer in self.watched:
            accesses.append(self.access(s, self.guards))
        match s:
            case tir.Evaluate(tir.Call(name, args)) if name in simt.IN_MEMORY:
                tile = self.tile(name, args, s)
                accesses += [tile] if tile.buffer in self.watched else []
            case _:
                pass
        return accesses

    def access(self, n: tir.Load | tir.Store, guards: Guards) -> Access:
        writes, text = isinstance(n, tir.Store), tir.text(n).strip()
        return self.alike(Access(n.buffer, n.indices[0], writes, text, self.loops, guards))

    def tile(self, name: str, args: Sequence[tir.Expr], s: tir.Stmt) -> Access:
        """Return the access of a whole tile by an instruction for tensor cores.

        Each lane is taken to access all elements.
        """
        pointer = args[0 if name == simt.STORE else 1]
        assert isinstance(pointer, tir.Pointer)
        loops, index = list(self.loops), tir.add(pointer.first.indices[0], pointer.offset)
        strides = tir.index(args[2]), tir.index(1)
        for n, stride in zip(simt.FRAGMENTS[simt.IN_MEMORY[name]].shape, strides, strict=True):
            loops.append(tir.For(tir.Var("tile", 0, n - 1), n, tir.NOTHING))
            index = tir.add(index, tir.mul(loops[-1].var, stride))
        text, buffer = tir.text(s).strip(), pointer.first.buffer
        writes = name == simt.STORE
        return self.alike(Access(buffer, index, writes, text, tuple(loops), self.guards))

    def alike(self, a: Access) -> Access:
        """Return the access with one variable for each hardware index, and the list of these."""
        offset = tir.substitute(a.offset, self.threads.alike)
        guards = tuple(tir.substitute(g, self.threads.alike) for g in a.guards)
        used = frozenset(v for e in (offset, *guards) for v in tir.variables(e))
        return replace(a, offset=offset, guards=guards, variables=used)

    def first_conflict(
        self, before: Sequence[Access], after: Sequence[Access], later: Later | None
    ) -> tuple[Access, Access] | None:
        for x in before:
            for y in after:
                if self.threads.conflict(x, y, self.loops, later):
                    return x, y
        return None

    def differs(self, e: tir.Index) -> bool:
        """Return whether an expression may differ between the threads of a block."""
        return not isinstance(e, int) and any(
            isinstance(n, tir.Load) or n in self.threads.where for n in tir.walk(e)
        )

    def refuse_divergent(self, x: Access, y: Access) -> None:
        if self.divergent:
            why = f"it would be inside `{self.divergent}`, which not all threads of a block enter"
            fix = "compute_at a loop outside the condition, or sizes that the tiles divide"
            raise LoweringError(f"barrier between {x.text} and {y.text}", why, fix)

    def refuse_in_place(self, accesses: Sequence[Access]) -> None:
        """Refuse a statement in which a thread reads what another one writes at the same time."""
        for x in accesses:
            for y in accesses:
                if y.writes and not x.writes and self.threads.conflict(x, y, self.loops, None):
                    what = f"{x.text} in {y.text}"
                    why = "other threads write this element in the same statement"
                    fix = "store to another tensor, or bind its loops to threads"
                    raise LoweringError(what, why, fix)


def _loads(e: tir.Expr, guards: Guards) -> Iterator[tuple[tir.Load, Guards]]:
    """Yield the loads in a value, with the conditions under which each is executed."""
    if isinstance(e, tir.IfThenElse):
        yield from _loads(e.cond, guards)
        yield from _loads(e.a, (*guards, e.cond))
        yield from _loads(e.b, (*guards, tir.negate(e.cond)))
        return
    if isinstance(e, tir.Load):
        yield e, guards
    for child in tir.children(e):
        if isinstance(child, tir.Expr):
            yield from _loads(child, guards)
