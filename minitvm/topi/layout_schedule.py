"""A good schedule for layout_transform: square blocks are transposed in registers.

Where channels are adjacent in both layouts, whole vectors are copied.
"""

from __future__ import annotations

import math

from minitvm import schedule, te
from minitvm.base import Target

from .blocks import block_side, transpose_by_blocks
from .fusion import same_shape
from .kinds import is_elementwise
from .layouts import Layout, layout_of
from .loops import WORTH_THREADS
from .stages import axes_of, has_iterations


def schedule_layout(s: te.Schedule, flat: te.StageView, target: Target) -> set[str]:
    """Schedule the two stages of layout_transform; return the names of the scheduled stages.

    flat: the first stage, which moves the pixels. If channels are adjacent in only one of the two
    layouts, this stage is a transpose of pixels and channels, in square blocks.
    """
    op, out = flat.op, _result(s, flat)
    assert isinstance(op, te.ComputeOp)
    source, result = (layout_of("layout_transform", op.attrs[end]) for end in ("from", "to"))
    fused = flat.name != out.name
    n, *rest = axes_of(out)
    if fused:
        at = result.height_axis - 1
        rest[at : at + 2] = [out.fuse(*rest[at : at + 2])]  # height and width
    if _has_pixels_last(source) == _has_pixels_last(result):
        if fused:
            flat.compute_inline()
        outer = [n, _copy(out, source, result, rest, target.lanes(op.dtypes[0]))]
    else:
        moved = flat if fused else s[s.cache_write(op.output(0), "local")]
        *blocks, along, across = rest
        c = across if _has_pixels_last(source) else along
        side = block_side(target, op.dtypes[0], source.block or result.block or c.extent)
        row = axes_of(moved)[-2]
        outer = transpose_by_blocks(moved, row, out, [n, *blocks], (along, across), side, target)
    if target.num_cores > 1 and has_iterations(op, WORTH_THREADS):
        out.parallel(out.fuse(*outer))
    return {v.name for v in s.stages if v.is_attached} | {flat.name, out.name}


def _result(s: te.Schedule, flat: te.StageView) -> te.StageView:
    """Return the stage in whose loops `flat` is computed.

    This is the second stage of layout_transform, or the elementwise stage that it is inlined into.
    It is `flat` itself if several stages read the result, or if its reader has another shape.
    """
    (images,) = schedule.readers(s.state)[flat.name]
    names = schedule.effective_readers(s.state)[flat.name]
    out = s[names[0]]
    fits = len(names) == 1 and same_shape(s[images], out)
    return out if fits and (out.name == images or is_elementwise(out.op)) else flat


def _has_pixels_last(layout: Layout) -> bool:
    """Return whether the pixels of a row, not its channels, are adjacent in memory."""
    return layout.name == "NCHW"


def _copy(
    out: te.StageView, source: Layout, result: Layout, rest: list[te.Axis], lanes: int
) -> te.Axis:
    """Schedule `out` to copy vectors of channels; return the next loop inside the loop over images.

    rest: the axes of `out` without the axis over images.
    """
    *outer, c = rest
    width = math.gcd(*(n for n in (4 * lanes, source.block, result.block) if n))
    co, ci = out.split(c, factor=width)
    out.vectorize(ci)
    if result.block:  # loop over pixels outside, to read the source in order
        outer.reverse()
        out.reorder(*outer, co, ci)
    return outer[0]
