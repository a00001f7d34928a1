"""Build the stream of instructions: tokens become flags of neighbouring instructions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from minitvm import accel
from minitvm.base import BuildError

MAX_INSTRUCTIONS = 1 << 18  # instructions of a program at most: 4 MB
ROW = tuple(accel.Unit)  # load, compute, store; the neighbours of a unit are its prev and next


Site: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """The micro-operations of one statement; as in VTA's runtime, each statement has its own copy.

    site   the statement's id, and the values that its micro-operations depend on
    """

    name: str
    site: Site
    uops: tuple[accel.Uop, ...]


class Stream:
    """Instructions in the order in which they are fetched, and the micro-operations they load.

    A pop is attached to the next instruction of its unit. A push is attached to the last
    instruction of the stream if it belongs to the unit; otherwise a nop carries the token. An
    instruction pops and pushes at most one token per neighbour.

    Source: InsnQueue in the runtime of VTA (runtime.cc).
    """

    def __init__(self, uop_depth: int) -> None:
        self.instructions: list[accel.Instruction] = []
        self.waiting = dict.fromkeys(accel.Unit, accel.NO_FLAGS)  # the tokens that are to be popped
        self.cache = UopCache(uop_depth)

    def add(self, instruction: accel.Instruction) -> None:
        """Add the next instruction; it pops the tokens that its unit waits for."""
        unit = accel.unit_of(instruction)
        if len(self.instructions) >= MAX_INSTRUCTIONS:
            why = "the loops around instructions are unrolled"
            fix = "larger tiles; or pragma 'trim_loop' to look at two iterations of a loop"
            raise BuildError(f"a program of more than {MAX_INSTRUCTIONS} instructions", why, fix)
        self.instructions.append(replace(instruction, flags=self.waiting[unit]))
        self.waiting[unit] = accel.NO_FLAGS

    def pop(self, source: accel.Unit, to: accel.Unit) -> None:
        """Make `to` wait for a token of `source` before its next instruction."""
        flag = f"pop_{_side(to, source)}"
        if getattr(self.waiting[to], flag):
            self._commit(to)
        self.waiting[to] = replace(self.waiting[to], **{flag: True})

    def push(self, source: accel.Unit, to: accel.Unit) -> None:
        """Make `source` push a token to `to` after all instructions of `source` so far."""
        self._commit(source)
        flag = f"push_{_side(source, to)}"
        last = self.instructions[-1] if self.instructions else None
        if last is not None and _carrier(last) is source and not getattr(last.flags, flag):
            flags = replace(last.flags, **{flag: True})
            self.instructions[-1] = replace(last, flags=flags)
        else:
            self.instructions.append(accel.nop(source, accel.Flags(**{flag: True})))

    def finish(self) -> None:
        """End the program after all units have finished."""
        self.push(accel.Unit.STORE, accel.Unit.COMPUTE)
        self.push(accel.Unit.LOAD, accel.Unit.COMPUTE)
        self.pop(accel.Unit.STORE, accel.Unit.COMPUTE)
        self.pop(accel.Unit.LOAD, accel.Unit.COMPUTE)
        for unit in accel.Unit:
            self._commit(unit)
        self.instructions.append(accel.Finish())

    def kernel(self, kernel: Kernel) -> tuple[int, int]:
        """Return where a kernel begins and ends on chip; load the kernel if it is not resident."""
        if kernel not in self.cache.resident:
            self.add(self.cache.load(kernel))
        begin = self.cache.resident[kernel]
        return begin, begin + len(kernel.uops)

    def _commit(self, unit: accel.Unit) -> None:
        """Add a nop that pops the tokens for which the unit waits, if there are any."""
        if self.waiting[unit] != accel.NO_FLAGS:
            self.instructions.append(accel.nop(unit, self.waiting[unit]))
            self.waiting[unit] = accel.NO_FLAGS


def _side(unit: accel.Unit, other: accel.Unit) -> str:
    """Return "prev" if `other` is the unit before `unit`, "next" if it is the unit after."""
    step = ROW.index(other) - ROW.index(unit)
    assert abs(step) == 1, "inject_coproc_sync refuses tokens between load and store"
    return "next" if step > 0 else "prev"


def _carrier(instruction: accel.Instruction) -> accel.Unit | None:
    """Return the unit that runs an instruction and sends its tokens; None for an empty load."""
    if isinstance(instruction, accel.Load) and accel.is_nop(instruction):
        return None
    return accel.unit_of(instruction)


class UopCache:
    """Kernels of micro-operations in main memory and on chip.

    The on-chip memory is filled in order. A kernel that does not fit after the last one is placed
    at the beginning, and evicts the kernels that it overwrites.

    uops       all micro-operations in main memory
    stored     where each kernel begins in main memory
    resident   where each resident kernel begins on chip
    begins     the same the other way round: which kernel begins at a place on chip

    Source: UopQueue in the runtime of VTA (runtime.cc).
    """

    def __init__(self, depth: int) -> None:
        self.depth, self.end = depth, 0
        self.uops: list[accel.Uop] = []
        self.stored: dict[Kernel, int] = {}
        self.resident: dict[Kernel, int] = {}
        self.begins: dict[int, Kernel] = {}

    def load(self, kernel: Kernel) -> accel.Load:
        """Return the instruction that loads a kernel; on first use, also append it to `uops`."""
        n = len(kernel.uops)
        if n > self.depth:
            what = f"a {kernel.name} of {n} or more micro-operations"
            fix = "smaller loops in one instruction: split one, and reorder its outer part outside"
            raise BuildError(what, f"the memory on chip has space for {self.depth}", fix)
        if kernel not in self.stored:
            self.stored[kernel] = len(self.uops)
            self.uops += kernel.uops
        begin = 0 if self.end + n > self.depth else self.end
        self.end = begin + n
        for at in range(begin, self.end):  # what began before `begin` ends there, or was evicted
            if (evicted := self.begins.pop(at, None)) is not None:
                del self.resident[evicted]
        self.resident[kernel], self.begins[begin] = begin, kernel
        return accel.Load(memory=accel.Memory.UOP, sram=begin, dram=self.stored[kernel], x=n)
