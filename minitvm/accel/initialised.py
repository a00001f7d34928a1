"""Find reads of uninitialised elements, which contain the data of earlier programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .config import Config, Memory
from .elements import Indices, Ints
from .footprints import Access, Footprints
from .isa import Gemm, Load, Store
from .program import Program
from .tokens import in_order

NEVER, LOADED, COMPUTED = range(3)  # how an element was last written


@dataclass(frozen=True, slots=True)
class Uninitialised:
    """Instruction `index` is the first to read `space`[element], before any write to it."""

    index: int
    space: str
    element: int


@dataclass(frozen=True, slots=True)
class Stale:
    """Instruction `index` stores ACC[element], although a LOAD has written the element last.

    Hardware stores from OUT, the narrowed copy of ACC that only GEMM and ALU write.
    """

    index: int
    element: int


def memory_faults(
    program: Program, config: Config, resolved: tuple[Indices | None, ...], footprints: Footprints
) -> tuple[tuple[Uninitialised, ...], tuple[Stale, ...]]:
    """Return the uninitialised reads and the stale stores of a program.

    One legal order suffices: without races, each read sees the same write in every order. Each
    element is reported once, and each instruction once per memory. The host initialises DRAM.
    """
    written = {m: np.zeros(config.depth(m), np.uint8) for m in Memory if m.on_chip is m}
    reads: list[Uninitialised] = []
    stale: list[Stale] = []
    for n in in_order(program):
        instruction = program.instructions[n]
        reset = isinstance(instruction, Gemm) and instruction.reset
        reads_first = not isinstance(instruction, Load) and not reset  # the elements that it writes
        for access in footprints.of(instruction, resolved[n]):
            if not isinstance(access.space, Memory):
                continue
            state = written[access.space]
            if not access.writes or reads_first:
                at = _first(access, state, NEVER)
                if at is not None:
                    reads.append(Uninitialised(n, access.space.name, at))
                    previous = state[access.elements]  # each element is reported once
                    state[access.elements] = np.where(previous == NEVER, COMPUTED, previous)
                loaded = _first(access, state, LOADED) if isinstance(instruction, Store) else None
                if loaded is not None:
                    stale.append(Stale(n, loaded))
            if access.writes:
                state[access.elements] = LOADED if isinstance(instruction, Load) else COMPUTED
    return tuple(reads), tuple(stale)


def _first(access: Access, state: Ints, kind: int) -> int | None:
    """Return the first element of an access that is in the state `kind`, or None."""
    at = np.flatnonzero(state[access.elements] == kind)
    if not len(at):
        return None
    elements = access.elements
    return int(elements.start + at[0] if isinstance(elements, slice) else elements[at[0]])
