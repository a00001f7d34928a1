"""Division of values and indices, rounding down. tir's of these names take indices only."""

from __future__ import annotations

from typing import Any

from minitvm import tir


def floordiv(a: Any, b: Any) -> Any:
    """a // b on integers, rounding down. Data divided by 0 gives 0."""
    return tir.binary("floordiv", a, b)


def floormod(a: Any, b: Any) -> Any:
    """a % b on integers, with the sign of b."""
    return tir.binary("floormod", a, b)
