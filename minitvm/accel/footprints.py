"""The elements that an instruction reads and writes, in each memory and in DRAM."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from .config import Config, Memory
from .elements import Indices, Ints, rows, sources, total
from .isa import Alu, Finish, Gemm, Instruction, Load, Store
from .program import Program

DRAM = "DRAM"


@dataclass(frozen=True, slots=True)
class Access:
    """The elements of one memory that an instruction reads or writes.

    In DRAM, an element is a piece of gcd(element sizes) bytes. Contiguous elements are a slice,
    because numpy handles slices faster.
    """

    space: Memory | str
    elements: slice | Ints
    writes: bool


class Footprints:
    """The reads and writes of instructions, in DRAM and the memories that units share.

    DRAM is divided into pieces of gcd(element sizes) bytes. All addresses are multiples of this
    size, so a transfer contains a piece entirely or not at all.
    """

    def __init__(self, program: Program, config: Config) -> None:
        sizes = {m: config.element_bytes(m) for m in Memory if m is not Memory.UOP}
        piece = gcd(*sizes.values())
        end = max((area.byte_range(config)[1] for area in program.areas), default=0)
        self.pieces = {memory: size // piece for memory, size in sizes.items()}  # per element
        self.dram = -(-end // piece)  # pieces in total
        self.known: dict[tuple[int, tuple[Memory, ...]], list[Access]] = {}

    def of(self, instruction: Instruction, used: Indices | None) -> list[Access]:
        """Return the accesses of an instruction; `used` are the indices of a GEMM or ALU."""
        match instruction:
            case Load(x=0) | Store(x=0) | Load(memory=Memory.UOP):
                return []
            case Load(memory=memory, sram=sram):
                written = slice(sram, sram + total(instruction))
                source = Access(DRAM, self._moved(instruction), False)
                return [source, Access(memory.on_chip, written, True)]
            case Store(sram=sram):
                stored = slice(sram, sram + total(instruction))
                to = Access(DRAM, self._moved(instruction), True)
                return [Access(Memory.ACC, stored, False), to]
            case Finish():
                return [Access(DRAM, slice(0, self.dram), False)]
            case Gemm() | Alu():
                assert used is not None, "resolve() gives indices for every gemm and alu"
                key = id(used), sources(instruction)
                if key not in self.known:
                    reads = zip(key[1], (used.src, used.wgt), strict=False)
                    self.known[key] = [
                        *(Access(memory, _distinct(used), False) for memory, used in reads),
                        Access(Memory.ACC, _distinct(used.dst), True),
                    ]
                return self.known[key]

    def _moved(self, move: Load | Store) -> slice | Ints:
        """Return the pieces of DRAM that a transfer reads or writes."""
        per = self.pieces[move.memory]
        if move.y == 1 or move.stride == move.x:
            return slice(move.dram * per, (move.dram + move.y * move.x) * per)
        first, column = rows(move)
        elements = (first[:, None] + column).reshape(-1, 1)
        return (elements * per + np.arange(per)).reshape(-1)


def _distinct(elements: Ints) -> slice | Ints:
    """Return the distinct elements, as a slice if they are contiguous."""
    distinct = np.unique(elements)
    whole = slice(int(distinct[0]), int(distinct[-1]) + 1) if len(distinct) else slice(0, 0)
    return whole if whole.stop - whole.start == len(distinct) else distinct
