"""Trigonometric functions and their inverses.

For sin, cos and tan, range reduction finds the number of quarter turns in x and the remainder
r = x - n pi / 2. The remainder can be tiny where x is large, so pi / 2 is subtracted in parts
(Cody and Waite): all but the last have enough trailing zeros that n * part is exact. If x is
beyond `LIMIT`, the products are not exact, and libm computes the function.
"""

from __future__ import annotations

from collections.abc import Callable

from minitvm.base import BOOL, FLOAT32, FLOAT64, INT32

from .code import Module, Value, suffix_of
from .coefficients import ATAN, COS, SIN
from .number import Number, difference, fma, polynomial, sum_of, where

LIMIT = {FLOAT32: 2.0**22, FLOAT64: 2.0**20}
TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
SHIFT = 1.5 * 2**52  # see FloatFormat.shift
# pi / 2 in 31 + 53 bits for float32, whose n is below 2^22; in 3 * 33 + 53 bits for float64
PARTS_32 = tuple(map(float.fromhex, ("0x1.921fb544p+0", "0x1.0b4611a626331p-34")))
PARTS_64 = tuple(
    map(
        float.fromhex,
        ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104"),
    )
)
HALF_PI = {  # pi / 2 as a sum of two floats
    FLOAT32: (1.5707963705062866, -4.3711390001862426e-08),
    FLOAT64: (1.5707963267948966, float.fromhex("0x1.1a62633145c07p-54")),
}


# --- range reduction -----------------------------------------------------------------------------


def quarter_turns(x: Number) -> tuple[Number, Number, Number | None]:
    """Return n, r, low: x = n pi / 2 + r + low and |r| <= pi / 4, for 0 <= x <= LIMIT.

    n is a bit pattern of which only the two lowest bits matter; low is None if r is precise enough.
    """
    if x.dtype is FLOAT32:
        return _in_float64(x)
    shifted = fma(x, TWO_OVER_PI, SHIFT)
    n = shifted - SHIFT
    a, b, c, d = PARTS_64
    r, lost = difference(x - n * a, n * b)
    r, lost_next = difference(r, n * c)
    return shifted.bits(), *sum_of(r, lost + (lost_next - n * d))


def _in_float64(x: Number) -> tuple[Number, Number, None]:
    """Return quarter_turns(x) of a float32, computed in float64 with two parts of pi / 2."""
    wide = x.converted("fpext", FLOAT64)
    shifted = fma(wide, TWO_OVER_PI, SHIFT)
    n = shifted - SHIFT
    high, low = PARTS_32
    r = fma(n, -low, fma(n, -high, wide))
    return shifted.bits().converted("trunc", INT32), r.converted("fptrunc", FLOAT32), None


def with_libm(name: str, near: Callable[[Number], Number]) -> Callable[[Number], Number]:
    """Return `near`, but with libm's function `name` in lanes that are beyond LIMIT."""

    def function(x: Number) -> Number:
        c, v = x.code, x.value
        result = near(x)
        is_beyond = abs(x) > LIMIT[x.dtype]
        any_beyond = is_beyond.value if v.lanes == 1 else c.any_lane(is_beyond.value)
        all_near = c.op(f"xor i1 {any_beyond.text}, true", BOOL)
        distant = _out_of_line(c.module, name, v)

        def corrected() -> Value:
            return where(is_beyond, Number(c, c.call(distant, v, v)), result).value

        return Number(c, c.choose(all_near, lambda: result.value, corrected, likely=True))

    return function


def _out_of_line(module: Module, name: str, v: Value) -> str:
    """Return a function that calls libm's function `name` for each lane of a value like `v`."""
    suffix = suffix_of(v.dtype, v.lanes)
    distant, libm = f"{name}.distant.{suffix}", f"llvm.{name}.{suffix}"
    module.declare(libm, v.type, v.type)
    module.helpers[distant] = f"""\
define internal {v.type} @{distant}({v.type} %x) cold minsize noinline optsize #0 {{
  %y = call {v.type} @{libm}({v.type} %x)
  ret {v.type} %y
}}"""
    return distant


# --- functions -----------------------------------------------------------------------------------


