"""Arguments of a kind, texts, and what is true or false, checked at the doors."""

from __future__ import annotations

import reprlib
from typing import Any, TypeVar

import numpy as np

from .errors import ArgumentError

T = TypeVar("T")
TRUTHS: tuple[type[Any], ...] = (bool, np.bool_)
AN = ("A", "E", "I", "O", "nd")  # by their sounds: an Area, an ndarray, but a Unit


def check_kind(what: str, given: Any, *kinds: type[T], fix: str) -> T:
    """`given`, if it is of one of these types: else "config=5: not a Config", and what to try."""
    if not isinstance(given, kinds):
        names = [kind.__name__ for kind in kinds]
        texts = [f"{'an' if name.startswith(AN) else 'a'} {name}" for name in names]
        why = f"neither {' nor '.join(texts)}" if len(texts) > 1 else f"not {texts[0]}"
        raise _unfit(what, given, why, fix)
    return given


def check_text(what: str, given: Any, fix: str) -> str:
    """`given`, if it is a text; else ArgumentError for the argument `what`: "extern: name"."""
    if not isinstance(given, str):
        raise _unfit(what, given, "not a text", fix)
    return given


def check_flag(what: str, given: Any) -> bool:
    """`given` as True or False; ArgumentError if it is not one of them, 0, 1 or None."""
    if not isinstance(given, (*TRUTHS, type(None))) and not (type(given) is int and 0 <= given < 2):
        raise _unfit(what, given, "neither true nor false", "True or False")
    return bool(given)


def _unfit(what: str, given: Any, why: str, fix: str) -> ArgumentError:
    return ArgumentError(f"{what}={reprlib.repr(given)}", why, fix)
