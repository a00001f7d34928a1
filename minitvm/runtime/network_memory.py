"""The arrays of a network's calls: arguments that fit, and arenas for intermediate tensors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitvm.base import ArgumentError, host

from .aligned import CACHE_LINE, Array, empty_aligned
from .arguments import as_array
from .loading import address
from .network import TensorSpec


class Arenas:
    """The arenas of a module that no call uses; as many are kept as calls can run at once."""

    def __init__(self) -> None:
        self._idle: list[Array] = []  # pop and append are atomic

    @contextmanager
    def lent(self, size: int) -> Generator[Array]:
        """Lend an arena of at least `size` bytes; calls at the same time get different ones."""
        try:
            arena = self._idle.pop()
        except IndexError:
            arena = _NOTHING
        if arena.size < max(1, size):  # the address of an empty array is slow to get
            arena = empty_aligned((max(1, size),), np.dtype(np.uint8))
        try:
            yield arena
        finally:
            if len(self._idle) < host().cores:
                self._idle.append(arena)


_NOTHING = np.empty(0, np.uint8)


def empty(spec: TensorSpec) -> Array:
    """Return an array for a tensor, with undefined contents."""
    return empty_aligned(spec.shape, spec.dtype.numpy)


def checked(spec: TensorSpec, value: Any) -> Array:
    """Return `value` as an array; raise ArgumentError if it cannot be converted to `spec`."""
    a = as_array(spec.name, value)
    if a.shape != spec.shape:
        raise ArgumentError(f"argument {spec}", f"has shape {a.shape}", "reshape it")
    if not np.can_cast(a.dtype, spec.dtype.numpy, "same_kind"):
        fix = f"{spec.name}.astype({str(spec.dtype)!r})"
        raise ArgumentError(f"argument {spec}", f"has dtype {a.dtype}", fix)
    if spec.limits is not None and a.size:
        (low, high), least, most = spec.limits, a.min(), a.max()
        if not low <= least <= most <= high:
            why = f"has values from {least} to {most}; as indices they are from {low} to {high}"
            raise ArgumentError(f"argument {spec}", why)
    return a


def aligned(spec: TensorSpec, a: Array) -> Array:
    """Return `a`, or a copy if it is not contiguous, aligned to 64 bytes and of the right type."""
    if a.dtype == spec.dtype.numpy and a.flags.c_contiguous and address(a) % CACHE_LINE == 0:
        return a
    copy = empty(spec)
    np.copyto(copy, a, casting="same_kind")
    return copy
