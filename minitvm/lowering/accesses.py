"""Make programs that record every memory access they make, for studying access patterns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from minitvm import tir
from minitvm.base import INT32, INT64, LoweringError

from .count import work


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A load or store in the text of a program.

    write    whether the access is a store
    text     the access as it is printed: A[i*16 + k]
    line     the line of print(program) that contains the access, counted from 0
    loops    the enclosing loops, outermost first, as indices into Recording.loops
    names    the names of these loops
    """

    buffer: tir.Buffer
    write: bool
    text: str
    line: int
    loops: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop in the text of a program.

    line     the line of print(program) that contains the loop, counted from 0
    around   the enclosing loops, outermost first, as indices into Recording.loops
    """

    name: str
    line: int
    around: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording program, and the sites and loops that its event numbers refer to.

    func     takes, after the parameters of the program, three buffers that it writes:
             events   int32[room]: a site's number, or -1 - k where an iteration of loop k begins
             values   int64[room]: the offset of the element, or the value of the loop variable
             counts   int64[2]: the number of events, and of arithmetic operations on data; `func`
                      adds to both, so pass zeros. Only the first `room` events are kept
    """

    func: tir.PrimFunc
    sites: tuple[Access, ...]
    loops: tuple[Loop, ...]


def record_accesses(func: tir.PrimFunc) -> Recording:
    """Return `func` with code that records every access, in the order in which they are executed.

                                         for i in range(8):
                                           append(-1, i)       # an iteration of loop 0 begins
        for i in range(8):        ->       append(0, i + 1)    # site 0: A[i + 1]
          C[i] = A[i + 1] * 2.0            append(1, i)        # site 1: C[i]
                                           counts[1] = counts[1] + 1
                                           C[i] = A[i + 1] * 2.0

    where append(e, v) is    if counts[0] < room:
                               events[counts[0]] = e
                               values[counts[0]] = v
                             counts[0] = counts[0] + 1

    Every loop becomes serial. Loads in an arm of if_then_else are recorded only if that arm is
    chosen. Raises LoweringError unless `func` has flat offsets (pass `flatten`) and no vectors
    (stop before `vectorize`), and for loops bound to threads and calls with pointer arguments.
    """
    r = _Recorder(func.printer())
    body = r.stmt(func.body)
    buffers = (r.events, r.values, r.counts)
    new = replace(
        func,
        params=(*func.params, *buffers),
        body=body,
        outputs=(*func.outputs, *buffers),
        sizes=(*func.sizes, r.room),
    )
    return Recording(new, tuple(r.sites), tuple(r.loops))


