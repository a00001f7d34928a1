"""Reductions over dimensions of a tensor, as in numpy: sum(x, axis=-1, keepdims=True)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm import te
from minitvm.base import ExprError, as_tuple
from minitvm.te import Tensor

REDUCTION = "reduction"


def sum(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis`: one dimension, several, or None for all."""
    return _reduce("sum", te.sum, x, axis, keepdims)


def prod(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The product over `axis`."""
    return _reduce("prod", te.prod, x, axis, keepdims)


def max(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over `axis`."""
    return _reduce("max", te.max, x, axis, keepdims)


def min(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over `axis`."""
    return _reduce("min", te.min, x, axis, keepdims)


def _reduce(name: str, fold: Callable[..., Any], x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    over = _dimensions(name, x, axis)
    folded = {d: te.reduce_axis((0, x.shape[d]), name=f"k{d}") for d in over}
    kept = [d for d in range(x.ndim) if d not in folded]
    shape = [1 if d in folded else n for d, n in enumerate(x.shape)] if keepdims else None

    def body(*i: Any) -> Any:
        mine = [i[d] for d in kept] if keepdims else list(i)
        data = dict(zip(kept, mine, strict=True))
        return fold(x(*(folded.get(d, data.get(d)) for d in range(x.ndim))), list(folded.values()))

    full = [x.shape[d] for d in kept] if shape is None else shape
    return te.compute(full, body, name=f"T_{name}", tag=REDUCTION)


def _dimensions(name: str, x: Tensor, axis: Any) -> list[int]:
    given = range(x.ndim) if axis is None else as_tuple(axis)
    found = [d + x.ndim if d < 0 else d for d in given]
    if not found or len(set(found)) < len(found) or not all(0 <= d < x.ndim for d in found):
        raise ExprError(
            f"topi.{name} of {x.name} over axis {axis}",
            f"not distinct dimensions of a tensor with {x.ndim}",
        )
    return sorted(found)
