"""Operators in numpy, as plainly as possible: a reference for compiled networks.

Operators that are one expression in numpy stand in the table itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitvm.base import GraphError, holds_floats

from ..node import Array

_erf: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    """Return the error function of x."""
    return _erf(x).astype(x.dtype)


def gelu(x: Array) -> Array:
    """Return x * Phi(x)."""
    return (x * 0.5 * (1 + _erf(x * 0.5**0.5))).astype(x.dtype)


def leaky_relu(x: Array, alpha: float = 0.01) -> Array:
    """Return x where x > 0, else alpha * x."""
    return np.where(x > 0, x, x * alpha)


def concatenate(*tensors: Array, axis: int = 0) -> Array:
    """Join the tensors along `axis`."""
    return np.concatenate(tensors, axis)


def two(ufunc: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Array]:
    """Return a function of two operands that may be given by name: add(x, b=2.0)."""

    def apply(a: Any, b: Any) -> Array:
        return ufunc(a, b)

    return apply


def trunc_divide(a: Any, b: Any) -> Array:
    """Return a / b on integers, rounded towards 0."""
    return (a - np.fmod(a, b)) // b


def sign(x: Array) -> Array:
    """Return -1, 0 or 1; 0 for NaN."""
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def sizes(value: Any, rank: int = 2) -> tuple[int, ...]:
    """Return an integer or one for each dimension, such as (height, width), as a tuple."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


def edges(padding: Any, rank: int = 2) -> tuple[tuple[int, int], ...]:
    """Return a padding, 1, `rank` or 2 * `rank` integers, as (before, after) of each dimension.

    The dimensions of batch and channels come first; they are not padded.
    """
    before = sizes(padding, rank)
    return ((0, 0), (0, 0), *zip(before[:rank], before[-rank:], strict=True))


def channels_first(x: Array, layout: str) -> Array:
    """Return images of this layout as NCHW."""
    if layout == "NHWC":
        return x.transpose(0, 3, 1, 2)
    if layout == "NCHW":
        return x
    n, c, h, w, block = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, c * block, h, w)


def from_channels_first(x: Array, layout: str) -> Array:
    """Return NCHW images in this layout."""
    if layout == "NHWC":
        return x.transpose(0, 2, 3, 1)
    if layout == "NCHW":
        return x
    n, c, h, w = x.shape
    block = int(layout[4:-1])
    return x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)


def windows(
    x: Array, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Array:
    """Return the windows of the last dimensions: [..., *outputs, *kernel]."""
    rank = len(kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(-rank, 0)))
    steps = (*(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilation))
    return views[(..., *steps)]


def conv(x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int], groups: int) -> Array:
    """Convolve padded x [N, C, *sizes] with w [O, C / groups, *kernel]."""
    rank = x.ndim - 2
    parts = [
        np.tensordot(
            windows(group, w.shape[2:], strides, dilation),
            kernel,
            axes=((1, *range(2 + rank, 2 + 2 * rank)), tuple(range(1, 2 + rank))),
        )
        for group, kernel in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1)


def default_products(a: Array, b: Array) -> np.dtype[Any]:
    """Return the type of products of `a` and `b`: int32 for bytes, else their common type."""
    are_bytes = all(x.dtype.kind in "iu" and x.itemsize == 1 for x in (a, b))
    return np.dtype(np.int32) if are_bytes else np.result_type(a, b)


def factors(a: Array, b: Array, out_dtype: str) -> tuple[Array, Array]:
    """Return two operands in the type in which their products are added.

    For bytes this is float64, which is exact and which numpy multiplies fast.
    """
    if default_products(a, b) != np.result_type(a, b):
        return a.astype(np.float64), b.astype(np.float64)
    return (a.astype(out_dtype), b.astype(out_dtype)) if out_dtype else (a, b)


def conv2d(
    x: Array,
    w: Array,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    method: str = "",
    layout: str = "NCHW",
    out_dtype: str = "",
    pad_value: int = 0,
) -> Array:
    """Do what topi.conv2d and topi.conv3d do; all methods compute the same."""
    del method
    rank = x.ndim - 2 if layout == "NCHW" else 2
    x = np.pad(channels_first(x, layout), edges(padding, rank), constant_values=pad_value)
    w = w.transpose(3, 2, 0, 1) if layout == "NHWC" else w
    a, b = factors(x, w, out_dtype)
    y = conv(a, b, sizes(strides, rank), sizes(dilation, rank), groups)
    return from_channels_first(y, layout).astype(out_dtype or default_products(x, w))


def conv2d_transpose(x: Array, w: Array, strides: Any = 1, padding: Any = 0) -> Array:
    """Do what topi.conv2d_transpose does: stretch the image, convolve with the flipped kernel."""
    n, c, h, wide = x.shape
    sy, sx = sizes(strides)
    kh, kw = w.shape[2:]
    _, _, (top, bottom), (left, right) = edges(padding)
    spread_input = np.zeros((n, c, (h - 1) * sy + 1, (wide - 1) * sx + 1), x.dtype)
    spread_input[:, :, ::sy, ::sx] = x
    flipped_weights = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    whole = conv(np.pad(spread_input, edges((kh - 1, kw - 1))), flipped_weights, (1, 1), (1, 1), 1)
    return whole[:, :, top : whole.shape[2] - bottom, left : whole.shape[3] - right]


