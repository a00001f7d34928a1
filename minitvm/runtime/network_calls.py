"""Make the calls of a network: in compiled code, or one by one from Python."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .aligned import Array
from .function import address_of, code_of
from .jit import compile_ir
from .loading import address, failed
from .network import Call, Library, Place, byte_size

TABLES = "ptr %kernels, ptr %input, ptr %output, ptr %param, ptr %constant"
PARAMETERS = f"{TABLES}, ptr %arena, ptr %block, i64 %n"
CLOCK = getattr(time, "CLOCK_MONOTONIC", None)  # not on Windows
STAMP_BYTES = 16  # bytes that clock_gettime writes for one time: seconds and nanoseconds


class CompiledCalls:
    """Compiled code that makes all calls of a network; Python calls it once for each run.

    Several threads may run it at the same time, each with its own arena, inputs and outputs. For a
    network with a dynamic size n, `blocks` are the offsets of the blocks in the arena.
    """

    def __init__(self, calls: Sequence[Call], lib: Library) -> None:
        self._calls, self._lib = calls, lib
        self._kernels = _table(address_of(f) or 0 for f in lib.kernels)
        self._run = _compiled(run_ir(calls), *POINTERS, ctypes.c_int64)
        self.know((), ())

    def know(self, params: Sequence[Array], constants: Sequence[Array]) -> None:
        """Use these parameters and packed constants in the runs that begin from now on."""
        tables = _table(map(address, params)), _table(map(address, constants))
        self._known = (tuple(params), tuple(constants)), tables

    def run(
        self,
        arena: Array,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        blocks: Sequence[int] = (),
        n: int = 0,
    ) -> None:
        """Make all calls; raise the exception of the first call that fails."""
        _alive, tables = self._known  # also keeps arrays in use that another thread replaces
        io = _table(map(address, inputs)), _table(map(address, outputs))
        start = address(arena)
        begins = _table(start + offset for offset in blocks) if blocks else None
        self._raise(self._run(self._kernels, *io, *tables, start, begins, n))

    def stamps(
        self, arena: Array, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> list[float]:
        """Make all calls; return the time in seconds before the first and after each call."""
        known, tables = self._known
        if CLOCK is None:
            slow = PythonCalls(self._calls, self._lib)
            slow.know(*known)
            return slow.stamps(arena, inputs, outputs)
        times = np.zeros((len(self._calls) + 1, 2), np.int64)
        io = _table(map(address, inputs)), _table(map(address, outputs))
        rest = address(arena), None, 0, times.ctypes.data
        self._raise(self._stamped(self._kernels, *io, *tables, *rest))
        return [
            seconds + 1e-9 * nanoseconds for seconds, nanoseconds in (times - times[0]).tolist()
        ]

    @cached_property
    def _stamped(self) -> Callable[..., int]:
        text = run_ir(self._calls, stamps=True)
        return _compiled(text, *POINTERS, ctypes.c_int64, ctypes.c_void_p)

    def _raise(self, number: int) -> None:
        if number:
            call = self._calls[number - 1]
            kernel = self._lib.kernels[call.kernel].name
            raise failed(f"call {number - 1} of {kernel}")


class PythonCalls:
    """Calls of kernels from Python, for targets without machine code."""

    def __init__(self, calls: Sequence[Call], lib: Library) -> None:
        kernels = [lib.kernels[call.kernel] for call in calls]
        self._rows = [
            (code_of(f)[0], [*zip((*f.func.params, *f.func.packed), call.args, strict=True)])
            for f, call in zip(kernels, calls, strict=True)
        ]
        self.know((), ())

    def know(self, params: Sequence[Array], constants: Sequence[Array]) -> None:
        """Use these parameters and packed constants in the runs that begin from now on."""
        self._known = tuple(params), tuple(constants)

    def run(self, arena: Array, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Make all calls; stop at the first exception, and raise it."""
        self.stamps(arena, inputs, outputs)

    def stamps(
        self, arena: Array, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> list[float]:
        """Make all calls; return the time in seconds before the first and after each call."""
        params, constants = self._known
        memory = {"input": inputs, "output": outputs, "param": params, "constant": constants}
        times = [time.perf_counter()]
        for main, args in self._rows:
            main(
                [
                    arena[place.at : place.at + byte_size(b)].view(b.dtype.numpy)
                    if place.space == "arena"
                    else memory[place.space][place.at]
                    for b, place in args
                ]
            )
            times.append(time.perf_counter())
        return [t - times[0] for t in times]


def _table(addresses: Iterable[int]) -> Any:
    address_list = list(addresses)
    return (ctypes.c_void_p * len(address_list))(*address_list)


# --- the calls as one function in LLVM IR --------------------------------------------------------


POINTERS = [ctypes.c_void_p] * 7


def _compiled(text: str, *parameters: Any) -> Callable[..., int]:
    """Compile `text` and return its function `run`, whose parameters have these ctypes types."""
    code = compile_ir(text, opt=0)  # straight-line code; four times as fast to compile as opt=1
    return code.function("run", *parameters)


def run_ir(calls: Sequence[Call], *, stamps: bool = False) -> str:
    """Return LLVM IR that defines `i32 @run(PARAMETERS)`, which makes the calls in order.

    It returns 0, or k if the kth call failed; the calls after that are not made. The tables hold
    the addresses of kernels, inputs, outputs, parameters, packed constants and blocks; the other
    parameters are the address of the arena and the dynamic size. So the code contains no addresses
    and no sizes.

    stamps   whether `run` has one more parameter, an array for the time before the first call and
             after each call, as clock_gettime stores it
    """
    tail = ", ptr %stamps" if stamps else ""
    lines = [f"define i32 @run({PARAMETERS}{tail}) nounwind {{", "entry:"]
    lines += _stamp(0) if stamps else []
    for n, call in enumerate(calls, 1):
        lines += _call(n, call)
        lines += _stamp(n) if stamps else []
    lines += ["  ret i32 0"]
    if calls:
        sources = ", ".join(f"[ {n}, %call.{n} ]" for n in range(1, len(calls) + 1))
        lines += ["failed:", f"  %number = phi i32 {sources}", "  ret i32 %number"]
    declared = ["declare i32 @clock_gettime(i32, ptr)"] if stamps else []
    return "\n".join([*declared, *lines, "}"]) + "\n"


def _call(n: int, call: Call) -> Iterator[str]:
    """Yield the lines of one call: a basic block %call.n that continues at %then.n."""
    yield f"  br label %call.{n}"
    yield f"call.{n}:"
    yield from _loaded(f"%kernel.{n}", "kernels", call.kernel)
    for k, place in enumerate(call.args):
        yield from _argument(f"%arg.{n}.{k}", place)
    args = ", ".join(
        "i64 %n" if place.space == "size" else f"ptr %arg.{n}.{k}"
        for k, place in enumerate(call.args)
    )
    yield f"  %status.{n} = call i32 %kernel.{n}({args})"
    yield f"  %fine.{n} = icmp eq i32 %status.{n}, 0"
    yield f"  br i1 %fine.{n}, label %then.{n}, label %failed"
    yield f"then.{n}:"


def _argument(name: str, place: Place) -> Iterator[str]:
    if place.space == "arena":
        yield f"  {name} = getelementptr i8, ptr %arena, i64 {place.at}"
    elif place.space != "size":
        yield from _loaded(name, place.space, place.at)


def _loaded(name: str, table: str, n: int) -> Iterator[str]:
    yield f"  {name}.at = getelementptr ptr, ptr %{table}, i64 {n}"
    yield f"  {name} = load ptr, ptr {name}.at"


def _stamp(n: int) -> Iterator[str]:
    yield f"  %stamp.{n} = getelementptr i8, ptr %stamps, i64 {STAMP_BYTES * n}"
    yield f"  %clock.{n} = call i32 @clock_gettime(i32 {CLOCK}, ptr %stamp.{n})"
