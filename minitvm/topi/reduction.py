"""Reductions over dimensions of a tensor, as in numpy: sum(x, axis=-1, keepdims=True)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .elementwise import ELEMENTWISE
from .operands import integers, on_tensors

REDUCTION = "reduction"


@on_tensors
def sum(x: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Sum over `axis`: one dimension, several, or None for all."""
    return _reduce("sum", te.sum, x, axis, keepdims)


@on_tensors
def prod(x: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Multiply over `axis`."""
    return _reduce("prod", te.prod, x, axis, keepdims)


@on_tensors
def max(x: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Take the largest element over `axis`."""
    return _reduce("max", te.max, x, axis, keepdims)


@on_tensors
def min(x: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Take the smallest element over `axis`."""
    return _reduce("min", te.min, x, axis, keepdims)


@on_tensors
def mean(x: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Average over `axis`; elements are floats."""
    count = math.prod(tir.cast_to(x.shape[d], x.dtype) for d in dimensions("mean", x, axis))
    total = sum(x, axis, keepdims)
    return te.compute(total.shape, lambda *i: total(*i) / count, name="T_mean", tag=ELEMENTWISE)


def _reduce(
    name: str, fold: Callable[..., Any], x: te.Tensor, axis: Any, keepdims: bool
) -> te.Tensor:
    return fold_over(f"T_{name}", fold, x, dimensions(name, x, axis), keepdims)


def fold_over(
    name: str, fold: Callable[..., Any], x: te.Tensor, over: list[int], keepdims: bool = False
) -> te.Tensor:
    """Fold x over the dimensions `over`, which are removed or become 1."""
    folded = {d: te.reduce_axis((0, x.shape[d]), name=f"k{d}") for d in over}
    kept = [d for d in range(x.ndim) if d not in folded]

    def body(*i: Any) -> Any:
        data = dict(zip(kept, [i[d] for d in kept] if keepdims else i, strict=True))
        at = [folded[d] if d in folded else data[d] for d in range(x.ndim)]
        return fold(x(*at), axis=list(folded.values()))

    full = [1 if d in folded else n for d, n in enumerate(x.shape)]
    shape = full if keepdims else [full[d] for d in kept]
    return te.compute(shape, body, name=name, tag=REDUCTION)


def dimension(name: str, x: te.Tensor, axis: Any) -> int:
    """Return the dimension `axis`; raise ExprError if it is None or several."""
    found = [] if axis is None else dimensions(name, x, axis)
    if len(found) != 1:
        what = f"topi.{name} of {x.name} over axis {axis}"
        raise ExprError(what, "it works along one dimension", "axis=-1")
    return found[0]


def dimensions(name: str, x: te.Tensor, axis: Any) -> list[int]:
    """Return the dimensions `axis`: negative ones count from the end, None means all."""
    given = range(x.ndim) if axis is None else integers(f"topi.{name}: axis", axis)
    found = [d + x.ndim if d < 0 else d for d in given]
    if not found or len(set(found)) < len(found) or not all(0 <= d < x.ndim for d in found):
        why = f"these are not different dimensions of {x.name}, which has {x.ndim}"
        raise ExprError(f"topi.{name} of {x.name} over axis {axis}", why)
    return sorted(found)
