"""The target "numba": Python that numba compiles."""

from __future__ import annotations

from minitvm import lowering, runtime, tir
from minitvm.base import Target

from ..backend import Backend, BuildRequest, python_function
from .emit import emit_numba


def _emit(func: tir.PrimFunc, target: Target) -> str:
    return emit_numba(func, parallel=target.num_cores > 1)


def _load(request: BuildRequest, text: str) -> runtime.Function:
    return python_function(request, text, runtime.load_numba(text, request.target.num_cores))


NUMBA = Backend(passes=lowering.PASSES["numba"], emit=_emit, load=_load)
