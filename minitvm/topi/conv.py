"""Convolutions of images.

In NCHW layout, `conv2d` has three formulas for the same result. "direct" is the textbook one.
"rows" is faster on a CPU: it first copies the image so that the pixels of all rows follow each
other, and the kernel element (ky, kx) reads pixels at a constant distance in memory from those of
element (0, 0). The convolution is then a sum of KH*KW matrix products with full vectors of pixels,
even if the image is narrow. The cost is a few unused columns at the end of each row. "blocks" makes
the channels of the image adjacent, uses the formula for such layouts in conv_channels.py, and
restores the layout: it is faster for narrow images, where unused columns and incomplete vectors
cost more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, Reason, raise_first

from .conv_channels import conv2d_channels, kernel_sizes, reduce_axes
from .convolution import (
    CONVOLUTION,
    Convolution,
    Formula,
    all_formulas,
    best_formula,
    best_tile,
    block_of,
    default_formula,
)
from .depthwise import depthwise
from .layout_transform import transformed
from .layouts import NCHW, Layout, layout_of
from .operands import checks_arguments, integers
from .window import constant, margins, padded_pixel, pair, windows
from .winograd import winograd

CONV_DIRECT = "conv_direct"
CONV_ROWS = "conv_rows"
IMAGE_ROWS = "image_rows"
CROP = "crop"


@checks_arguments
def conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    method: str = "",
    layout: str = "NCHW",
) -> te.Tensor:
    """Convolve data [N, C, H, W] with kernel [O, C / groups, KH, KW] to [N, O, OH, OW].

    strides, dilation: an integer or (height, width). padding: an integer, (height, width) or (top,
    left, bottom, right). groups: the number of parts into which the channels are divided; each
    output reads the channels of one part.

    layout: for the data and the result. With "NHWC" they are [N, H, W, C] and [N, OH, OW, O],
    and the kernel is [KH, KW, C / groups, O]. With "NCHW16c" or another block size they are
    [N, C/16, H, W, 16] and [N, O/16, OH, OW, 16], and the kernel is as in NCHW.

    method: the formula. "direct" is the textbook one; "rows" and "blocks", in NCHW, give the same
    result and are faster on a CPU; "winograd", for 3x3 kernels, multiplies less, with larger
    rounding errors; "best" chooses the fastest of these for this machine, by an estimate.
    `topi.formulas` compares them. The default is the faster of "rows" and "blocks" in NCHW, and
    "direct" otherwise. With one channel in each group, the default of the other layouts is the
    formula of `depthwise_conv2d`.
    """
    (groups,) = integers("topi.conv2d: groups", (groups,))
    what = f"conv2d of {data.name}, {kernel.name}"
    image_layout = layout_of("topi.conv2d", layout)
    raise_first(ExprError, what, _conv2d_errors(data, kernel, image_layout, groups))
    outputs, _, *sizes = kernel_sizes(kernel, image_layout)
    high, wide = windows(data, tuple(sizes), strides, padding, dilation, image_layout.height_axis)
    inputs = image_layout.channels(data)
    conv = Convolution(data.shape[0], inputs, outputs, groups, high, wide, layout, data.dtype)
    one_channel = groups > 1 and tir.prove_equal(groups, inputs)
    if one_channel and image_layout != NCHW and method in ("", "best"):
        return _depthwise(data, kernel, image_layout, conv)
    formula = best_formula(conv) if method == "best" else _formula(conv, method)
    if formula.name == "winograd":
        return winograd(data, kernel, conv, formula.tile)
    if image_layout != NCHW:
        return conv2d_channels(data, kernel, image_layout, conv)
    if formula.name == "rows":
        return _rows(data, kernel, conv)
    if formula.name == "blocks":
        return _blocks(data, kernel, conv)
    return _direct(data, kernel, conv)


def _depthwise(data: te.Tensor, kernel: te.Tensor, layout: Layout, conv: Convolution) -> te.Tensor:
    """Define a convolution in which each output reads one channel, as depthwise_conv2d does."""
    multiplier = tir.floordiv(conv.outputs, conv.groups)

    def weight(c: Any, m: Any, ky: Any, kx: Any) -> Any:
        o = c * multiplier + m
        return kernel(ky, kx, 0, o) if layout.name == "NHWC" else kernel(o, 0, ky, kx)

    return depthwise(data, weight, multiplier, layout, conv.high, conv.wide, {CONVOLUTION: conv})


def _formula(conv: Convolution, method: str) -> Formula:
    """Return the formula called `method`, or the default formula if `method` is "".

    Raises ExprError if there is no such formula, or if it cannot compute this convolution.
    """
    name = method or default_formula(conv).name
    formulas = all_formulas(conv)
    named = [f for f in formulas if f.name == name]  # two for winograd, with tiles 2 and 4
    if not named:
        fix = ", ".join(map(repr, [*dict.fromkeys(f.name for f in formulas), "best"]))
        raise ExprError(f"conv2d: method {method!r}", "no such method", fix)
    if not named[0].applies:
        raise ExprError(f"conv2d: method {method!r}", named[0].why_not, "method='best'")
    tile = best_tile(conv) if name == "winograd" else 0
    return next(f for f in named if f.tile == tile)


def _conv2d_errors(
    data: te.Tensor, kernel: te.Tensor, layout: Layout, groups: int
) -> Iterator[Reason]:
    """Yield an error for wrong dimensions, and for channels and groups that do not agree."""
    order = "[KH, KW, C / groups, O]" if layout.name == "NHWC" else "[O, C / groups, KH, KW]"
    if data.ndim != layout.rank or kernel.ndim != 4:
        yield (
            f"they have {data.ndim} and {kernel.ndim} dimensions, not {layout.rank} and 4",
            f"data in layout {layout.name} and a kernel {order}",
        )
    if layout.block and not tir.prove_equal(data.shape[4], layout.block):
        yield (
            f"the last dimension of the data is {tir.text(data.shape[4])}, not {layout.block}",
            f"layout NCHW{tir.text(data.shape[4])}c, or other data",
        )
    if groups < 1:
        yield (f"groups is {groups}, but must be at least 1",)
    outputs, inner, *_ = kernel_sizes(kernel, layout)
    if not tir.prove_equal(tir.floormod(outputs, groups), 0):
        yield (f"{tir.text(outputs)} output channels cannot be divided into {groups} groups",)
    channels = layout.channels(data)
    if not tir.prove_equal(channels, inner * groups):
        yield (
            f"the data has {tir.text(channels)} channels, but the kernel reads "
            f"{tir.text(inner)} in each of {groups} group(s)",
            f"pass a kernel {order}",
        )


def _direct(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define conv2d by the textbook formula.

    out[n, o, y, x] = sum of padded[n, c, y*stride + ky*dilation, ...] * kernel[o, c, ky, kx]
    """
    batch, outputs, inner = data.shape[0], kernel.shape[0], kernel.shape[1]
    high, wide = conv.high, conv.wide
    pixel = padded_pixel(data, NCHW, high, wide)
    shape = (
        batch,
        data.shape[1],
        (high.out - 1) * high.stride + high.reach,
        (wide.out - 1) * wide.stride + wide.reach,
    )
    image = te.compute(shape, pixel, name="T_pad", tag="injective")
    c, ky, kx = reduce_axes(inner, high.kernel, wide.kernel)
    per_group = tir.floordiv(outputs, conv.groups) if not tir.prove_equal(outputs, 0) else 1

    def body(n: Any, o: Any, y: Any, x: Any) -> Any:
        channel = o // per_group * inner + c
        at = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        return te.sum(image(n, channel, *at) * kernel(o, c, ky, kx), axis=[c, ky, kx])

    shape = (batch, outputs, high.out, wide.out)
    return te.compute(shape, body, name="T_conv2d", tag=CONV_DIRECT, attrs={CONVOLUTION: conv})


