"""The steps of an accelerator program: the accesses of a step, and the memories after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minitvm import accel

from .accelerator_use import Ints, Use, piece, uses

STEPS = 64  # steps per window
MEMORIES: tuple[accel.Memory, ...] = (
    accel.Memory.INP,
    accel.Memory.WGT,
    accel.Memory.ACC,
    accel.Memory.OUT,
    accel.Memory.UOP,
)


@dataclass(frozen=True, eq=False)
class Occupancy:
    """A program that was run step by step, in program order as far as the tokens permit.

    order   the number of the instruction that each step runs; a deadlock ends the steps early
    uses    the elements that each instruction reads and writes
    """

    program: accel.Program
    config: accel.Config
    order: tuple[int, ...]
    uses: tuple[Use, ...]

    @cached_property
    def used(self) -> frozenset[accel.Memory]:
        """The memories that some instruction reads or writes."""
        return frozenset(m for use in self.uses for m in (*use.reads, *use.writes))

    @cached_property
    def shown(self) -> dict[accel.Memory, int]:
        """The number of elements to draw per memory: a power of 2 that includes all used ones."""
        most = dict.fromkeys(MEMORIES, 1)
        for use in self.uses:
            for memory in (*use.reads, *use.writes):
                most[memory] = max(most[memory], int(use.elements(memory).max(initial=0)) + 1)
        return {memory: 1 << (count - 1).bit_length() for memory, count in most.items()}

    def states(self, start: int, stop: int) -> Iterator[dict[accel.Memory, Ints]]:
        """After each step from `start` to `stop` - 1, yield the last writer of each element, or -1.

        The dictionary is the same object each time: copy it to keep it.
        """
        owner = {memory: np.full(self.shown[memory], -1, np.int64) for memory in MEMORIES}
        for step, n in enumerate(self.order[:stop]):
            for memory, elements in self.uses[n].writes.items():
                owner[memory][elements] = step
            if step >= start:
                yield owner

    def text(self, step: int) -> str:
        """Name what a step wrote: "A[0:16]" for a load or store, "gemm 7" for a computation."""
        n = self.order[step]
        piece_moved = piece(self.program, self.config, n)
        name = accel.mnemonic(self.program.instructions[n])
        if piece_moved.area:
            return f"{piece_moved.area}[{span(piece_moved.elements)}]"
        return f"{name} {n}"

    def caption(self, step: int) -> str:
        """Describe a step: its instruction, what it reads and what it writes."""
        n = self.order[step]
        instruction, piece_moved = self.program.instructions[n], piece(self.program, self.config, n)
        reads, writes = (
            [f"{m.name}[{span(used[m])}]" for m in MEMORIES if m in used] for used in self.uses[n]
        )
        if piece_moved.area:
            to = writes if isinstance(instruction, accel.Store) else reads
            to.append(f"{piece_moved.area}[{span(piece_moved.elements)}]")
        name = accel.mnemonic(instruction)
        lines = [f"step {step + 1} of {len(self.order)}: instruction {n} ({name})"]
        lines += [f"reads   {', '.join(reads)}"] if reads else []
        lines += [f"writes  {', '.join(writes)}"] if writes else []
        return "\n".join(lines if len(lines) > 1 else [*lines, "moves nothing"])


def occupancy(program: accel.Program, config: accel.Config) -> Occupancy:
    """Run a program step by step; raise ArgumentError for addresses that do not exist."""
    accel.simulate(program, config)
    return Occupancy(program, config, accel.in_order(program), uses(program, config))


def runs(elements: Ints) -> list[tuple[int, int]]:
    """Group increasing numbers into half-open ranges: 0 1 2 7 -> (0, 3), (7, 8)."""
    if not len(elements):
        return []
    cuts = np.flatnonzero(np.diff(elements) != 1) + 1
    parts = np.split(elements, cuts)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]


def span(elements: Ints) -> str:
    """Return indices as a short string: "0:16", "7, 9", "2:15:4" or "0:64 (12 of them)"."""
    ranges, steps = runs(elements), np.diff(elements)
    if len(ranges) > 3 and (steps == steps[0]).all():
        return f"{ranges[0][0]}:{ranges[-1][1]}:{steps[0]}"
    if len(ranges) > 3:
        return f"{ranges[0][0]}:{ranges[-1][1]} ({len(elements)} of them)"
    return ", ".join(str(a) if b == a + 1 else f"{a}:{b}" for a, b in ranges)


def engine(program: accel.Program, n: int) -> str:
    """Return the unit that the n-th instruction uses: "dma", "gemm", "alu", or "" for none."""
    instruction = program.instructions[n]
    if isinstance(instruction, accel.Load | accel.Store):
        return "dma" if instruction.x else ""
    name = accel.mnemonic(instruction)
    return "" if name == "finish" else "gemm" if name in ("gemm", "reset") else "alu"
