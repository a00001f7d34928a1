"""Which elements of the memories and of DRAM each instruction reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from minitvm.accel import (
    Alu,
    Area,
    Config,
    Finish,
    Gemm,
    Instruction,
    Load,
    Loops,
    Memory,
    Program,
    Store,
)

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
NONE: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """The elements an instruction reads and writes, increasing, each once.

    area   the piece of DRAM it moves from or to, "" for none; `dram` are elements from its start,
           in units of the memory that is loaded or stored
    """

    reads: dict[Memory, Ints] = field(default_factory=dict[Memory, Ints])
    writes: dict[Memory, Ints] = field(default_factory=dict[Memory, Ints])
    area: str = ""
    dram: Ints = field(default_factory=lambda: NONE)

    def elements(self, memory: Memory) -> Ints:
        """Those read or written."""
        both = [found[memory] for found in (self.reads, self.writes) if memory in found]
        return np.unique(np.concatenate(both)) if both else NONE


def uses(program: Program, config: Config) -> tuple[Use, ...]:
    """What each instruction uses, in the order of the program, whose addresses have been checked.

    A result in ACC is a result in OUT, narrowed: OUT is written with ACC, and read by stores.
    """
    uops = np.array([(u.dst, u.src, u.wgt) for u in program.uops], np.int64).reshape(-1, 3)
    table = _Table(uops, np.zeros((config.depth(Memory.UOP), 3), np.int64))
    return tuple(_use(program, config, i, table) for i in program.instructions)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The micro-operations of the program, those in memory, and what loops made of them."""

    uops: Ints
    loaded: Ints
    known: dict[tuple[Loops, bytes], tuple[Ints, Ints, Ints]] = field(
        default_factory=dict[tuple[Loops, bytes], tuple[Ints, Ints, Ints]]
    )

    def indices(self, loops: Loops) -> tuple[Ints, Ints, Ints]:
        """(dst, src, wgt) of all iterations, each element once."""
        uops = self.loaded[loops.begin : loops.end]
        key = loops, uops.tobytes()
        if key not in self.known:
            self.known[key] = (
                _affine(loops, uops[:, 0], loops.dst_factors),
                _affine(loops, uops[:, 1], loops.src_factors),
                _affine(loops, uops[:, 2], loops.wgt_factors),
            )
        return self.known[key]


def _affine(loops: Loops, base: Ints, factors: tuple[int, int]) -> Ints:
    outer, inner = np.arange(loops.outer)[:, None, None], np.arange(loops.inner)[:, None]
    return np.unique(outer * factors[0] + inner * factors[1] + base)


def _use(program: Program, config: Config, instruction: Instruction, table: _Table) -> Use:
    """What one instruction uses; it may load micro-operations into the table."""
    match instruction:
        case Load(x=0) | Store(x=0) | Finish():
            return Use()
        case Load(memory=Memory.UOP, sram=sram, dram=dram, x=x):
            table.loaded[sram : sram + x] = table.uops[dram : dram + x]
            written = np.arange(sram, sram + x)
            return Use(writes={Memory.UOP: written}, area="uops", dram=np.arange(dram, dram + x))
        case Load(memory=memory, sram=sram):
            tall = sum(instruction.y_pad) + instruction.y
            written = np.arange(sram, sram + tall * (sum(instruction.x_pad) + instruction.x))
            area, dram = _dram(program, config, instruction)
            return Use({}, _with_out({memory: written}), area, dram)
        case Store(sram=sram, x=x, y=y):
            area, dram = _dram(program, config, instruction)
            return Use({Memory.OUT: np.arange(sram, sram + x * y)}, {}, area, dram)
        case Gemm(loops=loops, reset=reset):
            dst, src, wgt = table.indices(loops)
            inputs = {} if reset else {Memory.INP: src, Memory.WGT: wgt, Memory.ACC: dst}
            return Use(_with_uops(inputs, loops), _with_out({Memory.ACC: dst}))
        case Alu(loops=loops, imm=imm):
            dst, src, _ = table.indices(loops)
            both = dst if imm is not None else np.union1d(dst, src)
            return Use(_with_uops({Memory.ACC: both}, loops), _with_out({Memory.ACC: dst}))


def _with_out(written: dict[Memory, Ints]) -> dict[Memory, Ints]:
    return {**written, Memory.OUT: written[Memory.ACC]} if Memory.ACC in written else written


def _with_uops(read: dict[Memory, Ints], loops: Loops) -> dict[Memory, Ints]:
    return {**read, Memory.UOP: np.arange(loops.begin, loops.end)}


def _dram(program: Program, config: Config, move: Load | Store) -> tuple[str, Ints]:
    """The area of a transfer and the elements of it that move."""
    rows = np.arange(move.y)[:, None] * move.stride
    elements = np.unique(move.dram + rows + np.arange(move.x))
    size = config.element_bytes(move.memory)
    area = next(a for a in program.areas if _inside(a, config, move.dram * size))
    return area.name, elements - area.byte_range(config)[0] // size


def _inside(area: Area, config: Config, byte: int) -> bool:
    begin, end = area.byte_range(config)
    return begin <= byte < end
