"""What a kernel needs of a GPU, read from the reports of ptxas and from SASS."""

from __future__ import annotations

import re
from dataclasses import dataclass

from minitvm import simt

# HMMA is a product of tiles on tensor cores. Not HFMA2, which ptxas also uses to load constants.
MULTIPLY_ADDS = ("FFMA", "FFMA2", "DFMA", "HMMA")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)([^;]*)")
LABEL = re.compile(r"^(\.L_\w+):")
TARGET = re.compile(r"`\((\.L_\w+)\)")
HEAD = (
    *("kernel", "threads", "registers", "spilled", "stack", "shared"),
    *("multiply-adds", "of", "blocks", "occupancy", "limit"),
)


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one kernel needs, by the compiler's report; how many of its blocks run at a time.

    threads        threads of a block
    registers      registers of a thread
    spilled        bytes of values that a thread moves to memory for lack of registers
    stack          bytes of memory of a thread that are no registers: spilled values, local arrays
    shared         bytes of shared memory of a block
    multiply_adds  the share of fused multiply-adds in the instructions of the main loop, 0 to 1:
                   the loop with most of them, or all code if none is in a loop
    instructions   how many instructions these are
    """

    name: str
    threads: int
    registers: int
    spilled: int
    stack: int
    shared: int
    multiply_adds: float
    instructions: int

    @property
    def blocks(self) -> int:
        """How many blocks a multiprocessor of sm_90 can hold at a time."""
        return simt.resident_blocks(self.threads, self.registers, self.shared)

    @property
    def limit(self) -> str:
        """What limits the number of blocks: "registers", "shared memory", "warps" or "blocks"."""
        limits = simt.block_limits(self.threads, self.registers, self.shared)
        return min(limits, key=limits.__getitem__)

    @property
    def occupancy(self) -> float:
        """The share of a multiprocessor's 64 warps that can be active, from 0 to 1.

        An upper bound: a grid with few blocks leaves multiprocessors empty.
        """
        return self.blocks * simt.warps_of(self.threads) / simt.MAX_WARPS


class Resources(tuple[KernelResources, ...]):
    """What the kernels of a function need, in order; print it to see a table."""

    __slots__ = ()

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [HEAD]
        for k in self:
            numbers = (k.threads, k.registers, k.spilled, k.stack, k.shared)
            share = f"{k.multiply_adds:.1%}", str(k.instructions)
            residency = str(k.blocks), f"{k.occupancy:.0%}", k.limit
            rows.append((k.name, *map(str, numbers), *share, *residency))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = list[str]()
        for row in rows:
            cells = zip(row, widths, strict=True)
            name, *others = (c.ljust(w) if c is row[0] else c.rjust(w) for c, w in cells)
            lines.append("  ".join([name, *others]))
        lines.append("registers, spilled and stack bytes of a thread; shared bytes of a block;")
        lines.append("share of multiply-adds in the main loop, of so many instructions;")
        lines.append("blocks that a multiprocessor of sm_90 holds at a time, and what limits them")
        return "\n".join(lines)

    __repr__ = __str__


def parse_resources(name: str, threads: int, log: str, sass: str) -> KernelResources:
    """Return the resources of a kernel, from the output of `ptxas -v` and of `nvdisasm -c`."""
    share, instructions = main_loop(sass)
    return KernelResources(
        name,
        threads,
        registers=max(_numbers(r"Used (\d+) registers", log)),
        spilled=sum(_numbers(r"(\d+) bytes spill stores", log)),
        stack=max(_numbers(r"(\d+) bytes stack frame", log)),
        shared=max(_numbers(r"(\d+) bytes smem", log)),
        multiply_adds=share,
        instructions=instructions,
    )


def main_loop(sass: str) -> tuple[float, int]:
    """Return the share of multiply-adds in the main loop of a kernel, and its instructions.

    A loop reaches from a label to a branch back to it. The main loop is the one with the most
    multiply-adds, and the shortest one of those: the innermost.
    """
    codes: list[str] = []
    labels: dict[str, int] = {}
    loops: list[slice] = []
    for line in sass.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(codes)
        elif instruction := INSTRUCTION.match(line):
            codes.append(instruction[1])
            target = TARGET.search(instruction[2])
            if codes[-1] == "BRA" and target and target[1] in labels:
                loops.append(slice(labels[target[1]], len(codes)))
    all_codes = [c for c in codes if c != "NOP"]
    bodies = [codes[loop] for loop in loops]
    body = max(bodies, key=lambda b: (_multiply_adds(b), -len(b)), default=all_codes)
    if not _multiply_adds(body):
        body = all_codes
    return _multiply_adds(body) / max(1, len(body)), len(body)


def _multiply_adds(codes: list[str]) -> int:
    return sum(c in MULTIPLY_ADDS for c in codes)


def _numbers(pattern: str, text: str) -> list[int]:
    """Return the numbers that a pattern finds; ptxas leaves out what a kernel does not use."""
    return [int(n) for n in re.findall(pattern, text)] or [0]
