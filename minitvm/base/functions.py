"""Names and docstrings for functions that are generated in bulk."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def named(f: F, name: str, doc: str) -> F:
    """Set the name and the docstring that help() and shift-tab show for `f`; return `f`."""
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f
