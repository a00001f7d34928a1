"""The decorator of every IR node."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

CHECK = os.environ.get("MINITVM_CHECK", "0") != "0"  # the test suite sets it to 1


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: type[T]) -> type[T]:
    """Make `cls` an IR node: slotted, equal only to itself, and immutable.

    Immutable for the type checker always, at run time only under MINITVM_CHECK=1: a frozen
    dataclass costs five times as much to build as a slotted one.
    """
    make: Callable[[type[T]], type[T]] = dataclass(
        slots=True, eq=False, frozen=CHECK, weakref_slot=True
    )
    return make(cls)
