"""Emit a lowered program of target "vta" as the accelerator's instructions.

The accelerator has no loops around instructions, so the emitter runs them: all sizes are known. The
loops inside an instruction of the compute unit become its two loops and its micro-operations.
"""

from __future__ import annotations

from typing import TypeAlias

from minitvm import accel, lowering, tir
from minitvm.base import BuildError

from .areas import areas, kind_of
from .compute import COMPUTED, Compute, check_blocks
from .now import Now
from .stream import Stream
from .transfer import Dim, Rows, is_zeros, transfers
from .units import COPY

Side: TypeAlias = tuple[tir.Index, tir.Index, tuple[tir.Index, tir.Index]]
"""One dimension of a transfer: its extent, its stride, and the zeros before and after."""


def emit_vta(func: tir.PrimFunc, config: accel.Config) -> accel.Program:
    """Return the instructions of `func`, with an area of main memory for each argument.

    Raises BuildError for a program that `config` cannot run: its data is not packed into elements,
    has types other than those of the memories, or its loops have symbolic extents.
    """
    if func.sizes or any(not isinstance(p, tir.Buffer) for p in func.params):
        why = "it has symbolic sizes, and instructions have constant ones"
        raise BuildError(f"{func.name} for target vta", why, "constant shapes")
    check_blocks(func.body, config)
    emitter = _Emitter(func, config)
    emitter.run(func.body)
    emitter.stream.finish()
    stream = emitter.stream
    return accel.Program(
        tuple(stream.instructions), tuple(stream.cache.uops), tuple(emitter.areas.values())
    )


class _Emitter:
    """The emitter of one program: it runs the loops and emits the instructions inside."""

    def __init__(self, func: tir.PrimFunc, config: accel.Config) -> None:
        self.config = config
        self.stream = Stream(lowering.capacity(config, accel.Memory.UOP))
        self.areas = areas(func, config)
        self.now = Now(config)
        self.computing = Compute(self.now)
        self.top = dict.fromkeys(accel.Memory, 0)  # the first free element of each memory
        self.boxes: dict[int, tuple[Side, ...]] = {}  # by the id of a transfer

    def run(self, s: tir.Stmt) -> None:
        """Emit a statement."""
        kind = None if isinstance(s, tir.Seq) else self.computing.kind(s)
        if kind is not None:
            self.computing.emit(s, kind, self.stream)
            return
        match s:
            case tir.Seq(parts):
                for part in parts:
                    self.run(part)
            case tir.For(var, extent, body):
                for i in range(self.now.value(extent)):
                    self.now.env[var] = i
                    self.run(body)
            case tir.If(cond, body, orelse):
                if self.now.value(cond):
                    self.run(body)
                elif orelse is not None:
                    self.run(orelse)
            case tir.Allocate(buffer, body):
                self.allocate(buffer, body)
            case tir.Evaluate(tir.Call() as call):
                self.instruction(call)
            case _:
                raise BuildError(tir.text(s), "the accelerator has no instruction that does this")

    def allocate(self, b: tir.Buffer, body: tir.Stmt) -> None:
        """Emit `body` with `b` placed after the buffers that are already allocated."""
        memory = lowering.memory_of(b)
        assert memory is not None, "check_capacity refuses other memory"
        if str(b.dtype) != self.config.dtype(memory):
            what, right = f"{b.name} in {b.scope!r} is {b.dtype}", self.config.dtype(memory)
            why = f"the elements of {memory.name} are {right}"
            raise BuildError(what, why, f"x.astype({right!r})")
        count, before = tir.elements(b), self.top[memory]
        assert isinstance(count, int)
        self.now.base[b] = before
        self.top[memory] = before + -(-count // self.now.size(memory))
        self.run(body)
        self.top[memory] = before

    def instruction(self, call: tir.Call) -> None:
        """Emit a token, a transfer or a nop."""
        prefix, _, what = call.name.partition(".")
        unit = lowering.UNITS.get(prefix)
        if unit is None:
            why = "no unit has been chosen for it"
            raise BuildError(f"{call.name}(...)", why, "the pass assign_units before")
        match what, call.args:
            case "push_dep_to", (tir.Call(other),):
                self.stream.push(unit, lowering.UNITS[other])
            case "pop_dep_from", (tir.Call(other),):
                self.stream.pop(lowering.UNITS[other], unit)
            case name, _ if name == COPY:
                self.transfer(call, unit)
            case "nop", ():
                self.stream.add(accel.nop(unit, accel.NO_FLAGS))
            case _:
                fix = f"one of {', '.join((*COMPUTED, COPY))}"
                why = "the accelerator has no such instruction"
                raise BuildError(f"{call.name}(...)", why, fix)

    # --- transfers ---

    def transfer(self, call: tir.Call, unit: accel.Unit) -> None:
        """Emit a LOAD or STORE, or several of them if the box has more than two dimensions."""
        to, source, *pads = call.args
        assert isinstance(to, tir.View)
        assert isinstance(source, tir.View)
        local, remote = (source, to) if unit is accel.Unit.STORE else (to, source)
        kind = kind_of(to.first.buffer, source.first.buffer)
        b = remote.first.buffer
        what = f"{call.name} between {local.first.buffer.name} and {b.name}"
        if str(b.dtype) != self.config.dtype(kind):
            right = self.config.dtype(kind)
            why = f"{b.name} is {b.dtype}, but the elements of {kind.name} are {right}"
            raise BuildError(what, why, f"{b.name} of {right!r}")
        if id(call) not in self.boxes:
            padding = tuple(tir.index(n) for n in pads) or (0, 0) * len(remote.shape)
            pairs = zip(padding[::2], padding[1::2], strict=True)
            self.boxes[id(call)] = tuple(zip(remote.shape, remote.strides, pairs, strict=True))
        dims = tuple(
            Dim(self.now.value(n), self.now.value(step), *map(self.now.value, pair))
            for n, step, pair in self.boxes[id(call)]
        )
        sram = self.now.element(local, kind.on_chip)
        dram = self.areas[b].base if is_zeros(dims) else self.address(what, remote, kind)
        for part in transfers(what, dims, self.now.size(kind)):
            self.stream.add(_move(kind, sram, dram, part))

    def address(self, what: str, view: tir.View, kind: accel.Memory) -> int:
        """Return the address of a view in main memory, counted in elements of `kind`."""
        at, size = view.first, self.config.element_bytes(kind)
        begin, _ = self.areas[at.buffer].byte_range(self.config)
        byte = begin + self.now.value(at.indices[0]) * at.buffer.dtype.bytes
        if byte % size:
            where = f"at byte {byte - begin} of {at.buffer.name}"
            fix = "pack the data so that its last dimensions are those of an element"
            raise BuildError(what, f"it begins {where}, inside an element of {size} bytes", fix)
        return byte // size


def _move(kind: accel.Memory, sram: int, dram: int, part: Rows) -> accel.Load | accel.Store:
    """Return the instruction that moves rows between `dram` in a box and `sram` in a buffer."""
    to, source, y, x = sram + part.sram, dram + part.dram, part.y, part.x
    if kind is accel.Memory.OUT:
        return accel.Store(sram=to, dram=source, y=y.n, x=x.n, stride=y.stride)
    return accel.Load(
        memory=kind,
        sram=to,
        dram=source,
        y=y.n,
        x=x.n,
        stride=y.stride,
        y_pad=(y.before, y.after),
        x_pad=(x.before, x.after),
    )
