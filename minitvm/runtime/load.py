"""Program text becomes something that runs: native code or a Python function."""

from __future__ import annotations

import ctypes
from typing import Any

from minitvm.base import Target, TVMError
from minitvm.codegen import CALL_PACKED
from minitvm.tir import Buffer, PrimFunc

from .function import Run
from .jit import Machine, compile_ir
from .packed import call_packed_address, failure
from .pool import parallel_launch_address

LAUNCH = "minitvm_parallel_launch"  # the name by which generated code calls the thread pool


def load_native(func: PrimFunc, text: str, entry: str, target: Target) -> tuple[Run, Machine]:
    """The compiled function `entry` of the LLVM IR in `text`, and the machine code it lives in."""
    provided = {LAUNCH: parallel_launch_address, CALL_PACKED: call_packed_address}
    symbols = {name: where() for name, where in provided.items() if name in text}
    machine = compile_ir(text, cpu=target.mcpu, features=target.mattr, symbols=symbols)
    kinds = [
        *(ctypes.c_void_p if isinstance(p, Buffer) else ctypes.c_int64 for p in func.params),
        *(ctypes.c_int64 for _ in func.sizes),
    ]
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(machine.address(entry))

    def run(args: list[Any]) -> None:
        if call(*[a if isinstance(a, int) else address(a) for a in args]):
            raised = failure()
            if raised is not None:
                raise raised
            raise TVMError(f"{func.name}: out of memory", "a temporary array did not fit")

    return run, machine


def address(a: Any) -> int:
    """Where the elements of a contiguous array start."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(a))
    except (TypeError, ValueError, BufferError):  # read-only or empty: three times slower
        return a.ctypes.data


def load_python(source: str) -> Run:
    """The last function that Python `source` defines, taking arrays of any shape."""
    scope: dict[str, Any] = {}
    exec(compile(source, "<minitvm>", "exec"), scope)
    call = scope[source.rsplit("\ndef ", 1)[1].split("(", maxsplit=1)[0]]

    def run(args: list[Any]) -> None:
        call(*[a if isinstance(a, int) else a.reshape(-1) for a in args])

    return run
