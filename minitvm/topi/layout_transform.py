"""layout_transform, which stores images in another layout."""

from __future__ import annotations

from typing import Any

from minitvm import te

from .layouts import Layout, layout_of
from .operands import on_tensors
from .shape import INJECTIVE
from .window import constant

LAYOUT = "layout"


@on_tensors
def layout_transform(data: te.Tensor, src_layout: str, dst_layout: str) -> te.Tensor:
    """Store the images `data` in another layout: "NCHW", "NHWC" or, for example, "NCHW16c".

    The heights and widths must be constants. Two stages do this: the first moves the pixels and
    treats an image as one long row, and the second restores its height and width. The second is
    inlined where that is possible.
    """
    what = f"topi.layout_transform of {data.name}"
    source, result = layout_of(what, src_layout, data), layout_of(what, dst_layout)
    n, channels = data.shape[0], source.channels(data)
    high, wide = (constant(size, data) for size in data.shape[source.high : source.high + 2])
    shape = result.shape(n, channels, high, wide)
    if source == result:
        return data

    def moved(*at: Any) -> Any:
        n, c, p, _ = result.pixel(*_with_height(result, at))
        y, x = (p // wide, p % wide) if wide else (0, 0)
        return data(*source.index(n, c, y, x))

    long = result.shape(n, channels, high * wide, 1)
    flat = te.compute(
        _without_height(result, long),
        moved,
        name="T_pixels",
        tag=LAYOUT,
        attrs={"from": source.name, "to": result.name},
    )

    def images(*at: Any) -> Any:
        n, c, y, x = result.pixel(*at)
        return flat(*_without_height(result, result.index(n, c, y * wide + x, 0)))

    return te.compute(shape, images, name="T_layout", tag=INJECTIVE)


def _without_height(layout: Layout, at: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the indices `at` of images of width 1 without their column."""
    return (*at[: layout.high + 1], *at[layout.high + 2 :])


def _with_height(layout: Layout, at: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the indices `at` with the column 0: the inverse of `_without_height`."""
    return (*at[: layout.high + 1], 0, *at[layout.high + 1 :])
