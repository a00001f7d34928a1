"""Good default schedules for a GPU: each stage that is not inlined becomes one kernel."""

from __future__ import annotations

from minitvm import te

from .stages import is_product

THREADS = 256  # of a block, where nothing else decides
MANY = 4096  # results that keep a GPU busy with one thread each
WARP = 32
DEPTH = 8  # the depth of a tile of a product in shared memory
TILE, EACH = 32, 4  # a block computes TILE x TILE results, a thread EACH x EACH of them
LARGE_TILE, LARGE_EACH = 128, 8


def schedule_gpu(s: te.Schedule) -> None:
    """Bind the loops of all stages to blocks and threads.

    A matrix product is computed in tiles: a block fetches tiles of both operands into shared
    memory, its threads multiply them in registers. A reduction with few results is computed by a
    warp each. All other stages have one thread for each element.
    """
    done: set[str] = set()
    for stage in reversed(s.stages):
        op = stage.op
        if not isinstance(op, te.ComputeOp) or stage.is_inlined or stage.name in done:
            continue
        if is_product(op) and _tile(op) is not None:
            done |= schedule_tiles(s, op)
        elif op.reduction is not None and _results(op) < MANY:
            schedule_reduction(s, op)
        else:
            _bind_elements(s, op)


def schedule_tiles(s: te.Schedule, op: te.ComputeOp) -> set[str]:
    """Compute a matrix product in tiles; return the names of its stages."""
    tile, each = _tile(op) or (TILE, EACH)
    out = op.output(0)
    local = s.cache_write(out, "local")
    inputs = list(dict.fromkeys(s[local].op.input_tensors))
    shared = [s.cache_read(t, "shared", [local]) for t in inputs]
    *batch, i, j = s[out].op.axis
    (by, y), (bx, x) = s[out].split(i, tile), s[out].split(j, tile)
    (ty, y), (tx, x) = s[out].split(y, each), s[out].split(x, each)
    s[out].reorder(*batch, by, bx, ty, tx, y, x)
    if batch:
        s[out].bind(s[out].fuse(*batch), te.thread_axis("blockIdx.z"))
    for loop, tag in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        s[out].bind(loop, te.thread_axis(tag))
    s[local].compute_at(s[out], tx)
    k = s[local].op.reduce_axis[0]
    ko, ki = s[local].split(k, DEPTH)
    s[local].reorder(ko, ki, *s[local].op.axis)
    s[local].unroll(ki)
    for t in shared:
        s[t].compute_at(s[local], ko)
        rest, tx = s[t].split(s[t].fuse(*s[t].op.axis), tile // each)
        _, ty = s[t].split(rest, tile // each)
        s[t].bind(ty, te.thread_axis("threadIdx.y"))
        s[t].bind(tx, te.thread_axis("threadIdx.x"))
    return {s[t].name for t in (out, local, *shared)}


def schedule_reduction(s: te.Schedule, op: te.ComputeOp) -> None:
    """Let the threads of a warp compute each result together."""
    stage = s[op.output(0)]
    length = 1
    for a in op.reduce_axis:
        length *= int(a.extent) if isinstance(a.extent, int) else WARP
    threads = min(WARP, 1 << (length - 1).bit_length())
    if not all(isinstance(a.extent, int) for a in op.reduce_axis) or length < 2:
        _bind_elements(s, op)
        return
    inner = stage.split(stage.fuse(*op.reduce_axis), threads)[1]
    stage.bind(inner, te.thread_axis("threadIdx.x"))
    if not op.axis:
        return
    rows = max(1, THREADS // threads)
    block, row = stage.split(stage.fuse(*op.axis), min(rows, _results(op)))
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(row, te.thread_axis("threadIdx.y"))


def _bind_elements(s: te.Schedule, op: te.ComputeOp) -> None:
    """Let each thread compute one element."""
    stage = s[op.output(0)]
    if not op.axis:
        stage.bind(stage.fuse(), te.thread_axis("threadIdx.x"))
        return
    block, thread = stage.split(stage.fuse(*op.axis), THREADS)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))


def _results(op: te.ComputeOp) -> int:
    """Return the number of elements; MANY if it is symbolic."""
    count = 1
    for a in op.axis:
        count *= a.extent if isinstance(a.extent, int) else MANY
    return count


def _tile(op: te.ComputeOp) -> tuple[int, int] | None:
    """Return (rows and columns of a block's tile, of a thread's); None for small products."""
    sizes = [a.extent for a in (*op.axis[-2:], *op.reduce_axis)]
    if len(op.axis) < 2 or len(op.reduce_axis) != 1:
        return None
    if not all(isinstance(n, int) for n in sizes):
        return None
    *rows_columns, depth = (int(n) for n in sizes if isinstance(n, int))
    if min(rows_columns) < TILE or depth < DEPTH:
        return None
    large = min(rows_columns) >= 8 * LARGE_TILE
    return (LARGE_TILE, LARGE_EACH) if large else (TILE, EACH)
