"""Checks of counts (ints of at least 1) that public functions take."""

from __future__ import annotations

import reprlib
from numbers import Integral
from typing import Any

from minitvm.base import ArgumentError


def is_count(given: Any, least: int = 1) -> bool:
    """Return whether `given` is an int, or a numpy integer, of at least `least`."""
    return not isinstance(given, bool) and isinstance(given, Integral) and int(given) >= least


def check_count(what: str, given: Any) -> int:
    """Return `given` as an int; raise ArgumentError unless it is an int of at least 1."""
    if not is_count(given):
        raise ArgumentError(
            f"{what}={reprlib.repr(given)}", "not an int of at least 1", f"{what}=1"
        )
    return int(given)
