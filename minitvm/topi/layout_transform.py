"""layout_transform stores images in another layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitvm import te

from .layouts import Layout, layout_of
from .operands import checks_arguments
from .shape import INJECTIVE
from .window import constant

LAYOUT = "layout"


@checks_arguments
def layout_transform(data: te.Tensor, src_layout: str, dst_layout: str) -> te.Tensor:
    """Store the images `data` in another layout: "NCHW", "NHWC" or, for example, "NCHW16c".

    The heights and widths must be constants. The first of two stages moves the pixels; it treats
    an image as one row of height * width pixels. The second restores the height and the width, and
    is inlined where that is possible.
    """
    what = f"topi.layout_transform of {data.name}"
    return transformed(data, layout_of(what, src_layout, data), layout_of(what, dst_layout))


def transformed(
    data: te.Tensor, source: Layout, result: Layout, attrs: Mapping[str, Any] | None = None
) -> te.Tensor:
    """Store the images `data` in the layout `result`; `attrs` are attributes of the last stage."""
    n, channels = data.shape[0], source.channels(data)
    high, wide = (
        constant(size, data) for size in data.shape[source.height_axis : source.height_axis + 2]
    )
    shape = result.shape(n, channels, high, wide)
    if source == result:
        return data

    def moved(*at: Any) -> Any:
        n, c, p, _ = result.pixel(*_with_width(result, at))
        y, x = (p // wide, p % wide) if wide else (0, 0)
        return data(*source.index(n, c, y, x))

    long = result.shape(n, channels, high * wide, 1)
    flat = te.compute(
        _without_width(result, long),
        moved,
        name="T_pixels",
        tag=LAYOUT,
        attrs={"from": source.name, "to": result.name},
    )

    def images(*at: Any) -> Any:
        n, c, y, x = result.pixel(*at)
        return flat(*_without_width(result, result.index(n, c, y * wide + x, 0)))

    return te.compute(shape, images, name="T_layout", tag=INJECTIVE, attrs=attrs)


def _without_width(layout: Layout, at: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the indices `at` without the index of the column."""
    return (*at[: layout.height_axis + 1], *at[layout.height_axis + 2 :])


def _with_width(layout: Layout, at: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the indices `at` with an index 0 for the column: the inverse of `_without_width`."""
    return (*at[: layout.height_axis + 1], 0, *at[layout.height_axis + 1 :])
