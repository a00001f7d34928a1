"""Operators whose results each depend on a whole row: softmax, normalisations, argmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitvm import te, tir

from .elementwise import ELEMENTWISE
from .operands import check_vector, checks_arguments, dimension, dimensions
from .reduction import REDUCTION, fold_over

__all__ = ["argmax", "argmin", "batch_norm", "layer_norm", "log_softmax", "softmax"]

SOFTMAX = "softmax"  # an attribute of softmax stages: the dimensions along which they sum
ROW = "row"  # the tag of stages that read statistics of their row and are scheduled row by row


@checks_arguments
def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """Compute exp(x - m) / sum(exp(x - m)) along `axis`, where m is the maximum along `axis`."""
    axes = dimensions("softmax", x, axis)
    _, e, total = _exponentials(x, axes)
    return te.compute(
        x.shape,
        lambda *i: e(*i) / total(*_without(i, axes)),
        name="T_softmax",
        tag=ROW,
        attrs={SOFTMAX: axes},
    )


@checks_arguments
def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """Compute x - m - log(sum(exp(x - m))) along `axis`, where m is the maximum along `axis`."""
    axes = dimensions("log_softmax", x, axis)
    most, _, total = _exponentials(x, axes)

    def body(*i: Any) -> Any:
        row = _without(i, axes)
        return x(*i) - most(*row) - te.log(total(*row))

    return te.compute(x.shape, body, name="T_log_softmax", tag=ROW)


def _exponentials(x: te.Tensor, over: list[int]) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Return three tensors: the maximum m of each row, exp(x - m), and the row sums of exp(x - m).

    A row consists of the elements along the dimensions `over`.
    """
    most = fold_over("T_softmax_max", te.max, x, over)
    e = te.compute(
        x.shape, lambda *i: te.exp(x(*i) - most(*_without(i, over))), name="T_exp", tag=ELEMENTWISE
    )
    return most, e, fold_over("T_softmax_sum", te.sum, e, over)


def _without(i: Sequence[Any], over: Sequence[int]) -> list[Any]:
    return [at for d, at in enumerate(i) if d not in over]


@checks_arguments
def layer_norm(
    x: te.Tensor,
    gamma: te.Tensor | None = None,
    beta: te.Tensor | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> te.Tensor:
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta along `axis`.

    The mean and the variance of x are computed along `axis`. gamma and beta are vectors with one
    element for each position along `axis`; either may be left out.
    """
    d = dimension("layer_norm", x, axis)
    axes = [d]
    count = tir.cast_to(x.shape[d], x.dtype)
    total = fold_over("T_sum", te.sum, x, axes)
    mean = te.compute(total.shape, lambda *i: total(*i) / count, name="T_mean", tag=ELEMENTWISE)
    k = te.reduce_axis((0, x.shape[d]), "k")

    def square(*i: Any) -> Any:
        at = list(i)
        at.insert(d, k)
        difference = x(*at) - mean(*i)
        return te.sum(difference * difference, axis=k)

    squares = te.compute(total.shape, square, name="T_squares", tag=REDUCTION)

    def body(*i: Any) -> Any:
        row = _without(i, axes)
        y = (x(*i) - mean(*row)) * te.rsqrt(squares(*row) / count + epsilon)
        y = y if gamma is None else y * gamma(i[d])
        return y if beta is None else y + beta(i[d])

    return te.compute(x.shape, body, name="T_layer_norm", tag=ROW)


@checks_arguments
def batch_norm(
    x: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    mean: te.Tensor,
    variance: te.Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> te.Tensor:
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta.

    mean, variance, gamma and beta are vectors with one element per channel, which is `axis` of x.
    """
    d = dimension("batch_norm", x, axis)
    for t in (gamma, beta, mean, variance):
        check_vector("topi.batch_norm", t, x.shape[d])

    def body(*i: Any) -> Any:
        c = i[d]
        return (x(*i) - mean(c)) * te.rsqrt(variance(c) + epsilon) * gamma(c) + beta(c)

    return te.compute(x.shape, body, name="T_batch_norm", tag=ELEMENTWISE)


@checks_arguments
def argmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """Return the int32 index of the largest element along `axis`: the first if several tie."""
    return _arg("argmax", x, axis, lambda a, b: a > b, te.min_value)


@checks_arguments
def argmin(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """Return the int32 index of the smallest element along `axis`: the first if several tie."""
    return _arg("argmin", x, axis, lambda a, b: a < b, te.max_value)


def _arg(
    name: str,
    x: te.Tensor,
    axis: int,
    better: Callable[[Any, Any], Any],
    worst: Callable[[str], Any],
) -> te.Tensor:
    d = dimension(name, x, axis)

    def combine(a: Any, b: Any) -> Any:
        first = te.any(better(a[1], b[1]), te.all(a[1] == b[1], a[0] < b[0]))
        return te.if_then_else(first, a[0], b[0]), te.if_then_else(first, a[1], b[1])

    def identity(place: str, kind: str) -> Any:
        return te.max_value(place), worst(kind)

    fold = te.comm_reducer(combine, identity, name)
    k = te.reduce_axis((0, x.shape[d]), "k")
    shape: list[tir.Index] = [n for e, n in enumerate(x.shape) if e != d]

    def body(*i: Any) -> Any:
        at = list(i)
        at.insert(d, k)
        return fold((tir.cast_to(k, "int32"), x(*at)), axis=k)

    return te.compute(shape, body, name=f"T_{name}", tag=REDUCTION)[0]
