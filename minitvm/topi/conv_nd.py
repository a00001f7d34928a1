"""Convolutions in one and in three dimensions, by convolutions of images."""

from __future__ import annotations

from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .conv import conv2d
from .operands import checks_arguments
from .shape import INJECTIVE
from .window import Window, one_per_dimension


@checks_arguments
def conv1d(
    data: te.Tensor, kernel: te.Tensor, strides: int = 1, padding: Any = 0, dilation: int = 1
) -> te.Tensor:
    """Convolve data [N, C, W] with kernel [O, C, KW] to [N, O, OW].

    It is a convolution of images with one row.
    """
    (wide,) = _windows(data, kernel, strides, padding, dilation, 1)
    image, weights = _one_row(data, "T_image"), _one_row(kernel, "T_weights")
    out = conv2d(image, weights, (1, wide.stride), (0, wide.before), (1, wide.dilation))

    def body(n: Any, o: Any, x: Any) -> Any:
        return out(n, o, 0, x)

    return te.compute((*out.shape[:2], wide.out), body, name="T_conv1d", tag=INJECTIVE)


def _one_row(t: te.Tensor, name: str) -> te.Tensor:
    """Return t, [A, B, W], as [A, B, 1, W]."""

    def body(a: Any, b: Any, _: Any, x: Any) -> Any:
        return t(a, b, x)

    return te.compute((*t.shape[:2], 1, t.shape[2]), body, name=name, tag=INJECTIVE)


@checks_arguments
def conv3d(
    data: te.Tensor, kernel: te.Tensor, strides: Any = 1, padding: Any = 0, dilation: Any = 1
) -> te.Tensor:
    """Convolve data [N, C, D, H, W] with kernel [O, C, KD, KH, KW] to [N, O, OD, OH, OW].

    Each slice of the output is a convolution of an image that has the channels of all input slices
    that it reads. Slices outside of the data are zero.

    slices[(n, z), (c, k), y, x] = data[n, c, z*stride + k*dilation - padding, y, x]
    out[n, o, z, y, x]           = conv2d(slices, kernel[o, (c, k), :, :])[(n, z), o, y, x]
    """
    deep, high, wide = _windows(data, kernel, strides, padding, dilation, 3)
    taps = deep.kernel

    def pixel(b: Any, channel: Any, y: Any, x: Any) -> Any:
        z = b % deep.out * deep.stride + channel % taps * deep.dilation - deep.before
        inside = te.all(z >= 0, z < deep.size)
        value = data(b // deep.out, channel // taps, z, y, x)
        return te.if_then_else(inside, value, te.const(0, data.dtype))

    def weight(o: Any, channel: Any, ky: Any, kx: Any) -> Any:
        return kernel(o, channel // taps, channel % taps, ky, kx)

    batch, channels = data.shape[:2]
    shape = (batch * deep.out, channels * taps, high.size, wide.size)
    slices = te.compute(shape, pixel, name="T_slices", tag=INJECTIVE)
    shape = (kernel.shape[0], channels * taps, high.kernel, wide.kernel)
    weights = te.compute(shape, weight, name="T_weights", tag=INJECTIVE)
    steps, pads = (high.stride, wide.stride), (high.before, wide.before)
    out = conv2d(slices, weights, steps, pads, (high.dilation, wide.dilation))

    def body(n: Any, o: Any, z: Any, y: Any, x: Any) -> Any:
        return out(n * deep.out + z, o, y, x)

    shape = (batch, kernel.shape[0], deep.out, high.out, wide.out)
    return te.compute(shape, body, name="T_conv3d", tag=INJECTIVE)


def _windows(
    data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, rank: int
) -> list[Window]:
    """Return the windows of a convolution in `rank` dimensions; raise ExprError if illegal."""
    if (
        data.ndim != rank + 2
        or kernel.ndim != rank + 2
        or not tir.prove_equal(data.shape[1], kernel.shape[1])
    ):
        raise ExprError(
            f"conv{rank}d of {data.name}, {kernel.name}",
            f"data and kernel must both have {rank + 2} dimensions, with equal second dimensions",
        )
    fix = f"one for each of {rank} dimensions"
    steps, pads, dilations = (
        one_per_dimension(x, rank, "", fix) for x in (strides, padding, dilation)
    )
    return [
        Window.over(data, d + 2, kernel.shape[d + 2], steps[d], (pads[d], pads[d]), dilations[d])
        for d in range(rank)
    ]
