"""Short reprs for records with large contents, and the plural."""

from __future__ import annotations

import reprlib
from dataclasses import fields
from typing import Any

SHORT = reprlib.Repr()
SHORT.maxtuple = SHORT.maxlist = SHORT.maxdict = 2
SHORT.maxlevel = 2
SHORT.maxother = SHORT.maxstring = 60


def plural(count: int) -> str:
    """Return "s", or "" for 1: 1 block, 2 blocks."""
    return "" if count == 1 else "s"


def brief(self: Any) -> str:
    """Return a repr of the record `self` on one line; arrays and long fields are shortened.

    A record has it as its method: __repr__ = brief.

    Population(rows=int32[512, 8], scores=float64[512], keys=int64[512])
    """
    names = getattr(self, "_fields", None) or [f.name for f in fields(self)]
    shown = (f"{name}={_field(getattr(self, name))}" for name in names)
    return f"{type(self).__name__}({', '.join(shown)})"


def _field(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, shape))}]"
    if isinstance(value, list | tuple) and len(value) > SHORT.maxtuple:  # pyright: ignore[reportUnknownArgumentType]
        return f"{len(value)} of {type(value[0]).__name__}"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return SHORT.repr(value)