def _sine_cosine(r: Number, low: Number | None) -> tuple[Number, Number]:
    """Return sin(r + low) and cos(r) for |r| <= pi / 4; `low` is a small correction or None."""
    z = r * r
    tail = r * z * polynomial(z, SIN[r.dtype])
    s = r + (tail if low is None else tail + low)
    c = fma(z, fma(z, polynomial(z, COS[r.dtype]), -0.5), 1.0)
    return s, c


def _is_odd(n: Number) -> Number:
    """Return whether the integer n is odd."""
    return (n & 1).differs(0)


def _half_turn(n: Number) -> Number:
    """Return a sign bit that is set if n quarter turns reverse the sign. It is bit 1 of n."""
    return (n & 2) << (n.dtype.bits - 2)


def _sin(x: Number) -> Number:
    """Return sin x, computed as sin |x| with the sign of x.

    With |x| = n pi / 2 + r, sin |x| is sin r, cos r, -sin r or -cos r, depending on n modulo 4.
    """
    n, r, low = quarter_turns(abs(x))
    s, c = _sine_cosine(r, low)
    return where(_is_odd(n), c, s).flip(_half_turn(n) ^ x.sign())


def _cos(x: Number) -> Number:
    """Return cos x, computed as sin(|x| + pi / 2)."""
    n, r, low = quarter_turns(abs(x))
    s, c = _sine_cosine(r, low)
    return where(_is_odd(n), s, c).flip(_half_turn(n + 1))


def _tan(x: Number) -> Number:
    """Return tan x; with |x| = n pi / 2 + r, tan |x| is tan r, or -1 / tan r if n is odd."""
    n, r, low = quarter_turns(abs(x))
    s, c = _sine_cosine(r, low)
    odd = _is_odd(n)
    return (where(odd, -c, s) / where(odd, s, c)).flip(x.sign())


sin, cos, tan = with_libm("sin", _sin), with_libm("cos", _cos), with_libm("tan", _tan)


def atan(x: Number) -> Number:
    """Return atan x, computed as atan |x| with the sign of x.

    atan t is t + t z p(z) with z = t^2 and a polynomial p. It is computed for t = |x| if |x| <= 1,
    otherwise for t = -1 / |x|, and pi / 2 is added.
    """
    high, low = HALF_PI[x.dtype]
    a = abs(x)
    large = a > 1.0
    t = where(large, -1.0 / a, a)
    z = t * t
    tail = t * z * polynomial(z, ATAN[x.dtype])
    start, correction = (where(large, t.same(part), 0.0) for part in (high, low))
    return (start + (t + (tail + correction))).flip(x.sign())


def asin(x: Number) -> Number:
    """Return asin x = atan(x / sqrt((1 - x) (1 + x))), more precise than with 1 - x^2."""
    return atan(x / ((1.0 - x) * (1.0 + x)).sqrt())


def acos(x: Number) -> Number:
    """Return acos x: pi / 2 - asin(x) for |x| < 0.5, else 2 atan(sqrt((1 - x) / (1 + x)))."""
    high, low = HALF_PI[x.dtype]
    far = atan(((1.0 - x) / (1.0 + x)).sqrt()) * 2.0
    return where(abs(x) < 0.5, high - (asin(x) - low), far)


def atan2(y: Number, x: Number) -> Number:
    """Return the angle of the point (x, y), in radians from the positive x-axis.

    With t = atan(b / a), where a is the larger of |x| and |y| and b the smaller, the angle is t,
    pi / 2 - t, pi / 2 + t or pi - t, depending on the octant. It has the sign of y.
    """
    high, low = HALF_PI[x.dtype]
    p, q = abs(x), abs(y)
    steep, left = q > p, x.sign().differs(0)
    slope = where(steep, p, q) / where(steep, q, p)
    slope = where(p.equals(q), where(p.equals(0.0), p, 1.0), slope)  # 0 / 0 and inf / inf
    t = atan(slope)
    quarters = where(steep, t.same(1.0), where(left, t.same(2.0), 0.0))  # of a turn, plus t
    angle = quarters * high + (where(steep ^ left, -t, t) + quarters * low)
    return angle.flip(y.sign())
