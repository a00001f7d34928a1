"""Convolutions of images in NCHW layout: [batch, channel, height, width].

`conv2d` has two formulas for the same result. "direct" is the textbook formula. "rows" is faster on
a CPU: it first copies the image so that the pixels of all rows follow each other, and the kernel
element (ky, kx) reads pixels at a constant distance in memory from those of element (0, 0). The
convolution is then a sum of KH*KW matrix products with full vectors of pixels, even if the image is
narrow. The cost is a few unused columns at the end of each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, Reason, raise_first

from .convolution import CONVOLUTION, Convolution
from .layouts import NCHW
from .operands import integers, on_tensors
from .window import Window, constant, each, margins, padded, pair, windows

CONV_DIRECT = "conv_direct"
CONV_ROWS = "conv_rows"
IMAGE_ROWS = "image_rows"
CROP = "crop"


@on_tensors
def conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    method: str = "rows",
) -> te.Tensor:
    """Convolve data [N, C, H, W] with kernel [O, C / groups, KH, KW] to [N, O, OH, OW].

    strides, dilation: an integer or (height, width). padding: an integer, (height, width) or (top,
    left, bottom, right). method: "rows" or "direct"; both give the same result, but "rows" is
    faster on a CPU.
    """
    (groups,) = integers("topi.conv2d: groups", (groups,))
    what = f"conv2d of {data.name}, {kernel.name}"
    raise_first(ExprError, what, _about_conv2d(data, kernel, groups))
    high, wide = windows(data, kernel.shape[2:], strides, padding, dilation)
    if method == "direct":
        return _direct(data, kernel, high, wide, groups)
    if method != "rows":
        raise ExprError(f"conv2d: method {method!r}", "no such method", "'rows' or 'direct'")
    return _rows(data, kernel, high, wide, groups)


def _about_conv2d(data: te.Tensor, kernel: te.Tensor, groups: int) -> Iterator[Reason]:
    """Check that both tensors have four dimensions, and that channels and groups agree."""
    if data.ndim != 4 or kernel.ndim != 4:
        yield ("data and kernel must both have four dimensions: NCHW and OIHW",)
    if groups < 1:
        yield (f"groups is {groups}, but must be at least 1",)
    outputs, inner, *_ = kernel.shape
    if not tir.prove_equal(tir.floormod(outputs, groups), 0):
        yield (f"{tir.text(outputs)} output channels cannot be divided into {groups} groups",)
    if not tir.prove_equal(data.shape[1], inner * groups):
        yield (
            f"the data has {tir.text(data.shape[1])} channels, but the kernel reads "
            f"{tir.text(inner)} in each of {groups} group(s)",
            "pass a kernel [O, C / groups, KH, KW]",
        )


def _direct(
    data: te.Tensor, kernel: te.Tensor, high: Window, wide: Window, groups: int
) -> te.Tensor:
    """Define conv2d by the textbook formula.

    out[n, o, y, x] = sum of padded[n, c, y*stride + ky*dilation, ...] * kernel[o, c, ky, kx]
    """
    batch, outputs, inner = data.shape[0], kernel.shape[0], kernel.shape[1]
    pixel = padded(data, NCHW, high, wide)
    shape = (
        batch,
        data.shape[1],
        (high.out - 1) * high.stride + high.reach,
        (wide.out - 1) * wide.stride + wide.reach,
    )
    image = te.compute(shape, pixel, name="T_pad", tag="injective")
    c, ky, kx = _reduce_axes(inner, high.kernel, wide.kernel)
    per_group = tir.floordiv(outputs, groups) if not tir.prove_equal(outputs, 0) else 1

    def body(n: Any, o: Any, y: Any, x: Any) -> Any:
        channel = o // per_group * inner + c
        at = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        return te.sum(image(n, channel, *at) * kernel(o, c, ky, kx), axis=[c, ky, kx])

    shape = (batch, outputs, high.out, wide.out)
    about = _describe(data, kernel, high, wide, groups)
    return te.compute(shape, body, name="T_conv2d", tag=CONV_DIRECT, attrs=about)


def _describe(
    data: te.Tensor, kernel: te.Tensor, high: Window, wide: Window, groups: int
) -> dict[str, Convolution]:
    """Return the attribute of a convolution's output that `topi.formulas` reads."""
    batch, inputs, outputs = *data.shape[:2], kernel.shape[0]
    conv = Convolution(batch, inputs, outputs, groups, high, wide, "NCHW", data.dtype)
    return {CONVOLUTION: conv}


def _reduce_axes(channels: tir.Index, height: int, width: int) -> list[te.Axis]:
    """Return the axes over input channels and kernel elements: rc, ry, rx."""
    extents = {"rc": channels, "ry": height, "rx": width}
    return [te.reduce_axis((0, n), name) for name, n in extents.items()]


