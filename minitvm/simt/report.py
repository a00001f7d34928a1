"""What a simulated launch reports: faults, and counts of what each access cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from minitvm import tir
from minitvm.base import TVMError, plural

from .threads import Launch, Numbers
from .traffic import SECTOR, Cost

OUT_OF_BOUNDS = "out of bounds"
UNINITIALISED = "read before it is written"
UNDER_WAY = "read before it arrives"
DIVERGENT = "divergent barrier"
INACTIVE = "shuffle from an inactive lane"
EXTENT = "wrong number of threads"
READ_AFTER_WRITE, WRITE_AFTER_READ = "read after write", "write after read"
WRITE_AFTER_WRITE, REDUNDANT = "write after write", "redundant writes"
RACES = (READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE)


class KernelError(TVMError):
    """Raised when a simulated kernel does what has no defined result on a GPU."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of error at one access, with the first threads that show it.

    kind     one of the constants of this file; REDUNDANT (several threads write the same value) is
             harmless, all others are errors
    access   the access or statement, as the program prints it
    thread   the thread of the access; "" if all threads do it. `number` counts it in the whole grid
    other    the access that conflicts with it, and other_thread its thread
    detail   the element, the condition or the numbers that explain the fault
    lanes    how many threads of the batch showed it at once
    buffer   the buffer that a race is about, and `element` the number of the element in it
    """

    kind: str
    access: str
    thread: str = ""
    other: str = ""
    other_thread: str = ""
    detail: str = ""
    lanes: int = 0
    number: int = -1
    buffer: tir.Buffer | None = None
    element: int = 0

    @property
    def harmless(self) -> bool:
        """Whether the program's results are defined in spite of it."""
        return self.kind == REDUNDANT

    def __str__(self) -> str:
        text = f"{self.kind}: {self.access}"
        if self.thread:
            text += f" in {self.thread}"
        if self.other:
            text += f", and {self.other}" + (
                f" in {self.other_thread}" if self.other_thread else ""
            )
        return text + (f"; {self.detail}" if self.detail else "")


@dataclass(slots=True)
class AccessCounts:
    """What one load or store of the program cost, summed over all its executions.

    space       "global", "shared" or "warp"
    stores      whether it is a store
    runs        how often a batch of threads executed it
    lanes       how many threads executed it
    requests    how many warps issued it
    sectors     32-byte sectors of global memory that were moved
    needed      the bytes of global memory that the warps asked for, each element once a request
    wavefronts  passes over the banks of shared memory; 1 a request without bank conflicts
    """

    access: str
    space: str
    stores: bool = False
    runs: int = 0
    lanes: int = 0
    requests: int = 0
    sectors: int = 0
    needed: int = 0
    wavefronts: int = 0

    def add(self, lanes: int, cost: Cost) -> None:
        """Add one execution by `lanes` threads."""
        self.runs += 1
        self.lanes += lanes
        self.requests += cost.requests
        self.sectors += cost.sectors
        self.needed += cost.needed
        self.wavefronts += cost.wavefronts

    @property
    def sectors_per_request(self) -> float:
        """4 for 32 adjacent 4-byte elements; 32 if each thread reads from a sector of its own."""
        return self.sectors / max(1, self.requests)

    @property
    def useful(self) -> float:
        """The share of the moved bytes that threads asked for, from 0 to 1."""
        return self.needed / max(1, self.sectors * SECTOR)

    @property
    def wavefronts_per_request(self) -> float:
        """1 without bank conflicts; 32 if all lanes of a warp read from one bank."""
        return self.wavefronts / max(1, self.requests)


@dataclass(slots=True)
class KernelReport:
    """The launch of one kernel: its faults, the counts of its accesses, its barriers.

    barriers       how many barriers a batch of blocks passed, summed over the batches
    instructions   instructions that warps issued, apart from accesses and barriers: arithmetic, and
                   the counters of loops; without the arithmetic of indices
    shared, local  bytes of shared memory of a block, and of the arrays of a thread
    """

    name: str
    launch: Launch
    faults: list[Fault] = field(default_factory=list[Fault])
    accesses: list[AccessCounts] = field(default_factory=list[AccessCounts])
    barriers: int = 0
    instructions: int = 0
    shared: int = 0
    local: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Executed:
    """An access of global or shared memory that the threads of a batch have executed together.

    kernel    the report of its kernel so far, and `number` the place of the access in it
    node      the Load or Store
    threads   the threads that took part, numbered in the whole grid
    index     the element that each of them accessed, the first one of `width` adjacent elements
    passed    how many barriers the block of each had passed
    """

    kernel: KernelReport
    number: int
    node: tir.Load | tir.Store
    threads: Numbers
    index: Numbers
    width: int
    passed: Numbers


Watch: TypeAlias = Callable[[Executed], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What running a program on the simulated GPU has shown; print it to see a table."""

    kernels: tuple[KernelReport, ...]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The errors, without harmless ones."""
        return tuple(f for k in self.kernels for f in k.faults if not f.harmless)

    @property
    def races(self) -> tuple[Fault, ...]:
        """The pairs of accesses that no barrier orders."""
        return tuple(f for f in self.faults if f.kind in RACES)

    @property
    def ok(self) -> bool:
        """Whether no thread did anything whose result is undefined."""
        return not self.faults

    def __str__(self) -> str:
        return "\n\n".join("\n".join(_lines(kernel)) for kernel in self.kernels)

    __repr__ = __str__


def raise_faults(name: str, faults: Sequence[Fault]) -> None:
    """Raise KernelError about the first of `faults`, if there is one."""
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise KernelError(f"{name} on a GPU", f"{faults[0]}{more}", ADVICE[faults[0].kind])


ADVICE = {
    OUT_OF_BOUNDS: "check the indices of the formula and the shapes of the arguments",
    UNINITIALISED: "let a thread write the element, and put a barrier after it",
    UNDER_WAY: "wait for the asynchronous copy, and put a barrier after it",
    DIVERGENT: "move the barrier out of the condition, so that all threads of a block reach it",
    INACTIVE: "move the shuffle out of the condition, so that all lanes of a warp reach it",
    EXTENT: "launch as many threads as the loops have iterations",
    READ_AFTER_WRITE: "put a barrier between the write and the read",
    WRITE_AFTER_READ: "put a barrier between the read and the write",
    WRITE_AFTER_WRITE: "let one thread write the element",
    REDUNDANT: "let one thread write the element",
}


def _lines(kernel: KernelReport) -> list[str]:
    """Return the lines of a report on one kernel: a table of its accesses, then its faults."""
    lines = [f"{kernel.name}: {kernel.launch}, {kernel.barriers} barrier{plural(kernel.barriers)}"]
    table = [("access", "memory", "threads", "sectors/request", "useful", "wavefronts/request")]
    for a in (a for a in kernel.accesses if a.runs):
        sectors, useful, wavefronts = f"{a.sectors_per_request:.1f}", f"{a.useful:.0%}", ""
        if a.space != "global":
            sectors, useful, wavefronts = "", "", f"{a.wavefronts_per_request:.1f}"
        table.append((a.access, a.space, str(a.lanes), sectors, useful, wavefronts))
    if len(table) > 1:
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            cells = [
                cell.ljust(w) if n < 2 else cell.rjust(w)
                for n, (cell, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(("  " + "  ".join(cells)).rstrip())
    return [*lines, *(f"  {'note' if f.harmless else 'FAULT'}: {f}" for f in kernel.faults)]
