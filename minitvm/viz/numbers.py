"""Check the numbers that are given to a widget."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.base import ArgumentError

from .reads import Array


def finite(what: str, values: Any, *shape: int | None) -> Array:
    """Return numbers as float64[shape], where None stands for any size of at least 1.

    Raises ArgumentError for another shape, for NaN and for infinite numbers.
    """
    try:
        numbers: Array = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(what, "not an array of numbers", "a list of floats") from None
    sizes = zip(numbers.shape, shape, strict=False)
    fits = numbers.ndim == len(shape) and all(
        n == (max(n, 1) if m is None else m) for n, m in sizes
    )
    if not fits:
        expected = ", ".join("n" if m is None else str(m) for m in shape)
        size = f"float[{', '.join(map(str, numbers.shape))}]"
        raise ArgumentError(f"{what}: {size}", f"its shape is not [{expected}]")
    if not np.isfinite(numbers).all():
        raise ArgumentError(what, "some numbers are NaN or infinite", "np.nan_to_num(values)")
    return numbers
