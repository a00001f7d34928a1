"""Recognise the kind of an operation from its formula."""

from __future__ import annotations

from collections.abc import Mapping

from minitvm import te, tensor, tir


def is_elementwise(op: tensor.Operation) -> bool:
    """Return whether each element reads tensors only at its own indices, as in relu(x + bias).

    The indices of a load must be the axes in order; with broadcasting, an axis may be missing or
    replaced by a constant.
    """
    if not isinstance(op, te.ComputeOp) or op.reduction is not None:
        return False
    places = {id(a): n for n, a in enumerate(op.axis)}
    for e in tensor.loads(op):
        used = [places.get(id(i), -1) for i in e.indices if not isinstance(i, int)]
        if -1 in used or used != sorted(set(used)):
            return False
    return True


def nodes_after_inlining(op: tensor.Operation, inlined: Mapping[tensor.Operation, int]) -> int:
    """Return the number of nodes that the formula of `op` has after inlining.

    inlined: the sizes of the formulas of the operations that are inlined.
    """
    if not isinstance(op, te.ComputeOp):
        return 0
    nodes = [n for e in tensor.parts(op) for n in tir.walk(e)]
    reads = [n.buffer for n in nodes if isinstance(n, tir.Load)]
    return len(nodes) + sum(inlined.get(t.op, 0) for t in reads if isinstance(t, te.Tensor))


def is_product(op: te.ComputeOp) -> bool:
    """Return whether `op` sums a[..., i, k] * b[..., k, j] over k; operands may be transposed."""
    r = op.reduction
    if r is None or r.reducer is not tensor.SUM or len(op.reduce_axis) != 1 or len(op.axis) < 2:
        return False
    product, (k,) = r.sources[0], op.reduce_axis
    if len(r.sources) > 1 or not isinstance(product, tir.Binary) or product.op != "mul":
        return False
    *batch, i, j = op.axis
    found = [_indices(_load(e), batch) for e in (product.a, product.b)]
    return found in ([{i, k}, {k, j}], [{k, j}, {i, k}])


def _load(e: tir.Expr) -> tir.Load | None:
    """Strip type conversions from `e`; return the rest if it is a load, otherwise None."""
    while isinstance(e, tir.Cast) and isinstance(e.value, tir.Expr):
        e = e.value
    return e if isinstance(e, tir.Load) else None


def _indices(e: tir.Load | None, batch: list[te.Axis]) -> set[te.Axis] | None:
    """Return the axes of the last two indices of the load `e`, or None if it does not fit.

    The indices before them must be the axes in `batch` or constants.
    """
    *outer, y, x = e.indices if e is not None and len(e.indices) >= 2 else (0, 0)
    fits = len(outer) == len(batch) and all(
        i is b or isinstance(i, int) for i, b in zip(outer, batch, strict=False)
    )
    if not fits or not isinstance(y, te.Axis) or not isinstance(x, te.Axis):
        return None
    return {y, x}
