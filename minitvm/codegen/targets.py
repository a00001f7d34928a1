"""The Backend of each kind of target. To add a target, add a folder and a line here."""

from typing import Any

from .backend import Backend
from .cuda import CUDA
from .llvm import LLVM
from .numba import NUMBA
from .python import PYTHON
from .vta import VTA

TARGETS: dict[str, Backend[Any]] = {
    "llvm": LLVM,
    "numba": NUMBA,
    "python": PYTHON,
    "cuda": CUDA,
    "vta": VTA,
}
