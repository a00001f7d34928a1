"""LLVM IR from loops, and machine code from that."""

# pyright: reportUnusedImport=false

from .emit import emit_llvm
from .target import LLVM
