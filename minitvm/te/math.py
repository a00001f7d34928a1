"""te.floordiv and te.floormod take values or indices; tir.floordiv, tir.floormod only indices."""

from __future__ import annotations

from typing import Any

from minitvm import tir


def floordiv(a: Any, b: Any) -> Any:
    """Return a // b for integers, rounded down. A typed value divided by 0 gives 0."""
    return tir.binary("floordiv", a, b)


def floormod(a: Any, b: Any) -> Any:
    """Return a % b for integers; the result has the sign of b."""
    return tir.binary("floormod", a, b)
