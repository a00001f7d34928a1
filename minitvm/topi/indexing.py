"""Operators that read or write elements at computed places: gather and scatter.

An index below 0 counts from the end. An index out of bounds selects the nearest element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, is_count

from .loop_nest import nest
from .operands import checks_arguments, dimension
from .shape import INJECTIVE

__all__ = ["gather", "gather_nd", "scatter_elements", "scatter_nd"]

REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {  # how an update is combined with an element
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": te.max,
    "min": te.min,
}


def _place(index: Any, size: Any) -> Any:
    """Return a typed index as a place in 0 .. size - 1."""
    return te.max(te.min(tir.select(index < 0, index + size, index), size - 1), 0)


@checks_arguments
def gather(x: te.Tensor, indices: te.Tensor, axis: int) -> te.Tensor:
    """Return the elements of x at `indices` along `axis`, which has the rank of x.

    out[i, j, k] = x[i, indices[i, j, k], k] for axis 1
    """
    d = dimension("gather", x, axis)
    _check_fits("gather", x, indices, d)

    def body(*i: Any) -> Any:
        return x(*i[:d], _place(indices(*i), x.shape[d]), *i[d + 1 :])

    return te.compute(indices.shape, body, name="T_gather", tag=INJECTIVE)


@checks_arguments
def gather_nd(x: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> te.Tensor:
    """Return the slices of x at `indices`, whose last dimension holds one index for each dimension.

    The first `batch_dims` dimensions of x and indices correspond to each other.

    out[i, j, k] = x[indices[i, j, 0], indices[i, j, 1], k] for indices of shape [a, b, 2]
    """
    depth = _depth("gather_nd", x, indices, batch_dims)
    outer = indices.ndim - 1

    def body(*i: Any) -> Any:
        at = [_place(indices(*i[:outer], k), x.shape[batch_dims + k]) for k in range(depth)]
        return x(*i[:batch_dims], *at, *i[outer:])

    shape = (*indices.shape[:-1], *x.shape[batch_dims + depth :])
    return te.compute(shape, body, name="T_gather_nd", tag=INJECTIVE)


def _depth(name: str, x: te.Tensor, indices: te.Tensor, batch_dims: int) -> int:
    """Return how many dimensions of x each row of `indices` selects."""
    depth = indices.shape[-1] if indices.ndim else 0
    rest = x.ndim - batch_dims if is_count(batch_dims, 0) else 0
    if not isinstance(depth, int) or not 0 < depth <= rest or batch_dims >= indices.ndim:
        why = f"its indices select {tir.text(depth)} dimensions after {batch_dims!r} of {x.ndim}"
        raise ExprError(f"topi.{name} of {x.name}", why)
    return depth


def _check_fits(name: str, x: te.Tensor, indices: te.Tensor, d: int) -> None:
    """Raise ExprError if `indices` is larger than x in another dimension than d."""
    fits = x.ndim == indices.ndim and all(
        e == d or tir.prove_nonnegative(tir.sub(n, m))
        for e, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))
    )
    if not fits:
        why = f"its indices {_shape(indices)} do not fit {_shape(x)} along dimension {d}"
        raise ExprError(f"topi.{name} of {x.name}", why)


def _shape(x: te.Tensor) -> str:
    return f"[{', '.join(tir.text(n) for n in x.shape)}]"


@checks_arguments
def scatter_elements(
    x: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int = 0, reduction: str = "none"
) -> te.Tensor:
    """Return x with `updates` written at `indices` along `axis`, one after the other.

    All three have the same rank. `reduction` combines an update with the element: "none" replaces
    it, and "add", "mul", "max" and "min" are the others.

    out[i, indices[i, j, k], k] = updates[i, j, k] for axis 1
    """
    d = dimension("scatter_elements", x, axis)
    _check_fits("scatter_elements", x, indices, d)

    def place(at: Any, i: Sequence[Any]) -> tuple[Any, ...]:
        return (*i[:d], _place(at[tuple(i)], x.shape[d]), *i[d + 1 :])

    return _scatter("scatter_elements", x, indices, updates, indices.shape, reduction, place)


@checks_arguments
def scatter_nd(
    x: te.Tensor, indices: te.Tensor, updates: te.Tensor, reduction: str = "none"
) -> te.Tensor:
    """Return x with `updates`, slices of x, written at `indices`, one after the other.

    The last dimension of indices holds one index for each dimension. For `reduction`, see
    `scatter_elements`.

    out[indices[i, 0], indices[i, 1], k] = updates[i, k] for indices of shape [n, 2]
    """
    depth = _depth("scatter_nd", x, indices, 0)
    outer = indices.ndim - 1

    def place(at: Any, i: Sequence[Any]) -> tuple[Any, ...]:
        rows = (_place(at[(*i[:outer], k)], x.shape[k]) for k in range(depth))
        return (*rows, *i[outer:])

    shape = (*indices.shape[:-1], *x.shape[depth:])
    return _scatter("scatter_nd", x, indices, updates, shape, reduction, place)


def _scatter(
    name: str,
    x: te.Tensor,
    indices: te.Tensor,
    updates: te.Tensor,
    shape: Sequence[Any],
    reduction: str,
    place: Callable[[Any, Sequence[Any]], tuple[Any, ...]],
) -> te.Tensor:
    """Copy x, then write updates of this shape: place(indices, i) returns where updates[i] goes."""
    if (
        updates.ndim != len(shape)
        or not all(map(tir.prove_equal, updates.shape, shape))
        or updates.dtype != x.dtype
    ):
        why = f"its updates must be {x.dtype}[{', '.join(tir.text(n) for n in shape)}]"
        raise ExprError(f"topi.{name} of {x.name}", why)
    if reduction not in REDUCTIONS:
        why = f"no such reduction; there are {', '.join(REDUCTIONS)}"
        raise ExprError(f"topi.{name}: reduction={reduction!r}", why)
    combine = REDUCTIONS[reduction]

    def statement(ins: list[Any], outs: list[Any]) -> Any:
        ib = tir.ir_builder.create()
        source, at, new = map(ib.buffer_ptr, ins)
        out = ib.buffer_ptr(outs[0])
        with nest(ib, x.shape) as i:
            out[i] = source[i]
        with nest(ib, updates.shape) as i:
            to = place(at, i)
            out[to] = combine(out[to], new[i])
        return ib.get()

    inputs = [x, indices, updates]
    return te.extern(x.shape, inputs, statement, name=f"T_{name}", dtype=x.dtype)
