"""Winograd's formula of a 3x3 convolution, F(2x2, 3x3) and F(4x4, 3x3).

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. In one dimension, two
outputs of a kernel g of three elements read four pixels d:

  y0 = d0*g0 + d1*g1 + d2*g2          six multiplications
  y1 = d1*g0 + d2*g1 + d3*g2

F(2, 3) computes the same from four products:

  m0 = (d0 - d2) * g0                 m1 = (d1 + d2) * (g0 + g1 + g2)/2
  m3 = (d1 - d3) * g2                 m2 = (d2 - d1) * (g0 - g1 + g2)/2
  y0 = m0 + m1 + m2                   y1 = m1 - m2 - m3

In two dimensions, the transforms are applied to the columns and then to the rows of a tile, and
16 products give 2x2 outputs, which take 36 multiplications directly. F(4, 3) has six products for
four outputs; its 36 products give 4x4 outputs instead of 144. Sums over input channels commute with
the last transform. So the products of all tiles at one place (i, j) are one matrix product, of
[tiles, C] and [C, O]:

  U[i, j, c, o] = transformed kernel[:, :, c, o]           once, if the kernel is constant
  V[i, j, p, c] = transformed pixels of tile p
  M[i, j, p, o] = sum of V[i, j, p, c] * U[i, j, c, o]     16 or 36 matrix products
  out           = transformed M[:, :, p, o]

F(4) multiplies least, but its U has 36/9 times the bytes of the kernel, and its constants make
rounding errors about ten times larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, raise_first

from .convolution import CONVOLUTION, Convolution, described
from .formulas import best_tile, winograd_reasons
from .layouts import NHWC
from .operands import checks_arguments
from .shape import transpose
from .window import padded_pixel

TILE = "tile"  # an attribute of the output
WINOGRAD = "winograd"  # the tag of the output
WINOGRAD_PART = "winograd_part"  # the tag of the stages from which the output is computed

Parts = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Transforms:
    """The three one-dimensional transforms of F(m, 3); m + 2 products give m outputs.

    Each takes a list of expressions and returns the list of their transforms. Constants are exact
    in float32, except the sixths of the kernel's transform.
    """

    kernel: Callable[[Parts], Parts]
    data: Callable[[Parts], Parts]
    output: Callable[[Parts], Parts]


def _kernel2(g: Parts) -> Parts:
    even, odd = (g[0] + g[2]) * 0.5, g[1] * 0.5
    return g[0], even + odd, even - odd, g[2]


def _data2(d: Parts) -> Parts:
    return d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]


def _output2(m: Parts) -> Parts:
    return m[0] + (m[1] + m[2]), (m[1] - m[2]) - m[3]


def _kernel4(g: Parts) -> Parts:
    near, far = (g[0] + g[2]) * (-1 / 6), g[0] * (1 / 24) + g[2] * (1 / 6)
    odd, double = g[1] * (1 / 6), g[1] * (1 / 12)
    return g[0] * 0.25, near - odd, near + odd, far + double, far - double, g[2]


def _data4(d: Parts) -> Parts:
    even, odd = d[4] - d[2] * 4.0, d[3] - d[1] * 4.0
    far, double = d[4] - d[2], (d[3] - d[1]) * 2.0
    first, last = d[0] * 4.0 - d[2] * 5.0 + d[4], d[1] * 4.0 - d[3] * 5.0 + d[5]
    return first, even + odd, even - odd, far + double, far - double, last


def _output4(m: Parts) -> Parts:
    even, odd, far, double = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return m[0] + even + far, odd + double * 2.0, even + far * 4.0, odd + double * 8.0 + m[5]


TRANSFORMS = {
    2: Transforms(_kernel2, _data2, _output2),
    4: Transforms(_kernel4, _data4, _output4),
}


@checks_arguments
def conv2d_winograd(
    data: te.Tensor,
    kernel: te.Tensor,
    padding: Any = 0,
    tile: Any = None,
    layout: str = "NHWC",
    strides: Any = 1,
    dilation: Any = 1,
    groups: int = 1,
) -> te.Tensor:
    """Convolve data with a 3x3 kernel by Winograd's formula, in fewer multiplications than conv2d.

    NHWC: data [N, H, W, C], kernel [3, 3, C, O], result [N, OH, OW, O].
    NCHW: data [N, C, H, W], kernel [O, C, 3, 3], result [N, O, OH, OW].

    padding: an integer, (height, width) or (top, left, bottom, right). tile: 2 for F(2x2, 3x3), 4
    for F(4x4, 3x3), None to choose the faster tile by its estimated cost (see `topi.formulas`).
    Rounding errors, relative to the largest result, are about 1e-6 with tile 2 and 1e-5 with tile
    4. strides, dilation and groups must be 1; other values are refused.
    """
    name, what = "conv2d_winograd", f"conv2d_winograd of {data.name}, {kernel.name}"
    conv = described(name, data, kernel, strides, padding, dilation, groups, layout)
    raise_first(ExprError, what, winograd_reasons(conv))
    if tile is None:
        tile = best_tile(conv)
    if not isinstance(tile, int) or tile not in TRANSFORMS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"{what}: tile={tile!r}", "no such tile", "2, 4, or None to choose")
    return winograd(data, kernel, conv, tile)


def winograd(data: te.Tensor, kernel: te.Tensor, conv: Convolution, tile: int) -> te.Tensor:
    """Define the convolution `conv` by F(tile x tile, 3x3); NCHW is transposed to NHWC and back."""
    if data.dtype is not kernel.dtype:
        why = f"their types are {data.dtype} and {kernel.dtype}"
        raise ExprError(f"winograd of {data.name}, {kernel.name}", why, "topi.cast(kernel, dtype)")
    if conv.layout == NHWC:
        return _winograd_nhwc(data, kernel, conv, tile)
    image, weights = transpose(data, (0, 2, 3, 1)), transpose(kernel, (2, 3, 1, 0))
    return transpose(_winograd_nhwc(image, weights, conv, tile), (0, 3, 1, 2))


def _winograd_nhwc(data: te.Tensor, kernel: te.Tensor, conv: Convolution, tile: int) -> te.Tensor:
    """Define the stages of F(tile x tile, 3x3) in NHWC.

    `p` is the number of a tile: those of all images are counted row by row. `a` is tile + 2, the
    height and width of the pixels that a tile reads.

    WK[i, s, c, o] = kernel transform of kernel[:, s, c, o]
    U[i, j, c, o]  = kernel transform of WK[i, :, c, o]
    VD[p, i, q, c] = data transform of column q of tile p, which is 0 in the padding
    V[i, j, p, c]  = data transform of VD[p, i, :, c]
    M[i, j, p, o]  = sum of V[i, j, p, c] * U[i, j, c, o]
    MO[p, y, j, o] = output transform of M[:, j, p, o]
    out[n, y, x, o] = output transform of MO[p, y % tile, :, o]; p is the tile of pixel (y, x)
    """
    transforms, a = TRANSFORMS[tile], tile + 2
    tile_rows, tile_columns = conv.tiles(tile)
    per_image = tile_rows * tile_columns
    tiles = tir.mul(conv.batch, per_image)
    pixel = padded_pixel(data, NHWC, conv.high, conv.wide, conv.pad_value)

    def column(p: Any, i: Any, q: Any, c: Any) -> Any:
        n, y, x = p // per_image, p // tile_columns % tile_rows * tile, p % tile_columns * tile
        return _pick(i, transforms.data([pixel(n, c, y + r, x + q) for r in range(a)]))

    vd = _part("VD", (tiles, a, a, conv.inputs), column)

    def row(i: Any, j: Any, p: Any, c: Any) -> Any:
        return _pick(j, transforms.data([vd(p, i, q, c) for q in range(a)]))

    v = _part("V", (a, a, tiles, conv.inputs), row)
    u = _kernel(kernel, transforms, a)
    rc = te.reduce_axis((0, conv.inputs), "rc")

    def product(i: Any, j: Any, p: Any, o: Any) -> Any:
        return te.sum(v(i, j, p, rc) * u(i, j, rc, o), axis=rc)

    m = _part("M", (a, a, tiles, conv.outputs), product)

    def out_column(p: Any, y: Any, j: Any, o: Any) -> Any:
        return _pick(y, transforms.output([m(i, j, p, o) for i in range(a)]))

    mo = _part("MO", (tiles, tile, a, conv.outputs), out_column)

    def out(n: Any, y: Any, x: Any, o: Any) -> Any:
        p = (n * tile_rows + y // tile) * tile_columns + x // tile
        return _pick(x % tile, transforms.output([mo(p, y % tile, j, o) for j in range(a)]))

    shape = (conv.batch, conv.high.out, conv.wide.out, conv.outputs)
    attrs = {CONVOLUTION: conv, TILE: tile}
    return te.compute(shape, out, name="T_winograd", tag=WINOGRAD, attrs=attrs)


def _kernel(kernel: te.Tensor, transforms: Transforms, a: int) -> te.Tensor:
    """Define the transformed kernel U[i, j, c, o]."""

    def column(i: Any, s: Any, c: Any, o: Any) -> Any:
        return _pick(i, transforms.kernel([kernel(r, s, c, o) for r in range(3)]))

    wk = _part("WK", (a, *kernel.shape[1:]), column)

    def row(i: Any, j: Any, c: Any, o: Any) -> Any:
        return _pick(j, transforms.kernel([wk(i, s, c, o) for s in range(3)]))

    return _part("U", (a, a, *kernel.shape[2:]), row)


def _part(name: str, shape: tuple[tir.Index, ...], body: Callable[..., Any]) -> te.Tensor:
    """Define a stage that the output is computed from."""
    return te.compute(shape, body, name=name, tag=WINOGRAD_PART)


def _pick(i: Any, parts: Parts) -> Any:
    """Return parts[i] for a loop variable i, as nested conditions.

    The conditions become constants once the loop over i is unrolled.
    """
    chosen = parts[-1]
    for n in reversed(range(len(parts) - 1)):
        chosen = te.if_then_else(i < n + 1, parts[n], chosen)
    return chosen
