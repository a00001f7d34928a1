"""The instructions: five operations, four token flags, micro-operations; 128 bits each.

    LOAD, STORE   rows of elements between DRAM and a memory, with a stride and with padding
    GEMM, ALU     a two-level loop around a list of micro-operations
    FINISH        the end of a program: the host may read DRAM

An instruction first pops the tokens that its flags name, then runs, then pushes. `prev` and `next`
are the neighbours in the order load, compute, store: for COMPUTE, prev is load and next is store.
There are four queues of tokens, two between neighbouring units:

    l2g   load -> compute    "the tile is loaded"         g2l   "the tile may be overwritten"
    g2s   compute -> store   "the result is ready"        s2g   "the result is stored"
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import compress
from typing import TypeAlias

from minitvm.base import ArgumentError, check_kind

from .config import Memory


class Unit(Enum):
    """The three units, which run concurrently, each in the order of its own instructions."""

    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"


class Queue(Enum):
    """The four queues of tokens, by VTA's names; g stands for compute (GEMM)."""

    L2G = "l2g"
    G2L = "g2l"
    G2S = "g2s"
    S2G = "s2g"


NEIGHBOURS = {  # (prev, next) of a unit
    Unit.LOAD: (None, Unit.COMPUTE),
    Unit.COMPUTE: (Unit.LOAD, Unit.STORE),
    Unit.STORE: (Unit.COMPUTE, None),
}
QUEUE_FROM_TO = {  # (the unit that pushes, the unit that pops)
    (Unit.LOAD, Unit.COMPUTE): Queue.L2G,
    (Unit.COMPUTE, Unit.LOAD): Queue.G2L,
    (Unit.COMPUTE, Unit.STORE): Queue.G2S,
    (Unit.STORE, Unit.COMPUTE): Queue.S2G,
}

LOADABLE = (Memory.UOP, Memory.WGT, Memory.INP, Memory.ACC, Memory.ACC_8BIT)
IMMEDIATES = range(-(1 << 15), 1 << 15)  # the range of an ALU instruction's field


class Op(IntEnum):
    """The operation of an ALU instruction on (dst, src or immediate)."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


@dataclass(frozen=True, slots=True)
class Uop:
    """One micro-operation: indices of elements, to which loops add steps. ALU ignores wgt."""

    dst: int
    src: int
    wgt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The tokens that an instruction pops before it runs and pushes afterwards."""

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


NO_FLAGS = Flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load of y rows of x elements, `stride` elements apart, from DRAM to memory[sram ...].

    y_pad rows and x_pad columns of zeros are added, each as (before, after).

    dram counts elements of the size that `memory` has. x = 0 moves nothing and only carries tokens
    (NOP).
    ACC_8BIT loads accumulators from int8: 16 bytes per element of 16 numbers, where ACC has 64.
    """

    memory: Memory
    sram: int = 0
    dram: int = 0
    y: int = 1
    x: int = 0
    stride: int = 0
    y_pad: tuple[int, int] = (0, 0)
    x_pad: tuple[int, int] = (0, 0)
    flags: Flags = NO_FLAGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store of the low 8 bits of accumulators, starting at sram, to y rows of x elements of DRAM.

    dram counts elements of OUT. x = 0 moves nothing and only carries tokens (NOP).
    """

    memory: Memory = Memory.OUT
    sram: int = 0
    dram: int = 0
    y: int = 1
    x: int = 0
    stride: int = 0
    flags: Flags = NO_FLAGS


