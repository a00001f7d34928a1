"""A good schedule for transposes: square blocks are transposed in registers.

A block is read in vectors along the rows of the source and stored in vectors along the rows of the
result; the code generator turns the steps between them into shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitvm import te, tensor, tir
from minitvm.base import DType, Target

from .loops import WORTH_THREADS
from .stages import axes_of, has_points

PAGE = 4096  # bytes
SIDE = 16  # most rows that the code generator transposes in registers
LEAST = 4  # fewest rows that it transposes in registers


def row_of_source(op: tensor.Operation) -> te.Axis | None:
    """Return the axis of `op` along the rows of a tensor that it reads transposed.

    Returns None if there is no such tensor, or if its rows or columns are too short for a block.
    """
    if not isinstance(op, te.ComputeOp) or op.reduction is not None or len(op.body) > 1:
        return None
    for e in tensor.loads(op):
        row = e.indices[-1] if e.indices else 0
        plain = all(isinstance(i, te.Axis) for i in e.indices)
        across = any(i is op.axis[-1] for i in e.indices[:-1])
        if plain and across and isinstance(row, te.Axis):
            short = [
                a for a in (row, op.axis[-1]) if isinstance(a.extent, int) and a.extent < LEAST
            ]
            return None if short else row
    return None


def schedule_transpose(
    s: te.Schedule, stage: te.StageView, out: te.StageView, row: te.Axis, target: Target
) -> set[str]:
    """Schedule the transpose `stage`; return the names of the scheduled stages.

    out: the elementwise stage that reads it, or the transpose itself. row: the axis of `stage`
    along the rows of its source.
    """
    op = stage.op
    assert isinstance(op, te.ComputeOp)
    at = next(d for d, a in enumerate(op.axis) if a is row)
    moved = stage if stage.name != out.name else s[s.cache_write(op.output(0), "local")]
    *outer, across = axes_of(out)
    rows = outer.pop(at)
    side = side_of(target, op.dtypes[0], row.extent, across.extent)
    outer = by_blocks(moved, axes_of(moved)[at], out, outer, (rows, across), side, target)
    if target.num_cores > 1 and has_points(op, WORTH_THREADS):
        out.parallel(out.fuse(*outer))
    return {stage.name, out.name, moved.name}


def by_blocks(
    moved: te.StageView,
    row: te.Axis,
    out: te.StageView,
    outer: Sequence[te.Axis],
    square: tuple[te.Axis, te.Axis],
    side: int,
    target: Target,
) -> list[te.Axis]:
    """Compute `moved` block by block in the loops of `out`; return the loops outside the blocks.

    row: the axis of `moved` along the rows of the source. square: the axes of `out` along the rows
    of the source and along its own.

    for ab:                             strips of the source
      for lo:
        for ao:                         blocks, which read and write a sixteenth of the L2 cache
          block[ai, li] = source[lo + li, ao + ai]
          out[ao + ai, lo + li] = block[ai, li]

    The CPU prefetches data of one page at a time. If a row of the source is shorter than a page,
    the strips are therefore strips of the result, which is then written in long runs.
    """
    a, size = square[0].extent, out.op.output(0).dtype.bytes
    blocks = max(1, target.l2 // 16 // (2 * side * side * size))  # in source and result
    short = isinstance(a, int) and a * size < PAGE
    (ao, ai), (lo, li) = (out.split(axis, factor=side) for axis in square)
    inside, outside = (lo, ao) if short else (ao, lo)
    strip, inside = out.split(inside, factor=blocks)
    out.reorder(*outer, strip, outside, inside, ai, li)
    out.unroll(ai)
    out.vectorize(li)
    column = next(a for a in reversed(axes_of(moved)) if a is not row)
    in_registers(moved, out, inside, column, row)
    return [*outer, strip, outside]


def in_registers(
    moved: te.StageView, out: te.StageView, at: te.Axis, column: te.Axis, row: te.Axis
) -> None:
    """Compute a block of `moved` in the loop `at` of `out`, in vectors along `row`."""
    moved.set_scope("local")
    moved.compute_at(out, at)
    rest = [a for a in moved.leaf_iter_vars if a is not column and a is not row]
    moved.reorder(*rest, column, row)
    moved.unroll(column)
    moved.vectorize(row)


def side_of(target: Target, dtype: DType, *sizes: tir.Index) -> int:
    """Return the side of a square block: the largest, but at least LEAST, that divides `sizes`."""
    most = min(target.lanes(dtype), SIDE)
    sides = [most >> n for n in range(most.bit_length()) if most >> n >= LEAST]
    even = [n for n in sides if all(tir.prove_equal(tir.floormod(z, n), 0) for z in sizes)]
    return max(even, default=most)
