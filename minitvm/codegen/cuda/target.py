"""The target "cuda": kernels for NVIDIA's GPUs, and a simulator that checks them."""

from __future__ import annotations

from minitvm import runtime, tir
from minitvm.base import Target, debug

from ..backend import Backend, BuildRequest
from .passes import PASSES


def _load(request: BuildRequest, text: str) -> runtime.GpuFunction:
    debug(5, text)
    sources = {"tir": lambda: str(request.func), "cuda": lambda: text}
    return runtime.GpuFunction(request.func, request.target, sources)


def _emit(func: tir.PrimFunc, _target: Target) -> str:
    return str(func)


CUDA = Backend(passes=PASSES, emit=_emit, load=_load, prepacks=False)
