"""Products on AMX, the matrix unit of Intel's server CPUs: its tensor intrinsics and a schedule.

    C = topi.amx.matmul(A, B)                  uint8[m, k] by int8[k, n] -> int32[m, n]
    s = topi.amx.schedule(C)                   needs -mattr=+amx-tile,+amx-int8, or target "python"

The unit multiplies tiles of 16 rows of 64 bytes. The left operand is read from memory as it is; the
right one is packed so that the bytes of four rows that are multiplied together are neighbours:

    packed[jo, ko, v, g, j, i]   B[ko*64 + g*4 + i, (jo*2 + v)*16 + j]
    left, right                  tiles of A and `packed`, in registers
    sums[io, jo, v, i, j]        sum(left[io, ko, i, g*4 + i'] * right[jo, ko, v, g, j, i'])
    C[i, j]                      the sums, from registers to memory

A block of 2 x 2 tiles of sums stays in registers for all of k, as in Intel's optimization manual,
section 20.5: four loads for four products.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from minitvm import te, tensor, tir
from minitvm.base import ArgumentError

ROWS, COLUMNS, GROUPS = 16, 16, 16  # of a tile: rows, columns of sums, words of four bytes in a row
BLOCK = 2  # tiles of sums in each direction: 4 for sums, 2 for the left and 2 for the right operand


class Types(NamedTuple):
    """The element types of a product: its operands, its sums, and elements in a word of 4 bytes."""

    left: str
    right: str
    sums: str
    word: int


BYTES = {(a, b): Types(a, b, "int32", 4) for a in ("uint8", "int8") for b in ("uint8", "int8")}
TYPES = BYTES | {("bfloat16", "bfloat16"): Types("bfloat16", "bfloat16", "float32", 2)}


def matmul(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Return the product [m, n] of matrices [m, k] and [k, n]: bytes in int32, bfloat16 in float32.

    m is even, from 4 to 32, or a multiple of 32; n is a multiple of 32, and k of 64 bytes. Raises
    ArgumentError for other sizes and types.
    """
    types = _checked(a, b)
    (m, k), n, word = a.shape, b.shape[1], types.word
    rows, depth = _rows(m), GROUPS * word

    def packed_element(jo: Any, ko: Any, v: Any, g: Any, j: Any, i: Any) -> Any:
        return b(ko * depth + g * word + i, (jo * BLOCK + v) * COLUMNS + j)

    def left_element(io: Any, ko: Any, i: Any, at: Any) -> Any:
        return a(io * rows + i, ko * depth + at)

    panels, steps = n // (BLOCK * COLUMNS), k // depth
    tile = (GROUPS, COLUMNS, word)
    packed = te.compute((panels, steps, BLOCK, *tile), packed_element, name="packed")
    left = te.compute((m // rows, steps, rows, depth), left_element, name="left")
    right = te.compute(packed.shape, packed, name="right")
    ko, g = te.reduce_axis((0, steps), name="ko"), te.reduce_axis((0, GROUPS), name="g")
    w = te.reduce_axis((0, word), name="w")

    def total(io: Any, jo: Any, v: Any, i: Any, j: Any) -> Any:
        x, y = left(io, ko, i, g * word + w), right(jo, ko, v, g, j, w)
        return te.sum(x.astype(types.sums) * y.astype(types.sums), axis=[ko, g, w])

    sums = te.compute((m // rows, panels, BLOCK, rows, COLUMNS), total, name="sums")

    def element(i: Any, j: Any) -> Any:
        jo, v = j // (BLOCK * COLUMNS), j // COLUMNS % BLOCK
        return sums(i // rows, jo, v, i % rows, j % COLUMNS)

    return te.compute((m, n), element, name="product")


def _checked(a: te.Tensor, b: te.Tensor) -> Types:
    """Return the types of a product; raise ArgumentError if the unit cannot compute it."""
    what = f"amx.matmul of {a.dtype}{[*a.shape]} and {b.dtype}{[*b.shape]}"
    types = TYPES.get((str(a.dtype), str(b.dtype)))
    if types is None:
        raise ArgumentError(what, "the unit has no such product", "uint8 and int8")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ArgumentError(what, "they are not matrices [m, k] and [k, n]")
    m, k, n = *a.shape, b.shape[1]
    is_known = all(isinstance(size, int) for size in (m, k, n))
    step = GROUPS * types.word
    if not is_known or m < 2 * BLOCK or m % (BLOCK * _rows(m)) or n % (BLOCK * COLUMNS) or k % step:
        sizes = f"m a multiple of {BLOCK * ROWS}, n of {BLOCK * COLUMNS}, k of {step}"
        raise ArgumentError(what, "its sizes do not divide into tiles", f"{sizes}; pad with zeros")
    return types


def _rows(m: Any) -> int:
    """Return the rows of a tile: all 16 unless the product has fewer than two tiles of rows."""
    return min(ROWS, max(1, m // BLOCK))


def schedule(product: te.Tensor) -> te.Schedule:
    """Return the schedule of a product that `matmul` defines, for one thread.

    for jo:                      panels of 32 columns
      for io:                    blocks of 2 x 16 rows
        zero 4 tiles
        for ko: load 2 tiles of A and 2 of B; multiply them     unrolled
        store 4 tiles
    """
    s = te.create_schedule(product.op)
    (sums,) = product.op.input_tensors
    left, right = sums.op.input_tensors
    rows, types = int(sums.shape[-2]), TYPES[str(left.dtype), str(right.dtype)]
    i, j = s[product].op.axis
    io, ii = s[product].split(i, factor=rows)
    io, tile_row = s[product].split(io, factor=BLOCK)
    jo, rest = s[product].split(j, factor=BLOCK * COLUMNS)
    tile_column, ji = s[product].split(rest, factor=COLUMNS)
    s[product].reorder(jo, io, tile_row, tile_column, ii, ji)
    s[product].unroll(tile_row)
    s[product].unroll(tile_column)
    s[product].tensorize(ii, store_intrin(rows, types.sums))
    _schedule_sums(s, sums, types, rows)
    s[sums].compute_at(s[product], io)
    for tile, name in ((left, types.left), (right, types.right)):
        s[tile].set_scope(tir.amx.SCOPE)
        s[tile].compute_at(s[sums], s[sums].op.reduce_axis[0])
        dims = 2 if tile is left else 3
        outer, inner = s[tile].op.axis[:-dims], s[tile].op.axis[-dims:]
        for axis in outer:
            s[tile].unroll(axis)
        shape = tuple(int(n) for n in tile.shape[-dims:])
        s[tile].tensorize(inner[0], load_intrin(shape, name))
    return s


def _schedule_sums(s: te.Schedule, sums: te.Tensor, types: Types, rows: int) -> None:
    stage = s[sums]
    stage.set_scope(tir.amx.SCOPE)
    io, jo, v, i, j = stage.op.axis
    ko, g, w = stage.op.reduce_axis
    stage.reorder(jo, ko, io, v, i, j, g, w)
    stage.unroll(io)
    stage.unroll(v)
    stage.tensorize(i, product_intrin(rows, types))


# --- tensor intrinsics ---------------------------------------------------------------------------


def _call(name: str, *operands: tir.Buffer | int) -> tir.Stmt:
    args = (tir.const(x, "int32") if isinstance(x, int) else tir.view(x) for x in operands)
    return tir.Evaluate(tir.Call(name, tuple(args), tir.const(0, "int32").dtype))


def _tile(t: te.Tensor) -> tir.DeclaredBuffer:
    """Declare a tile register that holds the tensor t."""
    strides = [1]
    for n in reversed(t.shape[1:]):
        strides.insert(0, strides[0] * int(n))
    size = strides[0] * int(t.shape[0])
    return tir.decl_buffer(
        t.shape, str(t.dtype), t.name, scope=tir.amx.SCOPE, strides=strides, offset_factor=size
    )


@cache  # a schedule knows intrinsics by name: two products must share the same one
def product_intrin(
    rows: int = ROWS, types: Types = BYTES["uint8", "int8"], groups: int = GROUPS
) -> tensor.TensorIntrin:
    """Declare z[i, j] = sum(x[i, g*word + w] * y[g, j, w], [g, w]) on three tile registers."""
    word = types.word
    x = te.placeholder((rows, groups * word), types.left, name="x")
    y = te.placeholder((groups, COLUMNS, word), types.right, name="y")
    g, w = te.reduce_axis((0, groups), name="g"), te.reduce_axis((0, word), name="w")

    def total(i: Any, j: Any) -> Any:
        return te.sum(x(i, g * word + w).astype(types.sums) * y(g, j, w).astype(types.sums), [g, w])

    z = te.compute((rows, COLUMNS), total, name="z")

    def statements(ins: Sequence[tir.Buffer], outs: Sequence[tir.Buffer]) -> Any:
        zero, add = _call(tir.amx.ZERO, *outs), _call(tir.amx.DP, *outs, *ins)
        return tir.seq(zero, add), zero, add

    binds = {t: _tile(t) for t in (x, y, z)}
    name = f"amx_product_{rows}x{groups}_{types.left}_{types.right}"
    return te.decl_tensor_intrin(z.op, statements, binds=binds, name=name)


@cache
def load_intrin(shape: tuple[int, ...], dtype: str, step: int = 1) -> tensor.TensorIntrin:
    """Declare y[i, ...] = x[i * step, ...]: a tile register from rows any distance apart."""
    x = te.placeholder(((shape[0] - 1) * step + 1, *shape[1:]), dtype, name="x")

    def strided(i: Any, *at: Any) -> Any:
        return x(i * step, *at)

    y = te.compute(shape, strided, name="y")
    inner = [1] if len(shape) == 2 else [shape[2], 1]
    rows = tir.decl_buffer(x.shape, dtype, "x", strides=[te.var("distance"), *inner])

    def statement(ins: Sequence[tir.Buffer], outs: Sequence[tir.Buffer]) -> Any:
        return _call(tir.amx.LOAD, outs[0], ins[0], step)

    name = f"amx_load_{'x'.join(map(str, shape))}_{dtype}_{step}"
    return te.decl_tensor_intrin(y.op, statement, binds={x: rows, y: _tile(y)}, name=name)


@cache
def store_intrin(rows: int, dtype: str = "int32") -> tensor.TensorIntrin:
    """Declare y[i, j] = x[i, j]: a tile register of sums to memory."""
    x = te.placeholder((rows, COLUMNS), dtype, name="x")
    y = te.compute(x.shape, x, name="y")
    memory = tir.decl_buffer(x.shape, dtype, "y", strides=[te.var("distance"), 1])

    def statement(ins: Sequence[tir.Buffer], outs: Sequence[tir.Buffer]) -> Any:
        return _call(tir.amx.STORE, outs[0], ins[0])

    name = f"amx_store_{rows}_{dtype}"
    return te.decl_tensor_intrin(y.op, statement, binds={x: _tile(x), y: memory}, name=name)
