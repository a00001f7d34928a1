"""Check the arguments of public functions: types, strings, booleans, counts and masked arrays."""

from __future__ import annotations

import reprlib
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from .errors import ArgumentError

T = TypeVar("T")
TRUTHS: tuple[type[Any], ...] = (bool, np.bool_)
AN = ("A", "E", "I", "O", "nd")  # names that follow "an": an Area, an ndarray


def check_kind(what: str, value: Any, *kinds: type[T], fix: str) -> T:
    """Return `value` if it is an instance of one of `kinds`; raise ArgumentError otherwise.

    `what` is the argument's name: for what="config" the message may be "config=5: not a Config".
    `fix` says what to pass instead.
    """
    if not isinstance(value, kinds):
        names = [kind.__name__ for kind in kinds]
        kinds_text = [f"{'an' if name.startswith(AN) else 'a'} {name}" for name in names]
        why = (
            f"neither {' nor '.join(kinds_text)}" if len(kinds_text) > 1 else f"not {kinds_text[0]}"
        )
        raise _unfit(what, value, why, fix)
    return value


def check_text(what: str, value: Any, fix: str) -> str:
    """Return `value` if it is a string; raise ArgumentError otherwise.

    `what` names the argument in the message, such as "extern: name"; `fix` says what to pass.
    """
    if not isinstance(value, str):
        raise _unfit(what, value, "not a string", fix)
    return value


def check_flag(what: str, value: Any) -> bool:
    """Return bool(value); raise ArgumentError if `value` is not a bool, 0, 1 or None."""
    if not isinstance(value, (*TRUTHS, type(None))) and not (type(value) is int and 0 <= value < 2):
        raise _unfit(what, value, "neither true nor false", "True or False")
    return bool(value)


def is_count(value: object, least: int = 1) -> bool:
    """Return whether `value` is an int, or a numpy integer, of at least `least`."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def check_count(what: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int; raise ArgumentError unless it is an int of at least `least`."""
    if not is_count(value, least):
        raise _unfit(what, value, f"not an int of at least {least}", f"{what}={least}")
    return int(value)


def check_unmasked(what: str, value: Any) -> Any:
    """Return `value`; raise ArgumentError for a masked array, because its mask would be lost."""
    if isinstance(value, np.ma.MaskedArray):
        why, fix = "its mask would be lost", "a.filled(0), or a.data to ignore the mask"
        raise ArgumentError(f"{what} of a masked array", why, fix)
    return value


def _unfit(what: str, value: Any, why: str, fix: str) -> ArgumentError:
    return ArgumentError(f"{what}={reprlib.repr(value)}", why, fix)
