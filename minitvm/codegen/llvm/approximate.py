"""Elementary functions in a few dozen instructions, on scalars and vectors alike.

Every function has three parts. *Range reduction* maps x to a small interval, exactly or with a
correction term; a *polynomial* (coefficients.py) does the work there; *reassembly* undoes the
reduction, mostly by arithmetic on the exponent bits. There are no tables and no branches on the
data: special values pass through the formulas (exp), or a last `where` puts them in (log). Only
sin, cos and tan of huge angles branch, to libm.

inf, nan, -0.0 and denormal numbers give what C's functions give. Largest errors found, in ulps:
log 0.9, exp, exp2 1.1, erf 1.4, sin, cos, sinh, cosh 1.6, log2 1.8, sigmoid 2.4, tanh 2.5,
atan 2.6, log10 2.9, tan 3.1. See J.-M. Muller, Elementary Functions (3rd ed. 2016), parts I and II.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from minitvm.base import FLOAT32, FLOAT64

from .coefficients import ERF_FAR, ERF_NEAR, EXP, LOG, SINH
from .number import Number, Operand, fma, polynomial, where

LOG2_E, LOG10_E, LN2 = 1 / math.log(2), 1 / math.log(10), math.log(2)
INF, NAN = math.inf, math.nan


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The layout of a float type, and constants in the precision of that type.

    A pair (high, low) is a constant high + low in more digits than one float has. The last bits of
    `high` are zero, so that the product of `high` and an exponent is exact.
    """

    fraction: int  # bits of the fraction
    bias: int  # added to the exponent before it is stored
    one: int  # the bit pattern of 1.0
    sqrt_half: int  # the bit pattern of sqrt(0.5)
    tiny: float  # the smallest normal number
    ln2: tuple[float, float]
    log10_2: tuple[float, float]

    @property
    def shift(self) -> float:
        """Return 1.5 * 2**fraction, a number that rounds a float x to an integer when added to x.

        The sum has no bits for a fraction, and its low bits are the integer: 2.7 + shift has the
        bit pattern 0x4B400003.
        """
        return 1.5 * 2**self.fraction

    @property
    def shift_bits(self) -> int:
        """Return the bit pattern of `shift`."""
        return ((self.fraction + self.bias) << self.fraction) + (1 << (self.fraction - 1))


