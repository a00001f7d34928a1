"""A pass that turns n-dimensional accesses into element offsets."""

from __future__ import annotations

from minitvm import tir

from .statements import redirect


def flatten(s: tir.Stmt) -> tir.Stmt:
    """Replace all indices by one offset: A[i, j] -> A[i*n + j], with n the stride of dimension 0.

    Accesses that have an offset already do not change, except in buffers of one dimension: an index
    there is multiplied by the stride of the buffer.
    """
    return redirect(s, lambda b, indices: (b, (offset(b, indices),)))


def offset(b: tir.Buffer, indices: tuple[tir.Index, ...]) -> tir.Index:
    """Return the distance in elements from the start of `b` to b[indices]."""
    if len(indices) == 1 and len(b.shape) != 1:
        return indices[0]  # an offset already
    total: tir.Index = 0
    for i, stride in zip(indices, tir.row_strides(b), strict=True):
        total = tir.add(total, tir.mul(i, stride))
    return total
