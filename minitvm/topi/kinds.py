"""What kind of formula an operation is, seen from the formula itself."""

from __future__ import annotations

from collections.abc import Mapping

from minitvm.te import Axis, ComputeOp, Tensor
from minitvm.tensor import SUM, Operation, loads, parts
from minitvm.tir import Binary, Cast, Expr, Load, walk


def is_elementwise(op: Operation) -> bool:
    """Does each point read every tensor once, at its own place, as in relu(x + bias)?

    Indices are the axes in their order, some of them perhaps left out or constant (broadcasting).
    """
    if not isinstance(op, ComputeOp) or op.reduction is not None:
        return False
    places = {id(a): n for n, a in enumerate(op.axis)}
    for e in loads(op):
        used = [places.get(id(i), -1) for i in e.indices if not isinstance(i, int)]
        if -1 in used or used != sorted(set(used)):
            return False
    return True


def size(op: Operation, inlined: Mapping[Operation, int]) -> int:
    """How many nodes the formula has, with those of `inlined` operations for each load of one."""
    if not isinstance(op, ComputeOp):
        return 0
    nodes = [n for e in parts(op) for n in walk(e)]
    reads = [n.buffer for n in nodes if isinstance(n, Load)]
    return len(nodes) + sum(inlined.get(t.op, 0) for t in reads if isinstance(t, Tensor))


def is_product(op: ComputeOp) -> bool:
    """Is it a sum over k of a[..., i, k] * b[..., k, j], each operand perhaps transposed?"""
    r = op.reduction
    if r is None or r.reducer is not SUM or len(op.reduce_axis) != 1 or len(op.axis) < 2:
        return False
    product, (k,) = r.sources[0], op.reduce_axis
    if len(r.sources) > 1 or not isinstance(product, Binary) or product.op != "mul":
        return False
    *batch, i, j = op.axis
    found = [_indices(_load(e), batch) for e in (product.a, product.b)]
    return found in ([{i, k}, {k, j}], [{k, j}, {i, k}])


def _load(e: Expr) -> Load | None:
    """The load that `e` is, looking through conversions."""
    while isinstance(e, Cast) and isinstance(e.value, Expr):
        e = e.value
    return e if isinstance(e, Load) else None


def _indices(e: Load | None, batch: list[Axis]) -> set[Axis] | None:
    """The axes of the last two indices; None if those before are not the batch or constants."""
    *outer, y, x = e.indices if e is not None and len(e.indices) >= 2 else (0, 0)
    fits = len(outer) == len(batch) and all(
        i is b or isinstance(i, int) for i, b in zip(outer, batch, strict=False)
    )
    if not fits or not isinstance(y, Axis) or not isinstance(x, Axis):
        return None
    return {y, x}
