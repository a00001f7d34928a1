"""The interpreter: it runs a function on numpy arrays, and defines the meaning of the loop IR.

Each node is compiled to a Python closure, and then the closures run. A closure takes the *frame*: a
list with the values of all variables, and in slot 0 the numbers of the active lanes. Under a vector
condition, `lane(n)` evaluates to the numbers of the active lanes only, so that no load, store or
arm of an if_then_else accesses memory for the other lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

import numpy as np

from minitvm.base import VerifyError, check_flag, check_kind

from . import nodes
from .call import (
    UNREGISTERED,
    callee,
    is_opaque,
    is_registered,
    is_written,
    registered,
)
from .capacity import check_buffers, check_symbolic_buffers, symbolic_buffers
from .closures import Closures, Frame, Run, in_sequence
from .func import PrimFunc
from .index import row_strides
from .memory import Array, BufferData, borrow, outside, sizes_of, window
from .stmt import Allocate, Evaluate, For, If, Pragma, Seq, Stmt, Store
from .text import text
from .verify import verify
from .walk import in_order, lanes

ACTIVE = 0  # the slot that holds the numbers of the active lanes, or None for all


# --- compiling to closures -----------------------------------------------------------------------


class _Compiler(Closures):
    """Compiles a function's nodes to closures; assigns slots to variables and memory to buffers."""

    def __init__(
        self,
        f: PrimFunc,
        flat: bool,
        rng: np.random.Generator | None,
        memories: Mapping[nodes.Buffer, BufferData],
    ) -> None:
        super().__init__()
        self.f, self.flat, self.rng = f, flat, rng
        self.memories = dict(memories)
        self.loops: tuple[nodes.Var, ...] = ()  # the loops around the node being compiled

    def memory(self, b: nodes.Buffer) -> BufferData:
        return self.memories.setdefault(b, BufferData())

    # expressions

    def index(self, e: nodes.Index) -> Run:
        """Compile an index to a closure that returns an int, or an array for active lanes."""
        if isinstance(e, nodes.Lane):
            return lambda frame: _active(frame, e.lanes)
        return super().index(e)

    def divisor(self, e: nodes.FloorDiv | nodes.FloorMod) -> Run:
        run = self.index(e.b)
        if isinstance(e.b, int):
            return run

        def check(frame: Frame) -> Any:
            divisor = run(frame)
            if np.any(divisor <= 0):
                raise VerifyError(f"{self.f.name}: {text(e)}", f"the divisor is {divisor}, not > 0")
            return divisor

        return check

    def value(self, e: nodes.Expr) -> Run:
        """Compile a value to a closure that returns a scalar, or an array for active lanes."""
        return self.opaque(e) if isinstance(e, nodes.Call) and is_opaque(e) else super().value(e)

    def lazy(self, e: nodes.IfThenElse) -> Run:
        cond, a, b = self.value(e.cond), self.value(e.a), self.value(e.b)
        n = lanes(e.cond)
        if n == 1:
            return lambda frame: a(frame) if cond(frame) else b(frame)

        def run(frame: Frame) -> Array:
            values = np.empty(_active(frame, n).shape, e.dtype.numpy)
            for arm, chosen in _arms(frame, cond, n, a, b):
                values[chosen] = arm(frame)
            return values

        return run

    def opaque(self, e: nodes.Call) -> Run:
        """Compile a call of a registered Python function. It gets views of the program's memory."""
        name = callee(e)
        if not is_registered(name):
            fix = f"tir.register_func({name!r}, f)"
            raise VerifyError(f"{self.f.name}: {name}(...)", UNREGISTERED, fix)
        args = [
            self.array(a) if isinstance(a, nodes.Pointer | nodes.View) else self.value(a)
            for a in e.args
        ]
        marks = [self.array(a, mark=True) for a in e.args if is_written(a)]

        def run(frame: Frame) -> Any:
            result = registered(name)(*[a(frame) for a in args])
            for mark in marks:
                written = mark(frame)
                if written is not None:
                    written[...] = True
            return e.dtype.numpy.type(0 if result is None else result)

        return run

    def array(self, e: nodes.Pointer | nodes.View, mark: bool = False) -> Run:
        """Compile a pointer or view to a closure that returns the array it refers to.

        mark   return a mask of the written elements instead; None for memory of the caller
        """
        b = e.first.buffer
        memory, start = self.memory(b), self.offset(b, e.first.indices)
        offset = self.index(e.offset if isinstance(e, nodes.Pointer) else 0)
        shape, strides = (
            [self.index(n) for n in part]
            for part in ((e.shape, e.strides) if isinstance(e, nodes.View) else ((), ()))
        )

        def run(frame: Frame) -> Any:
            data = memory.written if mark else memory.data
            if data is None:
                return None
            row = data[start(frame) + offset(frame) :] if data.size else data
            if isinstance(e, nodes.Pointer):
                return row
            return window(row, [n(frame) for n in shape], [n(frame) for n in strides])

        return run

    # memory

    def offset(self, b: nodes.Buffer, indices: tuple[nodes.Index, ...]) -> Run:
        """Compile an access of `b` to a closure that checks the bounds and returns the offset."""
        memory, loops = self.memory(b), self.loops
        flat = len(indices) == 1 and (self.flat or len(b.shape) != 1)
        parts = [(d, self.index(i), lanes(i) > 1) for d, i in enumerate(indices)]

        def run(frame: Frame) -> Any:
            at: Any = 0
            for d, part, vector in parts:
                i = part(frame)
                n, stride = (len(memory.data), 1) if flat else (memory.shape[d], memory.strides[d])
                if np.any((i < 0) | (i >= n)) if vector else not 0 <= i < n:
                    raise self.error(b, indices, outside(d, i, n, flat), loops, frame)
                at = at + i * stride
            return at

        return run

    def load(self, e: nodes.Load) -> Run:
        memory, at = self.memory(e.buffer), self.offset(e.buffer, e.indices)
        loops = self.loops

        def run(frame: Frame) -> Any:
            i = at(frame)
            if memory.written is not None and not np.all(memory.written[i]):
                raise self.error(e.buffer, e.indices, "read before it is written", loops, frame)
            return memory.data[i]

        return run

    def error(
        self,
        b: nodes.Buffer,
        at: tuple[nodes.Index, ...],
        why: str,
        loops: tuple[nodes.Var, ...],
        frame: Frame,
    ) -> VerifyError:
        """Return the error for an access of `b` at the indices `at`, with the names of print(f)."""
        p = self.f.printer()
        extents = ", ".join(str(n) for n in self.memory(b).shape)
        where = ", ".join(f"{p.name(v)} = {frame[self.slot(v)]}" for v in loops)
        why += f" ({p.name(b)} is {b.dtype}[{extents}])" + (f", at {where}" if where else "")
        return VerifyError(f"{self.f.name}: {p.element(b, at)}", why)

    # statements

    def stmt(self, s: Stmt) -> Run:
        return in_sequence([self.part(p) for p in in_order(s)])

    def part(self, s: Stmt) -> Run:
        """Compile one statement from `in_order`: an allocation is compiled without its body."""
        match s:
            case For():
                return self.loop(s)
            case Store():
                return self.store(s)
            case If():
                return self.branch(s)
            case Seq():
                return in_sequence([])
            case Allocate():
                return self.allocate(s)
            case Evaluate(value):
                return self.value(value)
            case Pragma(_, _, body):
                return self.stmt(body)
            case _:
                assert_never(s)

    def loop(self, s: For) -> Run:
        extent, slot, outer = self.index(s.extent), self.slot(s.var), self.loops
        self.loops = (*outer, s.var)
        body = self.stmt(s.body)
        self.loops = outer
        rng = self.rng if s.kind == "parallel" else None

        def run(frame: Frame) -> None:
            n: int = extent(frame)
            for i in range(n) if rng is None else rng.permutation(n).tolist():
                frame[slot] = i
                body(frame)

        return run

    def store(self, s: Store) -> Run:
        memory, at = self.memory(s.buffer), self.offset(s.buffer, s.indices)
        value = self.value(s.value)

        def run(frame: Frame) -> None:
            v, i = value(frame), at(frame)
            memory.data[i] = v
            if memory.written is not None:
                memory.written[i] = True

        return run

    def branch(self, s: If) -> Run:
        cond, body = self.value(s.cond), self.stmt(s.body)
        orelse = in_sequence([]) if s.orelse is None else self.stmt(s.orelse)
        n = lanes(s.cond)
        if n == 1:
            return lambda frame: body(frame) if cond(frame) else orelse(frame)

        def run(frame: Frame) -> None:
            for part, _ in _arms(frame, cond, n, body, orelse):
                part(frame)

        return run

    def allocate(self, s: Allocate) -> Run:
        memory, dtype = self.memory(s.buffer), s.buffer.dtype
        shape = [self.index(n) for n in s.buffer.shape]
        strides = [self.index(n) for n in row_strides(s.buffer)]

        def run(frame: Frame) -> None:
            memory.begin(dtype, [n(frame) for n in shape], [n(frame) for n in strides])

        return run


