"""The target "llvm": machine code for a CPU."""

from __future__ import annotations

from minitvm import lowering, runtime, tir
from minitvm.base import Target, debug

from ..backend import Backend, BuildRequest
from ..common import check_memories, clean
from ..python import emit_python
from .emit import emit_llvm


def _emit(func: tir.PrimFunc, target: Target) -> str:
    launch = runtime.LAUNCH if target.num_cores > 1 else ""
    return emit_llvm(
        func,
        vector_bytes=target.vector_bytes,
        parallel_launch=launch,
        dot4=target.dot4,
        dot2=target.dot2,
        amx=target.amx,
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


def _bench(func: tir.PrimFunc, target: Target) -> tuple[runtime.Job, list[str]]:
    """Return the job that tells a bench how to call a program, and the LLVM IR of the program.

    If constants are packed by a program of their own, its IR is the second text.
    """
    texts: list[str] = []
    for part in (func, func.prepack):
        if part is not None:
            check_memories(part, target)
            texts.append(_emit(part, target))
    pack, pack_calls = "", ()
    if func.prepack is not None:
        pack, pack_calls = clean(func.prepack.name), runtime.declared(texts[1])
    sizes = [tir.elements(b) for b in func.packed]
    job = runtime.Job(
        entry=clean(func.name),
        calls=runtime.declared(texts[0]),
        constants=tuple(n for n, p in enumerate(func.params) if func.is_constant(p)),
        packed=tuple(
            (str(b.dtype), n) for b, n in zip(func.packed, sizes, strict=True) if isinstance(n, int)
        ),
        pack=pack,
        pack_calls=pack_calls,
    )
    return job, texts


LLVM = Backend(passes=lowering.PASSES["llvm"], emit=_emit, load=_load, isolates=True, bench=_bench)
