"""Products on tensor cores: the tensor intrinsics of mma.m16n8k16, and a schedule with them.

A warp multiplies tiles of 16 x 16 and 16 x 8 elements in float16 or bfloat16, and adds in float32.
It keeps the tiles in the registers of its 32 lanes: memory with scope "warp.mma", which only these
intrinsics access.

Source: NVIDIA, PTX ISA, sections ldmatrix and mma.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from minitvm import schedule, simt, te, tensor, tir

from .stages import axes_of, is_product, reads, reduce_axes_of

M, N, K = 16, 8, 16
FRAGMENT = simt.SCOPE
DTYPES = ("float16", "bfloat16")
ROW_BYTES = 16  # what a thread copies at once, and ldmatrix reads from a row


@cache  # a schedule knows intrinsics by name: two products must share the same one
def load_intrin(name: str, dtype: str = "float16") -> tensor.TensorIntrin:
    """Declare an intrinsic that loads a tile of the left ("a") or right ("b") operand."""
    shape = simt.FRAGMENTS[name].shape
    x = te.placeholder(shape, dtype, name="x")
    y = _copy_of(x)
    stride = te.var("stride")
    source = tir.decl_buffer(
        shape, dtype, "x", scope="shared", strides=[stride, 1], offset_factor=8
    )
    tile = tir.decl_buffer(shape, dtype, "y", scope=FRAGMENT, offset_factor=shape[0] * shape[1])
    call = {"a": simt.LOAD_A, "b": simt.LOAD_B}[name]

    def load(ins: Sequence[Any], outs: Sequence[Any]) -> tir.Call:
        pointers = outs[0].access_ptr("w"), ins[0].access_ptr("r")
        return tir.call_intrin("int32", call, *pointers, stride)

    return te.decl_tensor_intrin(
        y.op, load, binds={x: source, y: tile}, name=f"load_{name}_{dtype}"
    )


@cache
def mma_intrin(dtype: str = "float16") -> tensor.TensorIntrin:
    """Declare the intrinsic z[i, j] = sum(x[i, k] * y[k, j], k) in float32, on tiles."""
    x, y = te.placeholder((M, K), dtype, name="x"), te.placeholder((K, N), dtype, name="y")
    k = te.reduce_axis((0, K), name="k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(x(i, k).astype("float32") * y(k, j).astype("float32"), axis=k)

    z = te.compute((M, N), product, name="z")
    binds = {
        t: tir.decl_buffer(t.shape, t.dtype, t.name, scope=FRAGMENT, offset_factor=size)
        for t, size in ((x, M * K), (y, K * N), (z, M * N))
    }

    def statements(ins: Sequence[Any], outs: Sequence[Any]) -> tuple[Any, ...]:
        (a, b), (c,) = ins, outs
        zero = tir.Evaluate(tir.call_intrin("int32", simt.ZERO, c.access_ptr("w")))
        pointers = c.access_ptr("rw"), a.access_ptr("r"), b.access_ptr("r")
        add = tir.Evaluate(tir.call_intrin("int32", simt.SYNC, *pointers))
        return tir.seq(zero, add), zero, add

    return te.decl_tensor_intrin(z.op, statements, binds=binds, name=f"mma_{dtype}")


@cache
def store_intrin() -> tensor.TensorIntrin:
    """Declare an intrinsic that stores a tile of sums from registers to memory."""
    x = te.placeholder((M, N), "float32", name="x")
    y = _copy_of(x)
    stride = te.var("stride")
    tile = tir.decl_buffer((M, N), "float32", "x", scope=FRAGMENT, offset_factor=M * N)
    to = tir.decl_buffer((M, N), "float32", "y", strides=[stride, 1])

    def store(ins: Sequence[Any], outs: Sequence[Any]) -> tir.Call:
        pointers = outs[0].access_ptr("w"), ins[0].access_ptr("r")
        return tir.call_intrin("int32", simt.STORE, *pointers, stride)

    return te.decl_tensor_intrin(y.op, store, binds={x: tile, y: to}, name="store_tile")


def _copy_of(x: te.Tensor) -> te.Tensor:
    def element(i: Any, j: Any) -> Any:
        return x(i, j)

    return te.compute(x.shape, element, name="y")


@dataclass(frozen=True, slots=True)
class WarpTile:
    """The sizes of the tiles of a product on tensor cores.

    block, warp   (rows, columns) that a block and that a warp computes
    depth         the depth of the tiles in shared memory
    """

    block: tuple[int, int]
    warp: tuple[int, int]
    depth: int = 32

    @property
    def warps(self) -> int:
        """The number of warps of a block."""
        return self.block[0] // self.warp[0] * (self.block[1] // self.warp[1])


SMALL, LARGE = WarpTile((64, 64), (32, 32)), WarpTile((128, 128), (32, 64))


def warp_tile_of(op: te.ComputeOp) -> WarpTile | None:
    """Return the tile for a product of DTYPES with sums in float32; None if it does not fit one."""
    operands = [t.dtype for t in op.input_tensors]
    if not is_product(op) or len(op.axis) != 2 or len(operands) != 2:
        return None
    if op.dtypes[0] != "float32" or operands[0] is not operands[1] or operands[0] not in DTYPES:
        return None
    sizes = [a.extent for a in (*op.axis, *op.reduce_axis)]
    left, right = tensor.loads(op)
    (k,) = op.reduce_axis
    if left.indices[-1] is not k or right.indices[0] is not k:
        return None
    for tile in (LARGE, SMALL):
        factors = (*tile.block, tile.depth)
        if all(isinstance(n, int) and n % f == 0 for n, f in zip(sizes, factors, strict=True)):
            return tile
    return None


def schedule_tensor_cores(s: te.Schedule, op: te.ComputeOp, tile: WarpTile) -> set[str]:
    """Schedule a product on tensor cores; return the names of its stages.

    for by, bx in blocks:
      for ty in warps:
        sums = 0                                  tiles of 16 x 8, in registers
        for ko:
          all threads copy shared tiles of both operands, asynchronously, for the next ko
          for ki:
            a, b = tiles of both operands, by ldmatrix
            sums += a * b, by mma
        out = sums
    """
    out = s[op.output(0)]
    sums = s[s.cache_write(op.output(0), FRAGMENT)]
    operands = list(reads(sums.op))
    shared = [s[s.cache_read(t, "shared", [sums])] for t in operands]
    fragments = [s[s.cache_read(t.op.output(0), FRAGMENT, [sums])] for t in shared]
    i, j = axes_of(out)
    (by, i), (bx, j) = (out.split(a, n) for a, n in zip((i, j), tile.block, strict=True))
    (wy, i), (wx, j) = (out.split(a, n) for a, n in zip((i, j), tile.warp, strict=True))
    (it, ii), (jt, jj) = out.split(i, M), out.split(j, N)
    out.reorder(by, bx, wy, wx, it, jt, ii, jj)
    ty = out.fuse(wy, wx)
    for loop, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y")):
        out.bind(loop, te.thread_axis(tag))
    out.tensorize(ii, store_intrin())
    sums.compute_at(out, ty)
    rows, columns = _tiles(sums, (M, N))
    (k,) = reduce_axes_of(sums)
    ko, k = sums.split(k, tile.depth)
    ki, kk = sums.split(k, K)
    sums.reorder(ko, ki, rows[0], columns[0], rows[1], columns[1], kk)
    dtype = reads(op)[0].dtype
    sums.tensorize(rows[1], mma_intrin(dtype))
    sums.unroll(ki)
    for view, name, shape in zip(fragments, "ab", ((M, K), (K, N)), strict=True):
        view.compute_at(sums, ki)
        rows, columns = _tiles(view, shape)
        view.reorder(rows[0], columns[0], rows[1], columns[1])
        view.tensorize(rows[1], load_intrin(name, dtype))
    for view in shared:
        _copy(view, sums, ko, tile)
    return {v.name for v in (out, sums, *shared, *fragments)}


def _tiles(stage: te.StageView, shape: tuple[int, int]) -> list[tuple[te.Axis, te.Axis]]:
    """Store a stage in tiles, one after the other; return the (outer, inner) loops over both axes.

    A tile must be contiguous, for each lane of a warp has a part of it.
    """
    m, n = shape

    def tiled(i: Any, j: Any) -> Any:
        return i // m, j // n, i % m, j % n

    stage.transform_layout(tiled)
    return [stage.split(a, size) for a, size in zip(axes_of(stage), shape, strict=True)]


def _copy(view: te.StageView, sums: te.StageView, ko: te.Axis, tile: WarpTile) -> None:
    """Let all threads of a block copy a tile to shared memory, during the products of the last one.

    Rows have gaps of 16 bytes, so that ldmatrix reads 8 rows from different banks.
    """
    wide = ROW_BYTES // view.op.dtypes[0].bytes
    view.compute_at(sums, ko)
    view.storage_align(axes_of(view)[0], 2 * wide, wide)
    rest, inner = view.split(view.fuse(*axes_of(view)), wide)
    view.vectorize(inner)
    rest, tx = view.split(rest, schedule.WARP)
    _, ty = view.split(rest, tile.warps)
    view.bind(ty, te.thread_axis("threadIdx.y"))
    view.bind(tx, te.thread_axis("threadIdx.x"))
    view.double_buffer()
    view.pragma(view.leaf_iter_vars[0], "async_copy")
