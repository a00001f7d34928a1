"""Depthwise convolutions: each channel has kernels of its own, and channels are never added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, Reason, raise_first

from .layouts import Layout, layout_of
from .operands import on_tensors
from .window import WINDOW, Window, padded, window_attrs, windows


@on_tensors
def depthwise_conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "NCHW",
) -> te.Tensor:
    """Convolve each of the C channels of data with M kernels of its own, to C * M channels.

    Output channel c * M + m is channel c convolved with its kernel m. The kernel is [KH, KW, C, M]
    with data in layout NHWC, and [C, M, KH, KW] in NCHW and NCHWc. strides, padding and dilation
    are those of `conv2d`.
    """
    what = f"topi.depthwise_conv2d of {data.name}, {kernel.name}"
    form = layout_of(what, layout, data)
    raise_first(ExprError, what, _about(data, kernel, form))
    last = form.name == "NHWC"
    size, several = (
        (kernel.shape[:2], kernel.shape[3]) if last else (kernel.shape[2:], kernel.shape[1])
    )
    high, wide = windows(data, size, strides, padding, dilation, form.high)

    def weight(c: Any, m: Any, ky: Any, kx: Any) -> Any:
        return kernel(ky, kx, c, m) if last else kernel(c, m, ky, kx)

    return depthwise(data, weight, several, form, high, wide)


def depthwise(
    data: te.Tensor,
    weight: Callable[[Any, Any, Any, Any], Any],
    several: tir.Index,
    form: Layout,
    high: Window,
    wide: Window,
    attrs: Mapping[str, Any] | None = None,
) -> te.Tensor:
    """Define a depthwise convolution, where weight(c, m, ky, kx) is an element of kernel m of c.

    several: the number of kernels of each channel. attrs: further attributes of the operation.
    """
    pixel = padded(data, form, high, wide)
    ky, kx = te.reduce_axis((0, high.kernel), "ky"), te.reduce_axis((0, wide.kernel), "kx")

    def body(*at: Any) -> Any:
        n, o, y, x = form.pixel(*at)
        c, m = (o, 0) if tir.prove_equal(several, 1) else (o // several, o % several)
        row, column = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        return te.sum(pixel(n, c, row, column) * weight(c, m, ky, kx), axis=[ky, kx])

    shape = form.shape(data.shape[0], tir.mul(form.channels(data), several), high.out, wide.out)
    about = window_attrs(form, high, wide) | dict(attrs or {})
    return te.compute(shape, body, name="T_depthwise", tag=WINDOW, attrs=about)


def _about(data: te.Tensor, kernel: te.Tensor, layout: Layout) -> Iterator[Reason]:
    """Check that the kernel has four dimensions and as many channels as the data."""
    form = "[KH, KW, C, M]" if layout.name == "NHWC" else "[C, M, KH, KW]"
    if kernel.ndim != 4:
        yield f"the kernel has {kernel.ndim} dimensions, not 4", f"a kernel {form}"
    there = kernel.shape[2 if layout.name == "NHWC" else 0]
    if not tir.prove_equal(layout.channels(data), there):
        yield (
            f"the data has {tir.text(layout.channels(data))} channels in layout {layout.name}, "
            f"but the kernel has {tir.text(there)}",
            f"a kernel {form} with C channels, or the layout of the data",
        )
