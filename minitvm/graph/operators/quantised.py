"""Operators on quantised numbers in numpy: a byte q stands for the real number (q - zero) * scale.

All products and sums are rounded as in topi.quantised, so compiled results are equal to these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import Array
from .reference import along


def _fitting(parameter: Any, x: Array, axis: int) -> Any:
    """Return a number, or a vector such that it broadcasts along all dimensions but `axis`."""
    return along(parameter, x.ndim, axis) if np.ndim(parameter) and x.ndim else parameter


def _stored(value: Array, zero: Any, low: int, high: int, dtype: str) -> Array:
    """Return rint(value) + zero, limited to low .. high; NaN becomes the byte 0."""
    whole = np.rint(value) + zero
    return np.clip(np.where(np.isnan(whole), 0, whole), low, high).astype(dtype)


def quantise(x: Array, scale: Any, zero: Any = 0, dtype: str = "uint8", axis: int = -1) -> Array:
    """Do what topi.quantise does."""
    steps = x / np.asarray(_fitting(scale, x, axis), x.dtype)
    limits = np.iinfo(dtype)
    point = np.asarray(_fitting(zero, x, axis)).astype(np.int64)
    return _stored(steps, point, limits.min, limits.max, dtype)


def dequantise(q: Array, scale: Any, zero: Any = 0, axis: int = -1) -> Array:
    """Do what topi.dequantise does."""
    point = np.asarray(_fitting(zero, q, axis)).astype(np.int64)
    steps = (q.astype(np.int64) - point).astype(np.int32)
    return steps.astype(np.float32) * np.asarray(_fitting(scale, q, axis), np.float32)


def requantise(
    acc: Array,
    bias: Array,
    scale: Array,
    zero: int = 0,
    low: int = 0,
    high: int = 255,
    dtype: str = "uint8",
    axis: int = -1,
) -> Array:
    """Do what topi.requantise does."""
    total = (acc + along(bias, acc.ndim, axis)).astype(np.float32)
    return _stored(total * along(scale, acc.ndim, axis), zero, low, high, dtype)


def add_requantised(
    a: Array,
    b: Array,
    ra: float,
    rb: float,
    rc: float,
    low: int = 0,
    high: int = 255,
    dtype: str = "uint8",
) -> Array:
    """Do what topi.add_requantised does; float64 holds exact products before they are rounded."""
    fa, fb, fc = (np.float64(np.float32(r)) for r in (ra, rb, rc))
    inner = (b * fb + fc).astype(np.float32)
    return _stored((a * fa + inner).astype(np.float32), 0, low, high, dtype)
