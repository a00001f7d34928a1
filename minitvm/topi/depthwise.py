"""Depthwise convolutions: each channel has kernels of its own, and channels are never added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, Reason, raise_first

from .layouts import Layout, layout_of
from .operands import check_pad_value, checks_arguments, product, products_dtype
from .window import WINDOW, Window, padded_pixel, window_attrs, windows

__all__ = ["depthwise_conv2d"]


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
    high, wide = over
    pixel = padded_pixel(data, layout, high, wide, pad_value)
    ky, kx = te.reduce_axis((0, high.kernel), "ky"), te.reduce_axis((0, wide.kernel), "kx")

    def body(n: Any, o: Any, y: Any, x: Any) -> Any:
        c, m = (o, 0) if tir.prove_equal(multiplier, 1) else (o // multiplier, o % multiplier)
        row, column = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        value = product(pixel(n, c, row, column), weight(c, m, ky, kx), dtype)
        return te.sum(value, axis=[ky, kx])

    shape = layout.shape(
        data.shape[0], tir.mul(layout.channels(data), multiplier), high.out, wide.out
    )
    about = window_attrs(layout, high, wide) | dict(attrs or {})
    return te.compute(shape, layout.indexed(body), name="T_depthwise", tag=WINDOW, attrs=about)


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
