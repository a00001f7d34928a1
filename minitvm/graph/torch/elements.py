"""Operators of torch on elements: arithmetic, comparisons, activations."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from minitvm.base import DType, dtype

from .. import onnx
from ..onnx import Place, Value, dtype_of, shape_of

Operand: TypeAlias = Value | bool | int | float
KINDS = (bool, int, float)  # a number has the element type of a tensor of its kind, or of a later


def kind_of(x: Operand) -> int:
    """Return the place in KINDS of an operand's numbers."""
    if isinstance(x, bool | int | float):
        return KINDS.index(type(x))
    kind = dtype_of(x)
    return 2 if kind.is_float else int(str(kind) != "bool")


def common_dtype(*operands: Operand) -> DType:
    """Return the element type in which torch computes operands: torch.result_type.

    The operands of the last kind decide: tensors before tensors of rank 0, these before numbers.
    """
    last = max(map(kind_of, operands))
    of_kind = [x for x in operands if kind_of(x) == last]
    tensors = [x for x in of_kind if not isinstance(x, bool | int | float)]
    if not tensors:
        return dtype(("bool", "int64", "float32")[last])
    first = [x for x in tensors if shape_of(x)] or tensors
    return max((dtype_of(x) for x in first), key=lambda kind: kind.bits)


def as_dtype(at: Place, x: Operand, kind: DType) -> Value:
    """Return an operand as a value of this element type."""
    if isinstance(x, bool | int | float):
        return np.asarray(x, kind.numpy)
    return x if dtype_of(x) == kind else at.make("cast", x, dtype=str(kind))


def pair(at: Place, op: str, a: Operand, b: Operand, kind: DType | None = None) -> Value:
    """Apply an operator of graphs to two operands in their common element type, or in `kind`."""
    kind = kind or common_dtype(a, b)
    return onnx.elements.pair(at, op, as_dtype(at, a, kind), as_dtype(at, b, kind))


