"""A kernel that runs on all threads of a batch at once: threads are an axis of numpy arrays.

Statements become closures, as in tir.interpret. Threads that take another way through a condition,
or that leave a loop earlier, are lanes that are not active. All threads run in lockstep, so a race
does not change values here; the shadow memory finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from minitvm import schedule, tir
from minitvm.base import BuildError

from . import report as faults
from .instructions import in_loop, in_value
from .memory import Memory
from .report import AccessCounts, Executed, Fault, KernelReport, Watch
from .shadow import MANY, Race, same
from .threads import Batch, Lanes, Launch
from .traffic import BANKS, SECTOR, WORD, Cost, cost
from .values import Frame, Run, Values

BARRIER = "syncthreads"
WARP_BARRIER = "syncwarp"
ASYNC = "async_copy"  # the pragma around copies that arrive when async_wait() is called
ASYNC_WAIT = "async_wait"
WIDE = (8, 16)  # the bytes of a vectorized access that a thread does at once


class LaunchEnded(Exception):  # noqa: N818
    """Raised to end a launch after a fault that leaves nothing sensible to go on with."""


class Kernel(Values):
    """One kernel, compiled for a launch.

    memories   the buffers outside the kernel; those inside are added
    races      whether to look for races; counters: whether to count what accesses cost
    watch      is called with each access that was counted
    """

    def __init__(
        self,
        name: str,
        body: tir.Stmt,
        memories: Mapping[tir.Buffer, Memory],
        launch: Launch,
        printer: tir.Printer,
        *,
        races: bool,
        counters: bool,
        watch: Watch | None = None,
    ) -> None:
        loops = [s for s in tir.every(body) if isinstance(s, tir.For)]
        super().__init__({s.var: s.thread for s in loops if schedule.is_hardware(s.thread)})
        self.memories = dict(memories)
        self.report = KernelReport(name, launch)
        self.launch, self.printer, self.races, self.counters = launch, printer, races, counters
        self.watch = watch
        self._costs: dict[tuple[int, int], Cost] = {}
        self.stopped = False  # by a fault, before the end
        self._around: list[str] = []  # conditions and loops around that may split the threads
        self._vector: tir.For | None = None  # the innermost vectorized loop
        self._late = False  # whether the copies being compiled are asynchronous
        self._under_way: list[_Copy] = []
        self._reported: set[tuple[str, str, str]] = set()
        self._run = self.stmt(body)

    def run(self, values: Mapping[tir.Var, int]) -> KernelReport:
        """Run all blocks, some at a time; `values` has the symbolic sizes."""
        frame: Frame = [None] * (len(self.slots) + 1)
        for v, n in values.items():
            if v in self.slots:
                frame[self.slots[v]] = n
        step = self.launch.together
        try:
            for first in range(0, self.launch.blocks, step):
                self.start(Batch(self.launch, first, min(step, self.launch.blocks - first)))
                self._run(frame)
                for memory in self.memories.values():
                    memory.forget()
        except LaunchEnded:
            self.stopped = True
        self.report.shared, self.report.local = (
            sum(m.bytes for m in self.memories.values() if m.scope == scope)
            for scope in ("shared", "local")
        )
        return self.report

    # faults

    def fault(self, kind: str, access: str, mask: Any = None, **about: Any) -> None:
        """Report a fault of the active lanes in `mask`, once for each access."""
        key = kind, access, about.get("other", "")
        if key in self._reported:
            return
        self._reported.add(key)
        if mask is not None and np.ndim(mask):
            first = int(self.batch.of(self.batch.thread)[np.argmax(mask)])
            about |= {"thread": self.launch.name(first), "number": first}
            about["lanes"] = int(np.count_nonzero(mask))
        self.report.faults.append(Fault(kind, access, **about))

    def stop(self, kind: str, access: str, mask: Any = None, **about: Any) -> None:
        """Report a fault and end the launch."""
        self.fault(kind, access, mask, **about)
        raise LaunchEnded

    def inactive(self, e: tir.Call, mask: Any) -> None:
        self.fault(faults.INACTIVE, self.printer.expr(e), mask)

    def race(self, memory: Memory, access: int, race: Race) -> None:
        """Report a race that the shadow of `memory` has found."""
        where = f"{memory.scope} {self.printer.name(memory.buffer)}[{race.position % memory.size}]"
        self.fault(
            race.kind,
            self.report.accesses[access].access,
            race.mask,
            other=self.report.accesses[race.other].access,
            other_thread="several threads"
            if race.thread == MANY
            else self.launch.name(race.thread),
            detail=f"no barrier orders their accesses of {where}",
            buffer=memory.buffer,
            element=race.position % memory.size,
        )

    # accesses

    def memory(self, buffer: tir.Buffer) -> Memory:
        memory = self.memories.get(buffer)
        if memory is None:
            size = tir.elements(buffer)
            if not isinstance(size, int):
                what = f"{buffer.name} in {buffer.scope!r} memory"
                why = "its size must be known when the kernel is compiled"
                raise BuildError(what, why, "a constant extent")
            memory = self.memories[buffer] = Memory(buffer, size)
        return memory

    def access(self, e: tir.Load | tir.Store, text: str) -> tuple[Memory, Run, int]:
        """Compile an access: its memory, its checked and counted index, its number in the report.

        Accesses of local memory have no number: they neither race nor cost anything here.
        """
        if len(e.indices) != 1:
            why = "an access of a GPU has one offset"
            raise BuildError(text, why, "run the pass `flatten` first")
        memory, index, number = self.memory(e.buffer), self.index(e.indices[0]), -1
        count: Callable[[Frame, Any], None] | None = None
        if memory.scope != "local":
            number = len(self.report.accesses)
            stores = isinstance(e, tir.Store)
            self.report.accesses.append(AccessCounts(text, memory.scope, stores))
            if self.counters and memory.scope != "warp":
                count = self.counter(memory, number, e)

        def checked(frame: Frame) -> Any:
            i = index(frame)
            self.check(memory, text, i)
            if count is not None:
                count(frame, i)
            return i

        return memory, checked, number

    def check(self, memory: Memory, text: str, index: Any) -> None:
        """Stop the launch if an index of the active lanes is out of bounds."""
        if index.__class__ is int and 0 <= index < memory.size:
            return  # most accesses of registers: skip numpy
        outside = memory.outside(index)
        if np.any(outside):
            bad = index if np.ndim(index) == 0 else index[np.argmax(outside)]
            name = self.printer.name(memory.buffer)
            detail = f"{name} has elements 0 to {memory.size - 1}, this is {int(bad)}"
            self.stop(faults.OUT_OF_BOUNDS, text, outside, detail=detail)

    def counter(
        self, memory: Memory, number: int, e: tir.Load | tir.Store
    ) -> Callable[[Frame, Any], None]:
        """Return what counts an access each time that it runs, and shows it to `watch`.

        Accesses whose indices differ by a multiple of a sector, or of all banks, cost the same.
        """
        index, counts = e.indices[0], self.report.accesses[number]
        parts = self.parts(index)
        element = memory.buffer.dtype.bytes
        bytes_alike = SECTOR if memory.scope == "global" else BANKS * WORD
        period = max(1, bytes_alike // element)
        width, first = self.width(index, element)

        def count(frame: Frame, i: Any) -> None:
            if first is not None and frame[first] != 0:
                return  # the first iteration has counted the whole vector
            batch = self.batch
            key = None
            if parts is not None and batch.active is None:
                key = number, parts[1](frame) % period
            known_cost = self._costs.get(key) if key else None
            if known_cost is None:
                known_cost = cost(memory.scope, i, batch, element, width)
                if key:
                    self._costs[key] = known_cost
            counts.add(len(batch.lanes()), known_cost)
            if self.watch is not None:
                threads = batch.of(batch.thread)
                elements = np.broadcast_to(np.asarray(i, np.int64), threads.shape)
                epochs = batch.passed(warp=False).astype(np.int64)
                executed = Executed(self.report, number, e, threads, elements, width, epochs)
                self.watch(executed)

        return count

    def start(self, batch: Batch) -> None:
        super().start(batch)
        self._under_way.clear()
        self._costs.clear()  # the thread parts of indices differ between batches

    def width(self, index: tir.Index, element: int) -> tuple[int, int | None]:
        """Return how many elements a thread accesses at once, and the slot of their counter."""
        loop = self._vector
        if loop is None or not isinstance(loop.extent, int) or loop.extent * element not in WIDE:
            return 1, None
        linear = tir.coefficient(index, loop.var)
        if linear is None or not tir.prove_equal(linear[0], 1):
            return 1, None
        return loop.extent, self.slot(loop.var)

    def issue(self, count: int) -> None:
        """Count instructions of each warp that has an active lane."""
        if self.counters and count:
            self.report.instructions += int(count) * self.batch.warps()

    def load(self, e: tir.Load) -> Run:
        text = self.printer.expr(e)
        memory, index, number = self.access(e, text)

        def run(frame: Frame) -> Any:
            at = memory.at(self.batch, index(frame))
            if memory.written is not None:
                known = memory.written[at]
                if not known.all():
                    self.unwritten(memory, at, text, ~known)
            if memory.shadow is not None:
                for race in memory.shadow.read(at, self.batch, number):
                    self.race(memory, number, race)
            return memory.data[at]

        return run

    def unwritten(self, memory: Memory, at: Any, text: str, mask: Any = None) -> None:
        """Report a read of elements that no thread has written, or that have not arrived."""
        copies = (c.at for c in self._under_way if c.memory is memory)
        late = any(np.isin(at, to).any() for to in copies)
        self.fault(faults.UNDER_WAY if late else faults.UNINITIALISED, text, mask)

    # statements

    def stmt(self, s: tir.Stmt) -> Run:
        return tir.in_sequence([self.part(part) for part in tir.in_order(s)])

    def part(self, s: tir.Stmt) -> Run:
        """Compile one statement from `in_order`: an allocation is compiled without its body."""
        match s:
            case tir.For():
                return self.bound_loop(s) if s.kind == "bind" else self.loop(s)
            case tir.Store():
                return self.store(s)
            case tir.If():
                return self.branch(s)
            case tir.Seq():
                return lambda _: None
            case tir.Allocate(buffer):
                memory = self.memory(buffer)
                return lambda _: memory.begin(self.batch, self.races)
            case tir.Pragma(key, _, body):
                outer, self._late = self._late, self._late or key == ASYNC
                run = self.stmt(body)
                self._late = outer
                return run
            case tir.Evaluate(tir.Call(name)) if name == ASYNC_WAIT:
                return lambda _: self.arrive()
            case tir.Evaluate(tir.Call(name)) if name in (BARRIER, WARP_BARRIER):
                return self.barrier(name)
            case tir.Evaluate(value):
                return self.value(value)

    def bound_loop(self, s: tir.For) -> Run:
        """Compile a loop over threads: each thread runs one iteration."""
        if schedule.is_virtual(s.thread):
            return self.loop(s)
        body, threads = self.stmt(s.body), self.launch.extent(s.thread)
        extent = self.index(s.extent)
        loop = f"loop {self.printer.name(s.var)} bound to {s.thread}"

        def run(frame: Frame) -> None:
            n = extent(frame)
            if n != threads:
                detail = f"it has {n} iterations, but {threads} threads run"
                self.stop(faults.EXTENT, loop, detail=detail)
            body(frame)

        return run

    def barrier(self, name: str) -> Run:
        """Compile a barrier: the blocks, or the warps, whose threads have arrived, pass it."""
        location = " inside " + " and ".join(self._around) if self._around else ""
        warp = name == WARP_BARRIER

        def run(_: Frame) -> None:
            batch = self.batch
            self.report.barriers += not warp
            epoch = batch.warp_epoch if warp else batch.epoch
            group = batch.slot // schedule.WARP if warp else batch.block
            counts = np.bincount(batch.of(group), minlength=len(epoch))
            expected = np.bincount(group, minlength=len(epoch))
            partial = (counts > 0) & (counts < expected)
            if partial.any():
                first = int(np.argmax(partial))
                block = batch.first + (first // self.launch.warps if warp else first)
                whose = f"of a warp of block {block}" if warp else f"of block {block}"
                detail = f"reached by {counts[first]} of {expected[first]} threads {whose}"
                self.stop(faults.DIVERGENT, f"{name}(){location}", detail=detail)
            epoch[counts > 0] += 1

        return run

    def loop(self, s: tir.For) -> Run:
        """Compile a loop; threads with fewer iterations leave it earlier."""
        extent, slot, outer = self.index(s.extent), self.slot(s.var), self._vector
        self._vector = s if s.kind == "vectorize" else outer
        uniform = self.is_uniform(s.extent)
        text = f"for {self.printer.name(s.var)} in range({self.printer.expr(s.extent)})"
        with self.inside("" if uniform else text):
            body = self.stmt(s.body)
        self._vector = outer
        overhead = in_loop(s)

        def run(frame: Frame) -> None:
            n = extent(frame)
            if np.ndim(n) == 0:
                self.issue(overhead * n)
                for i in range(n):
                    frame[slot] = i
                    body(frame)
                return
            batch, active = self.batch, self.batch.active
            for i in range(int(n.max(initial=0))):
                batch.active = active
                batch.active = batch.chosen(n > i)
                self.issue(overhead)
                frame[slot] = i
                body(frame)
            batch.active = active

        return run

    def branch(self, s: tir.If) -> Run:
        """Compile a condition; each thread runs the side that it takes."""
        cond, count = self.value(s.cond), 1 + in_value(s.cond)
        with self.inside(f"if {self.printer.expr(s.cond)}"):
            sides = self.stmt(s.body), self.stmt(s.orelse or tir.NOTHING)

        def run(frame: Frame) -> None:
            self.issue(count)
            mask = cond(frame)
            if np.ndim(mask) == 0:
                sides[0 if mask else 1](frame)
                return
            batch, active = self.batch, self.batch.active
            for arm, side_mask in zip(sides, (mask, ~mask), strict=True):
                if side_mask.all():
                    arm(frame)
                elif side_mask.any():
                    batch.active = batch.chosen(side_mask)
                    arm(frame)
                    batch.active = active

        return run

    @contextmanager
    def inside(self, text: str) -> Generator[None]:
        """Compile statements under a condition that may split the threads, for messages."""
        if text:
            self._around.append(text)
        yield
        if text:
            self._around.pop()

    def store(self, s: tir.Store) -> Run:
        value, text = self.value(s.value), "\n".join(self.printer.lines(s)).strip()
        memory, index, number = self.access(s, text)
        count = in_value(s.value)
        late = self._late

        def run(frame: Frame) -> None:
            self.issue(count)
            new, at = value(frame), memory.at(self.batch, index(frame))
            self.write(memory, number, text, at, new)
            if late and memory.written is not None:
                memory.poison_at(at)
                lanes = self.batch.lanes()
                new = np.broadcast_to(new, lanes.shape)
                self._under_way.append(_Copy(memory, number, text, lanes, at, new))

        return run

    def write(self, memory: Memory, number: int, text: str, at: Any, new: Any) -> None:
        """Store the values of the active lanes, and report races."""
        shadow = memory.shadow
        if shadow is not None:
            for race in shadow.write(at, self.batch, number, memory.data[at], new):
                self.race(memory, number, race)
        memory.data[at] = new
        if memory.written is not None:
            memory.written[at] = True
        if shadow is not None:
            lost = shadow.lost(at, self.batch)
            if lost.any():
                self.overwritten(memory, text, at, new, lost)

    def arrive(self) -> None:
        """Let the asynchronous copies of the active lanes arrive; each is a write at this time."""
        batch, active, copies = self.batch, self.batch.active, self._under_way
        self._under_way = []
        for c in copies:
            is_mine = np.isin(c.lanes, batch.of(batch.lane))
            batch.active = c.lanes[is_mine]
            self.write(c.memory, c.number, c.text, c.at[is_mine], c.new[is_mine])
            batch.active = active
            if not is_mine.all():
                left = ~is_mine
                rest = c._replace(lanes=c.lanes[left], at=c.at[left], new=c.new[left])
                self._under_way.append(rest)

    def overwritten(self, memory: Memory, text: str, at: Any, new: Any, lost: Any) -> None:
        """Report that several lanes have stored to one element in one statement."""
        final = memory.data[at]
        differs = lost & ~same(final, new)
        kind = faults.WRITE_AFTER_WRITE if differs.any() else faults.REDUNDANT
        mask = differs if differs.any() else lost
        where = f"{memory.scope} {self.printer.name(memory.buffer)}"
        element = int(at[np.argmax(mask)]) % memory.size
        detail = f"other threads store to {where}[{element}] at the same time"
        self.fault(kind, text, mask, detail=detail)


class _Copy(NamedTuple):
    """An asynchronous copy that has not arrived: its access, and for each lane place and value."""

    memory: Memory
    number: int
    text: str
    lanes: Lanes
    at: Any
    new: Any
