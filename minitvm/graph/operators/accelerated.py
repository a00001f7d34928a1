"""Operators of the accelerator, on images in its blocks: [n / B, c / b, h, w, B, b].

The current accelerator decides the sizes B and b: see vta.get_env.
"""

from __future__ import annotations

import numpy as np

from minitvm import te, vta

from ..node import Array
from . import reference


def pack(x: te.Tensor, blocks: tuple[int, int]) -> te.Tensor:
    """Return images in blocks of `blocks` images and channels."""
    return vta.packed(x, *blocks)


def unpack(x: te.Tensor) -> te.Tensor:
    """Return images in blocks as [n, c, h, w]."""
    return vta.unpacked(x)


def conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    residual: te.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    shift: int = 8,
    residual_shift: int = 0,
    low: int = 0,
    high: int = 127,
) -> te.Tensor:
    """Return int8 min(max(sums + bias + (residual << residual_shift) >> shift, low), high)."""
    sums = vta.top.conv2d(data, weight, stride, padding)
    return vta.top.requantize(
        sums, bias, residual, shift=shift, residual_shift=residual_shift, low=low, high=high
    )


def unpacked(x: Array) -> Array:
    """Do what `unpack` does."""
    return vta.unpack(x, x.shape[0] * x.shape[-2], x.shape[1] * x.shape[-1])


def convolved(
    data: Array,
    weight: Array,
    bias: Array,
    residual: Array | None = None,
    stride: int = 1,
    padding: int = 0,
    shift: int = 8,
    residual_shift: int = 0,
    low: int = 0,
    high: int = 127,
) -> Array:
    """Do what `conv2d` does."""
    images, weights = unpacked(data), unpacked(weight)
    sums = reference.conv2d(images, weights, stride, padding, out_dtype="int32")
    total = vta.pack(sums, data.shape[-2], bias.shape[-1]) + bias[:, None, None]
    if residual is not None:
        total += residual.astype(np.int32) << residual_shift
    return np.clip(total >> shift, low, high).astype(np.int8)
