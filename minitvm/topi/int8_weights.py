"""A dense layer whose weights are stored in int8; it computes in the type of the data.

A product with one row reads every weight once, so its time is that of loading them, and weights of
one byte take a quarter of that of float32. Each group of weights along a row has a scale of its own
(Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", section 2.1).
"""

from __future__ import annotations

from typing import Any

from minitvm import schedule, te, tensor, tir
from minitvm.base import INT8, ExprError, Target

from .elementwise import ELEMENTWISE
from .gemm import DOTS, MATVEC_ROWS, WORTH_THREADS, pack_rows, sum_vectors
from .linear import matmul
from .operands import check_rank, checks_arguments
from .options import Choose
from .stages import axes_of, reduce_axes_of, worth_threads
from .tile import AHEAD, tile_loops, vector_length

__all__ = ["dense_int8"]

DENSE_INT8 = "dense_int8"  # the tag of a product with few rows


@checks_arguments
def dense_int8(data: te.Tensor, weight: te.Tensor, scales: te.Tensor) -> te.Tensor:
    """Multiply data [M, K] by the transposed weight, int8[N, K] times its scales [N, G].

    Column k of the weight is in group k // (K / G). With more than two rows of data, the product is
    that of `matmul`, and its weights are computed before it.
    """
    what = f"topi.dense_int8 of {data.name} and {weight.name}"
    for x in (data, weight, scales):
        check_rank(what, x, 2)
    (m, k), (n, inner), groups = data.shape, weight.shape, scales.shape[1]
    if weight.dtype is not INT8 or scales.dtype is not data.dtype:
        raise ExprError(what, f"the weight is {weight.dtype}, and the scales {scales.dtype}")
    if not (isinstance(k, int) and isinstance(groups, int) and k % groups == 0):
        raise ExprError(what, f"{k} columns are not {groups} groups of equal length")
    if not (tir.prove_equal(k, inner) and tir.prove_equal(n, scales.shape[0])):
        raise ExprError(what, f"{weight.shape} and {scales.shape} do not fit {data.shape}")
    length = k // groups

    def value(j: Any, group: Any, at: Any) -> Any:
        return tir.cast_to(weight(j, group * length + at), data.dtype) * scales(j, group)

    def dequantised(j: Any, at: Any) -> Any:
        return value(j, at // length, at % length)

    if not isinstance(m, int) or m > MATVEC_ROWS:
        whole = te.compute((n, k), dequantised, name="T_dequantised", tag=ELEMENTWISE)
        return matmul(data, whole, transpose_b=True, name="T_dense_int8")
    group, at = te.reduce_axis((0, groups), name="g"), te.reduce_axis((0, length), name="k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(data(i, group * length + at) * value(j, group, at), axis=[group, at])

    return te.compute((m, n), product, name="T_dense_int8", tag=DENSE_INT8)


def schedule_dense_int8(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    target: Target,
    choose: Choose | None = None,
) -> set[str]:
    """Schedule a product with few rows, so that the weights are read once and in order.

    for jo in parallel:                 rows of the weight; in parallel if there are many weights
      for g, ko:                        groups, and vectors of a group
        sums[ji, l] += data[i, g, ko*16 + l] * (weight[jo, g, ji, ko*16 + l] * scales[jo, g, ji])
      out[i, jo*8 + ji] = sums[ji, 0] + ... + sums[ji, 15]

    A constant weight is packed before the calls, so that its bytes are in this order, and is
    requested from memory early: with four times as many instructions for a byte as in float32, a
    CPU looks ahead by a quarter as many bytes.
    """
    del out, choose
    product, before = op.output(0), {v.name for v in s.stages}
    _, k = reduce_axes_of(s[product])
    length = k.extent
    assert isinstance(length, int)  # the operator checks it
    _, ki = s[product].split(k, factor=vector_length(length, target.lanes(op.dtypes[0])))
    sums = s.rfactor(product, ki, factor_axis=2)
    sum_vectors(s, product, sums, DOTS, worth_threads(op, target, WORTH_THREADS))
    row, column, lane = axes_of(s[sums])
    group, ko = reduce_axes_of(s[sums])
    tile_loops(s[sums], (row, group), (ko, column, lane))
    constants = schedule.constants(s.state)
    by_rows = [e.buffer for e in tensor.loads(op) if e.indices[0] is op.axis[1]]
    for x in (x for x in by_rows if isinstance(x, te.Tensor) and x.op in constants):
        packed = pack_rows(s, x, sums, DOTS, length if x.dtype is INT8 else 1)
        if x.dtype is INT8:
            s[sums].prefetch(packed, group, max(1, AHEAD // (DOTS * length)))
    return {s[product].name, *({v.name for v in s.stages} - before)}
