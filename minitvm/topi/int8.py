"""Matrix products of bytes, summed in int32, by dot-product instructions such as vpdpbusd.

The instruction multiplies four unsigned bytes by four signed ones and adds the products to one
int32, in each of 16 lanes. The formula therefore divides k into groups of four and the columns
into groups of 16. For a of int8:

    rows[i, k]              a + 128 as uint8; zeros up to a multiple of four
    groups[jo, ko, ji, ki]  b[ko*4 + ki, jo*16 + ji]; zeros beyond its end
    dots[i, jo, ji]         sum(rows[i, ko*4 + ki] * groups[jo, ko, ji, ki], [ko, ki])
    sums[j]                 sum(b[k, j], k)
    out[i, j]               dots[i, j // 16, j % 16] - 128 * sums[j]

This is correct because sum((a + 128) * b) - 128 * sum(b) = sum(a * b). If a is unsigned, 128 is not
added and the stage `sums` is not needed; if k is also a multiple of four, neither is `rows`.
(Rodriguez et al., "Lower Numerical Precision Deep Learning Inference and Training", Intel 2018.)

ARM CPUs have instructions for other pairs of types. If one takes a's type, `rows` holds a and
`sums` is not needed. If only one for int8 exists, `rows` holds a - 128, and 128 * sums[j] is added.
x86 CPUs without any add pairs of products of int16 (codegen/llvm/dot4.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from minitvm import lowering, schedule, te, tensor, tir
from minitvm.base import INT8, INT32, UINT8, DType, Target

from .gemm import WORTH_THREADS, score
from .options import Choose
from .shape import INJECTIVE
from .stages import axes_of, reads, reduce_axes_of, worth_threads
from .tensor_intrin import dot4_intrin
from .tile import in_registers, register_tiles, tile_loops

DOTS = "int8_dots"
GROUP = 16  # columns for one instruction, on CPUs with vectors of 64 bytes
MAX_GROUPS = 4  # the largest number of column groups in a tile
PACK_ROWS = 8  # with fewer rows of a, packing b costs more than it saves
Element: TypeAlias = Callable[[Any, Any], Any]  # an element of a matrix, by row and column


def dot4_rows(
    shape: tuple[tir.Index, tir.Index, tir.Index], a: DType, b: te.Tensor
) -> DType | None:
    """Return the type of `rows` with which `int8_matmul` is fastest; None if a plain product is.

    a: the element type of the left operand; b: the right operand, or the weights. `int8_matmul` is
    slower than a plain product if there are fewer columns than one group, or few rows, since b is
    packed once for all rows; a constant b is packed before the calls. Only m may be symbolic,
    because the padding of k and n must be known.

    The type is one that an instruction of the current target multiplies by b's type, if possible a.
    Without any instruction it is the one for vpdpbusd.
    """
    m, n, k = shape
    known = isinstance(n, int) and isinstance(k, int)
    constant = isinstance(b.op, tensor.PlaceholderOp) and b.op.constant
    has_few_rows = isinstance(m, int) and m < PACK_ROWS and not constant
    is_small = has_few_rows or (isinstance(n, int) and n < GROUP)
    if a not in (INT8, UINT8) or not known or is_small:
        return None
    pairs = [(d.a, d.b) for d in Target.current().dot4] or [(UINT8, INT8)]
    rows = [left for left, right in pairs if right is b.dtype]
    return a if a in rows else next(iter(rows), None)


def int8_matmul(
    shape: tuple[tir.Index, tir.Index, tir.Index],
    a: Element,
    b: Element,
    dtype: DType,
    rows_dtype: DType,
    by_rows: bool,
    name: str,
) -> te.Tensor:
    """Define the int32 product [m, n] of bytes a(i, k) and b(k, j), with shape = (m, n, k).

    dtype: the type of a. rows_dtype: that of the stage `rows`. by_rows: whether a(i, k) and
    a(i, k + 1) are neighbours in memory.
    """
    m, n, k = shape
    fours, groups = (k + 3) // 4, (n + GROUP - 1) // GROUP
    shift = shift_of(dtype, rows_dtype)

    def row(i: Any, at: Any) -> Any:
        return te.if_then_else(at < k, shifted(a(i, at), dtype, rows_dtype), 0)

    def group(jo: Any, ko: Any, ji: Any, ki: Any) -> Any:
        at, j = ko * 4 + ki, jo * GROUP + ji
        return te.if_then_else(te.all(at < k, j < n), b(at, j), 0)

    usable = by_rows and not shift and tir.prove_equal(k % 4, 0)
    rows = a if usable else te.compute((m, fours * 4), row, name=f"{name}_rows")
    packed = te.compute((groups, fours, GROUP, 4), group, name=f"{name}_groups")
    ko, ki = te.reduce_axis((0, fours), name="ko"), te.reduce_axis((0, 4), name="ki")

    def dot(i: Any, jo: Any, ji: Any) -> Any:
        x, y = rows(i, ko * 4 + ki), packed(jo, ko, ji, ki)
        return te.sum(x.astype("int32") * y.astype("int32"), axis=[ko, ki])

    dots = te.compute((m, groups, GROUP), dot, name=f"{name}_dots", tag=DOTS)
    sums = _column_sums(n, k, b, name) if shift else None

    def element(i: Any, j: Any) -> Any:
        total = dots(i, j // GROUP, j % GROUP)
        return total if sums is None else total - shift * sums(j)

    return te.compute((m, n), element, name=name, tag=INJECTIVE)


def shift_of(dtype: DType, to: DType) -> int:
    """Return the shift that maps the range of bytes of type `dtype` to the range of `to`."""
    return 0 if dtype is to else 128 if dtype is INT8 else -128


def shifted(byte: Any, dtype: DType, to: DType) -> Any:
    """Return a byte of type `dtype` plus the `shift_of` these types, as `to`."""
    if dtype is to:
        return byte
    return (byte.astype("uint8") + 128).astype(to)  # modulo 256, 128 is also -128


def _column_sums(n: tir.Index, k: tir.Index, b: Element, name: str) -> te.Tensor:
    """Define the stage `sums`, the sum of each column of b."""
    k_axis = te.reduce_axis((0, k), name="k")

    def column(j: Any) -> Any:
        return te.sum(b(k_axis, j).astype("int32"), axis=k_axis)

    return te.compute((n,), column, name=f"{name}_sums")


# --- the schedule --------------------------------------------------------------------------------


def schedule_dots(
    s: te.Schedule, op: te.ComputeOp, out: te.StageView, target: Target, _: Choose | None = None
) -> set[str]:
    """Schedule `op`, the stage `dots`, and those around it; return the names of these stages.

    out: the stage in whose loops `dots` is computed, or `dots` itself.

    for joo in parallel:                groups of columns
      pack the groups of b
      for io:                           rows of out
        tile = 0
        for ko: tile[ii, jo] = dot4(tile[ii, jo], rows[io*r + ii, ko], groups[jo, ko])   unrolled
        out[...] = tile - 128 * sums
    """
    stage = s[op.output(0)]
    rows, groups = tile_shape(target)
    (packed,) = (t for t in op.input_tensors if t.ndim == 4)
    tile = in_registers(s, op, out)
    i, *columns = axes_of(out)
    jo, ji = columns if out.name == stage.name else out.split(columns[0], factor=GROUP)
    io, ii = out.split(i, factor=rows)
    joo, joi = out.split(jo, factor=groups)
    tile_loops(out, (joo, io), (ii, joi, ji))
    if worth_threads(op, target, WORTH_THREADS):
        out.parallel(joo)
    tile.compute_at(out, io)
    _inner_loops(s, tile, rows, groups)
    if packed.op.name not in schedule.from_constants(s.state):  # those are packed before the calls
        s[packed].compute_at(out, joo)
    _pack(s[packed])
    return {stage.name, out.name, tile.name, s[packed].name}


def tile_shape(target: Target) -> tuple[int, int]:
    """Return (rows, column groups) of the best tile that fits the registers with its operands."""
    tiles = dot_tiles(target, target.vector_registers)
    rows, _, width = max(tiles, key=lambda t: (score(t[0], t[2], 1, target.l2), t))
    return rows, width // vectors_of(target)


def vectors_of(target: Target) -> int:
    """Return how many registers hold the sums of a group."""
    return max(1, GROUP // target.lanes(INT32))


def dot_tiles(target: Target, high: int, wide: int = 1) -> Iterator[tuple[int, int, int]]:
    """Yield the tiles (rows, columns, vectors) that the registers can hold with their operands.

    Without an instruction for bytes, operands become int16: each needs two registers, and one more
    is for the bytes. high, wide: the largest numbers of rows and columns.
    """
    vectors = vectors_of(target)
    widths = [vectors * groups for groups in range(1, MAX_GROUPS + 1)]
    for y, x, v in register_tiles(target, high, wide, widths):
        fits = y * x * v + 2 * v + 3 <= target.vector_registers
        if target.dot4 or fits or (y, x, v) == (1, 1, vectors):
            yield y, x, v


def _inner_loops(s: te.Schedule, stage: te.StageView, rows: int, groups: int) -> None:
    """Schedule the loops that compute a tile: k outside unrolled rows and column groups."""
    (i, jo, ji), (ko, ki) = axes_of(stage), reduce_axes_of(stage)
    _, i = stage.split(i, factor=rows)  # constant sizes, even if the product's are symbolic
    _, jo = stage.split(jo, factor=groups)
    stage.reorder(ko, i, jo, ji, ki)
    stage.unroll(i)
    stage.unroll(jo)
    tensorize_groups(s, stage, ji, ki)


def tensorize_groups(s: te.Schedule, stage: te.StageView, lane: te.Axis, byte: te.Axis) -> None:
    """Compute the loops over the lanes of a group and over four bytes by one instruction.

    If the readers of the stage do not need all lanes, they are vectorized instead.
    """
    if _reads_whole_groups(s, stage.name):
        stage.tensorize(lane, dot4_intrin(GROUP, *(t.dtype for t in reads(stage.op))))
    else:
        stage.reorder(byte, lane)
        stage.vectorize(lane)


def _reads_whole_groups(s: te.Schedule, name: str) -> bool:
    """Return whether the readers of the stage `name` need all lanes of a group."""
    plain = lowering.normalize(s.state)
    op, domain = plain.stage(name).op, lowering.infer(plain)[name]
    assert isinstance(op, te.ComputeOp)
    return tir.prove_equal(domain.extents[op.axis[-1]], GROUP)


def _pack(stage: te.StageView) -> None:
    """Schedule the stage `groups`: vectorize the loop that reads b along its rows."""
    op = stage.op
    assert isinstance(op, te.ComputeOp)
    *_, ji, ki = op.axis
    is_transposed = any(not tir.free_of(e.indices[-1], (ki,)) for e in tensor.loads(op))
    tile_loops(stage, (), (ji, ki) if is_transposed else (ki, ji))