def _active(frame: Frame, n: int) -> Array:
    """Return the numbers of the active lanes of an `n`-lane vector."""
    active = frame[ACTIVE]
    return np.arange(n) if active is None else active


def _arms(frame: Frame, cond: Run, n: int, yes: Run, no: Run) -> Iterator[tuple[Run, Array]]:
    """Yield (arm, mask of the lanes that take it). Only these are active until the next yield."""
    before, active = frame[ACTIVE], _active(frame, n)
    mask = np.broadcast_to(cond(frame), active.shape)
    for arm, chosen in ((yes, mask), (no, ~mask)):
        if chosen.any():
            frame[ACTIVE] = active[chosen]
            yield arm, chosen
    frame[ACTIVE] = before


# --- running -------------------------------------------------------------------------------------


def interpret(
    f: PrimFunc, *args: Any, rng: np.random.Generator | None = None, flat: bool = False
) -> None:
    """Run `f` on numpy arrays and ints, one per parameter, writing outputs in place.

    rng     shuffles the iterations of parallel loops, so that a race can show up as a wrong result
    flat    treat a single subscript as an element offset, even for a 1-d buffer with a stride

    Raises ArgumentError if an argument does not fit its parameter. Raises VerifyError if `f` breaks
    a law of `verify`, accesses a buffer out of bounds, or reads an allocation before writing it.
    """
    flat = check_flag("interpret: flat", flat)
    if rng is not None:
        check_kind("interpret: rng", rng, np.random.Generator, fix="numpy.random.default_rng(0)")
    verify(f, "flat" if flat else "nest")
    values = sizes_of(f, args)
    check_buffers(f)
    check_symbolic_buffers(f, symbolic_buffers(f), values)
    memories = {b: BufferData() for b in f.packed}
    for b, memory in memories.items():
        memory.begin(b.dtype, *((int(n) for n in ns) for ns in (b.shape, row_strides(b))))
    for p, arg in zip(f.params, args, strict=True):
        if isinstance(p, nodes.Buffer):
            memories[p] = borrow(p, arg, values)
    with np.errstate(all="ignore"):
        if f.prepack is not None:
            _run(_Compiler(f.prepack, flat, rng, memories), {})
        _run(_Compiler(f, flat, rng, memories), values)


def _run(compiler: _Compiler, values: Mapping[nodes.Var, int]) -> None:
    """Run the compiled function; `values` maps its scalar parameters and sizes to ints."""
    run = compiler.stmt(compiler.f.body)
    frame: Frame = [None] * (len(compiler.slots) + len(values) + 1)
    for v, n in values.items():
        frame[compiler.slot(v)] = n
    run(frame)
