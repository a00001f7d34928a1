"""Code generation: loop IR in, program text out. Nothing here compiles or runs anything."""

# pyright: reportUnusedImport=false

from .common import clean
from .llvm import emit_llvm
from .llvm_calls import CALL_PACKED
from .numba import emit_numba
from .python import emit_python
from .vta import emit_vta
from .vta_transfer import Dim, transfers
