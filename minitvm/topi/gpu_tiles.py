"""Matrix products on a GPU: tiles in shared memory, and smaller tiles in registers.

Convolutions are products, too: topi.conv2d with method "gemm" defines the pixels that the outputs
read as a matrix. This schedule computes tiles of it only, in shared memory (implicit GEMM).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from minitvm import schedule, simt, te, tensor, tir

from .options import Choose, options_of
from .stages import axes_of, epilogue_through, is_product, reduce_axes_of

WIDE = 4  # elements that a thread loads or stores at once
Axes: TypeAlias = Sequence[te.Axis]


@dataclass(frozen=True, slots=True)
class Tile:
    """The sizes of a product's tiles.

    block    a block computes block x block results, each thread each x each of them
    depth    the depth of the tiles in shared memory
    double   whether to fetch the next tiles while the present ones are multiplied
    """

    block: int
    each: int
    depth: int = 8
    double: bool = False

    @property
    def threads(self) -> int:
        """The threads of a block along each of its two dimensions."""
        return self.block // self.each


SMALL, MEDIUM, LARGE = Tile(32, 4), Tile(64, 4), Tile(128, 8, double=True)
BLOCKS = 48  # larger tiles are worth while if there are enough to keep much of a GPU busy


def tile_of(op: te.ComputeOp, choose: Choose | None = None) -> Tile | None:
    """Return the tile for `op`; None if it is no product, is small, or has symbolic sizes.

    choose   what a search calls with the options, as in topi.schedule
    """
    if not is_product(op) or len(op.input_tensors) != 2:
        return None
    sizes = [a.extent for a in (*op.axis[-2:], *op.reduce_axis)]
    rows, columns, depth = (n if isinstance(n, int) else 0 for n in sizes)
    if min(rows, columns) < SMALL.block // 2 or depth < SMALL.depth:
        return None
    batch = math.prod(n for a in op.axis[:-2] if isinstance(n := a.extent, int))
    tile = SMALL
    for larger in (MEDIUM, LARGE):
        blocks = batch * math.prod(-(-n // larger.block) for n in (rows, columns))
        if blocks >= BLOCKS and min(rows, columns) >= larger.block:
            tile = larger
    if choose is None:
        return tile
    tiles, per_thread, depths = (16, 32, 64, 128), (4, 8), (4, 8, 16)
    options = options_of(
        op.name, tile, block=tiles, each=per_thread, depth=depths, double=(False, True)
    )
    return choose(options)


def schedule_tiles(s: te.Schedule, op: te.ComputeOp, tile: Tile, done: set[str]) -> set[str]:
    """Schedule a product, its operands and its epilogue; return the names of these stages.

    for by, bx in blocks:
      for ty, tx in threads:
        registers = 0
        for ko:
          the threads fetch shared tiles of both operands, [k, rows] and [k, columns]
          for ki: registers += shared[ki, rows of ty] * shared[ki, columns of tx]
        out = epilogue(registers)

    A thread's rows and columns are groups of WIDE neighbours, which it loads at once; the columns
    are single ones where rows of the results do not begin at multiples of 16 bytes.
    """
    product = s[op.output(0)]
    out, *groups = _place(s, product, epilogue_through(s, product, done))
    registers = product
    if out.name == product.name:
        registers = s[s.cache_write(op.output(0), "local")]
    else:
        product.set_scope("local")
    wide = WIDE if _is_multiple(axes_of(out)[-1].extent) else 1
    registers.compute_at(out, _bind_tiles(out, groups, tile, wide))
    ko, ki = registers.split(reduce_axes_of(registers)[0], tile.depth)
    registers.reorder(ko, ki, *axes_of(registers))
    registers.unroll(ki)
    done_names = {out.name, registers.name}
    assert isinstance(registers.op, te.ComputeOp)
    row = axes_of(registers)[-2]
    for load in list(tensor.loads(registers.op)):
        copy_width = WIDE if any(i is row for i in load.indices) else wide
        done_names |= _fetch(s, registers, load, (ko, ki), tile, copy_width)
    return done_names


def _place(
    s: te.Schedule, product: te.StageView, out: te.StageView
) -> tuple[te.StageView, Axes, Axes, Axes]:
    """Return (the stage with the loops, its axes over the batch, over the rows, over the columns).

    It is `out`, the epilogue, if its axes number the elements of the product in groups, such as n,
    y and x the pixels of a convolution. Otherwise it is the product.
    """
    *outer, row, column = axes_of(product)
    if out.name == product.name:
        return product, outer, [row], [column]
    (name,) = schedule.readers(s.state)[product.name]
    reader = s[name].op
    assert isinstance(reader, te.ComputeOp)
    load = next(e for e in tensor.loads(reader) if e.buffer == product.op.output(0))
    pairs = zip(reader.axis, axes_of(out), strict=True)
    pairs = [(a, b) for a, b in pairs if b.extent != 1]
    groups = [[b for a, b in pairs if not tir.free_of(i, (a,))] for i in load.indices]
    counts = [math.prod(n for a in g if isinstance(n := a.extent, int)) for g in groups]
    fits = counts == [a.extent for a in axes_of(product)] and all(groups[-2:])
    if not fits or sum(map(len, groups)) != len(pairs):
        return product, outer, [row], [column]
    return out, [a for g in groups[:-2] for a in g], groups[-2], groups[-1]


def _bind_tiles(out: te.StageView, groups: Sequence[Axes], tile: Tile, wide: int) -> te.Axis:
    """Bind the loops of `out` to blocks and threads; return the loop over threadIdx.x."""
    batch, rows, columns = groups
    out.reorder(*batch, *rows, *columns)
    (by, y), (bx, x) = (out.split(out.fuse(*g), tile.block) for g in (rows, columns))
    vy, y = out.split(y, nparts=tile.each // WIDE)
    vx, x = out.split(x, nparts=tile.each // wide)
    (ty, y), (tx, x) = (out.split(a, nparts=tile.threads) for a in (y, x))
    out.reorder(*batch, by, bx, vy, vx, ty, tx, y, x)
    if batch:
        out.bind(out.fuse(*batch), te.thread_axis("blockIdx.z"))
    for loop, tag in (
        *((by, "blockIdx.y"), (bx, "blockIdx.x"), (vy, "vthread"), (vx, "vthread")),
        *((ty, "threadIdx.y"), (tx, "threadIdx.x")),
    ):
        out.bind(loop, te.thread_axis(tag))
    if wide > 1:
        out.vectorize(x)
    return tx


def _fetch(
    s: te.Schedule,
    registers: te.StageView,
    load: tir.Load,
    loops: tuple[te.Axis, te.Axis],
    tile: Tile,
    wide: int,
) -> set[str]:
    """Fetch an operand into shared memory and from there into registers; return the stages' names.

    loops   the loops of `registers` in which this happens
    wide    how many neighbours a thread loads from shared memory at once
    An operand that only this product reads, and that is not read from memory itself, such as the
    pixels of a convolution, is computed in shared memory.
    """
    operand = load.buffer
    assert isinstance(operand, te.Tensor)
    k_last = isinstance(load.indices[-1], te.Axis) and load.indices[-1].kind == "reduce"
    source = s[operand]
    is_computed = isinstance(source.op, te.ComputeOp) and not source.is_output
    if is_computed and schedule.readers(s.state)[source.name] == [registers.name]:
        source.set_scope("shared")
        shared, width = source, 1
    else:
        shared = s[s.cache_read(operand, "shared", [registers])]
        width = WIDE if _is_multiple(operand.shape[-1]) else 1
    if k_last:  # store k first, since neighbours along the other index are loaded at once
        axes = tuple(a.name for a in axes_of(shared))
        layout = (*axes[:-2], axes[-1], axes[-2])
        s.apply(schedule.TransformLayout(shared.name, axes, layout))
        shared.storage_align(
            axes_of(shared)[-1], simt.BANKS, WIDE
        )  # neighbours along k in other banks
    registers_stage = s[s.cache_read(shared.op.output(0), "local", [registers])]
    registers_stage.compute_at(registers, loops[1])
    if wide > 1:
        vector_axis = axes_of(registers_stage)[-2 if k_last else -1]
        registers_stage.vectorize(registers_stage.split(vector_axis, wide)[1])
    shared.compute_at(registers, loops[0])
    rest = shared.fuse(*axes_of(shared))
    if width > 1:
        rest, inner = shared.split(rest, width)
        shared.vectorize(inner)
    rest, tx = shared.split(rest, tile.threads)
    _, ty = shared.split(rest, tile.threads)
    shared.bind(ty, te.thread_axis("threadIdx.y"))
    shared.bind(tx, te.thread_axis("threadIdx.x"))
    if tile.double:
        shared.double_buffer()
    return {shared.name, registers_stage.name}


def _is_multiple(n: tir.Index) -> bool:
    """Return whether rows of `n` elements begin where WIDE elements can be accessed at once."""
    return isinstance(n, int) and n % WIDE == 0
