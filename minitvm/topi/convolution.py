"""What a convolution of images is: its shapes, the checks of its operands, the textbook formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minitvm import te, tir
from minitvm.base import DType, ExprError, Reason, raise_first

from .layouts import NCHW, NHWC, Layout, layout_of
from .operands import check_pad_value, integers, product, products_dtype
from .window import Window, padded_pixel, windows

CONVOLUTION = "convolution"  # the attribute of an operation that describes its convolution
CONV_CHANNELS = "conv_channels"  # the tag of convolutions with adjacent channels: NHWC and NCHWc
TYPICAL = 64  # the number of channels that is assumed where it is symbolic
IMAGES = 16  # the batch that is assumed where it is symbolic


@dataclass(frozen=True, slots=True)
class Convolution:
    """The shapes of a two-dimensional convolution.

    inputs, outputs   numbers of channels
    high, wide        the windows of the kernel along height and width
    layout            the layout of the images
    dtype             the type of the data
    out_dtype         the type of the products and their sums; "" for the common type
    pad_value         the value of the pixels outside the image
    """

    batch: tir.Index
    inputs: tir.Index
    outputs: tir.Index
    groups: int
    high: Window
    wide: Window
    layout: Layout
    dtype: DType
    out_dtype: str = ""
    pad_value: int = 0

    def tiles(self, tile: int) -> tuple[int, int]:
        """Return how many tiles of tile x tile outputs cover one image: (down, across)."""
        return -(-self.high.out // tile), -(-self.wide.out // tile)

    @property
    def row_length(self) -> int:
        """The length of a row in the formula "rows": the output's width and unused columns."""
        return self.wide.out + self.wide.shifts

    @property
    def rows_length(self) -> int:
        """The length of all rows of an image in the formula "rows"."""
        return (self.high.out + self.high.shifts) * self.row_length + self.wide.shifts

    def channel(self, o: Any, c: Any) -> Any:
        """Return the input channel that output channel `o` reads as number `c` of its group."""
        if self.groups == 1:
            return c
        if tir.prove_equal(self.outputs, 0):
            return c
        per_group = tir.floordiv(self.outputs, self.groups)
        return o // per_group * tir.floordiv(self.inputs, self.groups) + c

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The batch size and the numbers of input and output channels.

        A symbolic batch counts as IMAGES, a symbolic number of channels as TYPICAL.
        """
        c, o = (n if isinstance(n, int) else TYPICAL for n in (self.inputs, self.outputs))
        return self.batch if isinstance(self.batch, int) else IMAGES, c, o


def described(
    name: str,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    layout: str,
    out_dtype: str = "",
    pad_value: int = 0,
) -> Convolution:
    """Return the description of a convolution by the operator `name`.

    Raises ExprError if the operands do not fit each other.
    """
    image_layout = layout_of(f"topi.{name}", layout)
    (groups,) = integers(f"topi.{name}: groups", (groups,))
    errors = _errors(data, kernel, image_layout, groups)
    raise_first(ExprError, f"{name} of {data.name}, {kernel.name}", errors)
    outputs, _, *sizes = image_layout.kernel_sizes(kernel)
    axis, inputs = image_layout.height_axis, image_layout.channels(data)
    high, wide = windows(data, tuple(sizes), strides, padding, dilation, axis)
    batch = data.shape[0]
    dtype = products_dtype(data, kernel, out_dtype)
    value = check_pad_value(f"topi.{name}", pad_value, data)
    return Convolution(
        batch, inputs, outputs, groups, high, wide, image_layout, data.dtype, dtype, value
    )


def _errors(data: te.Tensor, kernel: te.Tensor, layout: Layout, groups: int) -> Iterator[Reason]:
    """Yield an error for wrong dimensions, and for channels and groups that do not agree."""
    order = "[KH, KW, C / groups, O]" if layout == NHWC else "[O, C / groups, KH, KW]"
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
    outputs, inner, *_ = layout.kernel_sizes(kernel)
    if not tir.prove_equal(tir.floormod(outputs, groups), 0):
        yield (f"{tir.text(outputs)} output channels cannot be divided into {groups} groups",)
    channels = layout.channels(data)
    if not tir.prove_equal(channels, inner * groups):
        yield (
            f"the data has {tir.text(channels)} channels, but the kernel reads "
            f"{tir.text(inner)} in each of {groups} group(s)",
            f"pass a kernel {order}",
        )


def direct(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define a convolution by the textbook formula.

    out[n, o, y, x] = sum of padded[n, c, y*stride + ky*dilation, ...] * kernel[o, c, ky, kx]
    """
    layout, high, wide = conv.layout, conv.high, conv.wide
    pixel = padded_pixel(data, layout, high, wide, conv.pad_value)
    image = te.compute(
        layout.shape(conv.batch, conv.inputs, high.span, wide.span),
        layout.indexed(pixel),
        name="T_pad",
        tag="injective",
    )
    axes = reduce_axes(conv)
    c, ky, kx = axes

    def body(n: Any, o: Any, y: Any, x: Any) -> Any:
        row, column = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        pixel = image(*layout.index(n, conv.channel(o, c), row, column))
        weight = kernel(*layout.weight(o, c, ky, kx))
        return te.sum(product(pixel, weight, conv.out_dtype), axis=axes)

    shape = layout.shape(conv.batch, conv.outputs, high.out, wide.out)
    tag, attrs = "conv_direct" if layout == NCHW else CONV_CHANNELS, {CONVOLUTION: conv}
    return te.compute(shape, layout.indexed(body), name="T_conv2d", tag=tag, attrs=attrs)


def reduce_axes(conv: Convolution) -> list[te.Axis]:
    """Return the axes over the input channels of a group and over the kernel: rc, ry, rx."""
    channels = tir.floordiv(conv.inputs, conv.groups)
    extents = {"rc": channels, "ry": conv.high.kernel, "rx": conv.wide.kernel}
    return [te.reduce_axis((0, n), name) for name, n in extents.items()]
