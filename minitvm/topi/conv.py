"""Convolutions of images.

In NCHW layout, `conv2d` has three formulas for the same result. "direct" is the textbook one.
"rows" is faster on a CPU: it first copies the image so that the pixels of all rows follow each
other, and the kernel element (ky, kx) reads pixels at a constant distance in memory from those of
element (0, 0). The convolution is then a sum of KH*KW matrix products with full vectors of pixels,
even if the image is narrow. The cost is a few unused columns at the end of each row. "blocks" makes
the channels of the image adjacent, uses the textbook formula in this layout, and
restores the layout: it is faster for narrow images, where unused columns and incomplete vectors
cost more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .conv_dots import conv_dots, dots_dtype
from .conv_tiles import conv_tiles, fits_tiles
from .convolution import CONVOLUTION, Convolution, described, direct, reduce_axes
from .depthwise import depthwise
from .formulas import Formula, all_formulas, best_formula, best_tile, block_of, default_formula
from .layout_transform import transformed
from .layouts import NCHW, NHWC, layout_of
from .operands import checks_arguments, product
from .shape import INJECTIVE
from .window import padded_pixel
from .winograd import winograd

__all__ = ["conv2d"]

CONV_ROWS = "conv_rows"
IMAGE_ROWS = "image_rows"


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
    out_dtype: str = "",
    pad_value: int = 0,
) -> te.Tensor:
    """Convolve data [N, C, H, W] with kernel [O, C / groups, KH, KW] to [N, O, OH, OW].

    strides, dilation: an integer or (height, width). padding: an integer, (height, width) or (top,
    left, bottom, right). groups: the number of parts into which the channels are divided; each
    output reads the channels of one part.

    layout: for the data and the result. With "NHWC" they are [N, H, W, C] and [N, OH, OW, O],
    and the kernel is [KH, KW, C / groups, O]. With "NCHW16c" or another block size they are
    [N, C/16, H, W, 16] and [N, O/16, OH, OW, 16], and the kernel is as in NCHW.

    method: the formula. "direct" is the textbook one; "rows" and "blocks", in NCHW, give the same
    result and are faster on a CPU; "gemm", a matrix product, is faster on a GPU; "winograd", for
    3x3 kernels, multiplies less, with larger rounding errors; "best" chooses the fastest of these
    for the current target, by an estimate. `topi.formulas` compares them. The default is "gemm" for
    target "cuda"; otherwise the faster of "rows" and "blocks" in NCHW, and "direct". With one
    channel in each group, the default of the other layouts is the formula of `depthwise_conv2d`.

    out_dtype: the type of the products and their sums; by default int32 for bytes, otherwise the
    operands' common type. pad_value: the value of the pixels outside the image, such as the zero
    point of quantised data.
    """
    conv = described(
        "conv2d", data, kernel, strides, padding, dilation, groups, layout, out_dtype, pad_value
    )
    one_channel = conv.groups > 1 and tir.prove_equal(conv.groups, conv.inputs)
    if one_channel and conv.layout != NCHW and method in ("", "best"):
        return _depthwise(data, kernel, conv)
    dots = dots_dtype(conv, kernel) if method in ("", "best") else None
    if dots is not None and fits_tiles(conv, kernel):
        return conv_tiles(data, kernel, conv)
    if dots is not None:
        return conv_dots(data, kernel, conv, dots)
    formula = best_formula(conv) if method == "best" else _formula(conv, method)
    match formula.name:
        case "winograd":
            return winograd(data, kernel, conv, formula.tile)
        case "rows":
            return _rows(data, kernel, conv)
        case "blocks":
            return _blocks(data, kernel, conv)
        case "gemm":
            return _gemm(data, kernel, conv)
        case _:
            return direct(data, kernel, conv)


def conv2d_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolve in layout NCHW by the textbook formula, as TVM's operator of this name does.

    out_dtype: the type of the data, or None; other types are refused.
    """
    if out_dtype not in (None, str(data.dtype)):
        why = f"the result has the type of the data, {data.dtype}"
        raise ExprError(f"conv2d_nchw: out_dtype {out_dtype!r}", why, "te.compute with a cast")
    return conv2d(data, kernel, strides, padding, dilation, method="direct")


