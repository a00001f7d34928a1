"""The target "llvm": emit LLVM IR from loops, and compile it to machine code."""

# pyright: reportUnusedImport=false

from .emit import emit_llvm
from .lift import lifted
from .target import LLVM
