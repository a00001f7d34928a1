"""Convolutions in one and in three dimensions, by the textbook formula."""

from __future__ import annotations

from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .conv import CONV_DIRECT
from .operands import checks_arguments
from .window import Window, one_per_dimension


@checks_arguments
def conv1d(
    data: te.Tensor, kernel: te.Tensor, strides: int = 1, padding: Any = 0, dilation: int = 1
) -> te.Tensor:
    """Convolve data [N, C, W] with kernel [O, C, KW] to [N, O, OW]."""
    return _conv(data, kernel, strides, padding, dilation, 1)


@checks_arguments
def conv3d(
    data: te.Tensor, kernel: te.Tensor, strides: Any = 1, padding: Any = 0, dilation: Any = 1
) -> te.Tensor:
    """Convolve data [N, C, D, H, W] with kernel [O, C, KD, KH, KW] to [N, O, OD, OH, OW]."""
    return _conv(data, kernel, strides, padding, dilation, 3)


def _conv(
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
    fix = f"one for each of {rank} dimensions"
    steps, pads, dilations = (
        one_per_dimension(x, rank, "", fix) for x in (strides, padding, dilation)
    )
    windows = [
        Window.over(data, d + 2, kernel.shape[d + 2], steps[d], (pads[d], pads[d]), dilations[d])
        for d in range(rank)
    ]
    c = te.reduce_axis((0, data.shape[1]), "rc")
    taps = [te.reduce_axis((0, w.kernel), f"r{d}") for d, w in enumerate(windows)]

    def body(n: Any, o: Any, *out: Any) -> Any:
        at = [
            x * w.stride + tap * w.dilation - w.before
            for x, tap, w in zip(out, taps, windows, strict=True)
        ]
        inside = te.all(*(te.all(x >= 0, x < w.size) for x, w in zip(at, windows, strict=True)))
        pixel = te.if_then_else(inside, data(n, c, *at), te.const(0, data.dtype))
        return te.sum(pixel * kernel(o, c, *taps), axis=[c, *taps])

    shape = (data.shape[0], kernel.shape[0], *(w.out for w in windows))
    return te.compute(shape, body, name=f"T_conv{rank}d", tag=CONV_DIRECT)
