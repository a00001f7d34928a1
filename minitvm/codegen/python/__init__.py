"""Plain Python source, which needs no compiler."""

# pyright: reportUnusedImport=false

from .emit import (
    ATOM,
    CHOICE,
    CLZ_HELPER,
    DOT4_HELPER,
    SIGNS,
    TAB,
    PythonPrinter,
    emit_python,
)
from .target import PYTHON
