"""Recognise from the formulas which operator some stages compute, to find its tuned schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm import te, tensor, tir, topi

from .dispatch import Workload

FLOAT32 = "float32"  # the only type of templates that have no argument for it


def recognised(outs: Sequence[te.Tensor]) -> Workload | None:
    """Return the workload of `outs` if a template in operators.py computes it, otherwise None.

    It is a product, a convolution with constant weights (NHWC, NCHWc or depthwise NHWC), a sum of
    rows or a softmax. Only elementwise stages of its shape may read its result.
    """
    ops = tensor.producers_first(tuple(t.op for t in outs))
    op = _heavy(ops)
    if len(outs) != 1 or op is None:
        return None
    before = {id(o) for o in tensor.producers_first((op,))}
    after = [o for o in ops if id(o) not in before and isinstance(o, te.ComputeOp)]
    if any(o.shape != op.shape or o.tag == topi.norm.ROW for o in after):
        return None
    for about in (_product, _convolution, _depthwise, _row_sum, _softmax):
        workload = about(op)
        if workload is not None and all(type(n) in (int, str, bool) for n in workload):
            return workload
    return None


def _heavy(ops: Sequence[tensor.Operation]) -> te.ComputeOp | None:
    """Return the stage to tune: the only reduction, or the last stage of a softmax; else None."""
    compute_ops = [o for o in ops if isinstance(o, te.ComputeOp)]
    sums = [o for o in compute_ops if o.reduction is not None]
    rows = [o for o in compute_ops if o.tag == topi.norm.ROW]
    if len(sums) == 2 and len(rows) == 1:
        return rows[0]
    return sums[0] if len(sums) == 1 else None


def _product(op: te.ComputeOp) -> Workload | None:
    reads = [e.buffer for e in tensor.loads(op)]
    if op.tag != "matmul" or len(op.axis) != 2 or not all(_is_input(t) for t in reads):
        return None
    right = next(e for e in tensor.loads(op) if any(i is op.axis[-1] for i in e.indices))
    workload = (*op.shape, op.reduce_axis[0].extent, str(op.dtypes[0]))
    if right.indices[-1] is op.axis[-1]:
        return ("matmul", *workload)
    return ("dense", *workload, _is_constant(right.buffer))


def _convolution(op: te.ComputeOp) -> Workload | None:
    if op.tag != "conv_channels" or not _is_float32(op):
        return None
    image, weight = op.input_tensors
    assert isinstance(image.op, te.ComputeOp)
    about, data = op.attrs["convolution"], [t for t in image.op.input_tensors if _is_input(t)]
    window = _window(about.high, about.wide)
    if about.groups != 1 or len(data) != 1 or not _is_constant(weight) or window is None:
        return None
    sizes = about.batch, about.high.size, about.wide.size, about.inputs, about.outputs
    if about.layout.name == "NHWC":
        return ("conv2d_nhwc", *sizes, *window)
    return ("conv2d_nchwc", *sizes, *window, op.shape[-1])


def _depthwise(op: te.ComputeOp) -> Workload | None:
    if op.tag != "window" or not _is_float32(op) or op.attrs["layout"].name != "NHWC":
        return None
    reads, window = op.input_tensors, _window(*op.attrs["windows"])
    weights = [t for t in reads if _is_constant(t)]
    if len(reads) != 2 or len(weights) != 1 or not all(map(_is_input, reads)) or window is None:
        return None
    (data,) = (t for t in reads if t is not weights[0])
    channels = data.shape[3]  # [KH, KW, C, 1], or [KH, KW, 1, C] as conv2d has it
    if weights[0].shape[:2] != (window[0],) * 2 or weights[0].shape[2:] not in (
        (channels, 1),
        (1, channels),
    ):
        return None
    return ("depthwise_nhwc", *data.shape, *window)


def _row_sum(op: te.ComputeOp) -> Workload | None:
    r = op.reduction
    if op.tag != topi.reduction.REDUCTION or r is None or not _is_float32(op):
        return None
    source = r.sources[0]
    if r.reducer is not tensor.SUM or not isinstance(source, tir.Load):
        return None
    if not _is_input(source.buffer) or not _are(source.indices, (*op.axis, *op.reduce_axis)):
        return None
    return ("sum_rows", *source.buffer.shape)


def _softmax(op: te.ComputeOp) -> Workload | None:
    softmax_axis, last = op.attrs.get(topi.norm.SOFTMAX), len(op.axis) - 1
    stages = tensor.producers_first((op,))  # x, the maximum, exp, its sum, and their quotient
    if softmax_axis != [last] or last != 1 or len(stages) != 5 or not _is_float32(op):
        return None
    return ("softmax", *op.shape)


def _window(high: Any, wide: Any) -> tuple[int, int, int] | None:
    """Return kernel, stride and padding if they are alike on all sides, without dilation."""
    is_square = (high.kernel, high.stride, high.before) == (wide.kernel, wide.stride, wide.before)
    even = high.before == high.after and wide.before == wide.after
    plain = high.dilation == wide.dilation == 1
    return (high.kernel, high.stride, high.before) if is_square and even and plain else None


def _are(indices: Sequence[Any], axes: Sequence[te.Axis]) -> bool:
    """Return whether the indices are these two axes, in this order."""
    return len(indices) == len(axes) == 2 and all(map(lambda i, a: i is a, indices, axes))


def _is_float32(op: te.ComputeOp) -> bool:
    return {FLOAT32, *op.dtypes, *(e.buffer.dtype for e in tensor.loads(op))} == {FLOAT32}


def _is_input(t: Any) -> bool:
    return isinstance(t, te.Tensor) and isinstance(t.op, te.PlaceholderOp)


def _is_constant(t: Any) -> bool:
    return isinstance(t, te.Tensor) and isinstance(t.op, te.PlaceholderOp) and t.op.constant
