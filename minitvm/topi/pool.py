"""Pooling: the largest or the average pixel in each window of an NCHW image."""

from __future__ import annotations

from typing import Any

from minitvm import te, tir

from .operands import check_rank, on_tensors
from .reduction import REDUCTION
from .window import Window, pair, windows


@on_tensors
def max_pool2d(data: te.Tensor, kernel: Any, strides: Any = None, padding: Any = 0) -> te.Tensor:
    """Return the largest pixel in each window, as [N, C, OH, OW].

    kernel, strides: an integer or (height, width); strides are the kernel's size by default.
    padding: an integer, (height, width) or (top, left, bottom, right). The pixels of the padding
    have the smallest value of the data type.
    """
    high, wide = _windows(data, kernel, strides, padding)
    return _pool(data, high, wide, "T_max_pool", te.max, te.min_value(data.dtype))


@on_tensors
def avg_pool2d(
    data: te.Tensor,
    kernel: Any,
    strides: Any = None,
    padding: Any = 0,
    count_include_pad: bool = True,
) -> te.Tensor:
    """Return the average pixel in each window, as [N, C, OH, OW].

    The average is over all pixels of a window, or only those inside the image if count_include_pad
    is false. The other arguments are those of `max_pool2d`.
    """
    high, wide = _windows(data, kernel, strides, padding)
    total = _pool(data, high, wide, "T_sum_pool", te.sum, te.const(0, data.dtype))

    def count(at: Any, w: Window) -> Any:
        first = te.max(at * w.stride - w.before, 0)
        last = te.min(at * w.stride - w.before + w.kernel, w.size)
        return te.max(last - first, 1)

    def body(n: Any, c: Any, y: Any, x: Any) -> Any:
        pixels = high.kernel * wide.kernel if count_include_pad else count(y, high) * count(x, wide)
        return total(n, c, y, x) / tir.cast_to(pixels, data.dtype)

    return te.compute(total.shape, body, name="T_avg_pool", tag="elementwise")


@on_tensors
def global_avg_pool2d(data: te.Tensor) -> te.Tensor:
    """Return the average pixel of each channel, as [N, C, 1, 1]."""
    check_rank("topi.global_avg_pool2d", data, 4)
    return avg_pool2d(data, (data.shape[2], data.shape[3]), strides=1)


def _windows(data: te.Tensor, kernel: Any, strides: Any, padding: Any) -> tuple[Window, Window]:
    check_rank("topi pooling", data, 4)
    size = pair(kernel, "kernel")
    return windows(data, size, size if strides is None else strides, padding)


def _pool(
    data: te.Tensor, high: Window, wide: Window, name: str, fold: Any, outside: tir.Expr
) -> te.Tensor:
    ky, kx = te.reduce_axis((0, high.kernel), "ky"), te.reduce_axis((0, wide.kernel), "kx")

    def body(n: Any, c: Any, y: Any, x: Any) -> Any:
        row = y * high.stride + ky - high.before
        column = x * wide.stride + kx - wide.before
        inside = te.all(row >= 0, row < high.size, column >= 0, column < wide.size)
        return fold(te.if_then_else(inside, data(n, c, row, column), outside), axis=[ky, kx])

    shape = (*data.shape[:2], high.out, wide.out)
    return te.compute(shape, body, name=name, tag=REDUCTION)
