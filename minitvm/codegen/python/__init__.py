"""The target "python": plain Python source, which runs without a compiler."""

# pyright: reportUnusedImport=false

from .emit import (
    ATOM,
    CHOICE,
    CLZ_HELPER,
    DOT4_HELPER,
    INTRINSICS,
    SIGNS,
    TAB,
    PythonPrinter,
    emit_python,
    imports,
    numpy_type,
)
from .target import PYTHON
