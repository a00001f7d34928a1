"""Both schedules of Halide's blur in the lecture "AI-Systems: Deep Learning Compilers"."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te


def blur(height: int, width: int, average: bool) -> tuple[list[te.Tensor], te.Schedule]:
    """[input, blurx, out], the input with one more row and column at every side."""

    def three(a: Any, b: Any, c: Any) -> Any:
        return (a + b + c) / 3.0 if average else a + b + c

    image = te.placeholder((height + 2, width + 2), name="input")
    blurx = te.compute(
        (height + 2, width),
        lambda y, x: three(image[y, x], image[y, x + 1], image[y, x + 2]),
        name="blurx",
    )
    out = te.compute(
        (height, width),
        lambda y, x: three(blurx[y, x], blurx[y + 1, x], blurx[y + 2, x]),
        name="out",
    )
    return [image, blurx, out], te.create_schedule(out.op)


def split_by_four(height: int, width: int) -> tuple[list[te.Tensor], te.Schedule]:
    """The schedule in words: tiles of 4 x 4, the rows of blurx kept throughout a tile."""
    (image, blurx, out), s = blur(height, width, average=False)
    y, x = out.op.axis
    y0, x0, y1, x1 = s[out].tile(y, x, 4, 4)
    s[out].parallel(y0)
    s[out].vectorize(x1)
    s[blurx].compute_at(s[out], y1)
    s[blurx].store_at(s[out], x0)
    _, x1 = s[blurx].split(s[blurx].op.axis[1], 4)
    s[blurx].vectorize(x1)
    return [image, blurx, out], s


def tiled_by_256_x_32(height: int, width: int) -> tuple[list[te.Tensor], te.Schedule]:
    """The schedule of blur_3x3, in the order of its calls."""
    (image, blurx, out), s = blur(height, width, average=True)
    y, x = out.op.axis
    yo, xo, _, xi = s[out].tile(y, x, 32, 256)
    s[out].vectorize(s[out].split(xi, 8)[1])
    s[out].parallel(yo)
    s[blurx].compute_at(s[out], xo)
    s[blurx].vectorize(s[blurx].split(s[blurx].op.axis[1], 8)[1])
    return [image, blurx, out], s


def blurred(image: np.ndarray, divisor: int) -> np.ndarray:
    rows = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / divisor
    return (rows[:-2] + rows[1:-1] + rows[2:]) / divisor


def test_an_image_does_not_reach_beyond_its_edge(refusal: Callable[..., str]) -> None:
    listing = """
image = t.placeholder((16, 16), name="input")
blurx = t.compute((16, 16), lambda y, x: image[y, x-1] + image[y, x] + image[y, x+1], name="blurx")
"""
    assert refusal(listing).startswith(
        "ExprError: compute blurx: input[y, x - 1] may leave input: index 1 is x - 1, "
        "from -1 to 14, dimension 1 of input is 0 .. 15"
    )


def test_where_a_stage_is_kept_is_said_before_where_it_is_computed() -> None:
    """The order of the slide: store at out.x0, compute at out.y1."""
    (image, blurx, out), s = blur(16, 16, average=False)
    y, x = out.op.axis
    s[blurx].store_at(s[out], y)
    s[blurx].compute_at(s[out], x)
    kept = str(tvm.lower(s, [image, out]))
    while s.steps:
        s.undo()
    s[blurx].compute_at(s[out], x)
    s[blurx].store_at(s[out], y)
    assert str(tvm.lower(s, [image, out])) == kept


@pytest.mark.parametrize(
    ("schedule", "height", "width", "divisor"),
    [(split_by_four, 16, 16, 1), (tiled_by_256_x_32, 64, 512, 3)],
    ids=["split by four", "tiled by 256 x 32"],
)
def test_both_schedules_compute_the_blur(
    schedule: Callable[..., Any],
    height: int,
    width: int,
    divisor: int,
    golden: Callable[[str], None],
    numbers: Callable[..., np.ndarray],
) -> None:
    (image, _, out), s = schedule(height, width)
    golden(str(tvm.lower(s, [image, out])))
    a, c = numbers(height + 2, width + 2), np.full((height, width), np.nan, "float32")
    tvm.build(s, [image, out])(a, c)
    np.testing.assert_allclose(c, blurred(a, divisor), rtol=1e-5, atol=1e-6)


def test_tiles_of_four_rows_compute_six_for_four() -> None:
    (_, blurx, _), s = split_by_four(64, 64)
    assert s.explain()[blurx.name].per_tile == Fraction(6, 4)


def test_tiles_of_32_rows_compute_34_for_32() -> None:
    (_, blurx, _), s = tiled_by_256_x_32(64, 512)
    assert s.explain()[blurx.name].per_tile == Fraction(34, 32)
