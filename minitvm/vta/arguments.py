"""Checks of counts given to public functions."""

from __future__ import annotations

import reprlib
from numbers import Integral
from typing import Any

from minitvm.base import ArgumentError


def is_count(given: Any, least: int = 1) -> bool:
    """Return whether `given` is an int of at least `least`; numpy's integers count."""
    return not isinstance(given, bool) and isinstance(given, Integral) and int(given) >= least


def check_count(what: str, given: Any, least: int = 1) -> int:
    """Return `given` as an int; raise ArgumentError unless it is a count of at least `least`."""
    if not is_count(given, least):
        raise ArgumentError(
            f"{what}={reprlib.repr(given)}", f"it is a count from {least} on", f"{what}={least}"
        )
    return int(given)
