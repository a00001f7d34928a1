"""ONNX operators on elements: arithmetic, comparisons, activations."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from .model import TYPES
from .place import Place, Value, dtype_of, shape_of

SWAPPED = ("add", "multiply", "maximum", "minimum", "equal")  # a op b is b op a


def pair(at: Place, op: str, a: Value, b: Value) -> Value:
    """Apply an operator to two values; a constant number becomes an attribute."""
    if op in SWAPPED and _is_number(a, b):
        a, b = b, a
    if not isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and _is_number(b, a):
        return at.make(op, a, b=b.item())
    return at.make(op, a, b)


def _is_number(value: Value, other: Value) -> bool:
    """Whether a value is one finite number, which does not add dimensions to the other."""
    if not isinstance(value, np.ndarray) or value.size != 1 or isinstance(other, np.ndarray):
        return False
    return value.ndim <= len(shape_of(other)) and math.isfinite(value.item())


def divide(at: Place, a: Value, b: Value) -> Value:
    """Div; the quotient of integers is rounded towards zero."""
    if dtype_of(a).is_float:
        return pair(at, "divide", a, b)
    if isinstance(b, np.ndarray) and not b.all():
        raise at.refusal("it divides by zero")
    return at.make("trunc_divide", a, b)


def mod(at: Place, a: Value, b: Value) -> Value:
    """Mod: the remainder with the sign of b, or with fmod=1 with the sign of a."""
    if isinstance(b, np.ndarray) and not dtype_of(b).is_float and not b.all():
        raise at.refusal("it divides by zero")
    return at.make("fmod" if at.flag("fmod") else "floor_mod", a, b)


def power(at: Place, a: Value, b: Value) -> Value:
    """Pow; x ** 2 is a product and x ** .5 a square root."""
    exponent = b.item() if isinstance(b, np.ndarray) and _is_number(b, a) else None
    if exponent == 2:
        return at.make("multiply", a, a)
    if not dtype_of(a).is_float:  # exact below 2 ** 53
        x, y = (at.make("cast", v, dtype="float64") for v in (a, b))
        return at.make("cast", at.make("power", x, y), dtype=str(dtype_of(a)))
    if exponent == 0.5:
        return at.make("sqrt", a)
    if dtype_of(b) != dtype_of(a):
        b = at.make("cast", b, dtype=str(dtype_of(a)))
    return pair(at, "power", a, b)


def many(at: Place, op: str, *values: Value) -> Value:
    """Apply a binary operator to all values, from left to right."""
    return reduce(lambda a, b: pair(at, op, a, b), values)


def mean(at: Place, *values: Value) -> Value:
    """Return the mean of the inputs."""
    count = np.asarray(len(values), dtype_of(values[0]).numpy)
    return pair(at, "divide", many(at, "add", *values), count)


def logical_and(at: Place, a: Value, b: Value) -> Value:
    """Return whether both are true."""
    return at.make("where", a, b, np.asarray(False))


def logical_or(at: Place, a: Value, b: Value) -> Value:
    """Return whether one of them is true."""
    return at.make("where", a, np.asarray(True), b)


def logical_not(at: Place, x: Value) -> Value:
    """Return whether x is false."""
    return pair(at, "equal", x, np.asarray(False))


def cast(at: Place, x: Value) -> Value:
    """Cast x to the element type whose ONNX number is the attribute `to`."""
    kind = element_type(at, "to")
    return x if dtype_of(x) == kind else at.make("cast", x, dtype=kind)


def element_type(at: Place, key: str) -> str:
    """Return the element type whose ONNX number is the attribute `key`."""
    if at.attrs[key] not in TYPES:
        raise at.refusal(f"its element type {at.attrs[key]} is not supported")
    return TYPES[at.attrs[key]]


def clip(at: Place, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    """Clip between two bounds, each of which may be left out or computed."""
    if any(b is not None and math.prod(shape_of(b)) != 1 for b in (low, high)):
        raise at.refusal("its bounds are not one number each")
    low, high = (b if b is None else at.reshape(b, ()) for b in (low, high))
    if _finite(low) and _finite(high):
        lower, upper = at.constant(low, "bound").item(), at.constant(high, "bound").item()
        return at.make("clip", x, a_min=min(lower, upper), a_max=upper)
    x = x if low is None else pair(at, "maximum", x, low)
    return x if high is None else pair(at, "minimum", x, high)


def _finite(bound: Value | None) -> bool:
    return isinstance(bound, np.ndarray) and bound.size == 1 and math.isfinite(bound.item())


def _scaled(at: Place, x: Value, factor: float, shift: float = 0.0) -> Value:
    kind = dtype_of(x).numpy
    y = pair(at, "multiply", x, np.asarray(factor, kind))
    return pair(at, "add", y, np.asarray(shift, kind)) if shift else y


def hard_sigmoid(at: Place, x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """Return alpha * x + beta, limited to 0 .. 1."""
    alpha, beta = at.attrs.get("alpha", alpha), at.attrs.get("beta", beta)
    return at.make("clip", _scaled(at, x, alpha, beta), a_min=0.0, a_max=1.0)


def hard_swish(at: Place, x: Value) -> Value:
    """Return x * (x / 6 + 1/2 limited to 0 .. 1)."""
    return at.make("multiply", x, hard_sigmoid(at, x, 1 / 6, 0.5))


def prelu(at: Place, x: Value, slope: Value) -> Value:
    """Return x where it is positive, else slope * x."""
    zero = np.asarray(0, dtype_of(x).numpy)
    negative = pair(at, "multiply", pair(at, "minimum", x, zero), slope)
    return pair(at, "add", at.make("relu", x), negative)


def softplus(at: Place, x: Value) -> Value:
    """Return log(1 + exp(x)) as max(x, 0) + log(1 + exp(-abs(x))), which cannot overflow."""
    constant_one = np.asarray(1, dtype_of(x).numpy)
    tail = at.make("exp", at.make("negative", at.make("abs", x)))
    return at.make("add", at.make("relu", x), at.make("log", pair(at, "add", tail, constant_one)))


def gelu(at: Place, x: Value) -> Value:
    """Return x * Phi(x), or its approximation by a tanh."""
    if at.attrs.get("approximate", "none") == "none":
        return at.make("gelu", x)
    at.only(approximate="tanh")
    cube = at.make("multiply", at.make("multiply", x, x), x)
    inner = _scaled(at, at.make("add", x, _scaled(at, cube, 0.044715)), math.sqrt(2 / math.pi))
    return at.make("multiply", x, _scaled(at, at.make("tanh", inner), 0.5, 0.5))


def reciprocal(at: Place, x: Value) -> Value:
    """Return 1 / x."""
    return at.make("divide", np.asarray(1, dtype_of(x).numpy), x)


def is_infinite(at: Place, x: Value) -> Value:
    """IsInf: whether x is inf, or -inf, or one of them."""
    signs = at.flag("detect_positive", 1), at.flag("detect_negative", 1)
    if signs == (True, True):
        return at.make("isinf", x)
    kind = dtype_of(x).numpy
    infinity = np.asarray(np.inf if signs[0] else -np.inf if signs[1] else np.nan, kind)
    return at.make("equal", x, infinity)


def shift(at: Place, a: Value, b: Value) -> Value:
    """BitShift to the left or to the right."""
    match at.attrs["direction"]:
        case "LEFT":
            return at.make("left_shift", a, b)
        case "RIGHT":
            return at.make("right_shift", a, b)
        case other:
            raise at.refusal(f"its direction {other!r} is neither LEFT nor RIGHT")
