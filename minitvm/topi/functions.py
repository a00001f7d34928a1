"""Elementwise functions of mathematics: trigonometric ones, rounding, tests, remainders and bits.

Shapes of two operands broadcast as in numpy; the second operand may be a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm import te, tir

from .elementwise import pairwise, unary

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "ceil", "cos", "cosh", "floor", "floor_mod", "fmod", "isinf", "isnan",
    "left_shift", "right_shift", "round", "sign", "sin", "sinh", "tan", "trunc_divide",
]  # fmt: skip


def _sign(x: Any) -> Any:
    return tir.cast_to(x > 0, x.dtype) - tir.cast_to(x < 0, x.dtype)


def _asinh(x: Any) -> Any:
    """Return log(|x| + sqrt(x**2 + 1)) with the sign of x, without loss of digits near 0."""
    size = te.abs(x)
    return te.copysign(te.log1p(size + size * (size / (1 + te.hypot(size, 1.0)))), x)


def _fmod(a: Any, b: Any) -> Any:
    x, y = tir.unify(a, b)
    return te.fmod(x, y) if x.dtype.is_float else te.truncmod(x, y)


def _floor_mod(a: Any, b: Any) -> Any:
    x, y = tir.unify(a, b)
    if not x.dtype.is_float:
        return te.floormod(x, y)
    rest = te.fmod(x, y)
    return tir.select(te.all(rest != 0, (rest < 0) != (y < 0)), rest + y, rest)


def _invert(x: Any) -> Any:
    return tir.binary("bitxor", x, te.const(-1 if x.dtype.kind == "int" else x.dtype.high, x.dtype))


def _bits(name: str, op: tir.BinaryOp, doc: str) -> Callable[[Any, Any], te.Tensor]:
    """Return an operator called `name` that applies a binary operator to integers."""
    return pairwise(name, lambda a, b: tir.binary(op, a, b), doc)


sin = unary("sin", te.sin, "Return the sine of x radians.")
cos = unary("cos", te.cos, "Return the cosine of x radians.")
tan = unary("tan", te.tan, "Return the tangent of x radians.")
asin = unary("asin", te.asin, "Return the arc sine of x in radians.")
acos = unary("acos", te.acos, "Return the arc cosine of x in radians.")
atan = unary("atan", te.atan, "Return the arc tangent of x in radians.")
sinh = unary("sinh", te.sinh, "Return the hyperbolic sine of x.")
cosh = unary("cosh", te.cosh, "Return the hyperbolic cosine of x.")
asinh = unary("asinh", _asinh, "Return the number whose hyperbolic sine is x.")
acosh = unary(
    "acosh",
    lambda x: te.log(x + te.sqrt(x - 1) * te.sqrt(x + 1)),
    "Return the number >= 0 whose hyperbolic cosine is x; NaN for x < 1.",
)
atanh = unary(
    "atanh",
    lambda x: (te.log1p(x) - te.log1p(-x)) * 0.5,
    "Return the number whose hyperbolic tangent is x; NaN for |x| > 1.",
)
floor = unary("floor", te.floor, "Return the largest integer <= x, as a float.")
ceil = unary("ceil", te.ceil, "Return the smallest integer >= x, as a float.")
round = unary("round", te.round, "Return x rounded to the nearest integer, halves to even.")
sign = unary("sign", _sign, "Return -1, 0 or 1, the sign of x; 0 for NaN.")
isnan = unary("isnan", te.isnan, "Return whether x is NaN, as bool.")
isinf = unary("isinf", te.isinf, "Return whether x is infinite, as bool.")
bitwise_not = unary("bitwise_not", _invert, "Return the integer x with all bits inverted.")

floor_mod = pairwise("floor_mod", _floor_mod, "Return the remainder of a / b, with the sign of b.")
fmod = pairwise("fmod", _fmod, "Return the remainder of a / b, with the sign of a.")
trunc_divide = pairwise(
    "trunc_divide", te.truncdiv, "Return a / b on integers, rounded towards 0; 0 if b is 0."
)
bitwise_and = _bits("bitwise_and", "bitand", "Return the bits that both integers have.")
bitwise_or = _bits("bitwise_or", "bitor", "Return the bits that one of two integers has.")
bitwise_xor = _bits("bitwise_xor", "bitxor", "Return the bits in which two integers differ.")
left_shift = _bits("left_shift", "shl", "Return a * 2 ** b on integers; bits at the top are lost.")
right_shift = _bits("right_shift", "shr", "Return a / 2 ** b on integers, rounded down.")
