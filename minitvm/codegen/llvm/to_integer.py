"""Conversions of floats to integers, which saturate; NaN becomes 0.

LLVM has an intrinsic for this, llvm.fptosi.sat, but converts the lanes of a vector one by one. Here
vectors stay vectors: floats are limited to the range of the integers and then converted.
"""

from __future__ import annotations

import math

from minitvm import tir
from minitvm.base import INT32, DType

from .code import Value, suffix_of
from .number import Number, where

EXACT_BITS = {32: 24, 64: 53}  # all integers of so many bits are floats of this size
WHOLE = ("round", "floor", "ceil", "trunc")
Limits = tuple[float, float]
ANY: Limits = (-math.inf, math.inf)


def to_integer(x: Number, to: DType, nearest: bool = False, known: Limits = ANY) -> Value:
    """Convert the floats `x` to `to`: truncate, or round to the nearest integer, half to even.

    known: limits of x, apart from NaN, such as those `limits` returns.
    """
    limited, fits = limit(x, to, known), _is_float(to.high, x.dtype)
    wide = to if to.bits >= 32 else INT32
    converted = _converted(limited, wide, nearest)
    if not fits and known[1] > to.high:
        converted = where(limited < float(to.high), converted, converted.same(to.high))
    if to.kind == "int":  # for others, limiting NaN to 0 has given 0
        converted = where(x.equals(x), converted, converted.same(0))
    return converted.value if wide is to else converted.converted("trunc", to).value


def rounded_plus(x: Number, n: int, to: DType) -> Value:
    """Convert round(x) + n to `to`, a type of at most 16 bits; |n| must be below 2**16.

    The floats x are limited so that n can be added to integers: float32 would need two more steps.
    """
    low, high = float(to.low - n), float(to.high - n)
    converted = _converted(_between(x, low, high), INT32, nearest=True) + n
    if to.kind == "int":
        converted = where(x.equals(x), converted, converted.same(0))
    return converted.converted("trunc", to).value


def limit(x: Number, to: DType, known: Limits = ANY) -> Number:
    """Limit the floats `x` to the range of `to`, as far as they can hold its ends.

    NaN becomes the lower end.
    """
    is_below, is_above = known[0] < to.low or to.kind == "uint", known[1] > to.high
    low = float(to.low) if is_below else None
    high = float(to.high) if is_above and _is_float(to.high, x.dtype) else None
    return _between(x, low, high)


def _between(x: Number, low: float | None, high: float | None) -> Number:
    """Limit `x` to low .. high, where these are given; NaN becomes `low`."""
    if low is not None:
        x = where(x > low, x, low)  # in this order it is one instruction, like the next line
    return x if high is None else where(x < high, x, high)


def limits(e: tir.Expr) -> Limits:
    """Return limits that follow from the formula of `e`; its value may still be NaN."""
    match e:
        case tir.Const(number):
            return float(number), float(number)
        case tir.Binary("min" | "max" as op, a, b):
            choose = min if op == "min" else max
            low, high = (choose(ends) for ends in zip(limits(a), limits(b), strict=True))
            return low, high
        case _:
            return ANY


def is_whole(e: tir.Expr) -> bool:
    """Return whether the formula of the float `e` shows that it has no fraction."""
    match e:
        case tir.Const(number):
            return float(number).is_integer()
        case tir.Binary("add" | "sub" | "mul" | "min" | "max", a, b):
            return is_whole(a) and is_whole(b)
        case tir.Call(name):
            return name in WHOLE
        case _:
            return False


def _is_float(n: float, dtype: DType) -> bool:
    """Return whether `n`, the largest integer of a type, is a float of type `dtype`."""
    return n < 1 << EXACT_BITS[dtype.bits]


def _converted(x: Number, to: DType, nearest: bool) -> Number:
    """Convert `x`, which is in the range of `to`; elsewhere the result is unspecified."""
    if not nearest:
        return x.converted("fptosi" if to.kind == "int" else "fptoui", to)
    if to.kind == "uint" or to.bits > 32:
        return _converted(x.intrinsic("roundeven"), to, nearest=False)
    lanes = x.value.lanes
    name = f"llvm.lrint.{suffix_of(to, lanes)}.{suffix_of(x.dtype, lanes)}"
    return Number(x.code, x.code.call(name, Value("", to, lanes), x.value))
