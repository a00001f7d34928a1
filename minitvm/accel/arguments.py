"""What is handed to the calls of this room, checked at its door."""

from __future__ import annotations

import reprlib
from typing import Any

from minitvm.base import ArgumentError


def check_kind(what: str, given: object, *kinds: type[Any]) -> None:
    """Refuse what is of none of these types: "program=None: it is no Program"."""
    if not isinstance(given, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ArgumentError(f"{what}={reprlib.repr(given)}", f"it is no {names}")


def check_number(what: str, name: str, value: object, bits: int) -> None:
    """Refuse what is no number of so many bits."""
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise ArgumentError(
            f"{what}: {name}={reprlib.repr(value)}", f"it is an int from 0 to {(1 << bits) - 1}"
        )
