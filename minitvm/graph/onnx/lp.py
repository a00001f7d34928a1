"""ONNX operators that compute norms of order p: the p-th root of the sum of |x| ** p."""

from __future__ import annotations

import math

import numpy as np

from .elements import pair
from .place import Place, Value, dtype_of, shape_of
from .windows import ceiled, pooled, window_of


def lp_norm(at: Place, x: Value) -> Value:
    """LpNormalization: x divided by its norm along `axis`; 0 where that is 0."""
    axis = at.axis(at.attrs.get("axis", -1), len(shape_of(x)))
    norm = _root(at, at.make("sum", _terms(at, x), axis=(axis,), keepdims=True))
    zero = np.asarray(0, dtype_of(x).numpy)
    return at.make("where", pair(at, "equal", norm, zero), zero, at.make("divide", x, norm))


def lp_pool(at: Place, x: Value) -> Value:
    """LpPool: the norm of each window; what lies outside the image is 0."""
    window = window_of(at, shape_of(x), at.attrs["kernel_shape"])
    outer = ceiled(window, shape_of(x)[2:]) if at.flag("ceil_mode") else window
    mean = pooled(at, _terms(at, x), outer, "avg_pool2d")
    count = np.asarray(math.prod(window.kernel), dtype_of(x).numpy)
    return _root(at, pair(at, "multiply", mean, count))


def global_lp_pool(at: Place, x: Value) -> Value:
    """GlobalLpPool: the norm of each channel."""
    axes = tuple(range(2, len(shape_of(x))))
    return _root(at, at.make("sum", _terms(at, x), axis=axes, keepdims=True))


def _terms(at: Place, x: Value) -> Value:
    """Return |x| ** p."""
    match at.attrs.get("p", 2):
        case 1:
            return at.make("abs", x)
        case 2:
            return at.make("multiply", x, x)
        case p:
            return pair(at, "power", at.make("abs", x), np.asarray(p, dtype_of(x).numpy))


def _root(at: Place, total: Value) -> Value:
    """Return the p-th root."""
    match at.attrs.get("p", 2):
        case 1:
            return total
        case 2:
            return at.make("sqrt", total)
        case p:
            return pair(at, "power", total, np.asarray(1 / p, dtype_of(total).numpy))
