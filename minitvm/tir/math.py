"""Elementwise functions of formulas. Floats in, the same float type out, unless said otherwise."""

from __future__ import annotations

from typing import Any

from .intrinsics import intrinsic
from .nodes import Expr
from .value import all_of, binary, compare


def exp(x: Any) -> Expr:
    """e ** x."""
    return intrinsic("exp", x)


def exp2(x: Any) -> Expr:
    """2 ** x."""
    return intrinsic("exp2", x)


def log(x: Any) -> Expr:
    """Natural logarithm."""
    return intrinsic("log", x)


def log2(x: Any) -> Expr:
    """Logarithm to base 2."""
    return intrinsic("log2", x)


def log10(x: Any) -> Expr:
    """Logarithm to base 10."""
    return intrinsic("log10", x)


def sqrt(x: Any) -> Expr:
    """Square root."""
    return intrinsic("sqrt", x)


def rsqrt(x: Any) -> Expr:
    """1 / sqrt(x)."""
    return intrinsic("rsqrt", x)


def sin(x: Any) -> Expr:
    """Sine of x radians."""
    return intrinsic("sin", x)


def cos(x: Any) -> Expr:
    """Cosine of x radians."""
    return intrinsic("cos", x)


def tan(x: Any) -> Expr:
    """Tangent of x radians."""
    return intrinsic("tan", x)


def atan(x: Any) -> Expr:
    """Arc tangent, in radians."""
    return intrinsic("atan", x)


def asin(x: Any) -> Expr:
    """Arc sine, in radians."""
    return intrinsic("asin", x)


def acos(x: Any) -> Expr:
    """Arc cosine, in radians."""
    return intrinsic("acos", x)


def atan2(y: Any, x: Any) -> Expr:
    """The angle of the point (x, y), in radians from -pi to pi."""
    return intrinsic("atan2", y, x)


def log1p(x: Any) -> Expr:
    """log(1 + x), exact also where x is tiny."""
    return intrinsic("log1p", x)


def hypot(x: Any, y: Any) -> Expr:
    """The square root of x ** 2 + y ** 2, which does not overflow on the way."""
    return intrinsic("hypot", x, y)


def copysign(x: Any, y: Any) -> Expr:
    """|x| with the sign of y."""
    return intrinsic("copysign", x, y)


def sinh(x: Any) -> Expr:
    """Hyperbolic sine."""
    return intrinsic("sinh", x)


def cosh(x: Any) -> Expr:
    """Hyperbolic cosine."""
    return intrinsic("cosh", x)


def tanh(x: Any) -> Expr:
    """Hyperbolic tangent."""
    return intrinsic("tanh", x)


def sigmoid(x: Any) -> Expr:
    """1 / (1 + exp(-x))."""
    return intrinsic("sigmoid", x)


def erf(x: Any) -> Expr:
    """The error function."""
    return intrinsic("erf", x)


def floor(x: Any) -> Expr:
    """The largest whole number <= x, as a float."""
    return intrinsic("floor", x)


def ceil(x: Any) -> Expr:
    """The smallest whole number >= x, as a float."""
    return intrinsic("ceil", x)


def trunc(x: Any) -> Expr:
    """x without its fraction, as a float."""
    return intrinsic("trunc", x)


def round(x: Any) -> Expr:
    """The nearest whole number, halves to even, as a float."""
    return intrinsic("round", x)


def abs(x: Any) -> Expr:
    """|x|, of any number type."""
    return intrinsic("abs", x)


def isnan(x: Any) -> Expr:
    """Is x not a number? bool."""
    return intrinsic("isnan", x)


def isfinite(x: Any) -> Expr:
    """Is x neither infinite nor NaN? bool."""
    return intrinsic("isfinite", x)


def isinf(x: Any) -> Expr:
    """Is x infinite? bool."""
    return intrinsic("isinf", x)


def fmod(x: Any, y: Any) -> Expr:
    """The remainder of x / y, with the sign of x."""
    return intrinsic("fmod", x, y)


def power(x: Any, y: Any) -> Any:
    """x ** y."""
    return binary("pow", x, y)


def truncdiv(a: Any, b: Any) -> Any:
    """a / b on integers, rounding towards 0, as C does."""
    return binary("truncdiv", a, b)


def truncmod(a: Any, b: Any) -> Any:
    """The remainder of truncdiv, with the sign of a."""
    return binary("truncmod", a, b)


def indexdiv(a: Any, b: Any) -> Any:
    """a // b of indices, rounding down."""
    return binary("floordiv", a, b)


def indexmod(a: Any, b: Any) -> Any:
    """a % b of indices, not negative."""
    return binary("floormod", a, b)


def EQ(a: Any, b: Any) -> Expr:
    """Return a == b."""
    return compare("==", a, b)


def NE(a: Any, b: Any) -> Expr:
    """Return a != b."""
    return compare("!=", a, b)


def LT(a: Any, b: Any) -> Expr:
    """Return a < b."""
    return compare("<", a, b)


def LE(a: Any, b: Any) -> Expr:
    """Return a <= b."""
    return compare("<=", a, b)


def GT(a: Any, b: Any) -> Expr:
    """Return a > b."""
    return compare(">", a, b)


def GE(a: Any, b: Any) -> Expr:
    """Return a >= b."""
    return compare(">=", a, b)


def likely(cond: Any) -> Expr:
    """Return `cond`; TVM's hint that it nearly always holds changes nothing here."""
    return all_of(cond)


def max(a: Any, b: Any) -> Any:
    """The larger of two values; te.max folds over reduce axes, too."""
    return binary("max", a, b)


def min(a: Any, b: Any) -> Any:
    """The smaller of two values; te.min folds over reduce axes, too."""
    return binary("min", a, b)
