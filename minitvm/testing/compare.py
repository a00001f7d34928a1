"""Compare two arrays, with a message that says where they differ."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from minitvm.base import holds_floats

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def difference(actual: Any, desired: Any, rtol: float = 0.0, atol: float = 0.0) -> str:
    """Describe the first element with |actual - desired| > atol + rtol * |desired|, or return "".

    A NaN counts as equal to a NaN, and an infinity only to itself.
    """
    got, want = np.asarray(actual), np.asarray(desired)
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    bad = np.argwhere(~_close(got, want, rtol, atol))
    if not len(bad):
        return ""
    at = tuple(int(i) for i in bad[0])
    element = f"[{', '.join(map(str, at))}]"
    message = f"{len(bad)} of {got.size} elements differ"
    return (
        f"{element}: got {got[at]!r}, want {want[at]!r} ({message}, rtol={rtol:g}, atol={atol:g})"
    )


def _close(got: Array, want: Array, rtol: float, atol: float) -> Array:
    if not all(holds_floats(a) or a.dtype.kind == "c" for a in (got, want)) and rtol == atol == 0:
        return np.equal(got, want)
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        is_close = np.abs(x - y) <= atol + rtol * np.abs(y)
    is_close = np.where(np.isfinite(x) & np.isfinite(y), is_close, x == y)
    return is_close | (np.isnan(x) & np.isnan(y))


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-5, atol: float = 1e-7) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere.

    The message names the first index that differs, both values, and how many elements differ.
    """
    message = difference(actual, desired, rtol, atol)
    if message:
        raise AssertionError(f"arrays differ at {message}" if message[0] == "[" else message)