def add(at: Place, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """Return a + alpha * b."""
    return pair(at, "add", a, b if alpha == 1 else pair(at, "multiply", b, alpha))


def subtract(at: Place, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """Return a - alpha * b."""
    return pair(at, "subtract", a, b if alpha == 1 else pair(at, "multiply", b, alpha))


def reverse_subtract(at: Place, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """Return b - alpha * a."""
    return subtract(at, b, a, alpha)


def divide(at: Place, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    """Return a / b, in float32 if both are integers."""
    if rounding_mode is not None:
        raise at.refusal(f"rounding_mode={rounding_mode!r}")
    kind = common_dtype(a, b)
    return pair(at, "divide", a, b, kind if kind.is_float else dtype("float32"))


def power(at: Place, a: Operand, b: Operand) -> Value:
    """Return a ** b."""
    kind = common_dtype(a, b)
    if b == 3 and not isinstance(a, bool | int | float):  # as in the approximate GELU
        x = as_dtype(at, a, kind)
        return at.make("multiply", at.make("multiply", x, x), x)
    return onnx.elements.power(at, as_dtype(at, a, kind), as_dtype(at, b, kind))


def reciprocal(at: Place, x: Value) -> Value:
    """Return 1 / x."""
    return divide(at, 1, x)


def not_equal(at: Place, a: Operand, b: Operand) -> Value:
    """Return whether a and b differ."""
    return onnx.elements.logical_not(at, pair(at, "equal", a, b))


def logical(at: Place, a: Value, b: Value, *, op: str) -> Value:
    """Return whether both operands are true ("and"), or one of them ("or")."""
    return getattr(onnx.elements, f"logical_{op}")(at, as_bool(at, a), as_bool(at, b))


def as_bool(at: Place, x: Value) -> Value:
    """Return x, which must be of type bool."""
    if str(dtype_of(x)) != "bool":
        raise at.refusal(f"its operand is {dtype_of(x)}, not bool")
    return x


def logical_not(at: Place, x: Value) -> Value:
    """Return whether x is false."""
    return onnx.elements.logical_not(at, as_bool(at, x))


def where(at: Place, condition: Value, a: Operand, b: Operand) -> Value:
    """Return a where the condition is true, else b."""
    kind = common_dtype(a, b)
    return at.make("where", condition, as_dtype(at, a, kind), as_dtype(at, b, kind))


def clamp(at: Place, x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
    """Return x limited to low .. high."""
    bounds = [bound for bound in (low, high) if bound is not None]
    kind = common_dtype(x, *bounds)
    x = as_dtype(at, x, kind)
    if any(not isinstance(bound, bool | int | float) for bound in bounds):
        x = x if low is None else pair(at, "maximum", x, low)
        return x if high is None else pair(at, "minimum", x, high)
    lower, upper = (b if b is None else as_dtype(at, b, kind) for b in (low, high))
    return onnx.elements.clip(at, x, lower, upper)


def hardtanh(at: Place, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    """Return x limited to low .. high."""
    return clamp(at, x, low, high)


def hard_sigmoid(at: Place, x: Value) -> Value:
    """Return x / 6 + 1/2, limited to 0 .. 1."""
    return onnx.elements.hard_sigmoid(at, x, 1 / 6, 0.5)


def hard_swish(at: Place, x: Value) -> Value:
    """Return x * (x / 6 + 1/2, limited to 0 .. 1)."""
    return onnx.elements.hard_swish(at, x)


def leaky_relu(at: Place, x: Value, slope: float = 0.01) -> Value:
    """Return x where it is positive, else slope * x."""
    return at.make("leaky_relu", x, alpha=slope)


def elu(at: Place, x: Value, alpha: float = 1.0, scale: float = 1.0, inner: float = 1.0) -> Value:
    """Return scale * (x where it is positive, else alpha * (exp(inner * x) - 1))."""
    negative = pair(at, "minimum", x, 0.0)
    tail = expm1(at, negative if inner == 1 else pair(at, "multiply", negative, inner))
    below = pair(at, "multiply", tail, alpha)
    total = pair(at, "add", at.make("relu", x), below)
    return total if scale == 1 else pair(at, "multiply", total, scale)


def expm1(at: Place, x: Value) -> Value:
    """Return exp(x) - 1, with the rounding error of exp(x)."""
    return pair(at, "subtract", at.make("exp", x), 1.0)


def gelu(at: Place, x: Value, approximate: str = "none") -> Value:
    """Return x * Phi(x), or its approximation by a tanh."""
    return onnx.elements.gelu(at.having(approximate=approximate), x)


def prelu(at: Place, x: Value, slope: Value) -> Value:
    """Return x where it is positive, else slope * x, with one slope for each channel."""
    shape, rank = shape_of(slope), len(shape_of(x))
    if math.prod(shape) > 1 and len(shape) == 1:
        slope = at.reshape(slope, (*shape, *([1] * (rank - 2))))
    return onnx.elements.prelu(at, x, slope)


def softplus(at: Place, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """Return log(1 + exp(beta * x)) / beta; it rounds to x where torch's threshold returns x."""
    if math.exp(-threshold) > np.finfo(np.float32).eps:
        raise at.refusal(f"its threshold {threshold} is less than 16")
    if beta == 1:
        return onnx.elements.softplus(at, x)
    return pair(at, "divide", onnx.elements.softplus(at, pair(at, "multiply", x, beta)), beta)


def mish(at: Place, x: Value) -> Value:
    """Return x * tanh(log(1 + exp(x)))."""
    return at.make("multiply", x, at.make("tanh", softplus(at, x)))


def cast(at: Place, x: Value, dtype: str | None = None, **_: None) -> Value:
    """Cast x to another element type, if one is given."""
    if dtype in (None, str(dtype_of(x))):
        return x
    return at.scope.in_float32(at.make("cast", x, dtype=dtype), at.call.name)


def identity(at: Place, x: Value, *_: object, **options: object) -> Value:
    """Return x."""
    del at, options
    return x