@dataclass(frozen=True, slots=True, kw_only=True)
class UopLoops:
    """The loops of a GEMM or ALU instruction around its micro-operations.

    for i in range(outer): for j in range(inner): for u in uops[begin:end]: the indices are
    dst = u.dst + i*dst_factors[0] + j*dst_factors[1], and likewise src and wgt.
    """

    begin: int
    end: int
    outer: int = 1
    inner: int = 1
    dst_factors: tuple[int, int] = (0, 0)
    src_factors: tuple[int, int] = (0, 0)
    wgt_factors: tuple[int, int] = (0, 0)

    @property
    def count(self) -> int:
        """Return how many micro-operations are issued."""
        return self.outer * self.inner * (self.end - self.begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """A matrix product, acc[dst] += inp[src] @ wgt[wgt].T, or acc[dst] = 0 if `reset` is set."""

    loops: UopLoops
    reset: bool = False
    flags: Flags = NO_FLAGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Alu:
    """Arithmetic on accumulators: acc[dst] = op(acc[dst], acc[src]), or op(acc[dst], imm).

    SHR is an arithmetic right shift; by a negative number, it shifts left.
    """

    op: Op
    loops: UopLoops
    imm: int | None = None
    flags: Flags = NO_FLAGS

    @property
    def use_imm(self) -> bool:
        """Return whether the second operand is an immediate."""
        return self.imm is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of the program. It carries no tokens and runs last on the compute unit."""

    flags: Flags = NO_FLAGS


Instruction: TypeAlias = Load | Store | Gemm | Alu | Finish


def unit_of(instruction: Instruction) -> Unit:
    """Return the unit that runs an instruction; the compute unit loads uops and accumulators."""
    match instruction:
        case Load(memory=memory):
            return Unit.LOAD if memory in (Memory.INP, Memory.WGT) else Unit.COMPUTE
        case Store():
            return Unit.STORE
        case Gemm() | Alu() | Finish():
            return Unit.COMPUTE
        case _:
            raise not_an_instruction(reprlib.repr(instruction))


def tokens(unit: Unit, flags: Flags) -> list[tuple[str, Unit | None]]:
    """Return the tokens of an instruction in order, such as ("pop", Unit.LOAD).

    The unit is None if the flags name a neighbour that does not exist.
    """
    prev, next_ = NEIGHBOURS[unit]
    pops, pushes = (flags.pop_prev, flags.pop_next), (flags.push_prev, flags.push_next)
    pairs = (("pop", prev), ("pop", next_), ("push", prev), ("push", next_))
    return list(compress(pairs, (*pops, *pushes)))


def flags_of(unit: Unit, tokens: Iterable[tuple[str, Unit]]) -> Flags:
    """Return the flags of an instruction of `unit` that pops and pushes `tokens`."""
    prev, _ = NEIGHBOURS[unit]
    sides = ((verb, "prev" if neighbour is prev else "next") for verb, neighbour in tokens)
    return Flags(**{f"{verb}_{side}": True for verb, side in sides})


def nop(unit: Unit, flags: Flags) -> Instruction:
    """Return an instruction that only carries tokens."""
    check_kind("unit", unit, Unit, fix="Unit.LOAD")
    check_kind("flags", flags, Flags, fix="Flags(push_next=True)")
    match unit:
        case Unit.LOAD:
            return Load(memory=Memory.INP, flags=flags)
        case Unit.COMPUTE:
            return Load(memory=Memory.UOP, flags=flags)
        case Unit.STORE:
            return Store(flags=flags)


def is_nop(instruction: Instruction) -> bool:
    """Return whether an instruction only carries tokens."""
    return isinstance(instruction, Load | Store) and not instruction.x


def mnemonic(instruction: Instruction) -> str:
    """Return an instruction's short name, such as "load inp", "gemm", "shr" or "nop"."""
    match instruction:
        case Load(x=0) | Store(x=0):
            return "nop"
        case Load(memory=memory):
            return f"load {memory.name.lower()}"
        case Store():
            return "store"
        case Gemm(reset=reset):
            return "reset" if reset else "gemm"
        case Alu(op=op):
            return op.name.lower()
        case Finish():
            return "finish"
        case _:
            raise not_an_instruction(reprlib.repr(instruction))


def not_an_instruction(what: str) -> ArgumentError:
    """Return the error for an object that is not an instruction."""
    return ArgumentError(what, "not an instruction", "Load, Store, Gemm, Alu or Finish")
