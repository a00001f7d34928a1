"""Operators of torch on windows of images: convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import onnx
from ..onnx import Place, Value, shape_of
from .linear import linear, reduced
from .shapes import transpose

Sizes = int | Sequence[int]


def _sizes(value: Sizes, rank: int) -> tuple[int, ...]:
    """Return a size for each of `rank` dimensions; a single size is repeated."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * rank if len(values) == 1 else values


def _window(
    at: Place, rank: int, strides: Sizes, padding: Any, dilation: Sizes, **more: Any
) -> Place:
    """Return the place with the options of a window, named as in ONNX."""
    attrs: dict[str, Any] = {"strides": _sizes(strides, rank), "dilations": _sizes(dilation, rank)}
    if isinstance(padding, str):
        attrs["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
    else:
        attrs["pads"] = _sizes(padding, rank) * 2
    return at.having(**attrs, **more)


def conv(
    at: Place,
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Value:
    """Convolve images of 1, 2 or 3 dimensions."""
    window = _window(at, len(shape_of(w)) - 2, stride, padding, dilation, group=groups)
    return onnx.windows.conv(window, x, w, bias)


def conv_transpose(
    at: Place,
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Value:
    """Apply a transposed convolution."""
    rank = len(shape_of(w)) - 2
    extra = _sizes(output_padding, rank)
    window = _window(at, rank, stride, padding, dilation, group=groups, output_padding=extra)
    return onnx.windows.conv_transpose(window, x, w, bias)


def convolution(
    at: Place,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Value:
    """Convolve, or apply a transposed convolution."""
    if transposed:
        return conv_transpose(at, x, w, bias, stride, padding, output_padding, groups, dilation)
    return conv(at, x, w, bias, stride, padding, dilation, groups)


def _pool(
    at: Place,
    x: Value,
    op: str,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes = 1,
    **more: Any,
) -> Value:
    rank = len(shape_of(x)) - 2
    steps = stride or kernel  # () is as none
    size = _sizes(kernel, rank)
    window = _window(at, rank, steps, padding, dilation, kernel_shape=size, **more)
    return onnx.windows.pool(window, x, op)


def max_pool(
    at: Place,
    x: Value,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Value:
    """Return the maximum of each window."""
    return _pool(at, x, "max_pool2d", kernel, stride, padding, dilation, ceil_mode=int(ceil_mode))


def avg_pool(
    at: Place,
    x: Value,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """Return the mean of each window."""
    if divisor_override is not None:
        raise at.refusal(f"divisor_override={divisor_override}")
    counts = {"ceil_mode": int(ceil_mode), "count_include_pad": int(count_include_pad)}
    return _pool(at, x, "avg_pool2d", kernel, stride, padding, **counts)


def adaptive_avg_pool(at: Place, x: Value, sizes: Sizes) -> Value:
    """Return the means of `sizes` windows, which cover each dimension as equally as possible."""
    old = shape_of(x)[2:]
    new = _sizes(sizes, len(old))
    if all(n == 1 for n in new):
        return reduced(at, x, tuple(range(2, 2 + len(old))), True, op="mean")
    if all(n % m == 0 for n, m in zip(old, new, strict=True)):
        return avg_pool(at, x, tuple(n // m for n, m in zip(old, new, strict=True)))
    for d, (n, m) in enumerate(zip(old, new, strict=True), 2):
        if n != m:  # a product with the weights of each mean
            y = linear(at, transpose(at, x, d, -1), _means(n, m))
            x = transpose(at, y, d, -1)
    return x


def _means(n: int, m: int) -> Any:
    """Return the weights [m, n] of the means of m windows in n elements."""
    starts, ends = np.arange(m) * n // m, -(-np.arange(1, m + 1) * n // m)
    at = np.arange(n)
    inside = (at >= starts[:, None]) & (at < ends[:, None])
    return (inside / (ends - starts)[:, None]).astype(np.float32)


def adaptive_max_pool(at: Place, x: Value, sizes: Sizes) -> tuple[Value, ...]:
    """Return the maxima of `sizes` windows of equal size."""
    old = shape_of(x)[2:]
    new = _sizes(sizes, len(old))
    if any(n % m for n, m in zip(old, new, strict=True)):
        raise at.refusal(f"sizes {list(old)} are not multiples of {list(new)}")
    return (max_pool(at, x, tuple(n // m for n, m in zip(old, new, strict=True))),)
