"""The class decorator for IR nodes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

CHECK = os.environ.get("MINITVM_CHECK", "0") != "0"  # the test suite sets it to 1


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: type[T]) -> type[T]:
    """Make `cls` an IR node: a dataclass that has slots, is immutable and equals only itself.

    The type checker always enforces immutability. At run time it is enforced only under
    MINITVM_CHECK=1, because building a frozen dataclass takes five times as long.
    """
    make: Callable[[type[T]], type[T]] = dataclass(
        slots=True, eq=False, frozen=CHECK, weakref_slot=True
    )
    return make(cls)
