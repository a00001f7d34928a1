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
        return self.op(f"{names[sign]} {self.value}, {self.same(other).value.text}", self.dtype)

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

    def op(self, text: str, dtype: DType) -> Number:
        """Emit the instruction `text` and return its result, with as many lanes as self."""
        return Number(self.code, self.code.op(text, dtype, self.value.lanes))

    def same(self, other: Operand) -> Number:
        """Return `other` as a Number; a Python number becomes a constant of the type of self."""
        if isinstance(other, Number):
            return other
        scalar = constant(other, self.dtype)
        return Number(self.code, self.code.splat(scalar, self.value.lanes))

    def intrinsic(self, name: str, *others: Operand) -> Number:
        """Return the result of LLVM's intrinsic `name` for self and the other operands."""
        operands = (self.same(operand).value for operand in others)
        return Number(self.code, self.code.intrinsic(name, self.value, *operands))

    __add__, __sub__, __mul__, __truediv__ = map(_operator, "+-*/")
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(_reflected, "+-*/")
    __lshift__, __rshift__ = _operator("<<"), _operator(">>")
    __and__, __or__, __xor__ = map(_operator, "&|^")

    def __neg__(self) -> Number:
        return self.op(f"fneg {self.value}", self.dtype)

    def __abs__(self) -> Number:
        return self.intrinsic("fabs")

    def sqrt(self) -> Number:
        """Return the square root."""
        return self.intrinsic("sqrt")

    def at_most(self, limit: float) -> Number:
        """Return min(self, limit); NaN stays NaN."""
        return where(self > limit, limit, self)

    def at_least(self, limit: float) -> Number:
        """Return max(self, limit); NaN stays NaN."""
        return where(self < limit, limit, self)

    # --- comparisons ---

    def _test(self, name: str, other: Operand) -> Number:
        test = f"fcmp {name}" if self.dtype.is_float else f"icmp {name[1:]}"
        return self.op(f"{test} {self.value}, {self.same(other).value.text}", BOOL)

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

    # --- conversions and bit patterns ---

    def converted(self, how: str, to: DType) -> Number:
        """Convert self to `to` by the instruction `how`: "bitcast", "fpext", "fptrunc", "trunc"."""
        return self.op(f"{how} {self.value} to {type_of(to, self.value.lanes)}", to)

    def bits(self) -> Number:
        """Return the bit pattern of a float."""
        return self.converted("bitcast", BITS[self.dtype])

    def from_bits(self) -> Number:
        """Return the float with the bit pattern self."""
        return self.converted("bitcast", FROM_BITS[self.dtype])

    def sign(self) -> Number:
        """Return the bit pattern of 0.0 with the sign of self: all bits but the sign are 0."""
        return self.bits() & -(1 << (self.dtype.bits - 1))

    def flip(self, signs: Operand) -> Number:
        """Return -self where the pattern `signs` has its sign bit set, else self."""
        return (self.bits() ^ signs).from_bits()


Operand: TypeAlias = Number | float


def fma(a: Number, b: Operand, c: Operand) -> Number:
    """Return a * b + c, rounded once if the CPU has an instruction for it, else twice."""
    return a.intrinsic("fmuladd", b, c)


def where(cond: Number, a: Operand, b: Operand) -> Number:
    """Return `a` where `cond` is true, else `b`. At least one of a and b must be a Number."""
    like = a if isinstance(a, Number) else b
    assert isinstance(like, Number)
    x, y = like.same(a), like.same(b)
    return like.op(f"select {cond.value}, {x.value}, {y.value}", like.dtype)


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


# --- exact sums and products ---------------------------------------------------------------------


def product(a: Number, b: Number) -> tuple[Number, Number]:
    """Return p, the rounded product a b, and its error e, so that p + e = a b exactly."""
    p = a * b
    return p, exact_fma(a, b, -p)


def exact_fma(a: Number, b: Operand, c: Operand) -> Number:
    """Return a * b + c, rounded once on every CPU; slow on a CPU without the instruction."""
    return a.intrinsic("fma", b, c)


def difference(a: Number, b: Number) -> tuple[Number, Number]:
    """Return s = a - b rounded, and e such that s + e = a - b exactly (Knuth's TwoSum)."""
    s = a - b
    v = a - s
    return s, (v - b) + (a - (s + v))


def sum_of(a: Number, b: Number) -> tuple[Number, Number]:
    """Return s = a + b rounded, and e: s + e = a + b exactly, if |a| >= |b| (FastTwoSum)."""
    s = a + b
    return s, b - (s - a)
