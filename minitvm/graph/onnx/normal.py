"""ONNX operators that normalise: by the mean and variance of a part of x, or by a norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .elements import pair
from .linear import epsilon_of
from .place import Place, Value, dtype_of, shape_of


def layer_norm(at: Place, x: Value, scale: Value, bias: Value | None = None) -> tuple[Value, ...]:
    """LayerNormalization of all dimensions from `axis` on; also their mean and 1 / deviation."""
    shape = shape_of(x)
    axis = at.axis(at.attrs.get("axis", -1), len(shape))
    n = math.prod(shape[axis:])
    affine = [scale] if bias is None else [scale, bias]
    if any(
        shape_of(v)[axis - len(shape) :] != shape[axis:] or math.prod(shape_of(v)) != n
        for v in affine
    ):
        raise at.refusal(f"its scale and bias do not have the shape {list(shape[axis:])} of a row")
    vectors = [at.reshape(v, (n,)) for v in affine]
    rows = at.reshape(x, (*shape[:axis], n))
    y = at.reshape(at.make("layer_norm", rows, *vectors, **epsilon_of(at)), shape)
    if len(at.call.outputs) < 2:
        return (y,)
    axes: dict[str, Any] = {"axis": tuple(range(axis, len(shape))), "keepdims": True}
    mean = at.make("mean", x, **axes)
    centered = at.make("subtract", x, mean)
    variance = at.make("mean", at.make("multiply", centered, centered), **axes)
    return y, mean, at.make("rsqrt", _plus(at, variance, at.attrs.get("epsilon", 1e-5)))


def _plus(at: Place, x: Value, number: float) -> Value:
    return pair(at, "add", x, np.asarray(number, dtype_of(x).numpy))


def instance_norm(at: Place, x: Value, scale: Value, bias: Value) -> Value:
    """InstanceNormalization: of each channel."""
    return _grouped(at, x, scale, bias, shape_of(x)[1])


def group_norm(at: Place, x: Value, scale: Value, bias: Value) -> Value:
    """GroupNormalization: of `num_groups` groups of channels."""
    return _grouped(at, x, scale, bias, at.attrs["num_groups"])


def _grouped(at: Place, x: Value, scale: Value, bias: Value, groups: int) -> Value:
    shape = shape_of(x)
    channels = shape[1]
    if groups < 1 or channels % groups or shape_of(scale) != shape_of(bias):
        raise at.refusal(f"{channels} channels are not {groups} groups of one size")
    rows = at.reshape(x, (shape[0], groups, math.prod(shape[1:]) // groups))
    y = at.reshape(at.make("layer_norm", rows, **epsilon_of(at)), shape)
    ones = (1,) * (len(shape) - 2)
    if shape_of(scale) == (groups,) != (channels,):  # before operator set 21
        rows_of = np.arange(channels) // (channels // groups)
        scale, bias = (at.make("take", vector, rows_of, axis=0) for vector in (scale, bias))
    y = at.make("multiply", y, at.reshape(scale, (channels, *ones)))
    return at.make("add", y, at.reshape(bias, (channels, *ones)))


def local_response(at: Place, x: Value) -> Value:
    """LRN: x divided by a power of the sum of squares in neighbouring channels."""
    size = at.attrs["size"]
    n, c, *sizes = shape_of(x)
    before, after = (size - 1) // 2, size // 2
    squares = at.reshape(at.make("multiply", x, x), (n, 1, c, math.prod(sizes)))
    window = {"kernel": (size, 1), "strides": 1, "padding": (before, 0, after, 0)}
    mean = at.reshape(at.make("avg_pool2d", squares, **window), shape_of(x))
    kind = dtype_of(x).numpy
    scaled = pair(at, "multiply", mean, np.asarray(at.attrs.get("alpha", 1e-4), kind))
    base = _plus(at, scaled, at.attrs.get("bias", 1.0))
    power = pair(at, "power", base, np.asarray(at.attrs.get("beta", 0.75), kind))
    return at.make("divide", x, power)
