"""Count the arithmetic operations of formulas as a textbook does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from minitvm import lowering, te, tensor, tir
from minitvm.base import INT32, ArgumentError

from .conv import CONV_ROWS, IMAGE_ROWS
from .conv_dots import CONV_DOTS
from .convolution import CONVOLUTION, Convolution
from .layout_transform import LAYOUT
from .window import SHARED
from .winograd import WINOGRAD_PART

# the stages that compute a convolution together; the convolution is counted once
PARTS = (CONV_DOTS, CONV_ROWS, IMAGE_ROWS, WINOGRAD_PART)


def flops(outputs: Sequence[te.Tensor]) -> float:
    """Count the arithmetic operations of the formulas that `outputs` depend on.

    A term that is added to a reduction counts as one operation and those in the term, so a
    multiply-add counts as two. A convolution counts as the direct one, 2*N*O*H*W*(C/g)*KH*KW with
    the taps in the padding, whatever computes it: Winograd's formula multiplies less, and shows a
    higher rate. An elementwise operator of topi counts as one operation for each element, even gelu
    and softmax's exp; elements that only move count as none. Other formulas count each operator and
    function. A reduction whose length depends on other axes or on data counts with its greatest
    length. Raises ArgumentError if a size is symbolic.
    """
    ops = tensor.producers_first(tuple(t.op for t in outputs))
    return float(sum(_flops(op) for op in ops if isinstance(op, te.ComputeOp)))


def _flops(op: te.ComputeOp) -> int:
    if op.tag in PARTS:
        return 0
    extents = [_most(a.extent) for a in (*op.axis, *op.reduce_axis)]
    per_element = sum(map(_of_element, op.body))
    if op.tag and not op.reduce_axis:
        per_element = min(per_element, 1)
    conv = op.attrs.get(CONVOLUTION)
    if isinstance(conv, Convolution) and op.tag != LAYOUT:  # which moves the result of "blocks"
        window = conv.high.kernel * conv.wide.kernel
        extents, per_element = [*(a.extent for a in op.axis), conv.inputs // conv.groups, window], 2
    if SHARED in op.attrs:
        window = math.prod(w.kernel for w in op.attrs["windows"])
        extents, per_element = [*(a.extent for a in op.axis), window], 2
    longest = [tir.upper_bound(n) for n in extents]
    sizes = [n for n in longest if isinstance(n, int)]  # infinity is a float
    if len(sizes) < len(extents):
        why = "the number of operations depends on a symbolic size"
        raise ArgumentError(f"the operations of {op.name}", why, "integers as sizes")
    return math.prod(sizes) * per_element


def _most(extent: tir.Index) -> tir.Index:
    """Return the greatest value of an extent, or the extent if only its type limits it."""
    most = tir.upper_bound(extent)
    return int(most) if most < INT32.high else extent


def _of_element(body: tir.Expr) -> int:
    """Count the operations of one element; adding a term to a reduction counts as one."""
    if isinstance(body, tensor.Reduce):
        return 1 + lowering.work(body.sources[body.value_index])
    return lowering.work(body)
