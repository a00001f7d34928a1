"""Elementwise functions of formulas. Floats in, the same float type out, unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm.base import named

from .intrinsics import intrinsic
from .nodes import BinaryOp, CompareOp, Expr
from .value import all_of, binary, compare


def _unary(name: str, doc: str) -> Callable[[Any], Expr]:
    """Make the function of one operand that calls the intrinsic `name`."""

    def call(x: Any) -> Expr:
        return intrinsic(name, x)

    return named(call, name, doc)


def _pair(name: str, doc: str) -> Callable[[Any, Any], Expr]:
    """Make the function of two operands that calls the intrinsic `name`."""

    def call(x: Any, y: Any) -> Expr:
        return intrinsic(name, x, y)

    return named(call, name, doc)


def _operator(name: str, op: BinaryOp, doc: str) -> Callable[[Any, Any], Any]:
    """Make the function that builds a op b."""

    def build(a: Any, b: Any) -> Any:
        return binary(op, a, b)

    return named(build, name, doc)


def _comparison(name: str, op: CompareOp) -> Callable[[Any, Any], Expr]:
    """Make the function that builds the comparison a op b."""

    def build(a: Any, b: Any) -> Expr:
        return compare(op, a, b)

    return named(build, name, f"Return a {op} b.")


exp = _unary("exp", "e ** x.")
exp2 = _unary("exp2", "2 ** x.")
log = _unary("log", "Natural logarithm.")
log2 = _unary("log2", "Logarithm to base 2.")
log10 = _unary("log10", "Logarithm to base 10.")
log1p = _unary("log1p", "log(1 + x), exact also where x is tiny.")
sqrt = _unary("sqrt", "Square root.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
sin = _unary("sin", "Sine of x radians.")
cos = _unary("cos", "Cosine of x radians.")
tan = _unary("tan", "Tangent of x radians.")
asin = _unary("asin", "Arc sine, in radians.")
acos = _unary("acos", "Arc cosine, in radians.")
atan = _unary("atan", "Arc tangent, in radians.")
sinh = _unary("sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "Hyperbolic cosine.")
tanh = _unary("tanh", "Hyperbolic tangent.")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).")
erf = _unary("erf", "The error function.")
floor = _unary("floor", "The largest whole number <= x, as a float.")
ceil = _unary("ceil", "The smallest whole number >= x, as a float.")
trunc = _unary("trunc", "x without its fraction, as a float.")
round = _unary("round", "The nearest whole number, halves to even, as a float.")
abs = _unary("abs", "|x|, of any number type.")
clz = _unary("clz", "The number of zero bits before the first 1 of an integer, as int32.")
isnan = _unary("isnan", "Is x not a number? bool.")
isfinite = _unary("isfinite", "Is x neither infinite nor NaN? bool.")
isinf = _unary("isinf", "Is x infinite? bool.")
fmod = _pair("fmod", "The remainder of x / y, with the sign of x.")
hypot = _pair("hypot", "The square root of x ** 2 + y ** 2, which does not overflow on the way.")
copysign = _pair("copysign", "|x| with the sign of y.")


def atan2(y: Any, x: Any) -> Expr:
    """The angle of the point (x, y), in radians from -pi to pi."""
    return intrinsic("atan2", y, x)


def power(x: Any, y: Any) -> Any:
    """x ** y."""
    return binary("pow", x, y)


truncdiv = _operator("truncdiv", "truncdiv", "a / b on integers, rounding towards 0, as C does.")
truncmod = _operator("truncmod", "truncmod", "The remainder of truncdiv, with the sign of a.")
indexdiv = _operator("indexdiv", "floordiv", "a // b of indices, rounding down.")
indexmod = _operator("indexmod", "floormod", "a % b of indices, not negative.")
max = _operator("max", "max", "The larger of two values; te.max folds over reduce axes, too.")
min = _operator("min", "min", "The smaller of two values; te.min folds over reduce axes, too.")

EQ, NE = _comparison("EQ", "=="), _comparison("NE", "!=")
LT, LE = _comparison("LT", "<"), _comparison("LE", "<=")
GT, GE = _comparison("GT", ">"), _comparison("GE", ">=")


def likely(cond: Any) -> Expr:
    """Return `cond`; TVM's hint that it nearly always holds changes nothing here."""
    return all_of(cond)
