"""What is handed to the calls of this room, checked at its door."""

from __future__ import annotations

import reprlib
from numbers import Integral
from typing import Any, TypeVar

from minitvm.base import ArgumentError

T = TypeVar("T")


def check_kind(what: str, given: Any, kind: type[T], fix: str) -> T:
    """`given`, if it is of that type: else "config=5: it is no Config", and what to try."""
    if not isinstance(given, kind):
        raise ArgumentError(f"{what}={reprlib.repr(given)}", f"it is no {kind.__name__}", fix)
    return given


def is_count(given: Any, least: int = 1) -> bool:
    """Is it an int from `least` on, perhaps one of numpy's?"""
    return not isinstance(given, bool) and isinstance(given, Integral) and int(given) >= least


def check_count(what: str, given: Any, least: int = 1) -> int:
    """`given` as an int, if it is a count from `least` on."""
    if not is_count(given, least):
        raise ArgumentError(f"{what}={reprlib.repr(given)}", f"it is a count from {least} on")
    return int(given)
