"""AMX, the matrix unit of Intel's server CPUs: its memory, its instructions and what they mean.

Eight tile registers hold up to 16 rows of 64 bytes each. They are the memory "amx.tile"; only these
calls access it. Arguments are views of buffers:

    amx.zero(T)          T[...] = 0
    amx.load(T, A, n)    T[i] = A[i * n]: each row of T from one row of A
    amx.dp(C, A, B)      C[i, j] += sum(A[i, k] * B[k // 4, j, k % 4], k): bytes, summed in int32
                         C[i, j] += sum(A[i, k] * B[k // 2, j, k % 2], k): bfloat16, in float32
    amx.store(D, T)      D[...] = T

The functions registered here compute the same in numpy, so that the interpreter and the target
"python" run such programs on any machine.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
"""

from __future__ import annotations

from typing import Any

from .call import built_in

SCOPE = "amx.tile"
REGISTERS, ROWS, ROW_BYTES = 8, 16, 64
ZERO, LOAD, DP, STORE = "amx.zero", "amx.load", "amx.dp", "amx.store"


@built_in(ZERO)
def _zero(tile: Any) -> None:
    tile[...] = 0


@built_in(LOAD)
def _load(tile: Any, rows: Any, step: int) -> None:
    tile[...] = rows[:: int(step)]


@built_in(DP)
def _dp(sums: Any, a: Any, b: Any) -> None:
    right = b.transpose(0, 2, 1).reshape(-1, b.shape[1])
    sums += a.astype(sums.dtype) @ right.astype(sums.dtype)


@built_in(STORE)
def _store(memory: Any, tile: Any) -> None:
    memory[...] = tile
