"""The target "python": plain Python, without a compiler."""

from __future__ import annotations

from minitvm import lowering, runtime

from ..backend import Backend, BuildRequest, python_function
from .emit import emit_python


def _load(request: BuildRequest, text: str) -> runtime.Function:
    return python_function(request, text, runtime.load_python(text))


PYTHON = Backend(
    passes=lowering.PASSES["python"], emit=lambda func, target: emit_python(func), load=_load
)
