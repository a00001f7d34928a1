"""Arrays that start at a cache line, so that whole vectors are loaded fastest."""

from __future__ import annotations

import math
import operator
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
CACHE_LINE = 64  # bytes; numpy itself aligns arrays to 16


def empty_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array with undefined contents whose address is a multiple of 64."""
    sizes = tuple(map(operator.index, shape))
    if min(sizes, default=0) < 0:
        raise ValueError("negative dimensions are not allowed")
    n = math.prod(sizes) * dtype.itemsize
    memory = np.empty(n + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + n].view(dtype).reshape(sizes)
