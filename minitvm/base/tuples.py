"""Convert arguments that are either one object or a list of objects."""

from typing import Any, cast


def as_tuple(x: Any) -> tuple[Any, ...]:
    """Convert a list or tuple to a tuple, and any other object `C` to the tuple (C,)."""
    return tuple(cast("list[Any]", x)) if isinstance(x, list | tuple) else (x,)
