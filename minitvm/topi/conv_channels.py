"""Convolutions of images whose channels are next to each other in memory: NHWC and NCHWc.

A few output channels then form one vector, for any kernel, stride and dilation, even if the image
is narrow.
"""

from __future__ import annotations

from typing import Any

from minitvm import te, tir

from .convolution import CONVOLUTION, Convolution
from .layouts import Layout
from .window import padded_pixel

CONV_CHANNELS = "conv_channels"


def kernel_sizes(kernel: te.Tensor, layout: Layout) -> tuple[tir.Index, ...]:
    """Return (outputs, channels of a group, height, width) of a kernel.

    Its dimensions are [KH, KW, C / groups, O] in NHWC, and [O, C / groups, KH, KW] otherwise.
    """
    if layout.name == "NHWC":
        height, width, inner, outputs = kernel.shape
        return outputs, inner, height, width
    return kernel.shape


def reduce_axes(channels: tir.Index, height: int, width: int) -> list[te.Axis]:
    """Return the axes over input channels and kernel elements: rc, ry, rx."""
    extents = {"rc": channels, "ry": height, "rx": width}
    return [te.reduce_axis((0, n), name) for name, n in extents.items()]


def conv2d_channels(
    data: te.Tensor, kernel: te.Tensor, layout: Layout, conv: Convolution
) -> te.Tensor:
    """Define conv2d of `data` in `layout` by the textbook formula.

    `kernel_sizes` describes the layout of the kernel.

    out[n, o, y, x] = sum of padded[n, c, y*stride + ky*dilation, ...] * kernel[o, c, ky, kx]
    """
    outputs, inner, *_ = kernel_sizes(kernel, layout)
    high, wide, groups = conv.high, conv.wide, conv.groups
    batch, channels = data.shape[0], layout.channels(data)
    pixel = padded_pixel(data, layout, high, wide)
    height = (high.out - 1) * high.stride + high.reach
    width = (wide.out - 1) * wide.stride + wide.reach
    image = te.compute(
        layout.shape(batch, channels, height, width),
        lambda *at: pixel(*layout.pixel(*at)),
        name="T_pad",
        tag="injective",
    )
    c, ky, kx = reduce_axes(inner, high.kernel, wide.kernel)
    per_group = tir.floordiv(outputs, groups) if not tir.prove_equal(outputs, 0) else 1

    def body(*at: Any) -> Any:
        n, o, y, x = layout.pixel(*at)
        channel = c if groups == 1 else o // per_group * inner + c
        row, column = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        weight = kernel(ky, kx, c, o) if layout.name == "NHWC" else kernel(o, c, ky, kx)
        return te.sum(image(*layout.index(n, channel, row, column)) * weight, axis=[c, ky, kx])

    return te.compute(
        layout.shape(batch, outputs, high.out, wide.out),
        body,
        name="T_conv2d",
        tag=CONV_CHANNELS,
        attrs={CONVOLUTION: conv},
    )
