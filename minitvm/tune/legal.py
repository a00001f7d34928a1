"""Rules that exclude rows from measuring: rows that are unlikely to be fast, or slow to compile.

A row is left out if in one of its statements

    the vectorized loop fills less than half a vector register, although its axis is longer
    the register tile is unrolled completely and has more accumulators than there are registers
    unrolling leaves more than MAX_STORES stores, where a vector store counts once per register
    a "local" buffer is larger than the stack that programs use

They refuse four of five rows drawn uniformly for a matrix product. The limits are rules of thumb:
they may also refuse a fast row. A GPU has rules of its own; see legal_gpu.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minitvm.base import Target

from .affine import Num
from .legal_gpu import launchable
from .sketch import Sketch
from .space import Mask, Rows
from .statements import Batch, Loop, Statement, statements

MAX_STORES = 256  # after unrolling: LLVM's compile time grows faster than the number of stores
STACK_BYTES = 64 << 10  # codegen allocates larger local buffers on the heap, in every iteration


def legal_rows(sketch: Sketch, rows: Rows, target: Target) -> Mask:
    """Return which rows may be measured on `target`."""
    return statements(sketch).table(rows, lambda b: legal_in(b, target), accesses=False)


def restricted(sketch: Sketch, target: Target) -> Sketch:
    """Return the sketch with a space that allows only rows that may be measured on `target`."""

    def allowed(rows: Rows) -> Mask:
        return sketch.space.legal(rows) & legal_rows(sketch, rows, target)

    return replace(sketch, space=replace(sketch.space, allowed=allowed))


def legal_in(batch: Batch, target: Target) -> Mask:
    """Return which candidates of a batch may be measured on `target`."""
    if target.kind == "cuda":
        return launchable(batch, target)
    legal = np.ones(batch.count, np.bool_)
    stores: Num = 0
    for s in batch.statements:
        legal &= _wide_enough(s, target)
        times, registers = unrolled(s), registers_per_store(s, target)
        legal &= accumulators(s, times, registers) <= target.vector_registers
        stores = stores + math.prod(times) * registers
        if s.scope == "local":
            legal &= np.asarray(s.allocated * s.bytes <= STACK_BYTES)
    return legal & (stores <= MAX_STORES)


def _wide_enough(s: Statement, target: Target) -> Mask:
    """Return for which candidates the vectorized loop fills half a register, or a shorter axis."""
    loop = vectorized(s)
    if loop is None:
        return np.True_  # type: ignore[return-value]  # broadcasts
    half = target.vector_bytes // s.bytes // 2
    return np.asarray(loop.extent >= np.minimum(half, s.axis))


def vectorized(s: Statement) -> Loop | None:
    """Return the vectorized loop of a statement."""
    return next((x for x in s.loops if x.kind == "vectorize"), None)


def registers_per_store(s: Statement, target: Target) -> Num:
    """Return the number of vector registers that one store of the statement writes."""
    loop, lanes = vectorized(s), max(1, target.vector_bytes // s.bytes)
    return 1 if loop is None else -(-loop.extent // lanes)


def unrolled(s: Statement) -> list[Num]:
    """Return for each loop how many copies of its body unrolling makes; 1 where it stays a loop.

    Under the pragma, a serial loop is unrolled if its copies have few enough stores, inner loops
    first, as in lowering. Other statements in the same loop are not counted.
    """
    copies: list[Num] = []
    stores: Num = 1
    limit = s.auto_unroll * (np.asarray(s.explicit) > 0)
    for x in reversed(s.loops):
        times: Num = 1
        if x.kind == "unroll":
            times = x.extent
        elif x.kind == "serial" and np.any(limit):
            times = np.where(x.extent * stores <= limit, x.extent, 1)
        stores = stores * times
        copies.insert(0, times)
    return copies


def accumulators(s: Statement, times: Sequence[Num], each: Num) -> Num:
    """Return how many registers hold the results of the loops inside the innermost reduce loop.

    Zero if these loops are not unrolled completely, because the results then stay in memory.

    times   copies of each loop's body after unrolling; each: number of registers a store writes
    """
    if not any(x.reduce for x in s.loops):
        return 0
    registers: Num = each
    for n, is_inside in tile(s).items():
        x = s.loops[n]
        if x.kind != "vectorize":
            registers = registers * np.where(is_inside, x.extent * (times[n] == x.extent), 1)
    return registers


def tile(s: Statement) -> dict[int, Mask]:
    """Return the data loops inside the innermost reduce loop that has several iterations.

    Returns {number of a loop: for which candidates it is inside}; {} without reduce loops.
    """
    loops = dict[int, Mask]()
    inside: Mask = np.asarray(any(x.reduce for x in s.loops))
    for n, x in reversed(list(enumerate(s.loops))):
        if x.reduce:
            inside = inside & (np.asarray(x.extent) <= 1)
        if not inside.any():
            break
        if not x.reduce:
            loops[n] = inside
    return loops
