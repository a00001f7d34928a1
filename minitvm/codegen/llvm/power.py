"""Powers of floats: x ** y = 2^(y log2 x), where log2 x needs more digits than a float has.

The product y log2 x is as large as 1024, and its absolute error is the relative error of the
result: ten bits are lost. So the logarithm is computed as a sum of two floats, high + low, with
products whose rounding errors are known (T. J. Dekker, Numer. Math. 18, 1971). Largest error found:
1.4 ulp.
"""

from __future__ import annotations

from minitvm.base import FLOAT32, FLOAT64

from .approximate import INF, NAN, exp2, log_special, mantissa
from .coefficients import LOG_TAIL
from .number import Number, exact_fma, fma, polynomial, product, sum_of, where

# 2 / ln 2 and a third of it, each as a sum of two floats
SCALE = {
    FLOAT32: (2.885390043258667, 3.851925982253235e-08),
    FLOAT64: (2.8853900817779268, float.fromhex("0x1.777d0ffda0d24p-55")),
}
THIRD = {
    FLOAT32: (0.9617967009544373, -7.028461650952758e-09),
    FLOAT64: (0.9617966939259756, float.fromhex("0x1.d27f05548af0cp-55")),
}


def power(x: Number, y: Number) -> Number:
    """Return x ** y for floats, like C's pow; for a few literals y, by products."""
    simple = _multiplied(x, y)
    return _special(x, y, _size(abs(x), y)) if simple is None else simple


def _size(a: Number, y: Number) -> Number:
    """Return a ** y for a >= 0."""
    high, low = log2_in_two(a)
    p, rest = product(y, high)
    rest = fma(y, low, rest)
    rest = where(rest < 1.0, rest, 1.0)  # p may be infinite, and rest then nan
    return exp2(p, rest.at_least(-1.0))


def log2_in_two(a: Number) -> tuple[Number, Number]:
    """Return log2 a as a sum of two floats, with ten more correct bits than one float has.

    log2(1 + f) = s (2 + 2 z / 3 + 2 z^2 p(z)) / ln 2, where s = f / (2 + f), z = s^2 and p is a
    polynomial.
    """
    scale, scale_low = SCALE[a.dtype]
    third, third_low = THIRD[a.dtype]
    e, f = mantissa(a)
    d, d_low = sum_of(f.same(2.0), f)
    inverse = 1.0 / d
    s = f * inverse
    s_low = (exact_fma(-s, d, f) - s * d_low) * inverse
    z, z_low = product(s, s)
    z_low = fma(s * 2.0, s_low, z_low)
    t, t_low = product(z, z.same(third))
    tail = z * z * (polynomial(z, LOG_TAIL[a.dtype]) * scale)
    t_low = fma(z_low, third, fma(z, third_low, t_low + scale_low)) + tail
    q, q_low = sum_of(t.same(scale), t)
    q_low = q_low + t_low
    h, h_low = product(s, q)
    h_low = fma(s, q_low, fma(s_low, q, h_low))
    high, low = sum_of(e, h)
    high, low = sum_of(high, low + h_low)  # h_low has grown by `tail`: small again
    return log_special(a, high), low


def _special(x: Number, y: Number, size: Number) -> Number:
    """Return x ** y, given `size` = |x| ** y, by C's rules for signs, 0, 1, infinity and NaN."""
    half = y * 0.5
    odd = y.intrinsic("floor").equals(y) & half.intrinsic("floor").differs(half)
    size = where(y.equals(0.0) | abs(x).equals(1.0), 1.0, size)
    infinity = size.flip(where(odd, x.sign(), 0))
    result = where((x < 0.0) & y.intrinsic("floor").differs(y), NAN, infinity)
    return where(x.equals(-INF), infinity, result)


def _multiplied(x: Number, y: Number) -> Number | None:
    """Return x ** y for a literal y if a few products or a square root suffice, else None."""
    try:
        exponent = float(y.value.text.rpartition(" ")[2].rstrip(")"))  # 2.0 or splat (float 2.0)
    except ValueError:  # a name, or a literal with many digits
        return None
    if exponent in (0.5, -0.5):
        root = x.sqrt() + 0.0  # (-0.0) ** 0.5 = 0.0
        root = where(x.equals(-INF), INF, root)
        return root if exponent > 0 else 1.0 / root
    match exponent:
        case 0.0:
            return x.same(1.0)
        case 1.0:
            return x
        case -1.0:
            return 1.0 / x
        case 2.0:
            return x * x
        case 3.0:
            return x * x * x
        case 4.0:
            return (x * x) * (x * x)
        case _:
            return None