def _rows(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define conv2d by three stages: the image as rows, the sum of shifted products, the crop.

    width is the length of a row: the output's width and the unused columns. py and px number the
    pixels inside a stride, so that pixels that the kernel reads one after the other are adjacent.

    rows[n, c, py, px, r*width + q] = padded[n, c, r*stride + py, q*stride + px]
    products[n, o, p]               = sum of rows[n, c, ..., p + shift(ky, kx)] * kernel[...]
    out[n, o, y, x]                 = products[n, o, y*width + x]
    """
    batch, outputs, inner = data.shape[0], kernel.shape[0], kernel.shape[1]
    high, wide = conv.high, conv.wide
    width = wide.out + wide.shifts
    length = high.out * width + high.shifts * width + wide.shifts
    pixel = padded_pixel(data, NCHW, high, wide)

    def image(n: Any, c: Any, py: Any, px: Any, f: Any) -> Any:
        return pixel(n, c, f // width * high.stride + py, f % width * wide.stride + px)

    shape = (batch, data.shape[1], high.phases, wide.phases, length)
    rows = te.compute(shape, image, name="T_rows", tag=IMAGE_ROWS)
    c, ky, kx = reduce_axes(inner, high.kernel, wide.kernel)
    per_group = tir.floordiv(outputs, conv.groups) if not tir.prove_equal(outputs, 0) else 1

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
    return te.compute(out, crop, name="T_conv2d", tag=CROP, attrs={CONVOLUTION: conv})


def _blocks(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define conv2d by three steps: the image in NCHW16c, the convolution there, and back."""
    layout = layout_of("conv2d", f"NCHW{block_of(conv)}c")
    image = transformed(data, NCHW, layout)
    out = conv2d_channels(image, kernel, layout, replace(conv, layout=layout.name))
    return transformed(out, layout, NCHW, {CONVOLUTION: conv})


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
    return te.compute(shape, shuffled, name="T_conv2d_transpose", tag="injective")


def _weights_of_phases(
    kernel: te.Tensor, steps: tuple[int, int], taps: tuple[int, int]
) -> te.Tensor:
    """Define the kernel [O * s * s, C, taps, taps] of all phases of a transposed convolution.

    Elements that `kernel`, [C, O, KH, KW], does not have are zero: KH need not be a multiple of s.
    """

    def weight(q: Any, c: Any, j: Any, i: Any) -> Any:
        o, ry, rx = q // (steps[0] * steps[1]), q // steps[1] % steps[0], q % steps[1]
        ky, kx = ry + (taps[0] - 1 - j) * steps[0], rx + (taps[1] - 1 - i) * steps[1]
        inside = te.all(ky < kernel.shape[2], kx < kernel.shape[3])
        return te.if_then_else(inside, kernel(c, o, ky, kx), te.const(0, kernel.dtype))

    inputs, outputs = kernel.shape[:2]
    shape = (outputs * (steps[0] * steps[1]), inputs, *taps)
    return te.compute(shape, weight, name="T_phases", tag="injective")
