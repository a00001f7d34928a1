"""The records of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from minitvm import lowering, tir
from minitvm.base import ArgumentError, DType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Placed:
    """A buffer of the program and its address.

    shape      of a temporary buffer whose size changes: the number of elements that were used
    base       the address of its first element, in bytes
    temporary  the program allocates it; others are parameters
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    base: int
    temporary: bool

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.bytes


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """The iterations of a loop, and when they start.

    around   the numbers of the loops around it, outermost first
    line     the line of print(trace.program) that has it, counted from 0
    starts   int64[m]: how many accesses were made before iteration m
    values   int64[m]: the loop's counter in it
    """

    name: str
    line: int
    around: tuple[int, ...]
    starts: Array
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class AccessTrace:
    """The accesses of one run, in program order.

    site      int32[n]: which place in the text, a position in `sites`
    buffer    int32[n]: which buffer, a position in `buffers`
    index     int64[n]: which element of it
    address   int64[n]: its address in bytes
    write     bool[n]: whether it is a store
    loops     in the order of the text; the loops around sites[k] are sites[k].loops
    flops     arithmetic operations on data, of any type; min, max and exp(x) are one each
    program   the loops that ran
    """

    site: Array
    buffer: Array
    index: Array
    address: Array
    write: Array
    sites: tuple[lowering.Site, ...]
    buffers: tuple[Placed, ...]
    loops: tuple[Iterations, ...]
    flops: int
    program: tir.PrimFunc

    @property
    def size(self) -> Array:
        """int64[n]: bytes of each access."""
        return np.array([b.itemsize for b in self.buffers], np.int64)[self.buffer]

    def __len__(self) -> int:
        return len(self.site)

    def counters(self, n: int) -> dict[str, int]:
        """Return the counters of the loops around access `n`, outermost first: {"i": 3, "k": 5}."""
        if not -len(self) <= n < len(self):
            raise ArgumentError(f"access {n}", f"there are {len(self)} accesses", "0 for the first")
        n %= len(self)
        found: dict[str, int] = {}
        for k in self.sites[int(self.site[n])].loops:
            loop = self.loops[k]
            at = int(np.searchsorted(loop.starts, n, "right")) - 1
            found[loop.name] = int(loop.values[at])
        return found

    def __repr__(self) -> str:
        stores = int(np.count_nonzero(self.write))
        names = ", ".join(b.name for b in self.buffers)
        return f"<{len(self)} accesses of {names}: {len(self) - stores} loads, {stores} stores>"
