"""Targets: loop IR in, program text and functions out. Each has a folder and a line in targets.py.

The emitters (emit.py in each folder) only print: they compile and run nothing.
"""

# pyright: reportUnusedImport=false

from .backend import Backend, BuildRequest
from .common import clean, refuse_accelerator
from .llvm.emit import emit_llvm
from .numba.emit import emit_numba
from .python.emit import emit_python
from .targets import TARGETS
from .vta.emit import emit_vta
from .vta.transfer import Dim, transfers
