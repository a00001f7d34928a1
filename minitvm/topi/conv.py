"""Convolutions of images in NCHW layout: [batch, channel, height, width].

`conv2d` has two formulas for the same result. "direct" is the textbook formula. "rows" is faster on
a CPU: it first copies the image so that the pixels of all rows follow each other, and the kernel
element (ky, kx) reads pixels at a constant distance in memory from those of element (0, 0). The
convolution is then a sum of KH*KW matrix products with full vectors of pixels, even if the image is
narrow. The cost is a few unused columns at the end of each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, Reason, as_tuple, raise_first

from .operands import integers, on_tensors

CONV_DIRECT = "conv_direct"
CONV_ROWS = "conv_rows"
IMAGE_ROWS = "image_rows"
CROP = "crop"


@dataclass(frozen=True, slots=True)
class Window:
    """A kernel that moves along one dimension of an image, and the resulting output size.

    size      the pixels of the image along this dimension
    kernel    the elements of the kernel, which read pixels that are `dilation` apart
    stride    the pixels by which the kernel moves
    before    the padding before the first pixel; after: the padding after the last pixel
    """

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int

    @staticmethod
    def over(
        t: te.Tensor, d: int, kernel: tir.Index, stride: int, around: tuple[int, int], step: int = 1
    ) -> Window:
        """Make the window of a kernel along dimension `d` of `t`; raise ExprError if it is illegal.

        around: the padding before and after the image. step: the dilation of the kernel.
        """
        found = Window(_constant(t.shape[d], t), _constant(kernel, t), stride, *around, step)
        raise_first(ExprError, f"a window over {t.name}", _about_window(found))
        return found

    @property
    def reach(self) -> int:
        """The number of pixels from the first to the last that the kernel covers."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def out(self) -> int:
        """The number of positions of the kernel: the output size."""
        return (self.size + self.before + self.after - self.reach) // self.stride + 1

    @property
    def phases(self) -> int:
        """The number of different remainders of the covered pixels' positions modulo the stride."""
        return min(self.stride, self.reach)

    @property
    def shifts(self) -> int:
        """The distance from the first to the last kernel element in strides, rounded down."""
        return (self.reach - 1) // self.stride


def _about_window(w: Window) -> Iterator[Reason]:
    """Check that a window has at least one element and is not larger than the padded image."""
    for name, n in (("kernel", w.kernel), ("stride", w.stride), ("dilation", w.dilation)):
        if n < 1:
            yield (f"the {name} is {n}, but must be at least 1",)
    if min(w.before, w.after) < 0:
        yield (f"the padding is {w.before} and {w.after}, but must not be negative",)
    if w.out < 1:
        have = w.size + w.before + w.after
        yield (f"it spans {w.reach} pixels, but the image has {have}, including the padding",)


def pair(x: Any, what: str) -> tuple[int, int]:
    """Return (height, width), given a pair or one number for both; `what` names it in errors."""
    high, wide = _each(x, 2, f"{what} = ", "one for height and one for width")
    return high, wide


def _each(x: Any, rank: int, what: str, several: str) -> tuple[int, ...]:
    """Return `rank` integers, given one for all dimensions or one for each.

    what, several: parts of the error message if `x` is neither.
    """
    found = as_tuple(x)
    found = found * rank if len(found) == 1 else found
    if len(found) != rank or not all(isinstance(n, int) for n in found):
        raise ExprError(f"{what}{x!r}", f"it must be one integer, or {several}")
    return found


def margins(padding: Any) -> tuple[int, int, int, int]:
    """Return the padding as (top, left, bottom, right).

    `padding` is one number for all sides, (height, width), or all four numbers.
    """
    if len(as_tuple(padding)) == 4:
        top, left, bottom, right = integers("padding", padding)
        return top, left, bottom, right
    high, wide = pair(padding, "padding")
    return high, wide, high, wide


def windows(
    data: te.Tensor, kernel: tuple[tir.Index, ...], strides: Any, padding: Any, dilation: Any = 1
) -> tuple[Window, Window]:
    """Return the windows of a kernel of shape `kernel` along the height and the width of `data`.

    Raises ExprError if a window is larger than the padded image.
    """
    top, left, bottom, right = margins(padding)
    steps, spread = pair(strides, "strides"), pair(dilation, "dilation")
    high = Window.over(data, 2, kernel[0], steps[0], (top, bottom), spread[0])
    return high, Window.over(data, 3, kernel[1], steps[1], (left, right), spread[1])


def _constant(n: tir.Index, t: te.Tensor) -> int:
    if not isinstance(n, int):
        raise ExprError(f"{t.name}: size {tir.text(n)}", "heights and widths must be constants")
    return n


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


def _padded(data: te.Tensor, high: Window, wide: Window) -> Any:
    """Return a function that reads a pixel of the padded image, which is 0 outside the image."""

    def read(n: Any, c: Any, y: Any, x: Any) -> Any:
        y, x = y - high.before, x - wide.before
        inside = te.all(y >= 0, y < high.size, x >= 0, x < wide.size)
        return te.if_then_else(inside, data(n, c, y, x), te.const(0, data.dtype))

    return read


def _direct(
    data: te.Tensor, kernel: te.Tensor, high: Window, wide: Window, groups: int
) -> te.Tensor:
    """Define conv2d by the textbook formula.

    out[n, o, y, x] = sum of padded[n, c, y*stride + ky*dilation, ...] * kernel[o, c, ky, kx]
    """
    batch, outputs, inner = data.shape[0], kernel.shape[0], kernel.shape[1]
    pixel = _padded(data, high, wide)
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

    return te.compute((batch, outputs, high.out, wide.out), body, name="T_conv2d", tag=CONV_DIRECT)


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
    pixel = _padded(data, high, wide)

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

    return te.compute((batch, outputs, high.out, wide.out), crop, name="T_conv2d", tag=CROP)


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
    steps, around, spread = (_each(x, rank, "", several) for x in (strides, padding, dilation))
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
    height, wide = (_constant(n, data) for n in data.shape[2:])
    kh, kw = (_constant(n, kernel) for n in kernel.shape[2:])
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
