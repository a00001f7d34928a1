"""Check the arguments of public functions: types, strings, booleans and masked arrays."""

from __future__ import annotations

import reprlib
from typing import Any, TypeVar

import numpy as np

from .errors import ArgumentError

T = TypeVar("T")
TRUTHS: tuple[type[Any], ...] = (bool, np.bool_)
AN = ("A", "E", "I", "O", "nd")  # names that follow "an": an Area, an ndarray


def check_kind(what: str, given: Any, *kinds: type[T], fix: str) -> T:
    """Return `given` if it is an instance of one of `kinds`; raise ArgumentError otherwise.

    `what` is the argument's name: for what="config" the message may be "config=5: not a Config".
    `fix` says what to pass instead.
    """
    if not isinstance(given, kinds):
        names = [kind.__name__ for kind in kinds]
        each = [f"{'an' if name.startswith(AN) else 'a'} {name}" for name in names]
        why = f"neither {' nor '.join(each)}" if len(each) > 1 else f"not {each[0]}"
        raise _unfit(what, given, why, fix)
    return given


def check_text(what: str, given: Any, fix: str) -> str:
    """Return `given` if it is a string; raise ArgumentError otherwise.

    `what` names the argument in the message, such as "extern: name"; `fix` says what to pass.
    """
    if not isinstance(given, str):
        raise _unfit(what, given, "not a string", fix)
    return given


def check_flag(what: str, given: Any) -> bool:
    """Return bool(given); raise ArgumentError if `given` is not a bool, 0, 1 or None."""
    if not isinstance(given, (*TRUTHS, type(None))) and not (type(given) is int and 0 <= given < 2):
        raise _unfit(what, given, "neither true nor false", "True or False")
    return bool(given)


def check_unmasked(what: str, given: Any) -> Any:
    """Return `given`; raise ArgumentError for a masked array, because its mask would be lost."""
    if isinstance(given, np.ma.MaskedArray):
        why, fix = "its mask would be lost", "a.filled(0), or a.data to ignore the mask"
        raise ArgumentError(f"{what} of a masked array", why, fix)
    return given


def _unfit(what: str, given: Any, why: str, fix: str) -> ArgumentError:
    return ArgumentError(f"{what}={reprlib.repr(given)}", why, fix)
