"""Operators that read or write elements at computed places, in numpy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..node import Array


def placed(indices: Array, size: int) -> Array:
    """Return indices, which may count from the end, as the nearest ones in 0 .. size - 1."""
    return np.clip(np.where(indices < 0, indices + size, indices), 0, size - 1)


def gather(x: Array, indices: Array, axis: int) -> Array:
    """Do what topi.gather does."""
    return x[_along(x, indices, axis)]


def _along(x: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    at: list[Array] = list(np.ix_(*map(np.arange, indices.shape)))
    at[axis] = placed(indices, x.shape[axis])
    return tuple(at)


def gather_nd(x: Array, indices: Array, batch_dims: int = 0) -> Array:
    """Do what topi.gather_nd does."""
    batch: tuple[Array, ...] = np.ix_(*map(np.arange, indices.shape[:-1]))[:batch_dims]
    return x[(*batch, *_rows(x, indices, batch_dims))]


def _rows(x: Array, indices: Array, first: int = 0) -> tuple[Array, ...]:
    depth = indices.shape[-1]
    return tuple(placed(indices[..., k], x.shape[first + k]) for k in range(depth))


def scatter_elements(
    x: Array, indices: Array, updates: Array, axis: int = 0, reduction: str = "none"
) -> Array:
    """Do what topi.scatter_elements does."""
    return _scattered(x, _along(x, indices, axis), updates, reduction)


def scatter_nd(x: Array, indices: Array, updates: Array, reduction: str = "none") -> Array:
    """Do what topi.scatter_nd does."""
    return _scattered(x, _rows(x, indices), updates, reduction)


def _scattered(x: Array, at: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    y = x.copy()
    if reduction == "none":
        y[at] = updates
    else:
        names = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
        names[reduction].at(y, at, updates)
    return y


def _cumulative(ufunc: Any) -> Callable[..., Array]:
    """Return a function that folds all elements up to each place of an axis."""

    def apply(x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
        x = np.flip(x, axis) if reverse else x
        y: Array = ufunc.accumulate(x, axis, dtype=x.dtype)
        if exclusive:
            first = np.full_like(y.take([0], axis), ufunc.identity)
            y = np.concatenate([first, y.take(range(y.shape[axis] - 1), axis)], axis)
        return np.flip(y, axis) if reverse else y

    return apply


cumsum, cumprod = _cumulative(np.add), _cumulative(np.multiply)


def topk(x: Array, k: int, axis: int = -1, largest: bool = True) -> Array:
    """Do what topi.topk does."""
    if largest:  # of equal elements, the first one comes first
        reverse = np.argsort(np.flip(x, axis), axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(reverse, axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    return order.take(range(k), axis)


def resample(x: Array, indices: Array, weights: Array, axis: int) -> Array:
    """Do what topi.resample does."""
    rows = np.moveaxis(x, axis, -1).take(indices, -1, mode="clip")
    return np.moveaxis((rows * weights).sum(-1), -1, axis).astype(x.dtype)


def grid_sample(
    x: Array,
    grid: Array,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """Do what topi.grid_sample does."""
    sizes = x.shape[2:]
    batch = np.arange(len(x)).reshape(-1, *([1] * len(sizes)))
    taps = [
        _taps(grid[..., -1 - d], n, mode, padding_mode, align_corners) for d, n in enumerate(sizes)
    ]
    pixels: list[Array] = []
    for chosen in itertools.product(*taps):
        weight: Array = functools.reduce(np.multiply, [w for w, _ in chosen])
        pixels.append(weight[..., None] * x[(batch, slice(None), *(at for _, at in chosen))])
    total: Array = functools.reduce(np.add, pixels)
    return np.moveaxis(total, -1, 1).astype(x.dtype)


def _taps(g: Array, size: int, mode: str, padding: str, corners: bool) -> list[tuple[Array, Array]]:
    """Return the weights and the indices of the pixels around the coordinates g of an axis."""
    low, high = (0, size - 1) if corners else (-0.5, size - 0.5)
    at = (g + 1) / 2 * (high - low) + low
    if padding == "border":
        at = np.where((at < low) | (at > high), np.clip(at, 0, size - 1), at)
    if padding == "reflection":
        at = _reflected(at, low, high)
    left = np.round(at) if mode == "nearest" else np.floor(at)
    taps: list[tuple[Array, Array]] = []
    for tap in {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]:
        weight, pixel = _kernel(mode, abs(at - left - tap)), left + tap
        if padding == "zeros":
            weight = np.where((pixel >= 0) & (pixel < size), weight, 0)
        if padding == "reflection":
            pixel = _reflected(pixel, low, high)
        taps.append((weight, np.clip(np.nan_to_num(pixel), 0, size - 1).astype(np.int64)))
    return taps


def _reflected(at: Array, low: float, high: float) -> Array:
    span = high - low
    ahead = np.fmod(abs(at - low), max(2 * span, 1e-6))
    return low + np.where(ahead > span, 2 * span - ahead, ahead)


def _kernel(mode: str, d: Array, a: float = -0.75) -> Array:
    """Return the weight of a pixel at distance d (Keys, 1981, equation 15, with a free slope a)."""
    if mode == "nearest":
        return np.ones_like(d)
    if mode == "linear":
        return 1 - d
    near, far = ((a + 2) * d - (a + 3)) * d**2 + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, far)
