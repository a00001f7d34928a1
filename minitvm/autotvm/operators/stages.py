"""What the templates of operators share: the stages of a schedule, and what they read."""

from __future__ import annotations

from collections.abc import Sequence

from minitvm import te, tensor, tir, topi
from minitvm.base import ArgumentError, Target, divisors


def tiles(length: tir.Index, inner: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Enumerate splits into four loops, whose innermost one has one of the given sizes.

    The innermost size need not divide the length, because it should suit the vector registers.
    The two loops in the middle are as long as powers of two, or divide the number of tiles.
    """
    found = list[tuple[int, int, int, int]]()
    for size in inner if isinstance(length, int) else ():
        count = -(-length // size)
        middle = sorted({*divisors(count), *(1 << b for b in range(count.bit_length()))})
        fits = [(a, b) for a in middle for b in middle if a * b <= count]
        found += [(-1, a, b, size) for a, b in fits if size <= length or size == min(inner)]
    return found


def register_tiles(
    high: int, wide: int, vectors: int, target: Target
) -> list[tuple[int, int, int]]:
    """Enumerate tiles of rows by columns by vectors that the vector registers can hold."""
    found = list[tuple[int, int, int]]()
    for v in (n for n in range(1, min(vectors, 6) + 1) if n in (1, 2, 3, 4, 6)):
        most = max(1, target.tile_rows(v))
        for y in range(1, min(high, most, 4) + 1):
            found += [(y, x, v) for x in range(1, min(wide, most // y) + 1)]
    return found


def start(
    outs: Sequence[te.Tensor], heavy: te.Tensor, keep: Sequence[te.Tensor] = ()
) -> tuple[te.Schedule, te.StageView]:
    """Create a schedule in which elementwise stages are inlined, except for `keep`.

    Returns the schedule and the stage that writes the result: an elementwise stage that reads the
    tensor `heavy`, or the stage of `heavy` itself.
    """
    s = te.create_schedule([t.op for t in outs])
    if len(outs) != 1:
        raise ArgumentError("a tuned schedule", f"there are {len(outs)} outputs", "one output")
    for stage in s.stages:
        kept = any(stage.op is t.op for t in keep)
        if not kept and _is_simple(stage):
            stage.compute_inline()
    return s, s[outs[0]]


def _is_simple(stage: te.StageView) -> bool:
    op = stage.op
    return isinstance(op, te.ComputeOp) and op.reduction is None and not stage.is_output


def vectors(stage: te.StageView) -> None:
    """Vectorize the last loop of an elementwise stage, and run the others in parallel."""
    *outer, last = topi.stages.axes_of(stage)
    target = Target.current()
    lanes = target.lanes(stage.op.output(0).dtype)
    rest, inner = stage.split(last, factor=4 * lanes)
    stage.vectorize(inner)
    if target.num_cores > 1:
        stage.parallel(stage.fuse(*outer, rest))


def right_load(product: tensor.Operation) -> tir.Load:
    """Return the load of a matrix product that the last axis of the result indexes."""
    assert isinstance(product, te.ComputeOp)
    last = product.axis[-1]
    return next(e for e in tensor.loads(product) if any(i is last for i in e.indices))


def right_operand(product: te.StageView) -> te.Tensor:
    """Return the operand of a matrix product that the last axis of the result indexes."""
    found = right_load(product.op).buffer
    assert isinstance(found, te.Tensor)
    return found
