"""LLVM IR from loops, and machine code from LLVM IR."""

# pyright: reportUnusedImport=false

from .emit import emit_llvm
from .target import LLVM
