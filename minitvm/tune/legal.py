"""Rows that must not be measured, because they cannot be fast and are slow to compile."""

from __future__ import annotations

from minitvm.base import Target

from .sketch import Sketch
from .space import Mask, Rows


def legal_rows(sketch: Sketch, rows: Rows, target: Target) -> Mask:
    """Return which rows may be measured on `target`."""
    raise NotImplementedError


def restricted(sketch: Sketch, target: Target) -> Sketch:
    """Return the sketch with a space that allows only rows that may be measured on `target`."""
    raise NotImplementedError
