"""A good schedule for conv2d with method "rows".

The convolution is a matrix product of the kernel [outputs, channels*KH*KW] with shifted rows of
pixels, so it uses the tile of gemm.py: a few output channels by a few vectors of pixels, in
registers.
"""

from __future__ import annotations

from minitvm import te, tir
from minitvm.base import Target

from .gemm import Plan, plan
from .options import Choose
from .stages import axes_of, reduce_axes_of, reduction_length
from .tile import tile_loops


def schedule_rows(
    s: te.Schedule, op: te.ComputeOp, crop: te.StageView, target: Target, _: Choose | None = None
) -> set[str]:
    """Schedule the three stages of conv2d with method "rows"; return the names of these stages.

    op: the sum of shifted products. crop: the stage that reads it.

    for n, oo in parallel:                      a few output channels at a time,
      for po:                                   all their pixels, tile by tile
        tile = 0
        for c, ky, kx: tile[oi, pi] += kernel[oo + oi, c, ky, kx] * rows[c, ..., po + pi + shift]
        products[oi, po + pi] = tile[oi, pi]
      out[n, oo + oi, y, x] = products[oi, y*width + x]

    If rows are as wide as the output, nothing is cropped, and tiles are stored directly in `out`.
    """
    flat = s[op.output(0)]
    p = plan((op.shape[1], op.shape[2], reduction_length(op)), op.dtypes[0], target, gather=False)
    product, image = op.output(0), s[op.input_tensors[0]]
    n, o, y, x = axes_of(crop)
    oo, oi = crop.split(o, factor=p.rows)
    if _nothing_to_crop(op, crop):
        tile = product
        po, pi = crop.split(crop.fuse(y, x), factor=p.columns)
        tile_loops(crop, (n, oo, po), (oi, pi))
        flat.set_scope("local")
        flat.compute_at(crop, po)
    else:
        tile = s.cache_write(product, "local")
        crop.vectorize(crop.split(x, factor=target.lanes(op.dtypes[0]))[1])
        flat.compute_at(crop, oo)
        fn, fo, pixel = axes_of(flat)
        po, pi = flat.split(pixel, factor=p.columns)
        tile_loops(flat, (fn, po), (fo, pi))
        s[tile].compute_at(flat, po)
    _schedule_sum(s[tile], p)
    _copy_rows(image, op, crop, target)
    if target.num_cores > 1:
        crop.parallel(crop.fuse(n, oo))
    return {flat.name, crop.name, image.name, s[tile].name}


def _nothing_to_crop(flat: te.ComputeOp, crop: te.StageView) -> bool:
    """Return whether the sum has no unused columns: a row is as wide as the output."""
    _, _, y, x = axes_of(crop)
    return tir.prove_equal(flat.shape[2], tir.mul(y.extent, x.extent))


def _schedule_sum(stage: te.StageView, p: Plan) -> None:
    """Schedule the loops that compute a tile.

    Input channels and kernel elements are outer loops; unrolled outputs and vectors are inside.
    """
    _, o, pixel = axes_of(stage)
    _, o = stage.split(o, factor=p.rows)
    tile_loops(stage, reduce_axes_of(stage), (o, *stage.split(pixel, factor=p.lanes)))


def _copy_rows(image: te.StageView, sums: te.ComputeOp, crop: te.StageView, target: Target) -> None:
    """Schedule the stage `image` to copy in whole vectors, or inline it if it only copies.

    sums: the operation that reads it. crop: the stage that reads these sums.
    """
    assert isinstance(image.op, te.ComputeOp)
    n, c, _, _, position = image.op.axis
    _, _, y, _ = axes_of(crop)
    pixels, height = sums.shape[2], y.extent
    assert isinstance(pixels, int)
    assert isinstance(height, int)
    if (
        _nothing_to_crop(sums, crop)
        and tir.prove_equal(position.extent, pixels)
        and is_unpadded_copy(image.op)
    ):
        image.compute_inline()
        return
    _, x = image.split(position, factor=pixels // height)
    image.vectorize(image.split(x, factor=target.lanes(image.op.dtypes[0]))[1])
    if target.num_cores > 1:
        image.parallel(image.fuse(n, c))


def is_unpadded_copy(op: te.ComputeOp) -> bool:
    """Return whether the stage copies all pixels in order, without padding."""
    value = op.body[0]
    if not isinstance(value, tir.Load):
        return False
    _, _, height, width = value.buffer.shape
    return tir.prove_equal(op.axis[4].extent, tir.mul(height, width))