def _rows(data: te.Tensor, kernel: te.Tensor, high: Window, wide: Window, groups: int) -> te.Tensor:
    """Define conv2d by three stages: the image as rows, the sum of shifted products, the crop.

    width is the length of a row: the output's width and the unused columns.

    rows[n, c, py, px, r*width + q] = padded[n, c, r*stride + py, q*stride + px]
    products[n, o, p]               = sum of rows[n, c, ..., p + shift(ky, kx)] * kernel[...]
    out[n, o, y, x]                 = products[n, o, y*width + x]
    """
    batch, outputs, inner = data.shape[0], kernel.shape[0], kernel.shape[1]
    width = wide.out + wide.shifts
    length = high.out * width + high.shifts * width + wide.shifts
    pixel = padded(data, NCHW, high, wide)

    def image(n: Any, c: Any, py: Any, px: Any, f: Any) -> Any:
        return pixel(n, c, f // width * high.stride + py, f % width * wide.stride + px)

    shape = (batch, data.shape[1], high.phases, wide.phases, length)
    rows = te.compute(shape, image, name="T_rows", tag=IMAGE_ROWS)
    c, ky, kx = _reduce_axes(inner, high.kernel, wide.kernel)
    per_group = tir.floordiv(outputs, groups) if not tir.prove_equal(outputs, 0) else 1

    def product(n: Any, o: Any, p: Any) -> Any:
        y, x = ky * high.dilation, kx * wide.dilation
        place = p + y // high.stride * width + x // wide.stride
        read = rows(n, o // per_group * inner + c, y % high.stride, x % wide.stride, place)
        return te.sum(read * kernel(o, c, ky, kx), axis=[c, ky, kx])

    flat = te.compute(
        (batch, outputs, high.out * width), product, name="T_rows_conv", tag=CONV_ROWS
    )

    def crop(n: Any, o: Any, y: Any, x: Any) -> Any:
        return flat(n, o, y * width + x)

    out = (batch, outputs, high.out, wide.out)
    about = _describe(data, kernel, high, wide, groups)
    return te.compute(out, crop, name="T_conv2d", tag=CROP, attrs=about)


@on_tensors
def conv1d(
    data: te.Tensor, kernel: te.Tensor, strides: int = 1, padding: Any = 0, dilation: int = 1
) -> te.Tensor:
    """Convolve data [N, C, W] with kernel [O, C, KW] to [N, O, OW]."""
    return _plain(data, kernel, strides, padding, dilation, 1)


@on_tensors
def conv3d(
    data: te.Tensor, kernel: te.Tensor, strides: Any = 1, padding: Any = 0, dilation: Any = 1
) -> te.Tensor:
    """Convolve data [N, C, D, H, W] with kernel [O, C, KD, KH, KW] to [N, O, OD, OH, OW]."""
    return _plain(data, kernel, strides, padding, dilation, 3)


def _plain(
    data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, rank: int
) -> te.Tensor:
    """Define a convolution in `rank` dimensions by the textbook formula."""
    if (
        data.ndim != rank + 2
        or kernel.ndim != rank + 2
        or not tir.prove_equal(data.shape[1], kernel.shape[1])
    ):
        raise ExprError(
            f"conv{rank}d of {data.name}, {kernel.name}",
            f"data and kernel must both have {rank + 2} dimensions, with equal second dimensions",
        )
    several = f"one for each of {rank} dimensions"
    steps, around, spread = (each(x, rank, "", several) for x in (strides, padding, dilation))
    moves = [
        Window.over(data, d + 2, kernel.shape[d + 2], steps[d], (around[d], around[d]), spread[d])
        for d in range(rank)
    ]
    c = te.reduce_axis((0, data.shape[1]), "rc")
    taps = [te.reduce_axis((0, w.kernel), f"r{d}") for d, w in enumerate(moves)]

    def body(n: Any, o: Any, *out: Any) -> Any:
        at = [
            x * w.stride + tap * w.dilation - w.before
            for x, tap, w in zip(out, taps, moves, strict=True)
        ]
        inside = te.all(*(te.all(x >= 0, x < w.size) for x, w in zip(at, moves, strict=True)))
        pixel = te.if_then_else(inside, data(n, c, *at), te.const(0, data.dtype))
        return te.sum(pixel * kernel(o, c, *taps), axis=[c, *taps])

    shape = (data.shape[0], kernel.shape[0], *(w.out for w in moves))
    return te.compute(shape, body, name=f"T_conv{rank}d", tag=CONV_DIRECT)


@on_tensors
def conv2d_transpose(
    data: te.Tensor, kernel: te.Tensor, strides: Any = 1, padding: Any = 0
) -> te.Tensor:
    """Compute the transposed convolution of data [N, C, H, W], of shape [N, O, OH, OW].

    This is the gradient of conv2d with respect to its input. The kernel is [C, O, KH, KW], and
    OH = (H - 1)*stride - 2*padding + KH. Each output sums the products of kernel elements and the
    pixels of `data` that contribute to it.
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
    c, ky, kx = _reduce_axes(data.shape[1], kh, kw)

    def body(n: Any, o: Any, y: Any, x: Any) -> Any:
        row, column = y + top - ky, x + left - kx
        aligned = te.all(row % steps[0] == 0, column % steps[1] == 0)
        h, w = row // steps[0], column // steps[1]
        inside = te.all(aligned, h >= 0, h < height, w >= 0, w < wide)
        pixel = te.if_then_else(inside, data(n, c, h, w), te.const(0, data.dtype))
        return te.sum(pixel * kernel(c, o, ky, kx), axis=[c, ky, kx])

    shape = (data.shape[0], kernel.shape[1], oh, ow)
    return te.compute(shape, body, name="T_conv2d_transpose", tag=CONV_DIRECT)
