"""Convolutions in one and in three dimensions, and transposed ones, by convolutions of images."""

from __future__ import annotations

from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .conv import conv2d
from .operands import checks_arguments
from .shape import INJECTIVE
from .window import Window, constant, margins, one_per_dimension, pair

__all__ = ["conv1d", "conv2d_transpose", "conv3d"]


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
        is_inside = te.all(z >= 0, z < deep.size)
        value = data(b // deep.out, channel // taps, z, y, x)
        return te.if_then_else(is_inside, value, te.const(0, data.dtype))

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


@checks_arguments
def conv2d_transpose(
    data: te.Tensor, kernel: te.Tensor, strides: Any = 1, padding: Any = 0
) -> te.Tensor:
    """Compute the transposed convolution of data [N, C, H, W], of shape [N, O, OH, OW].

    This is the gradient of conv2d with respect to its input. The kernel is [C, O, KH, KW], and
    OH = (H - 1)*stride - 2*padding + KH. Each output sums the products of kernel elements and the
    pixels of `data` that contribute to it.

    With stride 2, even and odd rows of the output read different rows of the kernel. They are two
    phases, each an ordinary convolution of `data` with a smaller kernel. Here all phases are the
    channels of one convolution, from which the output takes its pixels. No zeros are put into the
    image; if KH is not a multiple of the stride, some weights are zero (Shi et al., "Real-Time
    Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
    Network", 2016).

    phases[n, (o, r, t), q, p] = sum of data[n, c, q - j, p - i] * kernel[c, o, r + j*s, t + i*s]
    out[n, o, y, x]            = phases[n, (o, r, t), y // s, x // s], r = y % s, t = x % s

    The last line is without padding.
    """
    what = f"conv2d_transpose of {data.name}, {kernel.name}"
    if data.ndim != 4 or kernel.ndim != 4 or not tir.prove_equal(data.shape[1], kernel.shape[0]):
        raise ExprError(what, "their shapes must be [N, C, H, W] and [C, O, KH, KW]")
    steps, (top, left, bottom, right) = pair(strides, "strides"), margins(padding)
    if min(steps) < 1 or min(top, left, bottom, right) < 0:
        why = f"strides {steps} must be >= 1, and padding {top, left, bottom, right} >= 0"
        raise ExprError(what, why)
    height, wide = (constant(n, data) for n in data.shape[2:])
    kh, kw = (constant(n, kernel) for n in kernel.shape[2:])
    oh = (height - 1) * steps[0] - top - bottom + kh
    ow = (wide - 1) * steps[1] - left - right + kw
    taps = -(-kh // steps[0]), -(-kw // steps[1])  # of each phase
    weights = _weights_of_phases(kernel, steps, taps)
    phases = conv2d(data, weights, 1, (taps[0] - 1, taps[1] - 1))

    def shuffled(n: Any, o: Any, y: Any, x: Any) -> Any:
        row, column = y + top, x + left
        channel = (o * steps[0] + row % steps[0]) * steps[1] + column % steps[1]
        return phases(n, channel, row // steps[0], column // steps[1])

    shape = (data.shape[0], kernel.shape[1], oh, ow)
    return te.compute(shape, shuffled, name="T_conv2d_transpose", tag=INJECTIVE)


def _weights_of_phases(
    kernel: te.Tensor, steps: tuple[int, int], taps: tuple[int, int]
) -> te.Tensor:
    """Define the kernel [O * s * s, C, taps, taps] of all phases of a transposed convolution.

    Elements that `kernel`, [C, O, KH, KW], does not have are zero: KH need not be a multiple of s.
    """

    def weight(q: Any, c: Any, j: Any, i: Any) -> Any:
        o, ry, rx = q // (steps[0] * steps[1]), q // steps[1] % steps[0], q % steps[1]
        ky, kx = ry + (taps[0] - 1 - j) * steps[0], rx + (taps[1] - 1 - i) * steps[1]
        is_inside = te.all(ky < kernel.shape[2], kx < kernel.shape[3])
        return te.if_then_else(is_inside, kernel(c, o, ky, kx), te.const(0, kernel.dtype))

    inputs, outputs = kernel.shape[:2]
    shape = (outputs * (steps[0] * steps[1]), inputs, *taps)
    return te.compute(shape, weight, name="T_phases", tag=INJECTIVE)
