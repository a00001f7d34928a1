"""Random expressions, with a note of how exactly two programs must agree on their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from minitvm import tir
from minitvm.base import BOOL, DTYPES, DType
from minitvm.testing import pick

Rng: TypeAlias = np.random.Generator
Bits: TypeAlias = tuple[int, int] | None
# numba has no float16
CONVERTED = [t for t in DTYPES.values() if t != "float16"]
MANTISSA = {"float32": 24, "float64": 53}

INTEGER_OPS = (
    "add", "sub", "mul", "min", "max", "floordiv", "floormod", "truncdiv", "truncmod",
    "bitand", "bitor", "bitxor", "shl", "shr",
)  # fmt: skip
FLOAT_OPS = ("add", "add", "sub", "mul", "mul", "min", "max", "div")
ROUNDINGS = ("floor", "ceil", "trunc", "round")
SMOOTH = ("tanh", "sigmoid", "erf", "sin", "cos", "atan")  # bounded, and defined everywhere


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A random expression and the range of its values.

    bits    for floats: values are multiples of 2**-bits[1] below 2**bits[0], so that sums and
            products of few values are exact in any order; None if values are rounded. Integers are
            always exact.
    """

    e: tir.Expr
    bits: Bits = None

    @property
    def dtype(self) -> DType:
        return self.e.dtype

    @property
    def exact(self) -> bool:
        """Whether all correct programs compute the same value to the last bit."""
        return not self.dtype.is_float or self.bits is not None


def chance(rng: Rng, p: float) -> bool:
    """Return True with probability p."""
    return bool(rng.random() < p)


def kept(bits: Bits, dtype: DType) -> Bits:
    """Return `bits` if the float type `dtype` represents such values exactly, otherwise None."""
    return bits if bits is not None and sum(bits) <= MANTISSA[dtype] else None


def converted(v: Drawn, to: DType) -> Drawn:
    """Convert `v` to the type `to`, but return a rounded float unchanged unless `to` is a float."""
    if v.dtype is to:
        return v
    if not v.exact and not to.is_float:
        return v
    width = {"bool": 1, "uint8": 8}.get(v.dtype, v.dtype.bits - 1)
    bits = v.bits if v.dtype.is_float else (width, 0)
    return Drawn(tir.cast_to(v.e, to), kept(bits, to) if to.is_float else None)


def number(v: Drawn) -> Drawn:
    """Return `v` as a number: a condition becomes 0 or 1."""
    return converted(v, DTYPES["int32"]) if v.dtype is BOOL else v


def literal(rng: Rng, dtype: DType) -> Drawn:
    """Draw a small constant."""
    if dtype is BOOL:
        return Drawn(tir.const(chance(rng, 0.5), "bool"))
    if dtype.is_float:
        return Drawn(tir.const(float(rng.integers(-8, 9)) / 4, dtype), (2, 2))
    return Drawn(tir.const(int(rng.integers(0 if dtype.low == 0 else -5, 6)), dtype))


def together(rng: Rng, a: Drawn, b: Drawn) -> tuple[Drawn, Drawn]:
    """Convert `a` and `b` to the type of one of them; conditions become int32 first."""
    a, b = number(a), number(b)
    to = pick(rng, (a.dtype, b.dtype))
    if not (a.exact and b.exact) and not to.is_float:
        to = next(v.dtype for v in (a, b) if v.dtype.is_float)
    return converted(a, to), converted(b, to)


def combined(rng: Rng, a: Drawn, b: Drawn) -> Drawn:
    """Draw a binary operation on `a` and `b`."""
    a, b = together(rng, a, b)
    if a.dtype.is_float:
        return _float_op(pick(rng, FLOAT_OPS), a, b)
    op = pick(rng, INTEGER_OPS)
    if op in ("shl", "shr") and chance(rng, 0.8):
        b = Drawn(cast("tir.Expr", tir.binary("bitand", b.e, 7)))
    return Drawn(cast("tir.Expr", tir.binary(op, a.e, b.e)))


def _float_op(op: tir.BinaryOp, a: Drawn, b: Drawn) -> Drawn:
    if op == "div":  # never by something near 0
        return Drawn(cast("tir.Expr", tir.binary("div", a.e, tir.intrinsic("abs", b.e) + 1.0)))
    e = cast("tir.Expr", tir.binary(op, a.e, b.e))
    if a.bits is None or b.bits is None:
        return Drawn(e)
    (i, f), (j, g) = a.bits, b.bits
    wide = (i + j, f + g) if op == "mul" else (max(i, j) + (op in ("add", "sub")), max(f, g))
    return Drawn(e, kept(wide, a.dtype))


def changed(rng: Rng, v: Drawn) -> Drawn:
    """Draw a function of `v`: negation, absolute value, conversion, rounding, tanh, sqrt, ..."""
    if chance(rng, 0.35):
        return converted(v, pick(rng, CONVERTED))
    v = number(v)
    if chance(rng, 0.4):
        return Drawn(cast("tir.Expr", -v.e), v.bits)
    if not v.dtype.is_float or chance(rng, 0.3):
        return Drawn(tir.intrinsic("abs", v.e), v.bits)
    if v.bits is not None and chance(rng, 0.5):
        return Drawn(tir.intrinsic(pick(rng, ROUNDINGS), v.e), kept((v.bits[0] + 1, 0), v.dtype))
    return Drawn(pick(rng, _CURVES)(rng, v.e))


def _smooth(rng: Rng, e: tir.Expr) -> tir.Expr:
    return tir.intrinsic(pick(rng, SMOOTH), e)


def _root(rng: Rng, e: tir.Expr) -> tir.Expr:
    return tir.intrinsic("sqrt", tir.intrinsic("abs", e) + 0.5)


def _decay(rng: Rng, e: tir.Expr) -> tir.Expr:
    return tir.intrinsic("exp", cast("tir.Expr", -tir.intrinsic("abs", e)))


_CURVES: tuple[Callable[[Rng, tir.Expr], tir.Expr], ...] = (_smooth, _root, _decay)


def condition(rng: Rng, a: Drawn, b: Drawn) -> Drawn | None:
    """Draw a comparison; None for rounded values, for which correct programs may disagree."""
    if not (a.exact and b.exact):
        return None
    a, b = together(rng, a, b)
    return Drawn(tir.compare(pick(rng, ("<", "<=", ">", ">=", "==", "!=")), a.e, b.e))


def logical(rng: Rng, a: Drawn, b: Drawn) -> Drawn:
    """Join two conditions by `and` or `or`, sometimes negated."""
    joined = pick(rng, (tir.all_of, tir.any_of))(a.e, b.e)
    return Drawn(tir.negate(joined) if chance(rng, 0.3) else joined)


def chosen(rng: Rng, cond: Drawn, a: Drawn, b: Drawn) -> Drawn:
    """Return `a if cond else b`, either as if_then_else or as select."""
    if not (a.dtype is BOOL and b.dtype is BOOL):
        a, b = together(rng, a, b)
    e = pick(rng, (tir.if_then_else, tir.select))(cond.e, a.e, b.e)
    if a.bits is None or b.bits is None:
        return Drawn(e)
    wide = max(a.bits[0], b.bits[0]), max(a.bits[1], b.bits[1])
    return Drawn(e, kept(wide, a.dtype))
