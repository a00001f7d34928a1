"""Depthwise convolutions: each channel has its own kernels, and channels are not summed.

In NHWC, bytes are multiplied by dot products of four rows if the CPU has an instruction for them,
such as vpdpbusd. Each of its lanes is a channel, and the rows of the kernel are filled up with
zeros, so that several rows of the result read the same four rows of the image. With a kernel of
three rows and stride 1 there are `shared` = 2, and rows 2y and 2y + 1 read rows 2y .. 2y + 3:

    fours[yi, ky, kx, o, b]   kernel[ky*4 + b - yi*stride, kx, o]; zero beyond its rows
    out[n, y, x, o]           sum(dot4(image[n, y//shared*shared*stride + ky*4 + (0 .. 3), ..., o],
                                       fours[y%shared, ky, kx, o, 0 .. 3]), [ky, kx])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from minitvm import te, tir
from minitvm.base import DType, ExprError, Reason, Target, raise_first

from .layouts import NHWC, Layout, layout_of
from .operands import check_pad_value, checks_arguments, product, products_dtype
from .window import SHARED, WINDOW, Window, padded_pixel, window_attrs, windows

__all__ = ["depthwise_conv2d"]

Element: TypeAlias = Callable[[Any, Any, Any, Any], Any]  # of n, o, row and column
Tap: TypeAlias = Callable[[Any, Any, Any], Any]  # an element of output o's kernel: o, ky, kx


@checks_arguments
def depthwise_conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "NCHW",
    out_dtype: str = "",
    pad_value: int = 0,
) -> te.Tensor:
    """Convolve each of the C channels of data with M kernels of its own, to C * M channels.

    Output channel c * M + m is channel c convolved with its kernel m. The kernel is [KH, KW, C, M]
    with data in layout NHWC, and [C, M, KH, KW] in NCHW and NCHWc. strides, padding, dilation,
    out_dtype and pad_value have the meaning they have in `conv2d`.
    """
    what = f"topi.depthwise_conv2d of {data.name}, {kernel.name}"
    image_layout = layout_of(what, layout, data)
    raise_first(ExprError, what, _depthwise_errors(data, kernel, image_layout))
    nhwc = image_layout.name == "NHWC"
    size = kernel.shape[:2] if nhwc else kernel.shape[2:]
    multiplier = kernel.shape[3] if nhwc else kernel.shape[1]
    high, wide = windows(data, size, strides, padding, dilation, image_layout.height_axis)

    def weight(c: Any, m: Any, ky: Any, kx: Any) -> Any:
        return kernel(ky, kx, c, m) if nhwc else kernel(c, m, ky, kx)

    pad_value = check_pad_value(what, pad_value, data)
    dtype = products_dtype(data, kernel, out_dtype)
    return depthwise(data, weight, multiplier, image_layout, (high, wide), pad_value, dtype)


def depthwise(
    data: te.Tensor,
    weight: Callable[[Any, Any, Any, Any], Any],
    multiplier: tir.Index,
    layout: Layout,
    over: tuple[Window, Window],
    pad_value: int,
    dtype: str,
    attrs: Mapping[str, Any] | None = None,
) -> te.Tensor:
    """Define a depthwise convolution; weight(c, m, ky, kx) is an element of channel c's kernel m.

    multiplier: the number of kernels, and so of outputs, of each input channel. over: the windows
    along height and width. dtype: the type of the products, or "". attrs: further attributes of the
    operation.
    """
    outputs = tir.mul(layout.channels(data), multiplier)

    def parts(o: Any) -> tuple[Any, Any]:
        return (o, 0) if tir.prove_equal(multiplier, 1) else (o // multiplier, o % multiplier)

    def tap(o: Any, ky: Any, kx: Any) -> Any:
        return weight(*parts(o), ky, kx)

    padded = padded_pixel(data, layout, *over, pad_value)

    def pixel(n: Any, o: Any, row: Any, column: Any) -> Any:
        return padded(n, parts(o)[0], row, column)

    by_dots = layout == NHWC and dtype == "int32" and _has_dots(data.dtype, tap, over[0])
    body, axes = _dots(pixel, tap, outputs, *over) if by_dots else _taps(pixel, tap, dtype, *over)

    def total(n: Any, o: Any, y: Any, x: Any) -> Any:
        return te.sum(body(n, o, y, x), axis=axes)

    shape = layout.shape(data.shape[0], outputs, *(w.out for w in over))
    about = window_attrs(layout, *over) | dict(attrs or {})
    if by_dots:
        about[SHARED] = _shared(over[0])
    return te.compute(shape, layout.indexed(total), name="T_depthwise", tag=WINDOW, attrs=about)


def _taps(
    pixel: Element, tap: Tap, dtype: str, high: Window, wide: Window
) -> tuple[Element, list[te.Axis]]:
    """Return the terms of an output pixel, and the axes over which they are added."""
    ky, kx = axes = [te.reduce_axis((0, high.kernel), "ky"), te.reduce_axis((0, wide.kernel), "kx")]

    def body(n: Any, o: Any, y: Any, x: Any) -> Any:
        row, column = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        return product(pixel(n, o, row, column), tap(o, ky, kx), dtype)

    return body, axes


def _has_dots(dtype: DType, tap: Tap, high: Window) -> bool:
    """Return whether the CPU has dot products of data of type `dtype` and weights, for `high`."""
    target = Target.current()
    known = [(d.a, d.b) for d in target.dot4 if target.kind == "llvm"]
    return (dtype, tap(0, 0, 0).dtype) in known and high.dilation == 1


def _shared(high: Window) -> int:
    """Return how many rows of the result can read the same rows of the image, in fours."""
    return (-high.kernel % 4) // high.stride + 1


def _dots(
    pixel: Element, tap: Tap, outputs: tir.Index, high: Window, wide: Window
) -> tuple[Element, list[te.Axis]]:
    """Return the dot products of an output pixel, and the axes over which they are added."""
    shared = _shared(high)

    def four(yi: Any, ky: Any, kx: Any, o: Any, b: Any) -> Any:
        row = ky * 4 + b - yi * high.stride
        return te.if_then_else(te.all(row >= 0, row < high.kernel), tap(o, row, kx), 0)

    height = -(-high.kernel // 4)
    fours = te.compute((shared, height, wide.kernel, outputs, 4), four, name="T_fours")
    ky, kx = axes = [te.reduce_axis((0, height), "ky"), te.reduce_axis((0, wide.kernel), "kx")]

    def body(n: Any, o: Any, y: Any, x: Any) -> Any:
        row, column = y // shared * shared * high.stride, x * wide.stride + kx * wide.dilation
        pixels = [pixel(n, o, row + ky * 4 + b, column) for b in range(4)]
        weights = [fours(y % shared, ky, kx, o, b) for b in range(4)]
        return tir.dot4(te.const(0, "int32"), pixels, weights)

    return body, axes


def _depthwise_errors(data: te.Tensor, kernel: te.Tensor, layout: Layout) -> Iterator[Reason]:
    """Yield an error unless the kernel has four dimensions and as many channels as the data."""
    shape = "[KH, KW, C, M]" if layout.name == "NHWC" else "[C, M, KH, KW]"
    if kernel.ndim != 4:
        yield f"the kernel has {kernel.ndim} dimensions, not 4", f"a kernel {shape}"
    channels = kernel.shape[2 if layout.name == "NHWC" else 0]
    if not tir.prove_equal(layout.channels(data), channels):
        yield (
            f"the data has {tir.text(layout.channels(data))} channels in layout {layout.name}, "
            f"but the kernel has {tir.text(channels)}",
            f"a kernel {shape} with C channels, or the layout of the data",
        )
