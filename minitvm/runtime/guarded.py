"""Arrays that end at an inaccessible page, so that a write past the end crashes the process."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np

from .aligned import CACHE_LINE, Array

LARGE = 4 << 20  # bytes; numpy also asks for large pages from this size on
SLACK = 0xA5  # fills the bytes, fewer than a cache line, between the end and the guard page
NONE, READ = 0, 1  # mprotect: no access, no writes
POSIX = sys.platform != "win32"


def guarded(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of zeros that starts at a cache line and ends before a guard page.

    On Windows there is no guard page, but damaged() detects writes close past the end.
    """
    return _placed(shape, dtype)[0]


def frozen(contents: Array) -> Array:
    """Return a guarded copy of `contents`; machine code that writes to it crashes."""
    copy, base, size = _placed(contents.shape, contents.dtype)
    copy[...] = contents
    copy.flags.writeable = False
    _protect(base, size, READ)
    return copy


def damaged(a: Array) -> bool:
    """Return whether bytes between the end of a guarded array and its guard page were written.

    Each call reports only writes since the previous call.
    """
    n = -a.nbytes % CACHE_LINE
    slack = (ctypes.c_ubyte * n).from_address(a.ctypes.data + a.nbytes)
    written = bytes(slack) != bytes([SLACK]) * n
    ctypes.memset(slack, SLACK, n)
    return written


def _placed(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, int, int]:
    """Return a guarded array, and the address and size of its pages without the guard page."""
    count = int(np.prod(shape, dtype=np.int64))
    used = count * dtype.itemsize
    slack = -used % CACHE_LINE
    size = used + slack + -(used + slack) % mmap.PAGESIZE
    whole = size + mmap.PAGESIZE
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if POSIX else {}
    memory = mmap.mmap(-1, whole, **private)
    if size >= LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    memory[size - slack : size] = bytes([SLACK]) * slack
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _protect(base + size, mmap.PAGESIZE, NONE)
    a = np.frombuffer(memory, np.uint8, used, size - used - slack)
    return a.view(dtype).reshape(shape), base, size


def _protect(address: int, size: int, access: int) -> None:
    if POSIX:
        libc = ctypes.CDLL(None)
        libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access)
