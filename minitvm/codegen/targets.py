"""The records of all kinds of targets. To add a target, add a folder and a line here."""

from typing import Any

from .backend import Backend
from .llvm.target import LLVM
from .numba.target import NUMBA
from .python.target import PYTHON
from .vta.target import VTA

TARGETS: dict[str, Backend[Any]] = {"llvm": LLVM, "numba": NUMBA, "python": PYTHON, "vta": VTA}
