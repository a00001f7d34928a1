"""Functions that are made from a row of a table."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def named(f: F, name: str, doc: str) -> F:
    """Give `f` the name and the docstring that help() and shift-tab show."""
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f
