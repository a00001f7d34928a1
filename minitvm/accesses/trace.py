"""The accesses of a recorded run, with the buffers and loops that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from minitvm import lowering, tir
from minitvm.base import ArgumentError, DType, brief

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Placed:
    """A buffer of the program and its address.

    shape      the shape; for a temporary buffer whose size varies during the run, the number of
               elements that were accessed
    base       the address of the first element, in bytes
    temporary  whether the program allocates the buffer; otherwise it is a parameter
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    base: int
    temporary: bool

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.bytes


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """The iterations of a loop, and when they start.

    line     the line of print(trace.program) that contains the loop, counted from 0
    around   the loops around it, outermost first, as indices into AccessTrace.loops
    starts   int64[m]: the number of accesses before each of the m iterations
    values   int64[m]: the value of the loop variable in each iteration
    """

    name: str
    line: int
    around: tuple[int, ...]
    starts: Array
    values: Array

    __repr__ = brief


@dataclass(frozen=True, slots=True, eq=False)
class AccessTrace:
    """The accesses of one run, in the order in which they were made.

    site      int32[n]: the load or store of the program that makes the access, as an index into
              `sites`
    buffer    int32[n]: the buffer, as an index into `buffers`
    index     int64[n]: the offset of the element in the buffer
    address   int64[n]: the address of the element in bytes
    write     bool[n]: whether the access is a store
    loops     the loops in the order of the program's text; sites[k].loops are indices into them
    flops     arithmetic operations on data, of any type; min, max and exp(x) count as one each
    program   the program that was run, with serial loops
    """

    site: Array
    buffer: Array
    index: Array
    address: Array
    write: Array
    sites: tuple[lowering.Access, ...]
    buffers: tuple[Placed, ...]
    loops: tuple[Iterations, ...]
    flops: int
    program: tir.PrimFunc

    @property
    def size(self) -> Array:
        """The size of each access in bytes: int64[n]."""
        return np.array([b.itemsize for b in self.buffers], np.int64)[self.buffer]

    def __len__(self) -> int:
        return len(self.site)

    def counters(self, n: int) -> dict[str, int]:
        """Return the values of the loop variables at access `n`, outermost first: {"i": 3, "k": 5}.

        A negative `n` counts from the end. Raises ArgumentError if there is no such access.
        """
        if not -len(self) <= n < len(self):
            raise ArgumentError(f"access {n}", f"there are {len(self)} accesses", "0 for the first")
        n %= len(self)
        counters: dict[str, int] = {}
        for k in self.sites[int(self.site[n])].loops:
            loop = self.loops[k]
            at = int(np.searchsorted(loop.starts, n, "right")) - 1
            counters[loop.name] = int(loop.values[at])
        return counters

    def __repr__(self) -> str:
        stores = int(np.count_nonzero(self.write))
        names = ", ".join(b.name for b in self.buffers)
        return f"<{len(self)} accesses of {names}: {len(self) - stores} loads, {stores} stores>"
