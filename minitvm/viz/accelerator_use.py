"""The elements of memories and of DRAM that each instruction reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from minitvm import accel

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
NONE: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """The elements of memories that an instruction reads and writes, sorted, without repetition."""

    reads: dict[accel.Memory, Ints] = field(default_factory=dict[accel.Memory, Ints])
    writes: dict[accel.Memory, Ints] = field(default_factory=dict[accel.Memory, Ints])

    def elements(self, memory: accel.Memory) -> Ints:
        """Return the elements of `memory` that are read or written."""
        read, written = self.reads.get(memory, NONE), self.writes.get(memory, NONE)
        if read is written or not len(written):
            return read
        return np.union1d(read, written) if len(read) else written


def uses(program: accel.Program, config: accel.Config) -> tuple[Use, ...]:
    """Return the elements that each instruction of a program reads and writes.

    OUT is the narrowed copy of ACC: an instruction that writes ACC writes OUT; stores read OUT.
    Raises ArgumentError for addresses that do not exist.
    """
    known: dict[tuple[int, str, bool], Use] = {}  # equal loops share their indices
    found: list[Use] = []
    resolved = accel.resolve(program, config)
    for instruction, indices in zip(program.instructions, resolved, strict=True):
        if indices is None:
            found.append(_moves(instruction))
            continue
        two = isinstance(instruction, accel.Alu) and instruction.imm is None
        key = id(indices), accel.mnemonic(instruction), two
        if key not in known:
            known[key] = _computes(instruction, *_distinct(indices))
        found.append(known[key])
    return tuple(found)


def _distinct(indices: accel.Indices) -> tuple[Ints, Ints, Ints]:
    """Return the dst, src and wgt indices, each sorted and without repetition."""
    dst, src, wgt = (np.unique(i).astype(np.int64) for i in (indices.dst, indices.src, indices.wgt))
    return dst, src, wgt


def _moves(instruction: accel.Instruction) -> Use:
    """Return what a load or a store reads and writes on the chip; FINISH accesses nothing."""
    match instruction:
        case accel.Load(x=0) | accel.Store(x=0):
            return Use()
        case accel.Load(memory=accel.Memory.UOP, sram=sram, x=x):
            return Use({}, {accel.Memory.UOP: np.arange(sram, sram + x)})
        case accel.Load(memory=memory, sram=sram):
            return Use(
                {}, _with_out({memory.on_chip: np.arange(sram, sram + accel.total(instruction))})
            )
        case accel.Store(sram=sram):
            return Use({accel.Memory.OUT: np.arange(sram, sram + accel.total(instruction))})
        case _:
            return Use()


def _computes(instruction: accel.Instruction, dst: Ints, src: Ints, wgt: Ints) -> Use:
    """Return what a GEMM or ALU instruction reads and writes, given its operands' elements."""
    match instruction:
        case accel.Gemm(loops=loops, reset=reset):
            inputs = (
                {}
                if reset
                else {accel.Memory.INP: src, accel.Memory.WGT: wgt, accel.Memory.ACC: dst}
            )
            return Use(_with_uops(inputs, loops), _with_out({accel.Memory.ACC: dst}))
        case accel.Alu(loops=loops, imm=imm):
            both = dst if imm is not None else np.union1d(dst, src)
            return Use(
                _with_uops({accel.Memory.ACC: both}, loops), _with_out({accel.Memory.ACC: dst})
            )
        case accel.Load() | accel.Store() | accel.Finish():
            raise AssertionError("resolve() returns indices only for GEMM and ALU")


def _with_out(written: dict[accel.Memory, Ints]) -> dict[accel.Memory, Ints]:
    return (
        {**written, accel.Memory.OUT: written[accel.Memory.ACC]}
        if accel.Memory.ACC in written
        else written
    )


def _with_uops(read: dict[accel.Memory, Ints], loops: accel.UopLoops) -> dict[accel.Memory, Ints]:
    return {**read, accel.Memory.UOP: np.arange(loops.begin, loops.end)}


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The elements of a DRAM area that a transfer moves, counted from the start of the area.

    area   the name of the area; "uops" for the micro-operations, "" if nothing is moved
    """

    area: str = ""
    elements: Ints = field(default_factory=lambda: NONE)


def piece(program: accel.Program, config: accel.Config, n: int) -> Piece:
    """Return the elements that the n-th instruction moves from or to DRAM."""
    match program.instructions[n]:
        case accel.Load(x=0) | accel.Store(x=0):
            return Piece()
        case accel.Load(memory=accel.Memory.UOP, dram=dram, x=x):
            return Piece("uops", np.arange(dram, dram + x))
        case accel.Load() | accel.Store() as move:
            first, column = accel.rows(move)
            elements = np.unique(first[:, None] + column)
            size = config.element_bytes(move.memory)
            area = next(a for a in program.areas if _inside(a, config, move.dram * size))
            return Piece(area.name, elements - area.byte_range(config)[0] // size)
        case _:
            return Piece()


def _inside(area: accel.Area, config: accel.Config, byte: int) -> bool:
    begin, end = area.byte_range(config)
    return begin <= byte < end
