"""ONNX operators that are products, sums and normalisations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .elements import pair
from .place import Place, Value, dtype_of, shape_of


def matmul(at: Place, a: Value, b: Value, **attrs: str) -> Value:
    """MatMul of any ranks, as numpy does it; attrs may have the type of the products, out_dtype."""
    left, right = shape_of(a), shape_of(b)
    if not left or not right:
        raise at.refusal("a number has no matrix product")
    rows = at.reshape(a, (1, *left)) if len(left) == 1 else a
    columns = at.reshape(b, (*right, 1)) if len(right) == 1 else b
    if shape_of(rows)[-1] != shape_of(columns)[-2]:
        raise at.refusal(f"{list(left)} times {list(right)}: the inner sizes differ")
    y = _product(at, rows, columns, attrs)
    *batch, m, n = shape_of(y)
    sides = (*((m,) if len(left) > 1 else ()), *((n,) if len(right) > 1 else ()))
    return at.reshape(y, (*batch, *sides))


def _product(at: Place, a: Value, b: Value, attrs: Mapping[str, str]) -> Value:
    *batch, m, k = shape_of(a)
    *others, _, n = shape_of(b)
    if not others:  # one matrix: all rows of `a` at once
        rows = at.reshape(a, (math.prod(batch) * m, k))
        if is_constant(at, b):  # constant weights become those of a dense layer
            y = at.make("dense", rows, at.transposed(b), **attrs)
        else:
            y = at.make("matmul", rows, b, **attrs)
        return at.reshape(y, (*batch, m, n))
    try:
        common_batch = np.broadcast_shapes(tuple(batch), tuple(others))
    except ValueError as e:
        raise at.refusal(f"batches {batch} and {others} do not fit each other") from e
    x, y = _batched(at, a, common_batch, (m, k)), _batched(at, b, common_batch, (k, n))
    return at.reshape(at.make("batch_matmul", x, y, **attrs), (*common_batch, m, n))


def is_constant(at: Place, x: Value) -> bool:
    """Return whether x is constant, in float32 or as it is stored in bfloat16."""
    return isinstance(x, np.ndarray) or at.scope.in_bfloat16(x) is not None


def _batched(at: Place, x: Value, both: tuple[int, ...], matrix: tuple[int, int]) -> Value:
    """Return x as matrices [B, *matrix], where B is 1 or the product of the batch sizes `both`."""
    batch = shape_of(x)[:-2]
    if math.prod(batch) not in (1, math.prod(both)):
        x, batch = at.make("broadcast_to", x, shape=(*both, *matrix)), both
    return at.reshape(x, (math.prod(batch), *matrix))


def gemm(at: Place, a: Value, b: Value, c: Value | None = None) -> Value:
    """Gemm: alpha * a @ b + beta * c, with a and b transposed if its attributes say so."""
    if len(shape_of(a)) != 2 or len(shape_of(b)) != 2:
        raise at.refusal(f"{list(shape_of(a))} and {list(shape_of(b))} are not matrices")
    transposes = [at.flag(key) for key in ("transA", "transB")]
    kind = dtype_of(a).numpy
    scale, weight = (np.asarray(at.attrs.get(key, 1.0), kind) for key in ("alpha", "beta"))
    x = at.make("transpose", a, axes=(1, 0)) if transposes[0] else a
    if is_constant(at, b) or transposes[1]:
        w = b if transposes[1] else at.transposed(b)
        simple = c is not None and scale == 1 == weight and shape_of(c) == shape_of(w)[:1]
        y = at.make("dense", x, w, *([c] if simple and c is not None else []))
        c = None if simple else c
    else:
        y = at.make("matmul", x, b)
    y = y if scale == 1 else pair(at, "multiply", y, scale)
    if c is None:
        return y
    total = pair(at, "add", y, c if weight == 1 else pair(at, "multiply", c, weight))
    if shape_of(total) != shape_of(y):
        raise at.refusal(f"its c {list(shape_of(c))} does not fit {list(shape_of(y))}")
    return total


def batch_norm(
    at: Place, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Value:
    """BatchNormalization, as it is computed in inference."""
    at.only(training_mode=0)
    vectors = (scale, bias, mean, variance)
    return at.make("batch_norm", x, *vectors, **epsilon_of(at))


def epsilon_of(at: Place) -> dict[str, Any]:
    """Return the attribute epsilon, a float32, rounded to 7 digits; none if it is the default."""
    value = float(f"{at.attrs.get('epsilon', 1e-5):.7g}")
    return {} if value == 1e-5 else {"epsilon": value}


def softmax(at: Place, x: Value, op: str) -> Value:
    """Softmax and LogSoftmax along `axis`."""
    axis, rank = at.attrs.get("axis", -1), len(shape_of(x))
    attrs = {} if at.axis(axis, rank) == rank - 1 else {"axis": axis}
    return at.make(op, x, **attrs)


def reduced(at: Place, x: Value, axes: Value | None = None, *, op: str) -> Value:
    """Reduce dimensions: those of `axes`, an input or an attribute, or all."""
    dims = _reduced_axes(at, x, axes)
    keeps = {"keepdims": True} if at.flag("keepdims", 1) else {}
    if dtype_of(x) == "bool" and op in ("max", "min"):  # whether any or all are true
        return at.make(
            "cast", reduced(at, at.make("cast", x, dtype="uint8"), axes, op=op), dtype="bool"
        )
    return at.make(op, x, axis=dims, **keeps) if dims else x


def _reduced_axes(at: Place, x: Value, axes: Value | None) -> tuple[int, ...]:
    """Return the dimensions that are reduced; none if the node returns its input."""
    rank = len(shape_of(x))
    dims = at.attrs.get("axes", ()) if axes is None else at.ints(axes, "axes")
    if not dims and at.flag("noop_with_empty_axes"):
        return ()
    return tuple(sorted(at.axis(d, rank) for d in dims)) or tuple(range(rank))


def absolute_sum(at: Place, x: Value, axes: Value | None = None) -> Value:
    """ReduceL1: the sum of absolute values."""
    return reduced(at, at.make("abs", x), axes, op="sum")


def square_sum(at: Place, x: Value, axes: Value | None = None) -> Value:
    """ReduceSumSquare: the sum of squares."""
    return reduced(at, at.make("multiply", x, x), axes, op="sum")


def norm2(at: Place, x: Value, axes: Value | None = None) -> Value:
    """ReduceL2: the square root of the sum of squares."""
    return at.make("sqrt", square_sum(at, x, axes))


def log_sum(at: Place, x: Value, axes: Value | None = None) -> Value:
    """ReduceLogSum: the logarithm of the sum."""
    return at.make("log", reduced(at, x, axes, op="sum"))


def log_sum_exp(at: Place, x: Value, axes: Value | None = None) -> Value:
    """ReduceLogSumExp; the largest element is subtracted first, so that exp cannot overflow."""
    dims = _reduced_axes(at, x, axes)
    if not dims:
        return at.make("log", at.make("exp", x))
    kind = dtype_of(x).numpy
    lowest = float(np.finfo(str(kind)).min)
    most = at.make("max", x, axis=dims, keepdims=True)
    most = at.make("maximum", most, np.asarray(lowest, kind))  # exp(-inf - -inf) is NaN
    total = at.make("sum", at.make("exp", at.make("subtract", x, most)), axis=dims, keepdims=True)
    y = at.make("add", at.make("log", total), most)
    if at.flag("keepdims", 1):
        return y
    return at.reshape(y, tuple(n for d, n in enumerate(shape_of(x)) if d not in dims))
