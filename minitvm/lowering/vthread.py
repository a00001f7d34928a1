"""A pass that merges virtual threads into one thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minitvm import schedule, tir
from minitvm.base import LoweringError

from .budget import code_size
from .statements import stacked, use_copy
from .units import blocks, unit

WRITTEN_OUT = 16  # with this many virtual threads or more, the copies become a loop
MAX_COPIES = 64  # the largest number of statements that nested virtual threads may expand to


def inject_virtual_thread(s: tir.Stmt) -> tir.Stmt:
    """Merge virtual threads: run each statement for all of them before the next statement.

        for t in bind(2, 'vthread'):      B = allocate((2, 4), "float32", "local")
          B = allocate((4,), "float32",   for x in range(4):
                       "local")      ->     B[x] = A[x]
          for x in range(4):                B[x + 4] = A[x + 4]
            B[x] = A[t*4 + x]             for x in range(4):
          for x in range(4):                C[x] = B[x] * 2.0
            C[t*4 + x] = B[x] * 2.0         C[x + 4] = B[x + 4] * 2.0

    Memory that differs between the threads gets one copy per thread, and the statements that
    access it run once per thread. Statements that are the same for all threads run once for a
    "vthread"; for a "cthread" everything runs once per thread, so that a processor can overlap the
    threads. The copies are unrolled if they contain no loop, there are fewer than 16 threads, and
    nested threads make at most 64 statements; otherwise they become a loop.

    Neighbouring statements of one accelerator unit, including those that push and pop dependency
    tokens, stay together: one "cthread" runs all of them before the next "cthread" does.

        ld.pop_dep_from(ex)                             ld.pop_dep_from(ex)
        ld.dma_copy2d(AL, A[k][tx*8:tx*8+8])            ld.dma_copy2d(AL[0], A[k][0:8])
        ld.push_dep_to(ex)                       ->     ld.push_dep_to(ex)
                                                        ld.pop_dep_from(ex)
                                                        ld.dma_copy2d(AL[1], A[k][8:16])
                                                        ld.push_dep_to(ex)

    Needs flat offsets (pass `flatten`).
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        if not (isinstance(s, tir.For) and s.kind == "bind" and schedule.is_virtual(s.thread)):
            return s
        if not isinstance(s.extent, int):
            what = f"loop {s.var.name!r} bound to {s.thread!r}"
            why = f"its extent {tir.text(s.extent)} is not a constant"
            raise LoweringError(what, why, "split it by nparts, and bind the outer part")
        shares = s.thread.startswith("vthread")
        allocated = (n.buffer for n in tir.every(s.body) if isinstance(n, tir.Allocate))
        touched_ids = _touched(s) if shares else {id(b) for b in allocated}
        statements = max(1, code_size(s.body).statements)
        writes_out = s.extent < WRITTEN_OUT and s.extent * statements <= MAX_COPIES
        return _Injector(s, touched_ids, shares, writes_out).stmt(s.body)

    return tir.rewrite(s, on_stmt)


def written(s: tir.Stmt) -> Iterator[tir.Buffer]:
    """Yield the buffers that `s` stores to or passes to a call that may write them."""
    for n in tir.walk(s):
        if isinstance(n, tir.Store):
            yield n.buffer
        elif tir.is_written(n):
            yield n.first.buffer


def _differs(e: tir.Index, var: tir.Var, touched: set[int]) -> bool:
    """Return whether `e` may differ between threads; `var` is the index of the thread.

    touched: the ids of the buffers whose contents differ between threads.
    """
    return any(
        n is var or (isinstance(n, tir.Load) and id(n.buffer) in touched) for n in tir.walk(e)
    )


def _touched(loop: tir.For) -> set[int]:
    """Return the ids of the buffers whose contents differ between the threads of `loop`."""
    ids: set[int] = set()

    def mark(s: tir.Stmt, inside: bool) -> None:
        match s:
            case tir.For(extent=e) | tir.If(cond=e):
                inside = inside or _differs(e, loop.var, ids)
            case tir.Store(buffer, indices, value):
                if inside or any(_differs(e, loop.var, ids) for e in (*indices, value)):
                    ids.add(id(buffer))
            case tir.Evaluate(value):
                if inside or _differs(value, loop.var, ids):
                    ids.update(id(b) for b in written(s))
            case _:
                pass
        for part in tir.inner(s):
            mark(part, inside)

    before = -1
    while len(ids) > before:  # results computed from touched buffers are touched
        before = len(ids)
        mark(loop.body, False)
    return ids


