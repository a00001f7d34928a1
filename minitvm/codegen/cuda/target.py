"""The target "cuda": kernels for NVIDIA's GPUs, and a simulator that checks them."""

from __future__ import annotations

from minitvm import runtime, tir
from minitvm.base import Target, debug, debug_level

from ..backend import Backend, BuildRequest
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


CUDA = Backend(passes=PASSES, emit=_as_it_is, load=_load, prepacks=False)
