"""layout_transform stores images in another layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitvm import te

from .layouts import Layout, layout_of
from .operands import checks_arguments
from .window import constant

LAYOUT = "layout"


@checks_arguments
def layout_transform(data: te.Tensor, src_layout: str, dst_layout: str) -> te.Tensor:
    """Store the images `data` in another layout: "NCHW", "NHWC" or, for example, "NCHW16c".

    The heights and widths must be constants.
    """
    what = f"topi.layout_transform of {data.name}"
    return transformed(data, layout_of(what, src_layout, data), layout_of(what, dst_layout))


def transformed(
    data: te.Tensor, source: Layout, result: Layout, attrs: Mapping[str, Any] | None = None
) -> te.Tensor:
    """Store the images `data` in the layout `result`; `attrs` are attributes of the operation."""
    if source == result:
        return data
    high, wide = (
        constant(size, data) for size in data.shape[source.height_axis : source.height_axis + 2]
    )

    def pixel(n: Any, c: Any, y: Any, x: Any) -> Any:
        return data(*source.index(n, c, y, x))

    shape = result.shape(data.shape[0], source.channels(data), high, wide)
    about = {"from": source, "to": result, **(attrs or {})}
    return te.compute(shape, result.indexed(pixel), name="T_layout", tag=LAYOUT, attrs=about)
