"""Targets: each one prints a loop program as code and makes a function of it.

Each target has a folder and a line in targets.py. The emitters (emit.py in each folder) only print:
they compile and run nothing.
"""

# pyright: reportUnusedImport=false

from .backend import Backend, BuildRequest
from .common import clean
from .llvm import emit_llvm, lifted
from .numba import emit_numba
from .python import emit_python
from .targets import TARGETS
from .vta import Dim, emit_vta, transfers
