"""Convolutions of bytes in NHWC, summed in int32, by dot-product instructions such as vpdpbusd.

As in `topi.int8`, an instruction adds the products of four bytes to one int32 in each of 16 lanes.
Here the four bytes are channels of a pixel, and the lanes are output channels. For data of uint8:

    image[n, y, x, c]                 the padded data
    groups[oo, ky, kx, co, oi, ci]    kernel[ky, kx, co*4 + ci, oo*16 + oi]; zeros beyond its end
    dots[n, y, x, oo, oi]             sum(image[n, y*stride + ky*dilation, ..., co*4 + ci]
                                          * groups[oo, ky, kx, co, oi, ci], [ky, kx, co, ci])
    out[n, y, x, o]                   dots[n, y, x, o // 16, o % 16]

For data of int8, `image` is data + 128 as uint8, and `out` subtracts 128 times the sum of all
weights of channel o. Without padding, `image` is the data itself if its type fits.

If four does not divide the channels, as in the first layer of a network, the bytes that a row of
the window reads are not cut into pixels but into fours: 7 pixels of 3 channels are 21 bytes, or six
instructions. Then `image` is [n, y, byte], kx counts one run of bytes, and zeros fill its last four
bytes. A dilated window has gaps between its pixels: its channels are filled up with zeros instead.
"""

from __future__ import annotations

from math import prod
from typing import Any

from minitvm import te, tir
from minitvm.base import INT32, DType, Target

from .convolution import CONVOLUTION, Convolution
from .int8 import GROUP, dot4_rows, shift_of, shifted
from .layouts import NHWC
from .shape import INJECTIVE
from .window import Window, padded_pixel

CONV_DOTS = "conv_dots"  # the tag of the stage `dots`


def dots_dtype(conv: Convolution, kernel: te.Tensor) -> DType | None:
    """Return the type of `image` with which the formula is fastest; None if another formula is."""
    sizes = conv.batch, conv.high.out, conv.wide.out
    pixels = prod(n for n in sizes if isinstance(n, int))
    terms = tir.mul(conv.inputs, conv.high.kernel * conv.wide.kernel)
    fits = conv.layout == NHWC and conv.groups == 1 and conv.out_dtype == INT32
    if not fits or Target.current().kind == "cuda":
        return None
    return dot4_rows((pixels, conv.outputs, terms), conv.dtype, kernel)


def conv_dots(data: te.Tensor, kernel: te.Tensor, conv: Convolution, dtype: DType) -> te.Tensor:
    """Define the convolution `conv` by dot products of four channels; `dtype` is that of `image`.

    The numbers of channels must be constants.
    """
    assert isinstance(conv.inputs, int)
    assert isinstance(conv.outputs, int)
    high, wide = conv.high, conv.wide
    shift = shift_of(conv.dtype, dtype)
    runs, length = _runs(conv)
    image = (padded_image if length == conv.inputs else _rows)(data, conv, dtype)
    groups = _groups(kernel, conv)
    extents = {"ky": high.kernel, "kx": runs, "co": -(-length // 4), "ci": 4}
    ky, kx, co, ci = axes = [te.reduce_axis((0, n), name) for name, n in extents.items()]

    def dot(n: Any, y: Any, x: Any, oo: Any, oi: Any) -> Any:
        row, column = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        at = (column, co * 4 + ci) if image.ndim == 4 else (column * conv.inputs + co * 4 + ci,)
        a, b = image(n, row, *at), groups(oo, ky, kx, co, oi, ci)
        return te.sum(a.astype("int32") * b.astype("int32"), axis=axes)

    shape = (conv.batch, high.out, wide.out, groups.shape[0], GROUP)
    about = {CONVOLUTION: conv}
    dots = te.compute(shape, dot, name="T_dots", tag=CONV_DOTS, attrs=about)
    sums = _sums(kernel, conv) if shift else None

    def element(n: Any, y: Any, x: Any, o: Any) -> Any:
        total = dots(n, y, x, o // GROUP, o % GROUP)
        return total if sums is None else total - shift * sums(o)

    shape = (conv.batch, high.out, wide.out, conv.outputs)
    return te.compute(shape, element, name="T_conv2d", tag=INJECTIVE, attrs=about)


def padded_image(data: te.Tensor, conv: Convolution, dtype: DType) -> te.Tensor:
    """Define the stage `image`; return the data itself if nothing needs to be changed."""
    high, wide, channels = conv.high, conv.wide, conv.inputs
    assert isinstance(channels, int)
    is_plain = not any(map(_is_padded, (high, wide)))
    if is_plain and channels % 4 == 0 and conv.dtype is dtype:
        return data
    pixel = padded_pixel(data, conv.layout, high, wide, conv.pad_value)

    def element(n: Any, y: Any, x: Any, c: Any) -> Any:
        value = shifted(pixel(n, c, y, x), conv.dtype, dtype)
        return te.if_then_else(c < channels, value, 0) if channels % 4 else value

    shape = (conv.batch, high.span, wide.span, -(-channels // 4) * 4)
    return te.compute(shape, element, name="T_image", tag=INJECTIVE)


def _is_padded(w: Window) -> bool:
    return w.before + w.after > 0


def _rows(data: te.Tensor, conv: Convolution, dtype: DType) -> te.Tensor:
    """Define the stage `image` as rows of bytes, with those that the last window reads too many."""
    high, wide, channels = conv.high, conv.wide, conv.inputs
    before, size = wide.before * channels, wide.size * channels
    value = te.const(conv.pad_value, data.dtype)

    def element(n: Any, y: Any, byte: Any) -> Any:
        row, at = y - high.before, byte - before
        is_inside = te.all(row >= 0, row < high.size, at >= 0, at < size)
        pixel = te.if_then_else(is_inside, data(n, row, at // channels, at % channels), value)
        return shifted(pixel, conv.dtype, dtype)

    return te.compute(
        (conv.batch, high.span, wide.span * channels + 3), element, name="T_image", tag=INJECTIVE
    )


def _runs(conv: Convolution) -> tuple[int, int]:
    """Return how many runs of adjacent bytes a row of the window reads, and their length."""
    assert isinstance(conv.inputs, int)
    if conv.inputs % 4 and conv.wide.dilation == 1:
        return 1, conv.wide.kernel * conv.inputs
    return conv.wide.kernel, conv.inputs


def _groups(kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define the stage `groups`."""
    inputs, outputs, (runs, length) = conv.inputs, conv.outputs, _runs(conv)
    assert isinstance(outputs, int)

    def weight(oo: Any, ky: Any, kx: Any, co: Any, oi: Any, ci: Any) -> Any:
        at, o = co * 4 + ci, oo * GROUP + oi
        tap = (kx, at) if length == inputs else (at // inputs, at % inputs)
        return te.if_then_else(te.all(at < length, o < outputs), kernel(ky, *tap, o), 0)

    shape = (-(-outputs // GROUP), conv.high.kernel, runs, -(-length // 4), GROUP, 4)
    return te.compute(shape, weight, name="T_groups")


def _sums(kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define the sum of the weights of each output channel."""
    height, width, inputs, outputs = kernel.shape
    extents = {"ky": height, "kx": width, "c": inputs}
    ky, kx, c = axes = [te.reduce_axis((0, n), name) for name, n in extents.items()]

    def total(o: Any) -> Any:
        return te.sum(kernel(ky, kx, c, o).astype("int32"), axis=axes)

    return te.compute((outputs,), total, name="T_sums")
