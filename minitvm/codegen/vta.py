"""A lowered program of target "vta" -> the accelerator's instructions.

Loops around instructions are run here, now: all sizes are known, and the accelerator has none. The
loops inside an instruction of the compute unit become its own two loops and its micro-operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod

from minitvm.accel import (
    NO_FLAGS,
    Alu,
    Config,
    Gemm,
    Load,
    Loops,
    Memory,
    Program,
    Unit,
    Uop,
    nop,
)
from minitvm.accel import Store as StoreRows
from minitvm.base import BuildError
from minitvm.lowering import memory_of
from minitvm.tir import (
    Allocate,
    Buffer,
    Call,
    Const,
    Evaluate,
    For,
    If,
    Index,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    elements,
    extents_of,
    first_element,
    free_of,
    index,
    mul,
    split_terms,
    sub,
    text,
    walk,
)

from .vta_areas import COPY, areas
from .vta_compute import (
    ACCUMULATE,
    ALU,
    GEMM,
    RESET,
    Kind,
    Work,
    check_distance,
    inputs,
    memory_in,
    roles,
)
from .vta_index import holds, value
from .vta_stream import Stream
from .vta_transfer import Dim, Rows, transfers

UNITS = {"ld": Unit.LOAD, "ex": Unit.COMPUTE, "st": Unit.STORE}


def emit_vta(func: PrimFunc, config: Config) -> Program:
    """The instructions of `func`, with an area of main memory for each of its arguments.

    Raises BuildError for what `config` cannot run: data that is not packed into its elements, types
    that are not those of its memories, loops whose extents are not known.
    """
    if func.sizes or any(not isinstance(p, Buffer) for p in func.params):
        raise BuildError(
            f"{func.name} for target vta",
            "an extent is known only when it is called, and instructions have fixed ones",
            "constant shapes",
        )
    emitter = _Emitter(func, config)
    emitter.run(func.body)
    emitter.stream.finish()
    stream = emitter.stream
    return Program(tuple(stream.instructions), tuple(stream.uops), tuple(emitter.areas.values()))


class _Emitter:
    """One program: runs the loops and emits what is inside."""

    def __init__(self, func: PrimFunc, config: Config) -> None:
        self.config = config
        self.stream = Stream(config.depth(Memory.UOP))
        self.areas = areas(func, config)
        self.env: dict[Var, int] = {}
        self.base: dict[Buffer, int] = {}  # the first element of a buffer in its memory
        self.top = dict.fromkeys(Memory, 0)
        self.kinds: dict[int, Kind | None] = {}
        self.inputs: dict[int, tuple[tuple[Var, ...], tuple[Buffer, ...]]] = {}
        self.works: dict[tuple[int, ...], Work] = {}
        self.boxes: dict[int, tuple[tuple[Index, Index, tuple[Index, Index]], ...]] = {}

    def run(self, s: Stmt) -> None:
        """Emit a statement."""
        kind = None if isinstance(s, Seq) else self.kind(s)
        if kind is not None:
            self.compute(s, kind)
            return
        match s:
            case Seq(parts):
                for part in parts:
                    self.run(part)
            case For(var, extent, body):
                for i in range(self.value(extent)):
                    self.env[var] = i
                    self.run(body)
            case If(cond, body, orelse):
                if holds(cond, self.env):
                    self.run(body)
                elif orelse is not None:
                    self.run(orelse)
            case Allocate(buffer, body):
                self.allocate(buffer, body)
            case Evaluate(Call() as call):
                self.instruction(call)
            case _:
                raise BuildError(text(s), "the accelerator has no instruction that does this")

    def allocate(self, b: Buffer, body: Stmt) -> None:
        """Emit `body` with `b` behind what is there already."""
        memory = memory_of(b)
        assert memory is not None, "check_capacity refuses other memory"
        if str(b.dtype) != self.config.dtype(memory):
            raise BuildError(
                f"{b.name} in {b.scope!r} holds {b.dtype}",
                f"the numbers of {memory.name} are {self.config.dtype(memory)}",
                f"x.astype({self.config.dtype(memory)!r})",
            )
        count, before = elements(b), self.top[memory]
        assert isinstance(count, int)
        self.base[b] = before
        self.top[memory] = before + -(-count // self.size(memory))
        self.run(body)
        self.top[memory] = before

    def instruction(self, call: Call) -> None:
        """Emit a token, a transfer or a nop."""
        who, _, what = call.name.partition(".")
        unit = UNITS.get(who)
        if unit is None:
            raise BuildError(
                f"{call.name}(...)", "no unit is chosen for it", "the pass assign_units"
            )
        match what, call.args:
            case "push_dep_to", (Call(other),):
                self.stream.push(unit, UNITS[other])
            case "pop_dep_from", (Call(other),):
                self.stream.pop(UNITS[other], unit)
            case "dma_copy2d", _:
                self.transfer(call, unit)
            case "nop", ():
                self.stream.add(nop(unit, NO_FLAGS))
            case _:
                raise BuildError(
                    f"{call.name}(...)",
                    "the accelerator has no such instruction",
                    f"one of {', '.join((*GEMM, RESET, ACCUMULATE, *ALU, COPY))}",
                )

    # --- transfers ---

    def transfer(self, call: Call, unit: Unit) -> None:
        """Emit a LOAD, or a STORE; several if the box has more than two dimensions."""
        to, source, *pads = call.args
        assert isinstance(to, Call)
        assert isinstance(source, Call)
        local, remote = (source, to) if unit is Unit.STORE else (to, source)
        memory = memory_of(first_element(local).buffer)
        assert memory is not None
        kind = Memory.OUT if unit is Unit.STORE else memory
        b = first_element(remote).buffer
        what = f"{call.name} between {first_element(local).buffer.name} and {b.name}"
        if str(b.dtype) != self.config.dtype(kind):
            raise BuildError(
                what,
                f"{b.name} holds {b.dtype}, the numbers of {kind.name} are "
                f"{self.config.dtype(kind)}",
                f"{b.name} of {self.config.dtype(kind)!r}",
            )
        if id(call) not in self.boxes:
            padding = tuple(index(n) for n in pads) or (0, 0) * len(extents_of(remote)[0])
            pairs = zip(padding[::2], padding[1::2], strict=True)
            self.boxes[id(call)] = tuple(zip(*extents_of(remote), pairs, strict=True))
        dims = tuple(
            Dim(self.value(n), self.value(step), *map(self.value, around))
            for n, step, around in self.boxes[id(call)]
        )
        sram, dram = self.element(local, memory), self.address(what, remote, kind)
        for part in transfers(what, dims, self.size(memory)):
            self.stream.add(_move(unit, memory, sram, dram, part))

    def element(self, view: Call, memory: Memory) -> int:
        """The element of its memory that a view begins at."""
        at = first_element(view)
        first, size = self.value(at.indices[0]), self.size(memory)
        if first % size:
            raise BuildError(
                text(at),
                f"number {first} of {at.buffer.name} is inside an element of {size}",
                f"the last dimensions in {memory.name} are "
                f"{', '.join(map(str, self.config.element_shape(memory)))}",
            )
        return self.base[at.buffer] + first // size

    def address(self, what: str, view: Call, kind: Memory) -> int:
        """The same in main memory, counted in elements of `kind`."""
        at, size = first_element(view), self.config.element_bytes(kind)
        begin, _ = self.areas[at.buffer].byte_range(self.config)
        byte = begin + self.value(at.indices[0]) * at.buffer.dtype.bytes
        if byte % size:
            raise BuildError(
                what,
                f"it begins inside an element of {size} bytes, at byte {byte - begin} of "
                f"{at.buffer.name}",
                "pack the data so that its last dimensions are those of an element",
            )
        return byte // size

    # --- computing ---

    def kind(self, s: Stmt) -> Kind | None:
        """What one instruction does that does all of `s`; None if there is none."""
        if id(s) not in self.kinds:
            self.kinds[id(s)] = self.find_kind(s)
        return self.kinds[id(s)]

    def find_kind(self, s: Stmt) -> Kind | None:
        """The same, not remembered."""
        match s:
            case For(body=body):
                return self.kind(body)
            case Seq(parts):
                found = {self.kind(part) for part in parts}
                return found.pop() if len(found) == 1 else None
            case Evaluate(Call(name, args)):
                what = name.removeprefix("ex.")
                if what not in (*GEMM, RESET, ACCUMULATE, *ALU):
                    return None
                last = args[-1]
                imm = int(last.value) if isinstance(last, Const) else None
                return Kind(what, imm)
            case _:
                return None

    def compute(self, s: Stmt, kind: Kind) -> None:
        """Emit one GEMM or ALU instruction: two outer loops, the rest as micro-operations."""
        work = self.work(s, kind)
        if 0 in work.extents or not work.uops:
            return
        name = "gemm" if kind.name in (*GEMM, ACCUMULATE) else kind.name
        begin, end = self.stream.kernel(name if name in ("gemm", RESET) else "alu", work.uops)
        outer, inner = (*work.extents, 1, 1)[:2]
        by_outer, by_inner = (*work.factors, (0, 0, 0), (0, 0, 0))[:2]
        dst, src, wgt = zip(by_outer, by_inner, strict=True)
        loops = Loops(
            begin=begin,
            end=end,
            outer=outer,
            inner=inner,
            dst_factors=dst,
            src_factors=src,
            wgt_factors=wgt,
        )
        if name in ALU:
            self.stream.add(Alu(op=ALU[name], loops=loops, imm=kind.imm))
        else:
            self.stream.add(Gemm(loops=loops, reset=name == RESET))

    def work(self, s: Stmt, kind: Kind) -> Work:
        """What `s` does in the present iteration: found once for all iterations that agree."""
        if id(s) not in self.inputs:
            self.inputs[id(s)] = inputs(s)
        loops, buffers = self.inputs[id(s)]
        key = (id(s), *(self.env[v] for v in loops), *(self.base[b] for b in buffers))
        if key not in self.works:
            self.works[key] = self.find_work(s, kind)
        return self.works[key]

    def find_work(self, s: Stmt, kind: Kind) -> Work:
        """The same, not remembered."""
        extents, factors = list[int](), list[tuple[int, int, int]]()
        while isinstance(s, For) and len(extents) < 2 and (found := self.factors(s)) is not None:
            extents.append(self.value(s.extent))
            factors.append(found)
            self.env[s.var] = 0
            s = s.body
        uops = tuple(islice(self.uops(s), self.config.depth(Memory.UOP) + 1))  # one is too many
        if 0 not in extents:
            check_distance(kind, uops)
        return Work(tuple(extents), tuple(factors), uops)

    def uops(self, s: Stmt) -> Iterator[Uop]:
        """The micro-operations of a statement, in its order."""
        match s:
            case For(var, extent, body):
                for i in range(self.value(extent)):
                    self.env[var] = i
                    yield from self.uops(body)
            case Seq(parts):
                for part in parts:
                    yield from self.uops(part)
            case Evaluate(Call() as call):
                at = [
                    0 if view is None else self.element(view, memory_in(view))
                    for view in roles(call)
                ]
                yield Uop(*at)
            case _:
                raise AssertionError("find_kind looks at nothing else")

    def factors(self, loop: For) -> tuple[int, int, int] | None:
        """How far one iteration moves (dst, src, wgt), in elements; None if not evenly."""
        found: set[tuple[int, ...]] = set()
        for n in walk(loop.body):
            if isinstance(n, For) and not free_of(n.extent, [loop.var]):
                return None
            if isinstance(n, Evaluate) and isinstance(n.value, Call):
                steps = [
                    0 if view is None else self.step(view, loop.var) for view in roles(n.value)
                ]
                found.add(tuple(-1 if step is None else step for step in steps))
        dst, src, wgt = found.pop() if len(found) == 1 else (-1, -1, -1)
        return (dst, src, wgt) if min(dst, src, wgt) >= 0 else None

    def step(self, view: Call, var: Var) -> int | None:
        """How many elements a view moves when `var` advances by 1; None if not a constant."""
        at = first_element(view).indices[0]
        factor = sum(c for a, c in split_terms(at)[0] if a is var)
        even = free_of(sub(at, mul(var, factor)), [var])
        size = self.size(memory_in(view))
        return factor // size if even and factor % size == 0 else None

    # --- numbers ---

    def size(self, memory: Memory) -> int:
        """How many numbers one element has."""
        return prod(self.config.element_shape(memory))

    def value(self, e: Index) -> int:
        """An index in the present iteration."""
        return value(e, self.env)


def _move(unit: Unit, memory: Memory, sram: int, dram: int, part: Rows) -> Load | StoreRows:
    """The instruction that moves the rows, of a box and a buffer that begin at dram and sram."""
    to, source, y, x = sram + part.sram, dram + part.dram, part.y, part.x
    if unit is Unit.STORE:
        return StoreRows(sram=to, dram=source, y=y.n, x=x.n, stride=y.stride)
    return Load(
        memory=memory,
        sram=to,
        dram=source,
        y=y.n,
        x=x.n,
        stride=y.stride,
        y_pad=(y.before, y.after),
        x_pad=(x.before, x.after),
    )
