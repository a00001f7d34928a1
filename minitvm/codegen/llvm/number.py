"""Python operators that emit LLVM instructions: `a * b + 1.0` for scalars or vectors.

Every operator rounds once, as in IEEE 754: unlike the arithmetic of user programs, nothing here may
be fused or reordered. A fused multiply-add is written explicitly: fma(a, b, c).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from minitvm.base import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType

from .code import Code, Value, constant, type_of

FLOATS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
INTEGERS = {"+": "add", "-": "sub", "<<": "shl", ">>": "lshr", "&": "and", "|": "or", "^": "xor"}
BITS = {FLOAT32: INT32, FLOAT64: INT64}
FROM_BITS = {INT32: FLOAT32, INT64: FLOAT64}


def _operator(sign: str) -> Callable[[Number, Operand], Number]:
    """Return the method of Number for an operator, such as `number + other` for sign "+"."""

    def method(self: Number, other: Operand) -> Number:
        names = FLOATS if self.dtype.is_float else INTEGERS
        return self.made(f"{names[sign]} {self.value}, {self.same(other).value.text}", self.dtype)

    return method


def _reflected(sign: str) -> Callable[[Number, float], Number]:
    """Return the method for a reflected operator, such as `other + number` for sign "+"."""
    method = _operator(sign)
    return lambda self, other: method(self.same(other), self)


class Number:
    """A scalar or vector in registers, whose operators emit instructions.

    Integers are bit patterns: >> shifts zeros in, and < and > are only for floats.
    """

    __slots__ = ("code", "value")

    def __init__(self, code: Code, value: Value) -> None:
        self.code = code
        self.value = value

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    def made(self, text: str, dtype: DType) -> Number:
        """Emit the instruction `text` and return its result, with as many lanes as self."""
        return Number(self.code, self.code.op(text, dtype, self.value.lanes))

    def same(self, other: Operand) -> Number:
        """Return `other` as a Number; a Python number becomes a constant of the type of self."""
        if isinstance(other, Number):
            return other
        one = constant(other, self.dtype)
        return Number(self.code, self.code.splat(one, self.value.lanes))

    __add__, __sub__, __mul__, __truediv__ = map(_operator, "+-*/")
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(_reflected, "+-*/")
    __lshift__, __rshift__ = _operator("<<"), _operator(">>")
    __and__, __or__, __xor__ = map(_operator, "&|^")

    def __neg__(self) -> Number:
        return self.made(f"fneg {self.value}", self.dtype)

    def _test(self, name: str, other: Operand) -> Number:
        test = f"fcmp {name}" if self.dtype.is_float else f"icmp {name[1:]}"
        return self.made(f"{test} {self.value}, {self.same(other).value.text}", BOOL)

    def __lt__(self, other: Operand) -> Number:
        return self._test("olt", other)

    def __gt__(self, other: Operand) -> Number:
        return self._test("ogt", other)

    def equals(self, other: Operand) -> Number:
        """Return self == other; false if one of them is NaN."""
        return self._test("oeq", other)

    def differs(self, other: Operand) -> Number:
        """Return self != other; true if one of them is NaN."""
        return self._test("une", other)


Operand: TypeAlias = Number | float


def fma(a: Number, b: Operand, c: Operand) -> Number:
    """Return a * b + c, rounded once if the CPU has an instruction for it, else twice."""
    return _three("fmuladd", a, b, c)


def exact_fma(a: Number, b: Operand, c: Operand) -> Number:
    """Return a * b + c, rounded once on every CPU; slow on a CPU without the instruction."""
    return _three("fma", a, b, c)


def _three(name: str, a: Number, b: Operand, c: Operand) -> Number:
    return Number(a.code, a.code.intrinsic(name, a.value, a.same(b).value, a.same(c).value))


def polynomial(x: Number, coefficients: tuple[float, ...]) -> Number:
    """Return c[0] + c[1] x + c[2] x^2 + ...; sum even and odd powers in parallel to save time."""
    if len(coefficients) < 5:
        return _horner(x, coefficients)
    z = x * x
    return fma(_horner(z, coefficients[1::2]), x, _horner(z, coefficients[::2]))


def _horner(x: Number, coefficients: tuple[float, ...]) -> Number:
    """Return c[0] + c[1] x + c[2] x^2 + ... by Horner's rule: (c[2] x + c[1]) x + c[0]."""
    total = x.same(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def where(cond: Number, a: Operand, b: Operand) -> Number:
    """Return `a` where `cond` is true, else `b`. At least one of a and b must be a Number."""
    like = a if isinstance(a, Number) else b
    assert isinstance(like, Number)
    x, y = like.same(a), like.same(b)
    return like.made(f"select {cond.value}, {x.value}, {y.value}", like.dtype)


def at_most(x: Number, limit: float) -> Number:
    """Return min(x, limit); NaN stays NaN."""
    return where(x > limit, limit, x)


def at_least(x: Number, limit: float) -> Number:
    """Return max(x, limit); NaN stays NaN."""
    return where(x < limit, limit, x)


def bits(x: Number) -> Number:
    """Return the bit pattern of a float."""
    to = BITS[x.dtype]
    return x.made(f"bitcast {x.value} to {type_of(to, x.value.lanes)}", to)


def from_bits(x: Number) -> Number:
    """Return the float with the bit pattern x."""
    to = FROM_BITS[x.dtype]
    return x.made(f"bitcast {x.value} to {type_of(to, x.value.lanes)}", to)


def sign(x: Number) -> Number:
    """Return the bit pattern of 0.0 with the sign of x: all bits but the sign are 0."""
    return bits(x) & -(1 << (x.dtype.bits - 1))


def flip(x: Number, signs: Number) -> Number:
    """Return -x where the pattern `signs` has its sign bit set, else x."""
    return from_bits(bits(x) ^ signs)


def absolute(x: Number) -> Number:
    """Return |x|."""
    return Number(x.code, x.code.intrinsic("fabs", x.value))


def floor(x: Number) -> Number:
    """Return x rounded down."""
    return Number(x.code, x.code.intrinsic("floor", x.value))


def square_root(x: Number) -> Number:
    """Return the square root of x."""
    return Number(x.code, x.code.intrinsic("sqrt", x.value))


def converted(x: Number, how: str, to: DType) -> Number:
    """Convert x to `to` by the instruction `how`: "fpext", "fptrunc" or "trunc"."""
    return x.made(f"{how} {x.value} to {type_of(to, x.value.lanes)}", to)