@dataclass(frozen=True, slots=True, eq=False)
class _Injector:
    """A rewriter of one loop over virtual threads.

    touched: the ids of the buffers whose contents differ between the threads.
    shares: whether statements that are the same for all threads run once.
    few: whether the copies of a statement are unrolled if the statement contains no loop.
    """

    loop: tir.For
    touched: set[int]
    shares: bool
    few: bool

    def differs(self, *parts: tir.Index) -> bool:
        """Return whether a statement with operands `parts` may differ between threads."""
        return not self.shares or any(_differs(e, self.loop.var, self.touched) for e in parts)

    def stmt(self, s: tir.Stmt) -> tir.Stmt:
        """Return `s` rewritten so that it runs for all threads."""
        if unit(s) and not self.shares:
            return self.copies(s)
        match s:
            case tir.Seq(parts) if not self.shares:
                return tir.seq(*(self.stmt(tir.seq(*stmts)) for _, stmts in blocks(parts)))
            case tir.For(extent=e) | tir.If(cond=e) if _differs(e, self.loop.var, self.touched):
                return self.copies(s)
            case tir.Allocate(buffer, body) if id(buffer) in self.touched:
                copies = stacked(buffer, self.loop.extent)
                self.touched.add(id(copies))
                body = use_copy(body, {buffer: copies}, self.loop.var)
                return tir.Allocate(copies, self.stmt(body))
            case tir.Store(buffer, indices, value):
                differs = id(buffer) in self.touched or self.differs(*indices, value)
                return self.copies(s) if differs else s
            case tir.Evaluate(value):
                return self.copies(s) if self.differs(value) else s
            case _:
                return tir.map_children(s, self.stmt, lambda e: e)

    def copies(self, s: tir.Stmt) -> tir.Stmt:
        """Return `s` repeated for each thread."""
        n, var = self.loop.extent, self.loop.var
        assert isinstance(n, int)
        if self.few and (unit(s) or not any(isinstance(m, tir.For) for m in tir.every(s))):
            return tir.seq(*(tir.substitute(s, {var: i}) for i in range(n)))
        thread = tir.Var(f"{var.name}.s", 0, n - 1)
        return tir.For(thread, n, tir.substitute(s, {var: thread}))


def check_threads(body: tir.Stmt) -> None:
    """Raise LoweringError if two loops of a kernel bind one thread index but differ in extent.

    Also raise if a kernel uses warp memory with more threads than a warp has. A kernel is an
    outermost loop that is bound to a hardware thread.
    """

    def kernel(s: tir.Stmt, around: dict[str, tir.For] | None) -> None:
        for part in tir.in_order(s):
            thread_loops = around
            if (
                isinstance(part, tir.For)
                and part.kind == "bind"
                and not schedule.is_virtual(part.thread)
            ):
                thread_loops = {} if around is None else around
                _same_extent(part, thread_loops.setdefault(part.thread, part))
            for c in () if isinstance(part, tir.Allocate) else tir.inner(part):
                kernel(c, thread_loops)
            if around is None and thread_loops is not None:
                _one_warp(part, thread_loops.get("threadIdx.x"))

    kernel(body, None)


def _one_warp(kernel: tir.Stmt, loop: tir.For | None) -> None:
    """Raise LoweringError if `kernel` uses warp memory and `loop` has more threads than a warp.

    loop: the kernel's loop bound to threadIdx.x, or None if there is none.
    """
    if loop is None or (isinstance(loop.extent, int) and loop.extent <= schedule.WARP):
        return
    for n in tir.walk(kernel):
        if isinstance(n, tir.Allocate) and n.buffer.scope == "warp":
            raise LoweringError(
                f"{n.buffer.name} in 'warp' memory",
                f"loop {loop.var.name!r} bound to 'threadIdx.x' has {tir.text(loop.extent)} "
                f"iterations, and a warp is {schedule.WARP} threads",
                f"bind at most {schedule.WARP} iterations to threadIdx.x, or set_scope('shared')",
            )


def _same_extent(loop: tir.For, first: tir.For) -> None:
    if not tir.prove_equal(first.extent, loop.extent):
        raise LoweringError(
            f"loop {loop.var.name!r} bound to {loop.thread!r}",
            f"it has {tir.text(loop.extent)} iterations, but loop {first.var.name!r}, bound to the "
            f"same index in the same kernel, has {tir.text(first.extent)}",
            "split both by the same nparts, and bind the outer parts",
        )
