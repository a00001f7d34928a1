"""Range reduction for sin, cos and tan: the number of quarter turns in x, and the remainder.

The remainder r = x - n pi / 2 can be tiny where x is large, so pi / 2 is subtracted in parts
(Cody and Waite): all but the last have enough trailing zeros that n * part is exact. If x is
beyond `LIMIT`, the products are not exact, and libm computes the function.
"""

from __future__ import annotations

from collections.abc import Callable

from minitvm.base import BOOL, FLOAT32, FLOAT64, INT32

from .code import Module, Value, suffix_of, type_of
from .number import Number, absolute, bits, converted, fma, where

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
    r, lost_too = difference(r, n * c)
    return bits(shifted), *sum_of(r, lost + (lost_too - n * d))


def _in_float64(x: Number) -> tuple[Number, Number, None]:
    """Return quarter_turns(x) of a float32, computed in float64 with two parts of pi / 2."""
    wide = converted(x, "fpext", FLOAT64)
    shifted = fma(wide, TWO_OVER_PI, SHIFT)
    n = shifted - SHIFT
    high, low = PARTS_32
    r = fma(n, -low, fma(n, -high, wide))
    return converted(bits(shifted), "trunc", INT32), converted(r, "fptrunc", FLOAT32), None


def difference(a: Number, b: Number) -> tuple[Number, Number]:
    """Return s = a - b rounded, and e such that s + e = a - b exactly (Knuth's TwoSum)."""
    s = a - b
    v = a - s
    return s, (v - b) + (a - (s + v))


def sum_of(a: Number, b: Number) -> tuple[Number, Number]:
    """Return s = a + b rounded, and e: s + e = a + b exactly, if |a| >= |b| (FastTwoSum)."""
    s = a + b
    return s, b - (s - a)


# --- beyond the limit ----------------------------------------------------------------------------


def with_distant(name: str, near: Callable[[Number], Number], x: Number) -> Number:
    """Return near(x), but in lanes with |x| > LIMIT the result of libm's function `name`."""
    c, v = x.code, x.value
    result = near(x)
    beyond = absolute(x) > LIMIT[x.dtype]
    some = beyond.value if v.lanes == 1 else c.any_lane(beyond.value)
    usual = c.op(f"xor i1 {some.text}, true", BOOL)
    helper = _distant(c.module, name, v)

    def corrected() -> Value:
        return where(beyond, Number(c, c.call(helper, v, v)), result).value

    return Number(c, c.choose(usual, lambda: result.value, corrected, likely=True))


def _distant(module: Module, name: str, v: Value) -> str:
    """Return the name of a function that applies libm's `name` to each lane of a value like `v`."""
    one, kind = suffix_of(v.dtype), type_of(v.dtype)
    scalar, wide = f"llvm.{name}.{one}", f"{name}.distant.{suffix_of(v.dtype, v.lanes)}"
    module.declare(scalar, kind, kind)
    if v.lanes == 1:
        return scalar
    if wide not in module.helpers:
        module.helpers[wide] = _lane_by_lane(wide, scalar, v.type, kind, v.lanes)
    return wide


def _lane_by_lane(name: str, scalar: str, vector: str, element: str, lanes: int) -> str:
    """Return the text of a function that applies `scalar` to each lane in a loop (small code)."""
    return f"""\
define internal {vector} @{name}({vector} %x) cold minsize noinline optsize #0 {{
entry:
  %all = alloca {vector}
  store {vector} %x, ptr %all
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr {element}, ptr %all, i64 %i
  %before = load {element}, ptr %at
  %after = call {element} @{scalar}({element} %before)
  store {element} %after, ptr %at
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, {lanes}
  br i1 %more, label %loop, label %done
done:
  %result = load {vector}, ptr %all
  ret {vector} %result
}}"""
