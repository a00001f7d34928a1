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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from minitvm import lowering, schedule, te, tensor, tir
from minitvm.base import INT8, INT32, UINT8, DType, Target

from .gemm import WORTH_THREADS, score
from .shape import INJECTIVE
from .stages import axes_of, has_iterations, reduce_axes_of
from .tensor_intrin import dot4_intrin

DOTS = "int8_dots"
GROUP = 16  # columns for one instruction, on CPUs with vectors of 64 bytes
MOST_GROUPS = 4  # the largest number of column groups in a tile
PACK_ROWS = 8  # with fewer rows of a, packing b costs more than it saves
Element: TypeAlias = Callable[[Any, Any], Any]  # an element of a matrix, by row and column


def dot4_rows(shape: tuple[tir.Index, tir.Index, tir.Index], a: DType, b: DType) -> DType | None:
    """Return the type of `rows` with which `int8_matmul` is fastest; None if a plain product is.

    a, b: the element types. `int8_matmul` is slower than a plain product if there are few rows,
    since b is packed once for all rows, or if there are fewer columns than one group. Only m may be
    symbolic, because the padding of k and n must be known.

    The type is one that an instruction of the current target multiplies by b's type, if possible a.
    Without any instruction it is the one for vpdpbusd.
    """
    m, n, k = shape
    known = isinstance(n, int) and isinstance(k, int)
    few = (isinstance(m, int) and m < PACK_ROWS) or (isinstance(n, int) and n < GROUP)
    if a not in (INT8, UINT8) or not known or few:
        return None
    pairs = [(d.a, d.b) for d in Target.current().dot4] or [(UINT8, INT8)]
    rows = [left for left, right in pairs if right is b]
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
    shift = 0 if dtype is rows_dtype else 128 if dtype is INT8 else -128

    def row(i: Any, at: Any) -> Any:
        byte = a(i, at)
        if shift:  # adding or subtracting 128 modulo 256 is the same
            byte = (byte.astype("uint8") + 128).astype(rows_dtype)
        return te.if_then_else(at < k, byte, 0)

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
        found = dots(i, j // GROUP, j % GROUP)
        return found if sums is None else found - shift * sums(j)

    return te.compute((m, n), element, name=name, tag=INJECTIVE)


def _column_sums(n: tir.Index, k: tir.Index, b: Element, name: str) -> te.Tensor:
    """Define the stage `sums`, the sum of each column of b."""
    k_axis = te.reduce_axis((0, k), name="k")

    def column(j: Any) -> Any:
        return te.sum(b(k_axis, j).astype("int32"), axis=k_axis)

    return te.compute((n,), column, name=f"{name}_sums")


# --- the schedule --------------------------------------------------------------------------------


def schedule_dots(
    s: te.Schedule, stage: te.StageView, op: te.ComputeOp, target: Target
) -> set[str]:
    """Schedule the stage `dots` and the stages around it; return the names of these stages.

    for joo in parallel:                groups of columns
      pack the groups of b
      for io:                           rows of out
        tile = 0
        for ko: tile[ii, jo] = dot4(tile[ii, jo], rows[io*r + ii, ko], groups[jo, ko])   unrolled
        out[...] = tile - 128 * sums
    """
    rows, groups = tile_shape(target)
    out = _elementwise_reader(s, stage)
    (packed,) = (t for t in op.input_tensors if t.ndim == 4)
    if out is None:
        tile, out = s.cache_write(op.output(0), "local"), stage
        i, jo, ji = axes_of(out)
    else:
        tile = op.output(0)
        s[tile].set_scope("local")
        i, j = axes_of(out)
        jo, ji = out.split(j, factor=GROUP)
    io, ii = out.split(i, factor=rows)
    joo, joi = out.split(jo, factor=groups)
    out.reorder(joo, io, ii, joi, ji)
    out.unroll(ii)
    out.unroll(joi)
    out.vectorize(ji)
    if target.num_cores > 1 and has_iterations(op, WORTH_THREADS):
        out.parallel(joo)
    s[tile].compute_at(out, io)
    _inner_loops(s, tile, rows, groups)
    s[packed].compute_at(out, joo)
    _pack(s[packed])
    return {stage.name, out.name, s[tile].name, s[packed].name}


def tile_shape(target: Target) -> tuple[int, int]:
    """Return (rows, column groups) of the best tile that fits the registers with its operands."""
    vectors = max(1, GROUP // target.lanes(INT32))  # registers for a group
    best = (0.0, 1, 1)
    for groups in range(1, MOST_GROUPS + 1):
        wide = groups * vectors
        rows = target.tile_rows(wide)
        if rows > 0:
            best = max(best, (score(rows, wide, 1, target.l2), rows, groups))
    _, rows, groups = best
    return rows, groups


def _elementwise_reader(s: te.Schedule, stage: te.StageView) -> te.StageView | None:
    """Return the stage that reads `stage`, directly or through inlined elementwise stages.

    The first reader reorders the elements of `stage`. Returns None if a stage has several readers,
    or if a later reader reads elements at indices other than its own.
    """
    reader, elements = _only_reader(s, stage), None
    while reader is not None:
        op = reader.op
        if not isinstance(op, te.ComputeOp) or (elements is not None and not _reads(op, elements)):
            return None
        if not reader.is_inlined:
            return reader
        elements = op.output(0)
        reader = _only_reader(s, reader)
    return None


def _only_reader(s: te.Schedule, stage: te.StageView) -> te.StageView | None:
    """Return the stage that reads `stage`; None if `stage` is an output or has several readers."""
    names = schedule.readers(s.state)[stage.name]
    return s[names[0]] if len(names) == 1 and not stage.is_output else None


def _reads(op: te.ComputeOp, source: te.Tensor) -> bool:
    """Return whether each element of `op` reads the element of `source` at the same indices."""
    places = [e.indices for e in tensor.loads(op) if e.buffer == source]
    whole = op.reduction is None and all(map(tir.prove_equal, op.shape, source.shape))
    return whole and all(i == op.axis for i in places)


def _inner_loops(s: te.Schedule, tile: te.Tensor, rows: int, groups: int) -> None:
    """Schedule the loops that compute a tile: k outside unrolled rows and column groups."""
    stage, op = s[tile], s[tile].op
    assert isinstance(op, te.ComputeOp)
    (i, jo, ji), (ko, ki) = axes_of(stage), reduce_axes_of(stage)
    _, i = stage.split(i, factor=rows)  # constant sizes, even if the product's are symbolic
    _, jo = stage.split(jo, factor=groups)
    stage.reorder(ko, i, jo, ji, ki)
    stage.unroll(i)
    stage.unroll(jo)
    if _reads_whole_groups(s, tile):
        stage.tensorize(ji, dot4_intrin(GROUP, *(t.dtype for t in op.input_tensors)))
    else:
        stage.reorder(ki, ji)
        stage.vectorize(ji)


def _reads_whole_groups(s: te.Schedule, tile: te.Tensor) -> bool:
    """Return whether the readers of `tile` need all columns of a group."""
    plain, name = lowering.normalize(s.state), s[tile].name
    op, domain = plain.stage(name).op, lowering.infer(plain)[name]
    assert isinstance(op, te.ComputeOp)
    return tir.prove_equal(domain.extents[op.axis[-1]], GROUP)


def _pack(stage: te.StageView) -> None:
    """Schedule the stage `groups`: vectorize the loop that reads b along its rows."""
    op = stage.op
    assert isinstance(op, te.ComputeOp)
    *_, ji, ki = op.axis
    transposed = any(not tir.free_of(e.indices[-1], (ki,)) for e in tensor.loads(op))
    outer, inner = (ji, ki) if transposed else (ki, ji)
    stage.reorder(outer, inner)
    stage.unroll(outer)
    stage.vectorize(inner)