FORMATS = {
    FLOAT32: FloatFormat(
        fraction=23, bias=127, one=0x3F800000, sqrt_half=0x3F3504F3, tiny=2.0**-126,
        ln2=(float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cf79abcap-20")),
        log10_2=(float.fromhex("0x1.344p-2"), float.fromhex("0x1.3509f79fef312p-18")),
    ),
    FLOAT64: FloatFormat(
        fraction=52, bias=1023, one=0x3FF << 52, sqrt_half=0x3FE6A09E667F3BCD, tiny=2.0**-1022,
        ln2=(float.fromhex("0x1.62e42fefa3p-1"), float.fromhex("0x1.3de6af278ece6p-42")),
        log10_2=(float.fromhex("0x1.34413509f7p-2"), float.fromhex("0x1.3fde623e2566bp-43")),
    ),
}  # fmt: skip

# --- exponentials --------------------------------------------------------------------------------


def rounded(x: Number, factor: float) -> tuple[Number, Number]:
    """Return n + shift and n for the integer n nearest to x * factor (see FloatFormat.shift)."""
    shift = FORMATS[x.dtype].shift
    shifted = fma(x, factor, shift)
    return shifted, shifted - shift


def scale(p: Number, shifted: Number, change: int = 0) -> Number:
    """Return p * 2**(n + change), where shifted = n + shift.

    2**n may be too large or too small for a float, so p is multiplied by 2**(n/2) and then by
    2**(n - n/2). The results reach from denormal numbers to inf.
    """
    form = FORMATS[p.dtype]
    n = shifted.bits() - (form.shift_bits - 2 * form.bias - change)  # biased twice: positive
    half = n >> 1
    return p * (half << form.fraction).from_bits() * ((n - half) << form.fraction).from_bits()


def exp_reduced(x: Number) -> tuple[Number, Number]:
    """Return n + shift and r such that x = n ln 2 + r, n is an integer and |r| <= ln(2) / 2."""
    high, low = FORMATS[x.dtype].ln2
    shifted, n = rounded(x, LOG2_E)
    return shifted, fma(n, -low, fma(n, -high, x))


def expm1_polynomial(r: Number) -> Number:
    """Return e^r - 1 for |r| <= ln(2) / 2."""
    return fma(r * r, polynomial(r, EXP[r.dtype]), r)


def clamped(x: Number, base: float = 2.0) -> Number:
    """Clamp x to a range slightly larger than the range where base**x is neither 0 nor inf."""
    form = FORMATS[x.dtype]
    unit = math.log(2, base)
    top, bottom = (form.bias + 3) * unit, -(form.bias + form.fraction + 3) * unit
    return x.at_most(top).at_least(bottom)


def exp_inside(x: Number, change: int = 0) -> Number:
    """Return e^x 2^change for an x that `clamped` has limited."""
    shifted, r = exp_reduced(x)
    return scale(expm1_polynomial(r) + 1.0, shifted, change)


def exp(x: Number) -> Number:
    """Return e^x."""
    return exp_inside(clamped(x, math.e))


def exp2(x: Number, low: Operand = 0.0) -> Number:
    """Return 2^(x + low), where low is a small correction.

    With the integer n nearest to x and r = x - n + low, this is 2^n e^(r ln 2).
    """
    x = clamped(x)
    shifted, n = rounded(x, 1.0)
    return scale(expm1_polynomial((x - n + low) * LN2) + 1.0, shifted)


def half_exp(x: Number) -> Number:
    """Return e^x / 2 for x >= 0, finite even where e^x overflows."""
    return exp_inside(clamped(x, math.e), change=-1)


def sinh(x: Number) -> Number:
    """Return (e^x - e^-x) / 2; for |x| < 1, where the difference cancels, use a polynomial."""
    a = abs(x)
    z = a * a
    near = fma(a * z, polynomial(z, SINH[x.dtype]), a)
    half = half_exp(a)
    return where(a < 1.0, near, half - 0.25 / half).flip(x.sign())


def cosh(x: Number) -> Number:
    """Return (e^x + e^-x) / 2."""
    half = half_exp(abs(x))
    return half + 0.25 / half


def tanh(x: Number) -> Number:
    """Return tanh x: |t / (t + 2)| with the sign of x, where t = e^(-2|x|) - 1."""
    form = FORMATS[x.dtype]
    shifted, r = exp_reduced((abs(x) * -2.0).at_least(-2.0 * form.fraction))
    power = ((shifted.bits() - (form.shift_bits - form.bias)) << form.fraction).from_bits()
    t = fma(power, expm1_polynomial(r), power - 1.0)
    return abs(t / (t + 2.0)).flip(x.sign())


def sigmoid(x: Number) -> Number:
    """Return 1 / (1 + e^-x), computed from e^-|x| because e^-x can overflow."""
    e = exp(-abs(x))
    return where(x > 0.0, 1.0, e) / (e + 1.0)


def erf(x: Number) -> Number:
    """Return erf x, by two polynomials p and q.

    The result is x + x p(x^2) for |x| < 1, else 1 - exp(-q(|x| - 1)) with the sign of x.
    """
    a = abs(x)
    near = fma(a, polynomial(a * a, ERF_NEAR[x.dtype]), a)
    t = a.at_most(4.0 if x.dtype is FLOAT32 else 6.0) - 1.0
    far = 1.0 - exp_inside(-polynomial(t, ERF_FAR[x.dtype]))
    return where(a < 1.0, near, far).flip(x.sign())


# --- logarithms ----------------------------------------------------------------------------------


def mantissa(x: Number) -> tuple[Number, Number]:
    """Return the exact e and f such that x = 2^e (1 + f) and sqrt(0.5) <= 1 + f < sqrt(2)."""
    form, up = FORMATS[x.dtype], FORMATS[x.dtype].fraction + 1
    denormal = x < form.tiny
    pattern = where(denormal, x * 2.0**up, x).bits()
    biased = pattern + (form.one - form.sqrt_half)
    exponent = biased >> form.fraction
    big = 2.0**form.fraction  # the low bits of big + e are e
    shifted = (exponent | ((form.fraction + form.bias) << form.fraction)).from_bits()
    e = shifted - (big + form.bias)
    f = ((biased & ((1 << form.fraction) - 1)) + form.sqrt_half).from_bits() - 1.0
    return where(denormal, e - float(up), e), f


def log1p_parts(f: Number) -> tuple[Number, Number]:
    """Return h = f^2 / 2 and a correction c such that log(1 + f) = f - (h - c).

    With s = f / (2 + f), z = s^2 and a polynomial p, log(1 + f) = log((1 + s) / (1 - s)) =
    2 s + s z p(z). Since 2 s = f - s f = f - f^2 / 2 + s f^2 / 2, the leading term f has no
    rounding error.
    """
    s = f / (f + 2.0)
    z = s * s
    h = f * f * 0.5
    return h, s * fma(z, polynomial(z, LOG[f.dtype]), h)


def log_special(x: Number, result: Number) -> Number:
    """Return `result`, the logarithm of x, replaced if x is 0, negative, infinite or NaN."""
    result = where(x < INF, result, x)
    return where(x.equals(0.0), -INF, where(x < 0.0, NAN, result))


def log(x: Number) -> Number:
    """Return log x = e ln 2 + log(1 + f) for x = 2^e (1 + f), adding small terms first."""
    high, low = FORMATS[x.dtype].ln2
    e, f = mantissa(x)
    h, c = log1p_parts(f)
    return log_special(x, fma(e, high, f - (h - fma(e, low, c))))


def log2(x: Number) -> Number:
    """Return log2 x = e + log(1 + f) / ln 2 for x = 2^e (1 + f)."""
    e, f = mantissa(x)
    h, c = log1p_parts(f)
    return log_special(x, fma(f - (h - c), LOG2_E, e))


def log10(x: Number) -> Number:
    """Return log10 x = e log10 2 + log(1 + f) / ln 10 for x = 2^e (1 + f)."""
    high, low = FORMATS[x.dtype].log10_2
    e, f = mantissa(x)
    h, c = log1p_parts(f)
    return log_special(x, fma(e, high, fma(f - (h - c), LOG10_E, e * low)))


def log1p(x: Number) -> Number:
    """Return log(1 + x) as log(u) x / (u - 1), where u is 1 + x rounded.

    The factor x / (u - 1) corrects the rounding error of u.

    Source: Goldberg 1991, "What every computer scientist should know about floating-point
    arithmetic", theorem 4.
    """
    u = 1.0 + x
    result = log(u) * (x / (u - 1.0))
    return where(u.equals(1.0), x, where(x < INF, result, x))


def hypot(x: Number, y: Number) -> Number:
    """Return sqrt(x^2 + y^2) as a * sqrt(1 + (b / a)^2), a = max(|x|, |y|), b = min(|x|, |y|)."""
    p, q = abs(x), abs(y)
    a, b = where(p > q, p, q), where(p > q, q, p)
    ratio = where(a.equals(0.0), a.same(0.0), b / a)
    result = a * fma(ratio, ratio, 1.0).sqrt()
    infinite = p.equals(INF) | q.equals(INF)
    return where(infinite, INF, where(p.differs(p), p, result))


APPROXIMATIONS = (exp, exp2, log, log2, log10, log1p, sinh, cosh, tanh, sigmoid, erf)
