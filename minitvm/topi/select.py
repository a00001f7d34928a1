"""Operators that choose elements: where(condition, a, b), take(x, indices)."""

from __future__ import annotations

import math
from typing import Any

from minitvm import te, tir
from minitvm.base import BOOL, ExprError

from .elementwise import ELEMENTWISE, broadcast_shape, element_at, shape_of
from .operands import checks_arguments
from .reduction import dimension
from .shape import INJECTIVE, reshape


@checks_arguments
def where(condition: te.Tensor, x: Any, y: Any) -> te.Tensor:
    """Return x where `condition` is true or not 0, and y elsewhere.

    All three broadcast; x and y may be numbers.
    """
    shape = shape_of(condition)
    for t in (x, y):
        shape = broadcast_shape("where", shape, shape_of(t))

    def body(*i: Any) -> Any:
        c = element_at(condition, i)
        return tir.select(c if c.dtype is BOOL else c != 0, element_at(x, i), element_at(y, i))

    return te.compute(shape, body, name="T_where", tag=ELEMENTWISE)


@checks_arguments
def take(
    x: te.Tensor, indices: te.Tensor, axis: int | None = None, mode: str = "clip"
) -> te.Tensor:
    """Return the elements of x at `indices` along `axis`; if axis is None, x is flattened first.

    For x of shape [a, n, c], indices of shape [p, q] and axis 1, the result is [a, p, q, c]. An
    index out of bounds selects the nearest element: this is mode "clip", the only mode.
    """
    if mode != "clip":
        raise ExprError(f"topi.take with mode={mode!r}", "no such mode", 'mode="clip"')
    if axis is None:
        sizes = [n for n in x.shape if isinstance(n, int)]
        x, axis = reshape(x, [math.prod(sizes)]), 0
    d = dimension("take", x, axis)

    def body(*i: Any) -> Any:
        inner = d + indices.ndim
        return x(*i[:d], indices(*i[d:inner]), *i[inner:])

    shape = [*x.shape[:d], *indices.shape, *x.shape[d + 1 :]]
    return te.compute(shape, body, name="T_take", tag=INJECTIVE)
