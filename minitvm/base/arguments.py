"""Arguments that are a text, or true or false, checked at the doors."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from .errors import ArgumentError

TRUTHS: tuple[type[Any], ...] = (bool, np.bool_)


def check_text(what: str, given: Any) -> str:
    """`given`, if it is a text; else ArgumentError for the argument `what`: "extern: name"."""
    if not isinstance(given, str):
        raise ArgumentError(f"{what}={reprlib.repr(given)}", "it is a text")
    return given


def check_flag(what: str, given: Any) -> bool:
    """`given` as True or False; ArgumentError if it is not one of them, 0, 1 or None."""
    if not isinstance(given, (*TRUTHS, type(None))) and not (type(given) is int and 0 <= given < 2):
        raise ArgumentError(f"{what}={reprlib.repr(given)}", "it is True or False")
    return bool(given)