def _depthwise(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define a convolution in which each output reads one channel, as depthwise_conv2d does."""
    multiplier = tir.floordiv(conv.outputs, conv.groups)

    def weight(c: Any, m: Any, ky: Any, kx: Any) -> Any:
        return kernel(*conv.layout.weight(c * multiplier + m, 0, ky, kx))

    return depthwise(
        data, weight, multiplier, conv.layout, (conv.high, conv.wide), conv.pad_value,
        conv.out_dtype, {CONVOLUTION: conv},
    )  # fmt: skip


def _formula(conv: Convolution, method: str) -> Formula:
    """Return the formula called `method`, or the default formula if `method` is "".

    Raises ExprError if there is no such formula, or if it cannot compute this convolution.
    """
    name = method or default_formula(conv).name
    formulas = all_formulas(conv)
    candidates = [f for f in formulas if f.name == name]  # two for winograd, with tiles 2 and 4
    if not candidates:
        fix = ", ".join(map(repr, [*dict.fromkeys(f.name for f in formulas), "best"]))
        raise ExprError(f"conv2d: method {method!r}", "no such method", fix)
    if not candidates[0].applies:
        raise ExprError(f"conv2d: method {method!r}", candidates[0].why_not, "method='best'")
    tile = best_tile(conv) if name == "winograd" else 0
    return next(f for f in candidates if f.tile == tile)


def _rows(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define conv2d by three stages: the image as rows, the sum of shifted products, the crop.

    width is the length of a row: the output's width and the unused columns. py and px number the
    pixels inside a stride, so that pixels that the kernel reads one after the other are adjacent.

    rows[n, c, py, px, r*width + q] = padded[n, c, r*stride + py, q*stride + px]
    products[n, o, p]               = sum of rows[n, c, ..., p + shift(ky, kx)] * kernel[...]
    out[n, o, y, x]                 = products[n, o, y*width + x]
    """
    batch, outputs, high, wide = conv.batch, conv.outputs, conv.high, conv.wide
    width = conv.row_length
    pixel = padded_pixel(data, NCHW, high, wide, conv.pad_value)

    def image(n: Any, c: Any, py: Any, px: Any, f: Any) -> Any:
        return pixel(n, c, f // width * high.stride + py, f % width * wide.stride + px)

    shape = (batch, data.shape[1], high.phases, wide.phases, conv.rows_length)
    rows = te.compute(shape, image, name="T_rows", tag=IMAGE_ROWS)
    axes = reduce_axes(conv)
    c, ky, kx = axes

    def total(n: Any, o: Any, p: Any) -> Any:
        y, x = ky * high.dilation, kx * wide.dilation
        offset = p + y // high.stride * width + x // wide.stride
        row_value = rows(n, conv.channel(o, c), y % high.stride, x % wide.stride, offset)
        return te.sum(product(row_value, kernel(o, c, ky, kx), conv.out_dtype), axis=axes)

    shape = (batch, outputs, high.out * width)
    flat = te.compute(shape, total, name="T_rows_conv", tag=CONV_ROWS)

    def crop(n: Any, o: Any, y: Any, x: Any) -> Any:
        return flat(n, o, y * width + x)

    out = (batch, outputs, high.out, wide.out)
    return te.compute(out, crop, name="T_conv2d", tag="crop", attrs={CONVOLUTION: conv})


def _blocks(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define conv2d by three steps: the image in NCHW16c, the convolution there, and back."""
    layout = layout_of("conv2d", f"NCHW{block_of(conv)}c")
    image = transformed(data, NCHW, layout)
    out = direct(image, kernel, replace(conv, layout=layout))
    return transformed(out, layout, NCHW, {CONVOLUTION: conv})


def _gemm(data: te.Tensor, kernel: te.Tensor, conv: Convolution) -> te.Tensor:
    """Define conv2d as a product of two matrices, of the pixels that outputs read and of weights.

    In NHWC, with p = (n, y, x) and k = (ky, kx, c):

    pixels[p, k]    = padded[n, y*stride + ky*dilation, x*stride + kx*dilation, c]
    products[p, o]  = sum of pixels[p, k] * weights[k, o]
    out[n, y, x, o] = products[(n, y, x), o]

    In NCHW k is (c, ky, kx), and all three matrices are transposed. No matrix of pixels is stored
    if a schedule computes tiles of it (implicit GEMM), as the default one for a GPU does.
    """
    layout, high, wide = conv.layout, conv.high, conv.wide
    area, taps = high.out * wide.out, high.kernel * wide.kernel
    count, depth = tir.mul(conv.batch, area), tir.mul(conv.inputs, taps)
    padded = padded_pixel(data, layout, high, wide, conv.pad_value)
    first = layout == NHWC

    def parts(k: Any) -> tuple[Any, Any, Any]:
        """Return (c, ky, kx)."""
        c, tap = (k % conv.inputs, k // conv.inputs) if first else (k // taps, k % taps)
        return c, tap // wide.kernel, tap % wide.kernel

    def pixel(p: Any, k: Any) -> Any:
        c, ky, kx = parts(k)
        y, x = p % area // wide.out, p % wide.out
        row, column = y * high.stride + ky * high.dilation, x * wide.stride + kx * wide.dilation
        return padded(p // area, c, row, column)

    def weight(k: Any, o: Any) -> Any:
        c, ky, kx = parts(k)
        return kernel(*layout.weight(o, c, ky, kx))

    pixels = _matrix((count, depth), pixel, "T_pixels", not first)
    weights = _matrix((depth, conv.outputs), weight, "T_weights", not first)
    k = te.reduce_axis((0, depth), "k")

    def total(a: Any, b: Any) -> Any:
        left, right = (pixels, weights) if first else (weights, pixels)
        return te.sum(product(left(a, k), right(k, b), conv.out_dtype), axis=k)

    shape = (count, conv.outputs) if first else (conv.outputs, count)
    products = te.compute(shape, total, name="T_products")

    def place(n: Any, o: Any, y: Any, x: Any) -> Any:
        p = (n * high.out + y) * wide.out + x
        return products(p, o) if first else products(o, p)

    out = layout.shape(conv.batch, conv.outputs, high.out, wide.out)
    attrs = {CONVOLUTION: conv}
    return te.compute(out, layout.indexed(place), name="T_conv2d", tag=INJECTIVE, attrs=attrs)


def _matrix(
    shape: tuple[tir.Index, tir.Index], element: Callable[[Any, Any], Any], name: str, swap: bool
) -> te.Tensor:
    """Define a matrix, or its transpose with `swap`."""

    def transposed(a: Any, b: Any) -> Any:
        return element(b, a)

    if swap:
        return te.compute(shape[::-1], transposed, name=name, tag=INJECTIVE)
    return te.compute(shape, element, name=name, tag=INJECTIVE)
