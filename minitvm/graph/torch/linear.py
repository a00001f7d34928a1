"""Operators of torch that are products, sums and normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import onnx
from ..node import Node
from ..onnx import Place, Value, dtype_of, shape_of
from .elements import cast, pair
from .shapes import first_of, for_each, select

Axes = int | Sequence[int] | None


def linear(at: Place, x: Value, w: Value, bias: Value | None = None) -> Value:
    """Return x @ w.T + bias."""
    *batch, k = shape_of(x)
    rows = at.reshape(x, (math.prod(batch), k))
    y = at.make("dense", rows, w, *([] if bias is None else [bias]))
    return at.reshape(y, (*batch, shape_of(w)[0]))


def matmul(at: Place, a: Value, b: Value) -> Value:
    """Return a @ b."""
    return onnx.linear.matmul(at, a, b)


def addmm(at: Place, c: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """Return beta * c + alpha * a @ b, of matrices or of batches of them."""
    y = matmul(at, a, b)
    y = y if alpha == 1 else pair(at, "multiply", y, alpha)
    return pair(at, "add", y, c if beta == 1 else pair(at, "multiply", c, beta))


def attention(
    at: Place,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """Return softmax(scale * q @ k.T + mask) @ v, as scaled_dot_product_attention."""
    if dropout:
        raise at.refusal(f"its dropout is {dropout}, not 0")
    heads = [shape_of(x)[-3] if len(shape_of(x)) > 2 else 1 for x in (q, k)]
    if heads[0] != heads[1] and not enable_gqa:
        raise at.refusal(f"{heads[0]} heads of queries and {heads[1]} of keys, but no enable_gqa")
    operands = [q, k, v] if mask is None else [q, k, v, mask]
    options: dict[str, Any] = {} if scale is None else {"scale": scale}
    options |= {"causal": True} if is_causal else {}
    length = _known_keys(at, q, k, mask)
    if length is None or is_causal:
        y = at.make("attention", *(_with_rank_4(at, x) for x in operands), **options)
    else:
        lengths = for_each(at, length, shape_of(k)[0])
        y = at.make("cached_attention", q, k, v, lengths, causal=True, **options)
    return at.reshape(y, (*shape_of(q)[:-1], shape_of(v)[-1]))


def _known_keys(at: Place, q: Value, k: Value, mask: Value | None) -> Value | None:
    """Return the number of known keys in the cache if the mask is causal; else None.

    k = cache.index_copy(2, rows, new); mask = torch.arange(keys) <= rows[:, None]
    """
    if not (isinstance(k, Node) and isinstance(mask, Node) and len(mask.inputs) == 2):
        return None
    if (k.op, mask.op) != ("cache_update", "less_equal"):
        return None
    (_, new, position), (numbers, rows), keys = k.inputs, mask.inputs, k.type.shape[2]
    rows = _source(rows, "reshape")
    first, count = first_of(at, rows), rows.type.elements
    if mask.type.shape != (count, keys) or new.type.shape[2] != count:
        return None
    if len(shape_of(q)) != 4 or shape_of(q)[2] != count:  # one row of the mask is for all queries
        return None
    moves = ("reshape", "broadcast_to")
    if not (isinstance(first, Node) and at.scope.is_arange(numbers, keys)):
        return None
    if _source(first, *moves) is not _source(position, *moves):
        return None
    return pair(at, "add", select(at, at.reshape(rows, (count,)), 0, -1), 1)


def _source(x: Node, *operators: str) -> Node:
    """Return the tensor that x is, before these operators."""
    while x.op in operators:
        (x,) = x.inputs
    return x


def _with_rank_4(at: Place, x: Value) -> Value:
    """Return x with new first dimensions of size 1 where it has fewer than 4."""
    return at.reshape(x, (1,) * (4 - len(shape_of(x))) + shape_of(x))


def batch_norm(
    at: Place, x: Value, w: Value | None, b: Value | None, mean: Value, var: Value, *rest: float
) -> tuple[Value, ...]:
    """Normalise each channel by stored means and variances; `rest` ends with epsilon."""
    channels = shape_of(mean)
    w = np.ones(channels, np.float32) if w is None else w
    b = np.zeros(channels, np.float32) if b is None else b
    return (onnx.linear.batch_norm(at.having(epsilon=rest[-1]), x, w, b, mean, var),)


def layer_norm(
    at: Place,
    x: Value,
    shape: Sequence[int],
    w: Value | None = None,
    b: Value | None = None,
    epsilon: float = 1e-5,
    *_: bool,
) -> Value:
    """Normalise the last dimensions, those of `shape`, by their means and variances."""
    if w is None and b is not None:
        w = np.ones(tuple(shape), np.float32)
    vectors = [v for v in (w, b) if v is not None]
    if not vectors:
        vectors = [np.ones(tuple(shape), np.float32)]
    return onnx.normal.layer_norm(at.having(axis=-len(shape), epsilon=epsilon), x, *vectors)[0]


def group_norm(
    at: Place,
    x: Value,
    groups: int,
    w: Value | None = None,
    b: Value | None = None,
    epsilon: float = 1e-5,
    *_: bool,
) -> Value:
    """Normalise groups of channels; then scale and shift each channel."""
    shape = shape_of(x)
    rows = at.reshape(x, (shape[0], groups, math.prod(shape[1:]) // groups))
    y = at.reshape(at.make("layer_norm", rows, epsilon=epsilon), shape)
    for vector, op in ((w, "multiply"), (b, "add")):
        if vector is not None:
            y = pair(at, op, y, at.reshape(vector, (shape[1], *([1] * (len(shape) - 2)))))
    return y


def instance_norm(
    at: Place,
    x: Value,
    w: Value | None,
    b: Value | None,
    mean: Value | None,
    var: Value | None,
    use_input_stats: bool,
    momentum: float,
    epsilon: float,
    *_: bool,
) -> Value:
    """Normalise each channel of each image."""
    if use_input_stats or mean is None or var is None:
        return group_norm(at, x, shape_of(x)[1], w, b, epsilon)
    return batch_norm(at, x, w, b, mean, var, momentum, epsilon)[0]


def rms_norm(
    at: Place, x: Value, shape: Sequence[int], w: Value | None = None, epsilon: float | None = None
) -> Value:
    """Divide x by the root of its mean square over the last dimensions, those of `shape`."""
    axes = tuple(range(-len(shape), 0))
    square = reduced(at, at.make("multiply", x, x), axes, True, op="mean")
    shift = float(np.finfo(np.float32).eps) if epsilon is None else epsilon
    y = at.make("multiply", x, at.make("rsqrt", pair(at, "add", square, shift)))
    return y if w is None else pair(at, "multiply", y, w)


def softmax(
    at: Place, x: Value, axis: int, dtype: str | bool | None = None, *, op: str = "softmax"
) -> Value:
    """Return the softmax, or its logarithm, along a dimension."""
    x = cast(at, x, dtype if isinstance(dtype, str) else None)
    return onnx.linear.softmax(at.having(axis=axis), x, op)


def reduced(
    at: Place,
    x: Value,
    axes: Axes = None,
    keepdims: bool = False,
    *,
    op: str,
    dtype: str | None = None,
) -> Value:
    """Reduce these dimensions, or all."""
    if op == "sum" and not dtype_of(x).is_float:
        dtype = "int64"
    x, rank = cast(at, x, dtype), len(shape_of(x))
    axes = (axes,) if isinstance(axes, int) else axes
    dims = tuple(sorted(at.axis(d, rank) for d in axes or range(rank)))
    keeps: dict[str, Any] = {"keepdims": True} if keepdims else {}
    return at.make(op, x, axis=dims, **keeps) if dims else x


def variance(
    at: Place,
    x: Value,
    axes: Axes = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Value:
    """Return the variance over these dimensions, by n - correction of n elements."""
    return variance_and_mean(at, x, axes, unbiased, keepdim, correction=correction)[0]


def variance_and_mean(
    at: Place,
    x: Value,
    axes: Axes = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Value, Value]:
    """Return the variance and the mean over these dimensions."""
    axes = tuple(range(len(shape_of(x)))) if axes in (None, ()) else axes
    mean = reduced(at, x, axes, True, op="mean")
    centred = pair(at, "subtract", x, mean)
    square = reduced(at, at.make("multiply", centred, centred), axes, keepdim, op="mean")
    count = math.prod(shape_of(x)) // math.prod(shape_of(mean))
    missing = float(unbiased) if correction is None else correction
    if count <= missing:
        raise at.refusal(f"a variance of {count} elements with correction {missing}")
    if missing:
        square = pair(at, "multiply", square, count / (count - missing))
    return square, mean if keepdim else at.reshape(mean, shape_of(square))


def vector_norm(
    at: Place,
    x: Value,
    order: float = 2,
    axes: Axes = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Value:
    """Return the norm of order 1 or 2 over these dimensions."""
    x = cast(at, x, dtype)
    if order == 1:
        return reduced(at, at.make("abs", x), axes, keepdim, op="sum")
    if order != 2:
        raise at.refusal(f"a norm of order {order}, not 1 or 2")
    return at.make("sqrt", reduced(at, at.make("multiply", x, x), axes, keepdim, op="sum"))
