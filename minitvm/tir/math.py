"""Elementwise functions for formulas. They map a float type to itself unless stated otherwise."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from typing import Any

from minitvm.base import ExprError, named

from .nodes import BinaryOp, Call, CompareOp, Expr
from .numeric import DOT4, INTRINSICS, Intrinsic
from .value import all_of, binary, compare, unify, value


def intrinsic(name: str, *args: Any) -> Call:
    """Return the call `name(*args)`, e.g. intrinsic("exp", A[i])."""
    known = INTRINSICS.get(name)
    if known is None:
        raise ExprError(f"{name}(...)", "no such intrinsic", f"one of {', '.join(INTRINSICS)}")
    if len(args) != known.args:
        raise ExprError(f"{name}(...)", f"takes {known.args} arguments, {len(args)} given")
    if known.takes:
        return _typed(name, known, args)
    values: tuple[Expr, ...] = unify(*args) if known.args == 2 else (value(args[0]),)
    kind = values[0].dtype
    if kind.kind not in known.on:
        what, to = ("floats", "float32") if "float" in known.on else ("integers", "int32")
        raise ExprError(f"{name} of {kind}", f"it takes {what}", f"x.astype('{to}') first")
    return Call(name, values, known.gives or kind)


def _typed(name: str, known: Intrinsic, args: tuple[Any, ...]) -> Call:
    """Return a call of an intrinsic with fixed operand types; convert literals to these types."""
    values = tuple(value(a, t) for a, t in zip(args, known.takes, strict=True))
    for n, (v, t) in enumerate(zip(values, known.takes, strict=True)):
        if v.dtype is not t:
            fix = f"x.astype({str(t)!r}) if its values fit"
            raise ExprError(f"{name}: operand {n} is {v.dtype}", f"it must be {t}", fix)
    return Call(name, values, known.takes[0])


def dot4(acc: Any, a: Sequence[Any], b: Sequence[Any]) -> Call:
    """Return acc + a[0]*b[0] + a[1]*b[1] + a[2]*b[2] + a[3]*b[3], an int32 that wraps.

    `acc` is an int32, `a` a list of four uint8 or int8, `b` a list of four int8; both may be lists
    of uint8. In a vectorized loop it is compiled to one instruction if the CPU has it and the four
    numbers of each operand are adjacent in memory: vpdpbusd for uint8 and int8 (Intel,
    "Architecture Instruction Set Extensions", 2018, AVX512_VNNI); on ARM also sdot and udot for
    equal types ("A-profile Architecture Reference Manual", FEAT_DotProd and FEAT_I8MM).
    """
    for numbers in (a, b):
        if not isinstance(numbers, list | tuple):
            what = f"dot4(acc, a, b): {reprlib.repr(numbers)}"
            raise ExprError(what, "not a list of four numbers", "[x[k] for k in range(4)]")
    if len(a) != 4 or len(b) != 4:
        raise ExprError("dot4(acc, a, b)", f"a has {len(a)} numbers and b {len(b)}, not four each")
    types = [{x.dtype for x in four if isinstance(x, Expr)} for four in (a, b)]
    name = next((n for n, kinds in DOT4.items() if types == [{kind} for kind in kinds]), "dot4")
    return intrinsic(name, acc, *a, *b)


def _unary(name: str, doc: str) -> Callable[[Any], Expr]:
    """Return a function of one operand that calls the intrinsic `name`; `doc` is its docstring."""

    def call(x: Any) -> Expr:
        return intrinsic(name, x)

    return named(call, name, doc)


def _pair(name: str, doc: str) -> Callable[[Any, Any], Expr]:
    """Return a function of two operands that calls the intrinsic `name`; `doc` is its docstring."""

    def call(x: Any, y: Any) -> Expr:
        return intrinsic(name, x, y)

    return named(call, name, doc)


def _operator(name: str, op: BinaryOp, doc: str) -> Callable[[Any, Any], Any]:
    """Return a function called `name` that builds the expression a op b, with docstring `doc`."""

    def build(a: Any, b: Any) -> Any:
        return binary(op, a, b)

    return named(build, name, doc)


def _comparison(name: str, op: CompareOp) -> Callable[[Any, Any], Expr]:
    """Return a function called `name` that builds the comparison a op b."""

    def build(a: Any, b: Any) -> Expr:
        return compare(op, a, b)

    return named(build, name, f"Return a {op} b.")


exp = _unary("exp", "Return e ** x.")
exp2 = _unary("exp2", "Return 2 ** x.")
log = _unary("log", "Return the natural logarithm of x.")
log2 = _unary("log2", "Return the logarithm of x to base 2.")
log10 = _unary("log10", "Return the logarithm of x to base 10.")
log1p = _unary("log1p", "Return log(1 + x), accurately even if x is close to 0.")
sqrt = _unary("sqrt", "Return the square root of x.")
rsqrt = _unary("rsqrt", "Return 1 / sqrt(x).")
sin = _unary("sin", "Return the sine of x radians.")
cos = _unary("cos", "Return the cosine of x radians.")
tan = _unary("tan", "Return the tangent of x radians.")
asin = _unary("asin", "Return the arc sine of x in radians.")
acos = _unary("acos", "Return the arc cosine of x in radians.")
atan = _unary("atan", "Return the arc tangent of x in radians.")
sinh = _unary("sinh", "Return the hyperbolic sine of x.")
cosh = _unary("cosh", "Return the hyperbolic cosine of x.")
tanh = _unary("tanh", "Return the hyperbolic tangent of x.")
sigmoid = _unary("sigmoid", "Return 1 / (1 + exp(-x)).")
erf = _unary("erf", "Return the error function of x.")
floor = _unary("floor", "Return the largest integer <= x, as a float.")
ceil = _unary("ceil", "Return the smallest integer >= x, as a float.")
trunc = _unary("trunc", "Return x rounded towards zero, as a float.")
round = _unary("round", "Return x rounded to the nearest integer, halves to even, as a float.")
abs = _unary("abs", "Return |x|, for any integer or float type.")
clz = _unary("clz", "Return the number of leading zero bits of an integer, as int32.")
isnan = _unary("isnan", "Return whether x is NaN, as bool.")
isfinite = _unary("isfinite", "Return whether x is neither infinite nor NaN, as bool.")
isinf = _unary("isinf", "Return whether x is infinite, as bool.")
fmod = _pair("fmod", "Return the remainder of x / y, with the sign of x.")
hypot = _pair("hypot", "Return sqrt(x**2 + y**2), without overflow of x**2 or y**2.")
copysign = _pair("copysign", "Return |x| with the sign of y.")


def atan2(y: Any, x: Any) -> Expr:
    """Return the angle of the point (x, y), in radians from -pi to pi."""
    return intrinsic("atan2", y, x)


def power(x: Any, y: Any) -> Any:
    """Return x ** y."""
    return binary("pow", x, y)


truncdiv = _operator("truncdiv", "truncdiv", "Return a / b on integers, rounded towards 0 as in C.")
truncmod = _operator(
    "truncmod", "truncmod", "Return the remainder of truncdiv, with the sign of a."
)
indexdiv = _operator("indexdiv", "floordiv", "Return a // b of indices, rounded down.")
indexmod = _operator("indexmod", "floormod", "Return a % b of indices, in 0 .. b-1.")
max = _operator("max", "max", "Return the larger of two values; te.max also reduces over axes.")
min = _operator("min", "min", "Return the smaller of two values; te.min also reduces over axes.")

EQ, NE = _comparison("EQ", "=="), _comparison("NE", "!=")
LT, LE = _comparison("LT", "<"), _comparison("LE", "<=")
GT, GE = _comparison("GT", ">"), _comparison("GE", ">=")


def likely(cond: Any) -> Expr:
    """Return `cond`. In TVM this hints that `cond` is nearly always true; here it has no effect."""
    return all_of(cond)
