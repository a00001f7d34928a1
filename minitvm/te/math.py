"""Floor division of values and indices; the functions of these names in tir take indices only."""

from __future__ import annotations

from typing import Any

from minitvm import tir


def floordiv(a: Any, b: Any) -> Any:
    """Compute a // b on integers, rounding down. Data divided by 0 gives 0."""
    return tir.binary("floordiv", a, b)


def floormod(a: Any, b: Any) -> Any:
    """Compute a % b on integers; the result has the sign of b."""
    return tir.binary("floormod", a, b)
