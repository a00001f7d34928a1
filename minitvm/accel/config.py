"""The configuration of an accelerator: sizes, clock and timing parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from math import prod

from minitvm.base import ArgumentError, check_kind, check_text


class Memory(IntEnum):
    """The kinds of elements that are moved, numbered as in an instruction's memory_type.

    Each kind has its own on-chip memory except OUT and ACC_8BIT. Both are accumulators that are
    int8 in DRAM: a store narrows them (OUT), and a load widens them (ACC_8BIT).
    """

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5

    @property
    def on_chip(self) -> Memory:
        """Return the on-chip memory that stores such elements: ACC for ACC_8BIT and OUT."""
        return Memory.ACC if self in (Memory.OUT, Memory.ACC_8BIT) else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One accelerator: a batch x block_in by block_out x block_in matrix unit and its memories.

    All buffers are addressed by element, not by byte: an element of INP is (batch, block_in) int8,
    of WGT (block_out, block_in) int8, of ACC (batch, block_out) int32, of OUT and ACC_8BIT the
    same as int8; an element of UOP is one 32-bit micro-operation. Sizes are in bytes, times in
    cycles.

    The timing model is at the level of instructions. n is the number of micro-operations that an
    instruction issues; a beat is the data that the memory port moves in one cycle:

        GEMM     issue + fill + n
        ALU      issue + fill + n * (alu_ii_imm or alu_ii_reg)
        LOAD     issue + dma_latency + sum over rows of (beats + dma_row) + padded elements
        STORE    the same without padding
        NOP      0: an instruction that only carries tokens; also FINISH

    Sources: VTA's hardware specification and its HLS and Chisel designs for sizes, initiation
    intervals and queues; the OSDI'18 paper on TVM (section 6.4) for vdla_osdi18. With the Chisel
    design's alu_ii_imm=1, times are within 7 % of the cycles published for that design.
    """

    name: str
    batch: int = 1  # rows of an element of INP, ACC and OUT
    block_in: int = 16  # columns of an element of INP and WGT
    block_out: int = 16  # rows of an element of WGT, columns of one of ACC and OUT
    inp_bytes: int = 32 << 10
    wgt_bytes: int = 256 << 10
    acc_bytes: int = 128 << 10
    uop_bytes: int = 32 << 10
    clock_hz: float = 100e6
    port_bytes: int = 8  # a beat: one 64-bit port shared by all reads; writes have another
    dma_latency: int = 32  # cycles from the request to the first beat
    dma_row: int = 1  # between two rows of a 2-D transfer
    issue: int = 4  # decoding one instruction
    fill: int = 8  # filling the pipeline of the matrix unit or the ALU
    alu_ii_imm: int = 2  # cycles between two operations with an immediate (HLS 2, Chisel 1)
    alu_ii_reg: int = 2  # ... with two register operands: they share one read port
    token_latency: int = 1  # from the end of the pushing instruction to the pop
    command_queue: int = 512  # instructions that wait in front of each unit (Vivado project)
    token_queue: int = 1024  # tokens that wait in one dependence queue (Vivado project)
    rmw_distance: int = 3  # micro-operations until a written accumulator may be read

    def __post_init__(self) -> None:
        """Raise ArgumentError for parameters that no machine can have."""
        check_text("name of an accelerator", self.name, 'name="mine"')
        for name in (f.name for f in fields(self) if f.name != "name"):
            kind, kinds, most = "an int", (int,), MAX_SIZE
            if name == "clock_hz":
                kind, kinds, most = "a number", (int, float), 1e12
            value, least = getattr(self, name), 0 if name in MAY_BE_ZERO else 1
            if type(value) not in kinds or not least <= value <= most:
                what = f"{name}={value!r} of accelerator {self.name!r}"
                raise ArgumentError(what, f"expected {kind} from {least} to {most}")
        for memory in Memory:
            if self.depth(memory) & (self.depth(memory) - 1) or not self.depth(memory):
                raise ArgumentError(
                    f"accelerator {self.name!r}",
                    f"{memory.name} has {self.depth(memory)} elements of "
                    f"{self.element_bytes(memory)} bytes, which is not a power of two",
                    "memories of 2, 4, 8, ... elements",
                )

    def element_shape(self, memory: Memory) -> tuple[int, ...]:
        """Return the shape of one element: (1, 16) for INP of the 16 x 16 machine."""
        match memory:
            case Memory.UOP:
                return ()
            case Memory.WGT:
                return self.block_out, self.block_in
            case Memory.INP:
                return self.batch, self.block_in
            case Memory.ACC | Memory.OUT | Memory.ACC_8BIT:
                return self.batch, self.block_out

    def dtype(self, memory: Memory) -> str:
        """Return the type of the numbers in an element."""
        return {Memory.UOP: "uint32", Memory.ACC: "int32"}.get(memory, "int8")

    def element_bytes(self, memory: Memory) -> int:
        """Return the bytes of one element: 16 for INP of the 16 x 16 machine, 64 for ACC."""
        return prod(self.element_shape(memory)) * (4 if memory in (Memory.UOP, Memory.ACC) else 1)

    def depth(self, memory: Memory) -> int:
        """Return the capacity of a memory in elements; OUT and ACC_8BIT are views of ACC."""
        size = {
            Memory.UOP: self.uop_bytes,
            Memory.WGT: self.wgt_bytes,
            Memory.INP: self.inp_bytes,
        }.get(memory, self.acc_bytes)
        return size // self.element_bytes(memory.on_chip)

    def transfer_cycles(self, element: int, x: int, y: int, padded: int) -> int:
        """Return the cycles of a transfer of y rows of x elements, each of `element` bytes.

        padded   the number of elements of padding
        """
        beats = -(-x * element // self.port_bytes)
        return self.issue + self.dma_latency + y * (beats + self.dma_row) + padded

    @property
    def macs_per_cycle(self) -> int:
        """Return the multiply-adds of one micro-operation: 256 for 1 x 16 x 16."""
        return self.batch * self.block_in * self.block_out


MAY_BE_ZERO = {"dma_latency", "dma_row", "issue", "fill", "token_latency"}
MAX_SIZE = 1 << 28  # limit of any size or time; the simulator needs three times the bytes for uops


def check_config(config: object) -> None:
    """Raise ArgumentError unless `config` is a Config."""
    check_kind("config", config, Config, fix="vta_pynq")


# the machine of the open-source VTA release on a Pynq board
vta_pynq = Config(name="vta_pynq")
# the machine of the OSDI'18 measurements: twice the clock, an eighth of the weights
vdla_osdi18 = Config(name="vdla_osdi18", wgt_bytes=32 << 10, clock_hz=200e6)
# the machine of the TVM slides: 8 x 8 tiles of A, B and C
vdla8x8 = Config(name="vdla8x8", batch=8, block_in=8, block_out=8, wgt_bytes=32 << 10)

CONFIGS = {config.name: config for config in (vta_pynq, vdla_osdi18, vdla8x8)}
