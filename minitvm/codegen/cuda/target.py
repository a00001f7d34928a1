"""The target "cuda": kernels for NVIDIA's GPUs, and a simulator that checks them."""

from __future__ import annotations

from minitvm import runtime, tir
from minitvm.base import BuildError, Target, debug, debug_level

from ..backend import Backend, BuildRequest
from ..common import check_memories, clean
from .emit import emit_cuda
from .passes import PASSES


def _load(request: BuildRequest, func: tir.PrimFunc) -> runtime.GpuFunction:
    sources = {"tir": lambda: str(func), "cuda": lambda: emit_cuda(func)}
    if debug_level() >= 5:
        debug(5, sources["cuda"]())
    return runtime.GpuFunction(func, request.target, sources)


def _as_it_is(func: tir.PrimFunc, _target: Target) -> tir.PrimFunc:
    """Return the loops: the simulator runs them; source("cuda") prints them."""
    return func


def _check(func: tir.PrimFunc, target: Target) -> None:
    """Raise BuildError for what no GPU has, and for arithmetic in bfloat16 without tensor cores."""
    check_memories(func, target)
    for n in tir.walk(func.body):
        parts = [n, n.value] if isinstance(n, tir.Cast) else [n]
        for e in parts:
            is_moved = isinstance(e, tir.Load | tir.Pointer) and e is n
            if isinstance(e, tir.Expr) and not is_moved and getattr(e, "dtype", "") == "bfloat16":
                what, why = f"{tir.text(n)} in {func.name}", "only tensor cores compute in bfloat16"
                fix = "float16; or topi.matmul with sums in float32 and sizes of whole tiles"
                raise BuildError(what, why, fix)


def _bench(func: tir.PrimFunc, target: Target) -> tuple[runtime.Job, list[str]]:
    """Return the job that tells a bench how to launch kernels, and their source for numba.cuda."""
    _check(func, target)
    f = _load(BuildRequest(func, target, False, lambda: func), func)
    job = runtime.Job(entry=clean(func.name), bounds=tuple(f.launch_bounds.items()))
    return job, [f.source("cuda")]


CUDA = Backend(
    passes=PASSES, emit=_as_it_is, load=_load, check=_check, prepacks=False, bench=_bench
)
