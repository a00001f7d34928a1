"""The instructions of tensor cores, by the lanes and registers in which they keep their tiles.

A warp keeps a tile of a matrix in its registers, with scope "warp.mma": lane l of the warp has the
elements l*R .. l*R + R - 1 of the memory of a tile, its R registers. Which elements of the matrix
they are is a matter of the instruction.

Source: NVIDIA, PTX ISA, sections "ldmatrix" and "Matrix Fragments for mma.m16n8k16".
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import tir

Numbers: TypeAlias = npt.NDArray[np.int64]
SCOPE = "warp.mma"
LOAD_A, LOAD_B, STORE = "mma.load_a", "mma.load_b", "mma.store"
ZERO, SYNC = "mma.zero", "mma.sync"
INSTRUCTIONS = (LOAD_A, LOAD_B, STORE, ZERO, SYNC)
LANES = np.arange(32)
M, N, K = 16, 8, 16  # a product of M x K and K x N elements


class Fragment(NamedTuple):
    """Where the elements of a tile are: (row, column) for each lane and register, [32, R]."""

    rows: Numbers
    columns: Numbers
    shape: tuple[int, int]

    @property
    def registers(self) -> int:
        """How many elements a lane has."""
        return self.rows.shape[1]


def local_elements(b: tir.Buffer) -> tir.Index:
    """Return how many elements of a thread's own memory, or of its part of a tile, a thread has."""
    size = tir.elements(b)
    return tir.floordiv(size, len(LANES)) if b.scope == SCOPE else size


def _fragments() -> dict[str, Fragment]:
    """Return the fragments of mma.m16n8k16: groups of 4 lanes, each lane with pairs of elements."""
    group, pair = LANES[:, None] // 4, LANES[:, None] % 4 * 2
    r = np.arange(8)[None, :]
    a = Fragment(group + 8 * (r // 2 % 2), pair + r % 2 + 8 * (r // 4), (M, K))
    r = r[:, :4]
    b = Fragment(pair + r % 2 + 8 * (r // 2), np.broadcast_to(group, (32, 4)), (K, N))
    c = Fragment(group + 8 * (r // 2), pair + r % 2, (M, N))
    return {"a": a, "b": b, "c": c}


FRAGMENTS = _fragments()
IN_MEMORY = {LOAD_A: "a", LOAD_B: "b", STORE: "c"}  # the fragments that are loaded and stored
# The row of a tile in shared memory whose address each lane gives to ldmatrix, and the column where
# the 8 elements begin: four matrices of 8 x 8 for a, two for b.
A_ROW, A_COLUMN = LANES % 16, LANES // 16 * 8
B_ROW = LANES % 16


def ldmatrix(rows: Numbers, transposed: bool) -> Numbers:
    """Return the addresses, [warps, 32, R], of the elements that lanes get from 8 x 8 matrices.

    rows   the address of each row, [warps, rows], 8 for each matrix
    transposed: as with the suffix .trans
    """
    matrices = rows.reshape(len(rows), -1, 8)
    group, pair = LANES // 4, LANES % 4 * 2
    halves = [
        matrices[:, :, pair + e] + group if transposed else matrices[:, :, group] + pair + e
        for e in (0, 1)
    ]  # [warps, matrices, 32] each
    pairs = np.stack(halves, axis=2)
    return pairs.reshape(len(rows), -1, len(LANES)).transpose(0, 2, 1)


def mma(a: Any, b: Any, c: Any) -> Any:
    """Return c + a @ b, all given and returned as registers: [warps, 32, R]."""
    left, right = _matrix(a, "a"), _matrix(b, "b")
    product = left.astype(np.float32) @ right.astype(np.float32)
    f = FRAGMENTS["c"]
    return c + product[:, f.rows, f.columns]


def _matrix(registers: Any, name: str) -> Any:
    """Return the matrices, [warps, rows, columns], that the registers of warps hold."""
    f = FRAGMENTS[name]
    matrix = np.empty((len(registers), *f.shape), registers.dtype)
    matrix[:, f.rows, f.columns] = registers
    return matrix
