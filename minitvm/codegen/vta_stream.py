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
        self.uops: list[Uop] = []
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
        place = self.cache.resident.get((kind, uops))
        if place is None:
            place, dram = self.cache.add(kind, uops, len(self.uops))
            if dram == len(self.uops):
                self.uops += uops
            self.add(Load(memory=Memory.UOP, sram=place, dram=dram, x=len(uops)))
        return place, place + len(uops)

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
    """What is in the memory for micro-operations; the oldest are overwritten first."""

    def __init__(self, depth: int) -> None:
        self.depth, self.end = depth, 0
        self.resident: dict[tuple[str, tuple[Uop, ...]], int] = {}
        self.stored: dict[tuple[str, tuple[Uop, ...]], int] = {}  # where in main memory

    def add(self, kind: str, uops: tuple[Uop, ...], stored: int) -> tuple[int, int]:
        """(its place, where in main memory it is loaded from): at `stored` if it is new."""
        n = len(uops)
        if n > self.depth:
            raise BuildError(
                f"a {kind} of {n} or more micro-operations",
                f"the memory for them holds {self.depth}",
                "smaller loops inside one instruction: split, and reorder the outer part outside",
            )
        if self.end + n > self.depth:
            self.end = 0
        place = self.end
        self.resident = {
            key: at
            for key, at in self.resident.items()
            if at + len(key[1]) <= place or at >= place + n
        }
        self.resident[kind, uops] = place
        self.end += n
        return place, self.stored.setdefault((kind, uops), stored)
