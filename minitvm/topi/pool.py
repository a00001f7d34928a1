"""Pooling: the largest or the average pixel in each window of an image."""

from __future__ import annotations

from typing import Any

from minitvm import te, tir

from .elementwise import ELEMENTWISE
from .layouts import Layout, layout_of
from .operands import checks_arguments
from .window import WINDOW, Window, constant, pair, window_attrs, windows

__all__ = ["avg_pool2d", "global_avg_pool2d", "max_pool2d"]


@checks_arguments
def max_pool2d(
    data: te.Tensor,
    kernel: Any,
    strides: Any = None,
    padding: Any = 0,
    layout: str = "NCHW",
    dilation: Any = 1,
) -> te.Tensor:
    """Return the largest pixel in each window, in the layout of the data.

    kernel, strides, dilation: an integer or (height, width); strides are the kernel's size by
    default, and the pixels of a window are `dilation` apart. padding: an integer, (height, width)
    or (top, left, bottom, right). The pixels of the padding have the smallest value of the data
    type. layout: "NCHW", "NHWC" or, for example, "NCHW16c".
    """
    image_layout = layout_of("topi.max_pool2d", layout, data)
    high, wide = _windows(data, image_layout, kernel, strides, padding, dilation)
    return _pool(data, image_layout, high, wide, "T_max_pool", te.max, te.min_value(data.dtype))


@checks_arguments
def avg_pool2d(
    data: te.Tensor,
    kernel: Any,
    strides: Any = None,
    padding: Any = 0,
    count_include_pad: bool = True,
    layout: str = "NCHW",
    dilation: Any = 1,
) -> te.Tensor:
    """Return the average pixel in each window, in the layout of the data.

    The average is over all pixels of a window, or only those inside the image if count_include_pad
    is false. The other arguments are the same as in `max_pool2d`.
    """
    image_layout = layout_of("topi.avg_pool2d", layout, data)
    high, wide = _windows(data, image_layout, kernel, strides, padding, dilation)
    total = _pool(data, image_layout, high, wide, "T_sum_pool", te.sum, te.const(0, data.dtype))

    def count(at: Any, w: Window) -> Any:
        start = at * w.stride - w.before  # the window's first pixel
        first = (te.max(-start, 0) + w.dilation - 1) // w.dilation
        last = te.min((w.size - start + w.dilation - 1) // w.dilation, w.kernel)
        return te.max(last - first, 1)

    def body(n: Any, c: Any, y: Any, x: Any) -> Any:
        pixels = high.kernel * wide.kernel if count_include_pad else count(y, high) * count(x, wide)
        return total(*image_layout.index(n, c, y, x)) / tir.cast_to(pixels, data.dtype)

    average = image_layout.indexed(body)
    return te.compute(total.shape, average, name="T_avg_pool", tag=ELEMENTWISE)


@checks_arguments
def global_avg_pool2d(data: te.Tensor, layout: str = "NCHW") -> te.Tensor:
    """Return the average pixel of each channel, an image of height and width 1."""
    image_layout = layout_of("topi.global_avg_pool2d", layout, data)
    size = data.shape[image_layout.height_axis : image_layout.height_axis + 2]
    return avg_pool2d(data, tuple(constant(n, data) for n in size), strides=1, layout=layout)


def _windows(
    data: te.Tensor, layout: Layout, kernel: Any, strides: Any, padding: Any, dilation: Any
) -> tuple[Window, Window]:
    """Return the windows along height and width; strides are the kernel's size if None."""
    size = pair(kernel, "kernel")
    steps = size if strides is None else strides
    return windows(data, size, steps, padding, dilation, layout.height_axis)


def _pool(
    data: te.Tensor,
    layout: Layout,
    high: Window,
    wide: Window,
    name: str,
    fold: Any,
    outside: tir.Expr,
) -> te.Tensor:
    """Reduce each window with `fold`, such as te.max; `outside` is the value of the padding."""
    ky, kx = te.reduce_axis((0, high.kernel), "ky"), te.reduce_axis((0, wide.kernel), "kx")

    def body(n: Any, c: Any, y: Any, x: Any) -> Any:
        row = y * high.stride + ky * high.dilation - high.before
        column = x * wide.stride + kx * wide.dilation - wide.before
        is_inside = te.all(row >= 0, row < high.size, column >= 0, column < wide.size)
        pixel = data(*layout.index(n, c, row, column))
        return fold(te.if_then_else(is_inside, pixel, outside), axis=[ky, kx])

    shape = layout.shape(data.shape[0], layout.channels(data), high.out, wide.out)
    attrs = window_attrs(layout, high, wide)
    return te.compute(shape, layout.indexed(body), name=name, tag=WINDOW, attrs=attrs)
