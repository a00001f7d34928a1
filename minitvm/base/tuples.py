"""Arguments that may be one thing or several."""

from typing import Any, cast


def as_tuple(x: Any) -> tuple[Any, ...]:
    """Return a list or tuple as a tuple, anything else as a tuple of one: as_tuple(C) = (C,)."""
    return tuple(cast("list[Any]", x)) if isinstance(x, list | tuple) else (x,)