class _Recorder:
    """A walk over a program in textual order that numbers its sites and loops."""

    def __init__(self, printer: tir.Printer) -> None:
        self.printer = printer
        self.room = tir.Var("room", 0)
        self.events = tir.Buffer("events", (self.room,), INT32)
        self.values = tir.Buffer("values", (self.room,), INT64)
        self.counts = tir.Buffer("counts", (2,), INT64)
        self.sites: list[Access] = []
        self.loops: list[Loop] = []
        self.around: tuple[int, ...] = ()  # the loops around the current statement
        self.line = 1  # the current line of print(program); line 0 is the header

    # --- statements ---

    def stmt(self, s: tir.Stmt) -> tir.Stmt:
        """Return `s` with code that records its accesses."""
        match s:
            case tir.For():
                return self._loop(s)
            case tir.Store(buffer, indices, value):
                writes = [w for e in (value, *indices) for w in self._reads(e)]
                writes += [*self._access(buffer, indices, True), *self._work(value)]
                self.line += 1
                return tir.seq(*writes, s)
            case tir.If(cond, body, orelse, likely):
                writes = [*self._reads(cond), *self._work(cond)]
                self.line += 1
                then_branch = self.stmt(body)
                self.line += orelse is not None
                else_branch = None if orelse is None else self.stmt(orelse)
                return tir.seq(*writes, tir.If(cond, then_branch, else_branch, likely))
            case tir.Evaluate(value):
                writes = [*self._reads(value), *self._work(value)]
                self.line += 1
                return tir.seq(*writes, s)
            case tir.Seq(parts):
                self.line += not parts
                return tir.seq(*[self.stmt(part) for part in parts])
            case tir.Allocate() | tir.Pragma():
                self.line += 1
                return tir.map_children(s, self.stmt, lambda e: e)
            case _:
                assert_never(s)

    def _loop(self, s: tir.For) -> tir.Stmt:
        if s.kind == "bind":
            why = "threads that share memory run in no fixed order"
            fix = "record a schedule for a CPU, or merge vthreads by inject_virtual_thread first"
            raise LoweringError(f"accesses of loop {s.var.name!r} bound to {s.thread!r}", why, fix)
        writes, outer, number = self._reads(s.extent), self.around, len(self.loops)
        self.loops.append(Loop(self.printer.name(s.var), self.line, outer))
        self.line += 1
        self.around = (*outer, number)
        body = tir.seq(self._append(-1 - number, s.var), self.stmt(s.body))
        self.around = outer
        return tir.seq(*writes, tir.For(s.var, s.extent, body))

    # --- expressions ---

    def _reads(self, e: tir.Index) -> list[tir.Stmt]:
        """Return statements that record the loads in `e`, each after the loads in its indices."""
        if isinstance(e, int):
            return []
        if isinstance(e, tir.Lane):
            what = f"accesses of line {self.line + 1}, which has vectors"
            why = "only accesses of single elements can be recorded"
            raise LoweringError(what, why, "tvm.lower(..., until='flatten')")
        if isinstance(e, tir.IfThenElse):
            return [*self._reads(e.cond), *self._arms(e)]
        if isinstance(e, tir.Call) and any(isinstance(a, tir.Pointer | tir.View) for a in e.args):
            why = "what it reads and writes through its pointers is not known"
            fix = "record a schedule without tensorize, of a definition without such calls"
            raise LoweringError(f"accesses of {tir.callee(e)}(...)", why, fix)
        reads_of_parts = [
            w for c in tir.children(e) if isinstance(c, tir.Expr) for w in self._reads(c)
        ]
        if isinstance(e, tir.Load):
            reads_of_parts += self._access(e.buffer, e.indices, False)
        return reads_of_parts

    def _arms(self, e: tir.IfThenElse) -> list[tir.Stmt]:
        """Return statements that record what the chosen arm of `e` reads and computes."""
        arms = [tir.seq(*self._reads(arm), *self._work(arm)) for arm in (e.a, e.b)]
        if all(isinstance(arm, tir.Seq) and not arm.body for arm in arms):
            return []
        return [tir.If(e.cond, arms[0], arms[1])]

    # --- events ---

    def _access(self, b: tir.Buffer, indices: tuple[tir.Index, ...], write: bool) -> list[tir.Stmt]:
        if len(indices) != 1:
            what = f"accesses of {self.printer.element(b, indices)}"
            why = f"it has {len(indices)} indices, not one flat offset"
            raise LoweringError(what, why, "lowering.flatten, tvm.lower(..., until='flatten')")
        names = tuple(self.loops[k].name for k in self.around)
        text = self.printer.element(b, indices)
        self.sites.append(Access(b, write, text, self.line, self.around, names))
        return [self._append(len(self.sites) - 1, indices[0])]

    def _append(self, event: int, value: tir.Index) -> tir.Stmt:
        """Return code that counts one event, and stores it if the buffers have space."""
        at = tir.as_index(tir.Load(self.counts, (0,), INT64), 0, tir.INF)
        number = tir.Const(value, INT64) if isinstance(value, int) else tir.Cast(value, INT64)
        write = tir.seq(
            tir.Store(self.events, (at,), tir.Const(event, INT32)),
            tir.Store(self.values, (at,), number),
        )
        return tir.seq(tir.If(tir.Compare("<", at, self.room), write), self._plus(0, 1))

    def _work(self, e: tir.Index) -> list[tir.Stmt]:
        n = work(e)
        return [self._plus(1, n)] if n else []

    def _plus(self, count: int, n: int) -> tir.Stmt:
        """Return the statement counts[count] = counts[count] + n."""
        old = tir.Load(self.counts, (count,), INT64)
        return tir.Store(self.counts, (count,), tir.Binary("add", old, tir.Const(n, INT64), INT64))
