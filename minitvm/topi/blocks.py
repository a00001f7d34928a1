"""A good schedule for transposes and changes of the layout: square blocks, in registers.

A block is read in vectors along the rows of the source and stored in vectors along the rows of the
result; the code generator turns the steps between them into shuffles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from minitvm import te, tensor, tir
from minitvm.base import DType, Target

from .layouts import NCHW
from .loops import WORTH_THREADS
from .options import Choose
from .stages import axes_of, worth_threads
from .tile import in_registers

PAGE = 4096  # bytes
MAX_SIDE = 16  # the largest block that the code generator transposes in registers
MIN_SIDE = 4  # the smallest block


def transposed_row(op: tensor.Operation) -> te.Axis | None:
    """Return the axis i of a transpose `op`, such as out[i, j] = x[j, i].

    Returns None if `op` reads no tensor transposed, or if the rows or columns of this tensor are
    too short for a block.
    """
    if not isinstance(op, te.ComputeOp) or op.reduction is not None or len(op.body) > 1:
        return None
    if not op.axis:  # one number
        return None
    for e in tensor.loads(op):
        row = e.indices[-1] if e.indices else 0
        plain = all(isinstance(i, te.Axis) for i in e.indices)
        is_transposed = any(i is op.axis[-1] for i in e.indices[:-1])
        if plain and is_transposed and isinstance(row, te.Axis):
            short = [
                a for a in (row, op.axis[-1]) if isinstance(a.extent, int) and a.extent < MIN_SIDE
            ]
            return None if short else row
    return None


def schedule_transpose(
    s: te.Schedule, op: te.ComputeOp, out: te.StageView, row: te.Axis, target: Target
) -> set[str]:
    """Schedule the transpose `op`; return the names of the scheduled stages.

    out: the epilogue of the transpose, or its own stage. row: the axis that `transposed_row` finds.
    """
    return _in_blocks(s, op, out, row, _runs(op, (row, op.axis[-1])), target)


def schedule_layout(
    s: te.Schedule, op: te.ComputeOp, out: te.StageView, target: Target, _: Choose | None = None
) -> set[str]:
    """Schedule layout_transform; return the names of the scheduled stages.

    The loops over height and width are one. If channels are adjacent in only one of the two
    layouts, the operation is a transpose of pixels and channels, in square blocks.
    """
    source, result = op.attrs["from"], op.attrs["to"]
    high = result.height_axis
    if (source == NCHW) != (result == NCHW):
        row = op.axis[1 if result == NCHW else high + 1]
        size = source.block or result.block or result.channels(op.output(0))
        return _in_blocks(s, op, out, row, [high], target, size)
    stage = s[op.output(0)]
    if stage.name != out.name:
        stage.compute_inline()
    out.fuse(*axes_of(out)[high : high + 2])
    n, *outer, c = out.leaf_iter_vars
    vectors = 4 * target.lanes(op.dtypes[0])
    co, ci = out.split(c, factor=math.gcd(vectors, source.block, result.block))
    out.vectorize(ci)
    if result.block:  # loop over pixels outside, to read the source in order
        outer.reverse()
        out.reorder(*outer, co, ci)
    if worth_threads(op, target, WORTH_THREADS):
        out.parallel(out.fuse(n, outer[0]))
    return {stage.name, out.name}


def _in_blocks(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    row: te.Axis,
    runs: Sequence[int],
    target: Target,
    size: tir.Index | None = None,
) -> set[str]:
    """Schedule the transpose `op` in square blocks in the loops of `out`; return stage names.

    row: the axis of `op` along the rows of the source. runs: each d for which the loops d and d + 1
    are fused. size: the extent that the side of a block divides, if possible; by default, both.
    """
    stage, at = s[op.output(0)], next(d for d, a in enumerate(op.axis) if a is row)
    if runs:
        _fuse(stage, runs)
        cached_stage = s[s.cache_write(op.output(0), "local")]
        if stage.name != out.name:
            stage.compute_inline()
        _fuse(out, runs)
        at -= sum(1 for d in runs if d < at)
    else:
        cached_stage = in_registers(s, op, out)
    *outer, across = out.leaf_iter_vars
    rows = outer.pop(at)
    sizes = (rows.extent, across.extent) if size is None else (size,)
    side = block_side(target, op.dtypes[0], *sizes)
    along = None
    if runs and size is None:
        along = _evenness(rows.extent) >= _evenness(across.extent)
    outer = transpose_by_blocks(
        cached_stage, axes_of(cached_stage)[at], out, outer, (rows, across), side, target, along
    )
    if worth_threads(op, target, WORTH_THREADS):
        out.parallel(out.fuse(*outer))
    return {stage.name, out.name, cached_stage.name}


def _runs(op: te.ComputeOp, square: tuple[te.Axis, te.Axis]) -> list[int]:
    """Return each d for which dimensions d and d + 1 of `op` should be one in a transpose.

    They are neighbours, in this order, in the result and in every tensor that is read: in
    out[h, w, c] = x[c, h, w] these are h and w. Empty if the axes of `square` have even blocks
    without that.
    """
    if all(tir.prove_equal(tir.floormod(a.extent, MIN_SIDE), 0) for a in square):
        return []
    runs = [
        d
        for d, (a, b) in enumerate(zip(op.axis, op.axis[1:], strict=False))
        if isinstance(b.extent, int) and all(_together(a, b, e.indices) for e in tensor.loads(op))
    ]
    return runs if any(a is op.axis[n] for d in runs for n in (d, d + 1) for a in square) else []


def _together(a: te.Axis, b: te.Axis, indices: Sequence[tir.Index]) -> bool:
    """Return whether `indices` have b right after a, or neither of them."""
    at = [d for d, i in enumerate(indices) if not tir.free_of(i, (a, b))]
    neighbours = len(at) == 2 and at[1] == at[0] + 1
    return not at or (neighbours and indices[at[0]] is a and indices[at[1]] is b)


def _fuse(stage: te.StageView, runs: Sequence[int]) -> None:
    """Fuse the loops d and d + 1 of `stage` for each d in `runs`."""
    for d in reversed(runs):
        stage.fuse(*stage.leaf_iter_vars[d : d + 2])


def _evenness(n: tir.Index) -> int:
    """Return the largest power of 2 that divides n; steps of odd sizes use all sets of a cache."""
    return n & -n if isinstance(n, int) else 1


def transpose_by_blocks(
    moved: te.StageView,
    row: te.Axis,
    out: te.StageView,
    outer: Sequence[te.Axis],
    square: tuple[te.Axis, te.Axis],
    side: int,
    target: Target,
    along: bool | None = None,
) -> list[te.Axis]:
    """Compute `moved` block by block in the loops of `out`; return the loops outside the blocks.

    row: the axis of `moved` along the rows of the source. square: the axes i and j of `out` in
    out[i, j] = source[j, i]. outer: its other axes. side: the height and width of a block.

    for strip:                          a strip of io
      for jo:
        for io:                         blocks; those of a strip read and write 1/16 of the L2 cache
          moved[ii, ji] = source[jo + ji, io + ii]
          out[io + ii, jo + ji] = moved[ii, ji]

    The CPU prefetches data of one page at a time. If a row of the source is shorter than a page,
    the loops io and jo are exchanged, so that the result is written in long runs. `along` says
    instead whether the innermost loop is io, along the rows of the source.
    """
    length, size = square[0].extent, out.op.output(0).dtype.bytes
    blocks = max(1, target.l2 // 16 // (2 * side * side * size))  # in source and result
    short = isinstance(length, int) and length * size < PAGE if along is None else not along
    (io, ii), (jo, ji) = (out.split(axis, factor=side) for axis in square)
    inside, outside = (jo, io) if short else (io, jo)
    strip, inside = out.split(inside, factor=blocks)
    out.reorder(*outer, strip, outside, inside, ii, ji)
    out.unroll(ii)
    out.vectorize(ji)
    column = next(a for a in reversed(axes_of(moved)) if a is not row)
    transpose_in_registers(moved, out, inside, column, row)
    return [*outer, strip, outside]


def transpose_in_registers(
    moved: te.StageView, out: te.StageView, at: te.Axis, column: te.Axis, row: te.Axis
) -> None:
    """Compute a block of `moved` in the loop `at` of `out`: load vectors along `row`.

    The loop `column` is unrolled. The code generator then transposes the vectors in registers.
    """
    moved.compute_at(out, at)
    rest = [a for a in moved.leaf_iter_vars if a is not column and a is not row]
    moved.reorder(*rest, column, row)
    moved.unroll(column)
    moved.vectorize(row)


def block_side(target: Target, dtype: DType, *sizes: tir.Index) -> int:
    """Return the side of a square block: the largest power of 2 that divides all `sizes`.

    It is at least MIN_SIDE, and at most MAX_SIDE or the length of a vector. If no such power
    divides all sizes, the side is the upper limit.
    """
    most = min(target.lanes(dtype), MAX_SIDE)
    sides = [most >> n for n in range(most.bit_length()) if most >> n >= MIN_SIDE]
    even = [n for n in sides if all(tir.prove_equal(tir.floormod(z, n), 0) for z in sizes)]
    return max(even, default=most)
