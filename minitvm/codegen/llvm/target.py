"""The target "llvm": machine code for a CPU."""

from __future__ import annotations

from minitvm import lowering, runtime, tir
from minitvm.base import Target, debug

from ..backend import Backend, BuildRequest
from ..common import clean
from ..python import emit_python
from .emit import emit_llvm


def _emit(func: tir.PrimFunc, target: Target) -> str:
    launch = runtime.LAUNCH if target.num_cores > 1 else ""
    return emit_llvm(
        func,
        vector_bytes=target.vector_bytes,
        parallel_launch=launch,
        dot4=target.dot4,
    )


def _load(request: BuildRequest, text: str) -> runtime.Function:
    debug(5, text)
    func, entry = request.func, clean(request.func.name)
    run, machine = runtime.load_native(func, text, entry, request.target, isolate=request.isolate)
    sources = {
        "tir": lambda: str(func),
        "python": lambda: emit_python(request.scalar()),
        "ll": lambda: machine.ll,
        "asm": lambda: machine.asm,
    }

    def package() -> runtime.Package:
        target, texts = request.target, {"tir": str(func)}
        needs = runtime.machine_for(target)
        return runtime.Package(
            func, target, machine.object, texts, entry, machine.calls, machine=needs
        )

    return runtime.Function(func, run, sources, package, prepack=request.prepack)


LLVM = Backend(passes=lowering.PASSES["llvm"], emit=_emit, load=_load, isolates=True)
