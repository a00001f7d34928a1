"""Load program text as native code or as a Python function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container
from typing import Any, NamedTuple, TypeAlias, TypedDict

from minitvm import tir
from minitvm.base import BuildError, Target, TVMError, processor

from .isolated import IsolatedSource
from .jit import LLVMSource, NativeCode
from .packed import CALL_PACKED, call_packed_address, failure
from .pool import parallel_launch_address

Run: TypeAlias = Callable[[list[Any]], None]  # arrays and ints in the order of the parameters
LAUNCH = "minitvm_parallel_launch"  # the name by which generated code calls the thread pool


class CompileOptions(TypedDict):
    """Options of LLVMSource."""

    cpu: str
    features: str
    unroll: bool


def load_native(
    func: tir.PrimFunc, text: str, entry: str, target: Target, *, isolate: bool = False
) -> tuple[Run, NativeCode]:
    """Compile the LLVM IR `text`; return a Python function that calls `entry`, and the code.

    isolate   whether to compile in another process, so that a crash of LLVM does not end this one
    If this CPU cannot run the code, the function is a NotRunnable.
    """
    kind = IsolatedSource if isolate else LLVMSource
    source = kind(text, **options_of(target))
    machine = source.loaded(provided(text))
    why = not_runnable(target)
    return NotRunnable(func.name, why) if why else NativeRun(func, machine, entry), machine


def options_of(target: Target) -> CompileOptions:
    """Return the options with which LLVM compiles for a target, wherever it does."""
    return {"cpu": target.mcpu, "features": target.mattr, "unroll": target.unroll}


def not_runnable(target: Target) -> str:
    """Return why this CPU cannot run code for `target`, or an empty string."""
    return processor.lacking(processor.features(target.mcpu, target.mattr))


class NotRunnable(NamedTuple):
    """Machine code for another CPU, which can be printed and stored; a call raises BuildError."""

    name: str
    why: str

    def __call__(self, args: list[Any]) -> None:
        fix = 'target="llvm", which is this machine; f.source("asm") shows the code'
        raise BuildError(f"call of {self.name}", self.why, fix)


def provided(calls: Container[str]) -> dict[str, int]:
    """Return the addresses of the C functions of minitvm that are named in `calls`.

    `calls` is a list of names, or the text of LLVM IR.
    """
    addresses = {LAUNCH: parallel_launch_address, CALL_PACKED: call_packed_address}
    return {name: where() for name, where in addresses.items() if name in calls}


class NativeRun:
    """Machine code with the parameters of `func`, as an object that Python can call.

    address   where its code begins; valid as long as this object is alive
    """

    def __init__(self, func: tir.PrimFunc, machine: NativeCode, entry: str) -> None:
        params = (*func.params, *func.packed, *func.sizes)
        kinds = [ctypes.c_void_p if isinstance(p, tir.Buffer) else ctypes.c_int64 for p in params]
        self.address = machine.address(entry)
        self._call = machine.function(entry, *kinds)
        self._name = func.name

    def __call__(self, args: list[Any]) -> None:
        if self._call(*[a if isinstance(a, int) else address(a) for a in args]):
            raise failed(self._name)


def failed(name: str) -> BaseException:
    """Return the exception to raise after the compiled function `name` has returned an error."""
    why = "a temporary array cannot be allocated"
    return failure() or TVMError(f"{name}: out of memory", why)


def address(a: Any) -> int:
    """Return the address of the first element of a contiguous array."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(a))
    except (TypeError, ValueError, BufferError):  # read-only or empty; .ctypes is slower
        return a.ctypes.data


def load_python(source: str) -> Run:
    """Return a function that flattens arrays and calls the last function in Python `source`."""
    call = defined(source)

    def run(args: list[Any]) -> None:
        call(*[a if isinstance(a, int) else a.reshape(-1) for a in args])

    return run


def defined(source: str) -> Callable[..., None]:
    """Run Python `source` and return the last function that it defines."""
    scope: dict[str, Any] = {}
    exec(compile(source, "<minitvm>", "exec"), scope)
    return scope[source.rsplit("\ndef ", 1)[1].split("(", maxsplit=1)[0]]
