"""Counts that are handed to the calls of this room, checked at its door."""

from __future__ import annotations

import reprlib
from numbers import Integral
from typing import Any

from minitvm.base import ArgumentError


def is_count(given: Any, least: int = 1) -> bool:
    """Is it an int from `least` on, perhaps one of numpy's?"""
    return not isinstance(given, bool) and isinstance(given, Integral) and int(given) >= least


def check_count(what: str, given: Any, least: int = 1) -> int:
    """`given` as an int, if it is a count from `least` on."""
    if not is_count(given, least):
        raise ArgumentError(
            f"{what}={reprlib.repr(given)}", f"it is a count from {least} on", f"{what}={least}"
        )
    return int(given)