def pooled(
    x: Array, kernel: Any, strides: Any, padding: Any, layout: str, dilation: Any, outside: float
) -> tuple[Array, Array]:
    """Return the windows of NCHW images, and which of their pixels lie inside."""
    size = sizes(kernel)
    steps = size if strides is None else sizes(strides)
    x, rim = channels_first(x, layout), edges(padding)
    is_inside = np.pad(np.ones_like(x, np.bool_), rim)
    x = np.pad(x, rim, constant_values=outside)
    gaps = sizes(dilation)
    return windows(x, size, steps, gaps), windows(is_inside, size, steps, gaps)


def max_pool2d(
    x: Array,
    kernel: Any,
    strides: Any = None,
    padding: Any = 0,
    layout: str = "NCHW",
    dilation: Any = 1,
) -> Array:
    """Do what topi.max_pool2d does."""
    low = -np.inf if holds_floats(x) else np.iinfo(x.dtype).min
    patches, _ = pooled(x, kernel, strides, padding, layout, dilation, low)
    return from_channels_first(patches.max((-2, -1)), layout)


def avg_pool2d(
    x: Array,
    kernel: Any,
    strides: Any = None,
    padding: Any = 0,
    count_include_pad: bool = True,
    layout: str = "NCHW",
    dilation: Any = 1,
) -> Array:
    """Do what topi.avg_pool2d does."""
    patches, is_inside = pooled(x, kernel, strides, padding, layout, dilation, 0)
    count = math.prod(sizes(kernel)) if count_include_pad else is_inside.sum((-2, -1))
    return from_channels_first(patches.sum((-2, -1)) / count, layout).astype(x.dtype)


def global_avg_pool2d(x: Array, layout: str = "NCHW") -> Array:
    """Do what topi.global_avg_pool2d does."""
    mean = channels_first(x, layout).mean((2, 3), keepdims=True)
    return from_channels_first(mean, layout)


def matmul(
    a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False, out_dtype: str = ""
) -> Array:
    """Do what topi.matmul and topi.batch_matmul do."""
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    if not out_dtype:
        return np.matmul(a, b)
    return np.matmul(*factors(a, b, out_dtype)).astype(out_dtype)


def dense(x: Array, w: Array, bias: Array | None = None, out_dtype: str = "") -> Array:
    """Do what topi.dense does."""
    y = matmul(x, w, False, True, out_dtype)
    return y if bias is None else y + bias


def dense_int8(x: Array, w: Array, scales: Array) -> Array:
    """Do what topi.dense_int8 does."""
    return x @ (w * scales.repeat(w.shape[1] // scales.shape[1], 1)).astype(x.dtype).T


def along(vector: Array, rank: int, axis: int) -> Array:
    """Return a vector as a tensor of `rank` dimensions that broadcasts along all but `axis`."""
    shape = [1] * rank
    shape[axis] = vector.size
    return vector.reshape(shape)


def batch_norm(x: Array, *vectors: Array, axis: int = 1, epsilon: float = 1e-5) -> Array:
    """Do what topi.batch_norm does; `vectors` are gamma, beta, mean and variance."""
    g, b, m, v = (along(vector, x.ndim, axis) for vector in vectors)
    return ((x - m) / np.sqrt(v + epsilon) * g + b).astype(x.dtype)


def layer_norm(x: Array, *vectors: Array, axis: int = -1, epsilon: float = 1e-5) -> Array:
    """Do what topi.layer_norm does; `vectors` are gamma and beta, both or the first or none."""
    y = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + epsilon)
    for vector, apply in zip(vectors, (np.multiply, np.add), strict=False):
        y = apply(y, along(vector, x.ndim, axis))
    return y.astype(x.dtype)


def softmax(x: Array, axis: int = -1) -> Array:
    """Do what topi.softmax does."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """Do what topi.log_softmax does."""
    y = x - x.max(axis, keepdims=True)
    return y - np.log(np.exp(y).sum(axis, keepdims=True))


def strided_slice(
    x: Array, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    """Do what topi.strided_slice does."""
    steps = [1] * x.ndim if strides is None else strides
    return x[tuple(slice(*cut) for cut in zip(begin, end, steps, strict=True))]


def pad(
    x: Array, pad_before: Sequence[int], pad_after: Any = None, pad_value: float = 0.0
) -> Array:
    """Do what topi.pad does."""
    after = pad_before if pad_after is None else pad_after
    return np.pad(x, tuple(zip(pad_before, after, strict=True)), constant_values=pad_value)


def take(x: Array, indices: Array, axis: int | None = None, mode: str = "clip") -> Array:
    """Do what topi.take does, or, in mode "index", what numpy.take does."""
    try:
        return np.take(x, indices, axis, mode="raise" if mode == "index" else "clip")
    except IndexError as e:
        raise GraphError("take", str(e)) from e
