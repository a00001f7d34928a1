"""The elements of memories and of DRAM that each instruction reads and writes."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from minitvm import accel

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
NONE: Ints = np.zeros(0, np.int64)


class Use(NamedTuple):
    """The elements of memories that an instruction reads and writes, sorted, without repetition."""

    reads: dict[accel.Memory, Ints]
    writes: dict[accel.Memory, Ints]

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
    use_list = list[Use]()
    for instruction, indices in zip(
        program.instructions, accel.resolve(program, config), strict=True
    ):
        if indices is None:
            use_list.append(_use(instruction, None))
            continue
        two = isinstance(instruction, accel.Alu) and instruction.imm is None
        key = id(indices), accel.mnemonic(instruction), two
        if key not in known:
            known[key] = _use(instruction, indices)
        use_list.append(known[key])
    return tuple(use_list)


def _use(instruction: accel.Instruction, indices: accel.Indices | None) -> Use:
    """Return what an instruction reads and writes; GEMM and ALU access the elements `indices`."""
    reads, writes = dict[accel.Memory, Ints](), dict[accel.Memory, Ints]()
    match instruction:
        case accel.Load(x=0) | accel.Store(x=0) | accel.Finish():
            pass
        case accel.Load(memory=memory, sram=sram):
            writes[memory.on_chip] = np.arange(sram, sram + accel.total(instruction))
        case accel.Store(sram=sram):
            reads[accel.Memory.OUT] = np.arange(sram, sram + accel.total(instruction))
        case accel.Gemm(loops=loops) | accel.Alu(loops=loops):
            assert indices is not None, "resolve() gives indices for every GEMM and ALU"
            used = (indices.dst, indices.src, indices.wgt)
            dst, src, wgt = (np.unique(i).astype(np.int64) for i in used)
            if isinstance(instruction, accel.Alu):
                has_immediate = instruction.imm is not None
                reads[accel.Memory.ACC] = dst if has_immediate else np.union1d(dst, src)
            elif not instruction.reset:
                reads |= {accel.Memory.INP: src, accel.Memory.WGT: wgt, accel.Memory.ACC: dst}
            reads[accel.Memory.UOP] = np.arange(loops.begin, loops.end)
            writes[accel.Memory.ACC] = dst
    if accel.Memory.ACC in writes:
        writes[accel.Memory.OUT] = writes[accel.Memory.ACC]
    return Use(reads, writes)


class Piece(NamedTuple):
    """The elements of a DRAM area that a transfer moves, counted from the start of the area.

    area   the name of the area; "uops" for the micro-operations, "" if nothing is moved
    """

    area: str = ""
    elements: Ints = NONE


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
            for area in program.areas:
                begin, end = area.byte_range(config)
                if begin <= move.dram * size < end:
                    return Piece(area.name, elements - begin // size)
        case _:
            pass
    return Piece()
