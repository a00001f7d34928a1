"""Accesses of memory in kernels for numba.cuda; the generated source imports them.

On a GPU they are intrinsics: loads and stores without numba's test for negative indices, copies of
16 bytes, and asynchronous copies from global to shared memory (inline PTX). In numba's own
simulator (NUMBA_ENABLE_CUDASIM=1) they are the Python functions below. The instructions of tensor
cores have no such functions, since numba's simulator runs one thread after the other.
The intrinsics were compiled, but not run on a device.
"""

from __future__ import annotations

import os
from typing import Any

from .gpu_intrinsics import ADDRESS_BYTES, intrinsics


def ld(a: Any, i: Any) -> Any:
    """Return a[i]."""
    return a[i]


def st(a: Any, i: Any, value: Any) -> None:
    """Store `value` in a[i]."""
    a[i] = value


def cp16(to: Any, i: Any, source: Any, j: Any) -> None:
    """Copy 16 bytes from source[j] to to[i]; both are at multiples of 16 bytes."""
    for n in range(ADDRESS_BYTES // to.itemsize):
        to[i + n] = source[j + n]


def cp_async16(to: Any, i: Any, source: Any, j: Any, inside: Any) -> None:
    """Copy as cp16 does, but do not wait; copy zeros if not `inside`. `to` is in shared memory."""
    for n in range(ADDRESS_BYTES // to.itemsize):
        to[i + n] = source[j + n] if inside else 0


def cp_async4(to: Any, i: Any, source: Any, j: Any, inside: Any) -> None:
    """Copy source[j], of 4 bytes, to to[i], but do not wait; copy a zero if not `inside`."""
    to[i] = source[j] if inside else 0


def cp_async_wait() -> None:
    """Wait until all asynchronous copies of this thread have arrived."""


if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "1":
    globals().update(intrinsics())
