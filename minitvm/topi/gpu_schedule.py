"""Good default schedules for a GPU: each stage that is not inlined becomes one kernel."""

from __future__ import annotations

import math
from functools import partial

from minitvm import schedule, te, tensor, tir

from .gpu_tiles import schedule_tiles, tile_of
from .loops import row_members
from .norm import ROW
from .options import Choose
from .stages import axes_of, epilogue_through, reduce_axes_of
from .tensor_cores import schedule_tensor_cores, warp_tile_of

THREADS = 256  # of a block, where nothing else decides
MANY = 4096  # results that keep a GPU busy with one thread each
FIRST_WITH_CORES = 80  # sm_80 has asynchronous copies, and mma for float16 and bfloat16
FAST_BYTES = 32 << 10  # shared memory that the rows of a block may take


def schedule_gpu(s: te.Schedule, arch: str = "", choose: Choose | None = None) -> None:
    """Bind the loops of all stages to blocks and threads.

    A matrix product is computed in tiles, with the elementwise stage after it; on tensor cores, if
    it multiplies float16 or bfloat16, adds float32, and consists of whole tiles. A row that is
    normalised, as by softmax, stays in the shared memory of a block. Threads reduce long rows
    together, and columns too if there are few. All other stages have a thread for each element.

    arch     the GPU, such as "sm_80"; by default one with tensor cores
    choose   as in topi.schedule
    """
    done_names: set[str] = set()
    on_cores = ((_on_tensor_cores, s.stages),) if _has_tensor_cores(arch) else ()
    for rule, stages in (
        *on_cores,
        (partial(_product, choose=choose), s.stages),
        (_rows, s.stages[::-1]),
        (_other, s.stages),
    ):
        for stage in stages:
            op = stage.op
            if (
                isinstance(op, te.ComputeOp)
                and not stage.is_inlined
                and stage.name not in done_names
            ):
                done_names |= rule(s, stage, op, done_names)


def _has_tensor_cores(arch: str) -> bool:
    """Return whether a GPU has the instructions of tensor_cores.py: Ampere and later ones."""
    return int(arch.removeprefix("sm_") or FIRST_WITH_CORES) >= FIRST_WITH_CORES


def _on_tensor_cores(s: te.Schedule, _: te.StageView, op: te.ComputeOp, done: set[str]) -> set[str]:
    del done
    tile = warp_tile_of(op)
    return set() if tile is None else schedule_tensor_cores(s, op, tile)


def _product(
    s: te.Schedule, _: te.StageView, op: te.ComputeOp, done: set[str], choose: Choose | None
) -> set[str]:
    tile = tile_of(op, choose)
    return set() if tile is None else schedule_tiles(s, op, tile, done)


def _rows(s: te.Schedule, stage: te.StageView, op: te.ComputeOp, done: set[str]) -> set[str]:
    members = _members(s, stage, op, done) if op.tag == ROW else []
    return schedule_rows(stage, members) if members else set()


def _other(s: te.Schedule, stage: te.StageView, op: te.ComputeOp, done: set[str]) -> set[str]:
    """Schedule a stage that no other rule takes; return the names of the stages it scheduled."""
    if op.reduction is not None and _length(op) >= schedule.WARP:
        if _folds_rows(op):
            schedule_sums_of_rows(stage, op)
            return {stage.name}
        if op.axis and _results(op) < MANY:
            schedule_sums_of_columns(stage)
            return {stage.name}
    return schedule_elements(s, stage, op, done)


def schedule_elements(
    s: te.Schedule, stage: te.StageView, op: te.ComputeOp, done: set[str]
) -> set[str]:
    """Let each thread compute one element, with its reduction in registers; return the names."""
    output, accumulator = stage, None
    if op.reduction is not None and len(op.body) == 1:
        output = epilogue_through(s, stage, done)
        accumulator = (
            s[s.cache_write(op.output(0), "local")] if output.name == stage.name else stage
        )
    axes = [a for a in axes_of(output) if a.extent != 1] or axes_of(output)[:1]
    ones = [a for a in axes_of(output) if all(a is not other for other in axes)]
    if ones:  # they may be between others, and only neighbours can be fused
        output.reorder(*ones, *axes)
    loop = output.fuse(*axes)
    if axes:
        block, loop = output.split(loop, THREADS)
        output.bind(block, te.thread_axis("blockIdx.x"))
    output.bind(loop, te.thread_axis("threadIdx.x"))
    if accumulator is None:
        return {output.name}
    accumulator.set_scope("local")
    accumulator.compute_at(output, loop)
    return {output.name, accumulator.name}


