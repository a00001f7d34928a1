"""Make the calls of a network: in compiled code, or one by one from Python."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .aligned import Array
from .function import address_of, code_of
from .jit import compile_ir
from .loading import address, failed
from .network import Call, Library, Place, elements
from .network_code import CLOCK, network_ir


class CompiledCalls:
    """Compiled code that makes all calls of a network; Python calls it once for each run."""

    def __init__(self, calls: Sequence[Call], lib: Library, arena: Array) -> None:
        self._calls, self._lib, self._arena = calls, lib, arena
        self._kernels = _table(address_of(f) or 0 for f in lib.kernels)
        self._where = address(arena)
        self._run = _entry(network_ir(calls), 6)
        self.know((), ())

    def know(self, params: Sequence[Array], constants: Sequence[Array]) -> None:
        """Use these parameters and packed constants from now on."""
        self._known = params, constants
        self._tables = _table(map(address, params)), _table(map(address, constants))

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Make all calls; raise the exception of the first call that fails."""
        self._raise(self._run(*self._addresses(inputs, outputs)))

    def stamps(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[float]:
        """Make all calls; return the time in seconds before the first and after each call."""
        if CLOCK is None:
            slow = PythonCalls(self._calls, self._lib, self._arena)
            slow.know(*self._known)
            return slow.stamps(inputs, outputs)
        times = np.zeros((len(self._calls) + 1, 2), np.int64)
        self._raise(self._stamped(*self._addresses(inputs, outputs), times.ctypes.data))
        return [
            seconds + 1e-9 * nanoseconds for seconds, nanoseconds in (times - times[0]).tolist()
        ]

    @cached_property
    def _stamped(self) -> Callable[..., int]:
        return _entry(network_ir(self._calls, stamps=True), 7)

    def _addresses(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> tuple[Any, ...]:
        tables = _table(map(address, inputs)), _table(map(address, outputs))
        return self._kernels, self._where, *tables, *self._tables

    def _raise(self, number: int) -> None:
        if number:
            call = self._calls[number - 1]
            kernel = self._lib.kernels[call.kernel].name
            raise failed(f"call {number - 1} of {kernel}")


class PythonCalls:
    """Calls of kernels from Python, for targets without machine code."""

    def __init__(self, calls: Sequence[Call], lib: Library, arena: Array) -> None:
        self._rows = [
            (code_of(lib.kernels[call.kernel])[0], _arguments(call, lib, arena)) for call in calls
        ]

        self.know((), ())

    def know(self, params: Sequence[Array], constants: Sequence[Array]) -> None:
        """Use these parameters and packed constants from now on."""
        self._known = params, constants

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Make all calls; stop at the first exception, and raise it."""
        self.stamps(inputs, outputs)

    def stamps(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[float]:
        """Make all calls; return the time in seconds before the first and after each call."""
        params, constants = self._known
        memory = {"input": inputs, "output": outputs, "param": params, "constant": constants}
        times = [time.perf_counter()]
        for main, args in self._rows:
            main([memory[a.space][a.at] if isinstance(a, Place) else a for a in args])
            times.append(time.perf_counter())
        return [t - times[0] for t in times]


def _arguments(call: Call, lib: Library, arena: Array) -> list[Array | Place]:
    """Return the arguments of a call: arrays in the arena, and the places of all others."""
    func = lib.kernels[call.kernel].func
    found: list[Array | Place] = []
    for b, place in zip((*func.params, *func.packed), call.args, strict=True):
        if place.space == "arena":
            end = place.at + elements(b) * b.dtype.bytes
            found.append(arena[place.at : end].view(b.dtype.numpy))
        else:
            found.append(place)
    return found


def _table(addresses: Iterable[int]) -> Any:
    found = list(addresses)
    return (ctypes.c_void_p * len(found))(*found)


def _entry(text: str, parameters: int) -> Callable[..., int]:
    """Compile `text` and return its function `run`, which takes `parameters` addresses."""
    code = compile_ir(text, opt=0)  # straight-line code; four times as fast to compile as opt=1
    call: Any = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * parameters)(
        code.address("run")
    )
    call.code = code  # keeps the code in memory
    return call
