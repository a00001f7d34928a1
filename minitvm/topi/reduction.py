"""Reductions over dimensions of a tensor, as in numpy: sum(x, axis=-1, keepdims=True)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitvm import te, tir
from minitvm.base import named

from .elementwise import ELEMENTWISE
from .operands import checks_arguments, dimensions

__all__ = ["max", "mean", "min", "prod", "sum"]

REDUCTION = "reduction"


def _reduction(name: str, fold: Callable[..., Any], doc: str) -> Callable[..., te.Tensor]:
    """Return an operator called `name` that reduces with `fold`, such as te.sum."""

    def apply(x: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
        return fold_over(f"T_{name}", fold, x, dimensions(name, x, axis), keepdims)

    return checks_arguments(named(apply, name, doc))


sum = _reduction("sum", te.sum, "Sum along `axis`: one dimension, several, or None for all.")
prod = _reduction("prod", te.prod, "Multiply the elements along `axis`; see `sum` for `axis`.")
max = _reduction("max", te.max, "Return the largest element along `axis`; see `sum` for `axis`.")
min = _reduction("min", te.min, "Return the smallest element along `axis`; see `sum` for `axis`.")


@checks_arguments
def mean(x: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Average over `axis`, one dimension, several, or None for all; the elements must be floats."""
    count = math.prod(tir.cast_to(x.shape[d], x.dtype) for d in dimensions("mean", x, axis))
    total = sum(x, axis, keepdims)
    return te.compute(total.shape, lambda *i: total(*i) / count, name="T_mean", tag=ELEMENTWISE)


def fold_over(
    name: str, fold: Callable[..., Any], x: te.Tensor, over: list[int], keepdims: bool = False
) -> te.Tensor:
    """Reduce `x` with `fold` over the dimensions `over`; keepdims keeps them with size 1."""
    reduce_axes = {d: te.reduce_axis((0, x.shape[d]), name=f"k{d}") for d in over}
    rest = [d for d in range(x.ndim) if d not in reduce_axes]

    def body(*i: Any) -> Any:
        data = dict(zip(rest, [i[d] for d in rest] if keepdims else i, strict=True))
        at = [reduce_axes[d] if d in reduce_axes else data[d] for d in range(x.ndim)]
        return fold(x(*at), axis=list(reduce_axes.values()))

    full = [1 if d in reduce_axes else n for d, n in enumerate(x.shape)]
    shape = full if keepdims else [full[d] for d in rest]
    return te.compute(shape, body, name=name, tag=REDUCTION)
