"""The target "numba": Python source that numba compiles."""

# pyright: reportUnusedImport=false

from .emit import HELPERS, NumbaPrinter, emit_numba
from .target import NUMBA
