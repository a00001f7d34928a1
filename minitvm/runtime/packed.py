"""Run the Python functions that compiled code calls.

minitvm/codegen/llvm/calls.py describes the format of the arguments.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitvm import tir
from minitvm.base import DTYPES, DType

CALL_PACKED = "minitvm_call_packed"  # int32_t (const char *name, int64_t *slots, int64_t count)
_failures: deque[BaseException] = deque()  # exceptions of functions, until failure() returns them


def _arguments(slots: Any, count: int) -> Iterator[Any]:
    """Yield the `count` arguments that are encoded in an array of 64-bit slots."""
    at = 0
    for _ in range(count):
        kind, first = slots[at], slots[at + 1]
        at += 2
        if kind == 0:
            yield first
        elif kind == 1:
            yield struct.unpack("d", struct.pack("q", first))[0]
        else:
            dtype_number, rank = int(slots[at]), int(slots[at + 1])
            dtype: DType = list(DTYPES.values())[dtype_number]
            at += 2
            shape, strides = slots[at : at + rank], slots[at + rank : at + 2 * rank]
            at += 2 * rank
            yield _array(first, dtype.numpy, shape, strides)


def _array(
    address: int, dtype: np.dtype[Any], shape: list[int], strides: list[int]
) -> np.ndarray[Any, Any]:
    """Return the memory at `address` as an array, without a copy."""
    if 0 in shape:
        return np.empty(shape, dtype)
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * (reach * dtype.itemsize)).from_address(address)
    row: np.ndarray[Any, Any] = np.frombuffer(memoryview(memory), dtype)
    return np.lib.stride_tricks.as_strided(row, shape, [s * dtype.itemsize for s in strides])


def _call(name: bytes, slots: Any, count: int) -> int:
    """Run the function registered as `name`; return 1 if it raised an exception, else 0."""
    try:
        tir.registered(name.decode())(*_arguments(slots, count))
    except BaseException as e:  # exceptions cannot pass through machine code
        _failures.append(e)
        return 1
    return 0


_callback = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64
)(_call)


def call_packed_address() -> int:
    """Return the address of the C function through which compiled code calls Python functions."""
    address = ctypes.cast(_callback, ctypes.c_void_p).value
    assert address is not None
    return address


def failure() -> BaseException | None:
    """Return and forget the first exception that a called Python function raised, or None."""
    first = _failures.popleft() if _failures else None
    _failures.clear()
    return first
