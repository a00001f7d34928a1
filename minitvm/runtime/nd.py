"""Arrays and devices under TVM's names; the arrays are numpy arrays with a few more methods."""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm.base import ArgumentError, as_tuple, check_unmasked
from minitvm.base import dtype as known

from .aligned import empty_aligned

ON_CPU = ("cpu", "llvm", "numba", "python")


@dataclass(frozen=True, slots=True)
class Device:
    """A device that stores arrays and runs functions, such as cpu(0)."""

    kind: str
    index: int = 0

    def sync(self) -> None:
        """Do nothing, since functions on a CPU have finished when they return."""

    def __str__(self) -> str:
        return f"{self.kind}({self.index})"


def cpu(index: int = 0) -> Device:
    """Return the CPU of this machine as a device."""
    if not isinstance(index, int) or index < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"cpu({index!r})", "not an int of at least 0", "cpu(0)")
    return Device("cpu", index)


def device(name: str, index: int = 0) -> Device:
    """Return the device `name`: "cpu", or the device that runs a target such as "llvm"."""
    if not isinstance(name, str) or name not in ON_CPU:  # pyright: ignore[reportUnnecessaryIsInstance]
        known = ", ".join(map(repr, ON_CPU))
        raise ArgumentError(f"device({name!r})", "unknown device", f"one of {known}")
    return cpu(index)


class NDArray(np.ndarray[Any, np.dtype[Any]]):
    """A numpy array that also has the methods of TVM's NDArray."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy as a plain numpy array."""
        return np.array(self)

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite this array with `source`, converted to its dtype, and return this array."""
        check_unmasked("copyfrom", source)
        with _explained(f"copyfrom into shape {self.shape}", "an array of the same shape"):
            np.copyto(self, np.asarray(source), casting="unsafe")
        return self


def array(source: Any, device: Device | None = None, ctx: Device | None = None) -> NDArray:
    """Return a new contiguous array with the contents of `source`, aligned to 64 bytes."""
    _on_cpu(ctx if device is None else device)
    check_unmasked("nd.array", source)
    with _explained(f"nd.array of a {type(source).__name__}", "numbers in rows of equal length"):
        contiguous = np.array(source, order="C")
    known(contiguous.dtype.name)
    aligned = empty_aligned(contiguous.shape, contiguous.dtype).view(NDArray)
    np.copyto(aligned, contiguous)
    return aligned


def empty(
    shape: Any, dtype: str = "float32", device: Device | None = None, ctx: Device | None = None
) -> NDArray:
    """Return a new array with undefined contents, aligned to 64 bytes."""
    _on_cpu(ctx if device is None else device)
    kind = known(dtype).numpy
    with _explained(f"nd.empty({reprlib.repr(shape)})", "a tuple of integers >= 0"):
        return empty_aligned(as_tuple(shape), kind).view(NDArray)


@contextlib.contextmanager
def _explained(what: str, fix: str) -> Generator[None]:
    """Turn numpy's exceptions inside the context into an ArgumentError."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, MemoryError) as e:
        raise ArgumentError(what, str(e), fix) from e


def _on_cpu(device: Any) -> None:
    if device is not None and not isinstance(device, Device):
        raise ArgumentError(f"array on {reprlib.repr(device)}", "not a device", "cpu(0)")
    if device is not None and device.kind != "cpu":
        raise ArgumentError(f"array on {device}", "arrays are in main memory only", "cpu(0)")
