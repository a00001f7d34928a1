"""The stream of instructions under construction: tokens become flags of the instructions around."""

from __future__ import annotations

from dataclasses import replace

from minitvm.accel import (
    NO_FLAGS,
    Finish,
    Flags,
    Instruction,
    Load,
    Memory,
    Unit,
    Uop,
    is_nop,
    nop,
    unit_of,
)
from minitvm.base import BuildError

MOST = 1 << 18  # instructions: 4 MB of them
ROW = tuple(Unit)  # load, compute, store: prev and next of each are its neighbours


class Stream:
    """Instructions in the order in which they are fetched, and the micro-operations they load.

    A pop waits for the next instruction of its unit, a push is added to the last instruction of the
    stream if that is its unit's; where there is none, a nop carries the token. An instruction pops
    and pushes at most one token of each neighbour.

    Source: InsnQueue in the runtime of VTA (runtime.cc).
    """

    def __init__(self, uop_depth: int) -> None:
        self.instructions: list[Instruction] = []
        self.waiting: dict[Unit, Flags] = dict.fromkeys(Unit, NO_FLAGS)  # pops
        self.cache = UopCache(uop_depth)

    def add(self, instruction: Instruction) -> None:
        """The next instruction; it takes the tokens that its unit is to pop."""
        unit = unit_of(instruction)
        if len(self.instructions) >= MOST:
            raise BuildError(
                f"a program of more than {MOST} instructions",
                "each iteration of a loop around instructions makes its own",
                "larger tiles; or pragma 'trim_loop' to look at two iterations of a loop",
            )
        self.instructions.append(replace(instruction, flags=self.waiting[unit]))
        self.waiting[unit] = NO_FLAGS

    def pop(self, source: Unit, to: Unit) -> None:
        """`to` waits for a token of `source` before its next instruction."""
        side = f"pop_{_side(to, source)}"
        if getattr(self.waiting[to], side):
            self._commit(to)
        self.waiting[to] = replace(self.waiting[to], **{side: True})

    def push(self, source: Unit, to: Unit) -> None:
        """`source` gives `to` a token after all of its instructions so far."""
        self._commit(source)
        side = f"push_{_side(source, to)}"
        last = self.instructions[-1] if self.instructions else None
        if last is not None and _carrier(last) is source and not getattr(last.flags, side):
            flags = replace(last.flags, **{side: True})
            self.instructions[-1] = replace(last, flags=flags)
        else:
            self.instructions.append(nop(source, Flags(**{side: True})))

    def finish(self) -> None:
        """All units are done when the program is."""
        self.push(Unit.STORE, Unit.COMPUTE)
        self.push(Unit.LOAD, Unit.COMPUTE)
        self.pop(Unit.STORE, Unit.COMPUTE)
        self.pop(Unit.LOAD, Unit.COMPUTE)
        for unit in Unit:
            self._commit(unit)
        self.instructions.append(Finish())

    def kernel(self, kind: str, uops: tuple[Uop, ...]) -> tuple[int, int]:
        """Where the micro-operations lie in the unit's memory: loaded if they are not there.

        kind: kernels of different kinds have copies of their own, as in VTA's runtime.
        """
        if not self.cache.holds(kind, uops):
            self.add(self.cache.load(kind, uops))
        begin = self.cache.resident[kind, uops]
        return begin, begin + len(uops)

    def _commit(self, unit: Unit) -> None:
        """A nop takes the tokens that the unit is to pop."""
        if self.waiting[unit] != NO_FLAGS:
            self.instructions.append(nop(unit, self.waiting[unit]))
            self.waiting[unit] = NO_FLAGS


def _side(unit: Unit, other: Unit) -> str:
    """Is `other` the neighbour before or after `unit`?"""
    step = ROW.index(other) - ROW.index(unit)
    assert abs(step) == 1, "inject_coproc_sync refuses tokens between load and store"
    return "next" if step > 0 else "prev"


def _carrier(instruction: Instruction) -> Unit | None:
    """The unit whose push an instruction may carry; a nop that loads nothing has done its part."""
    if isinstance(instruction, Load) and is_nop(instruction):
        return None
    return unit_of(instruction)


class UopCache:
    """Kernels of micro-operations in main memory, and in the memory on chip.

    On chip they lie one behind the other; where one does not fit behind the last, the next place is
    the beginning, and what it overwrites is gone.

    uops       all of main memory's
    stored     where in main memory a kernel of a kind begins
    resident   where on chip it begins, for those that are there
    """

    def __init__(self, depth: int) -> None:
        self.depth, self.end = depth, 0
        self.uops: list[Uop] = []
        self.stored: dict[tuple[str, tuple[Uop, ...]], int] = {}
        self.resident: dict[tuple[str, tuple[Uop, ...]], int] = {}

    def holds(self, kind: str, kernel: tuple[Uop, ...]) -> bool:
        """Is the kernel on chip?"""
        return (kind, kernel) in self.resident

    def load(self, kind: str, kernel: tuple[Uop, ...]) -> Load:
        """The instruction that brings a kernel onto the chip; the first time it is stored, too."""
        n = len(kernel)
        if n > self.depth:
            raise BuildError(
                f"a {kind} of {n} or more micro-operations",
                f"the memory for them holds {self.depth}",
                "smaller loops inside one instruction: split, and reorder the outer part outside",
            )
        if (kind, kernel) not in self.stored:
            self.stored[kind, kernel] = len(self.uops)
            self.uops += kernel
        begin = 0 if self.end + n > self.depth else self.end
        self.end = begin + n
        self.resident = {
            key: at
            for key, at in self.resident.items()
            if at + len(key[1]) <= begin or at >= self.end
        }
        self.resident[kind, kernel] = begin
        return Load(memory=Memory.UOP, sram=begin, dram=self.stored[kind, kernel], x=n)