def schedule_sums_of_rows(stage: te.StageView, op: te.ComputeOp) -> None:
    """Let the threads of a warp, or of a block if there are few rows, reduce a row together."""
    has_few_rows = _length(op) >= THREADS * 8 and _results(op) <= MANY // schedule.WARP
    threads = THREADS if has_few_rows else schedule.WARP
    inner = stage.split(stage.fuse(*reduce_axes_of(stage)), threads)[1]
    stage.bind(inner, te.thread_axis("threadIdx.x"))
    if op.axis:
        rows = min(THREADS // threads, _results(op))
        block, row = stage.split(stage.fuse(*axes_of(stage)), rows)
        stage.bind(block, te.thread_axis("blockIdx.x"))
        stage.bind(row, te.thread_axis("threadIdx.y"))


def schedule_sums_of_columns(stage: te.StageView) -> None:
    """Let a warp read neighbouring columns, and several warps reduce parts of them."""
    part = stage.split(stage.fuse(*reduce_axes_of(stage)), THREADS // schedule.WARP)[1]
    stage.bind(part, te.thread_axis("threadIdx.y"))
    block, column = stage.split(stage.fuse(*axes_of(stage)), schedule.WARP)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(column, te.thread_axis("threadIdx.x"))


def schedule_rows(out: te.StageView, members: list[te.StageView]) -> set[str]:
    """Let a block compute a row of `out` with all that the row needs; return the stages' names."""
    *outer, last = axes_of(out)
    assert isinstance(last.extent, int)
    threads = min(THREADS, schedule.WARP << (last.extent // (4 * schedule.WARP)).bit_length())
    row = out.fuse(*outer)
    out.bind(row, te.thread_axis("blockIdx.x"))
    out.bind(out.split(last, threads)[1], te.thread_axis("threadIdx.x"))
    for stage in members:  # readers first
        stage.set_scope("shared")
        stage.compute_at(out, row)
        row_axes = reduce_axes_of(stage) or axes_of(stage)[len(outer) :]
        if row_axes:
            inner = stage.split(stage.fuse(*row_axes), threads)[1]
            stage.bind(inner, te.thread_axis("threadIdx.x"))
    return {out.name, *(stage.name for stage in members)}


def _members(
    s: te.Schedule, out: te.StageView, op: te.ComputeOp, done: set[str]
) -> list[te.StageView]:
    """Return the stages that a block computes with a row of `out`, or [] if it cannot."""
    *outer, last = (a.extent for a in op.axis)
    members = row_members(s, out, op, done) if outer and isinstance(last, int) else []
    size = 0
    for stage in members:
        assert isinstance(stage.op, te.ComputeOp)
        if stage.op.reduction is not None and not _folds_rows(stage.op):
            return []
        size += last * stage.op.dtypes[0].bytes if len(stage.op.axis) > len(outer) else 0
    return members if size <= FAST_BYTES else []


def _folds_rows(op: te.ComputeOp) -> bool:
    """Return whether only neighbours in memory are reduced: each last index is a reduce axis."""
    data = [a for a in op.axis if a.extent != 1]
    folded = [
        e.indices[-1]
        for e in tensor.loads(op)
        if any(not tir.free_of(i, op.reduce_axis) for i in e.indices)
    ]
    return all(tir.free_of(i, data) and not tir.free_of(i, op.reduce_axis) for i in folded)


def _length(op: te.ComputeOp) -> int:
    """Return how many values are reduced to one; 0 if the number is symbolic."""
    return math.prod(a.extent if isinstance(a.extent, int) else 0 for a in op.reduce_axis)


def _results(op: te.ComputeOp) -> int:
    """Return the number of elements; MANY if it is symbolic."""
    return math.prod(a.extent if isinstance(a.extent, int) else MANY for a in op.axis)
