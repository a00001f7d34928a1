"""Arithmetic in LLVM IR: operators, conversions and intrinsics."""

from __future__ import annotations

import math
from collections.abc import Callable

from minitvm import tir
from minitvm.base import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    UINT16,
    BuildError,
    DType,
)

from .approximate import APPROXIMATIONS, hypot
from .code import Code, Value, constant, suffix_of, type_of
from .number import Number, where
from .power import power
from .to_integer import to_integer
from .trigonometry import acos, asin, atan, atan2, cos, sin, tan

FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTEGER_OPS = {"add": "add", "sub": "sub", "mul": "mul", "bitand": "and", "bitor": "or", "bitxor": "xor"}  # fmt: skip  # noqa: E501
HALVES = (FLOAT16, BFLOAT16)
ORDER = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def binary(c: Code, op: tir.BinaryOp, a: Value, b: Value) -> Value:
    """Emit `a op b`, both of one dtype; a scalar is broadcast to the lanes of the other operand."""
    divisor = int(b.text) if b.text.isdigit() else 0
    if op in ("floordiv", "floormod") and divisor > 0 and divisor & (divisor - 1) == 0:
        return divide_by_power(c, op, a, divisor)
    if op == "pow" and a.dtype.is_float:
        return intrinsic(c, "pow", [a, b])
    if a.dtype == BFLOAT16:
        return cast(c, binary(c, op, cast(c, a, FLOAT32), cast(c, b, FLOAT32)), a.dtype)
    a, b = c.broadcast(a, b)
    if op in ("and", "or"):
        return c.op(f"{op} {a}, {b.text}", BOOL, a.lanes)
    if op in ("min", "max"):
        return _extremum(c, op, a, b)
    if a.dtype.is_float:
        # As one instruction, a product and a sum are rounded once: wrong for float16, whose
        # operations numpy rounds one by one, also on a CPU that has such an instruction.
        fused = "" if a.dtype is FLOAT16 or op == "div" else " contract"
        return c.op(f"{FLOAT_OPS[op]}{fused} {a}, {b.text}", a.dtype, a.lanes)
    if op in INTEGER_OPS:
        return c.op(f"{INTEGER_OPS[op]} {a}, {b.text}", a.dtype, a.lanes)
    if op in ("shl", "shr"):
        return _shift(c, op, a, b)
    return _divide(c, op, a, b)


def _like(v: Value, number: float) -> Value:
    """Return the literal `number` in the type and width of `v`."""
    scalar = constant(number, v.dtype)
    return scalar if v.lanes == 1 else Value(f"splat ({scalar})", v.dtype, v.lanes)


def select(c: Code, cond: Value, a: Value, b: Value) -> Value:
    """Emit `a` in lanes where `cond` is true, `b` elsewhere."""
    if cond.lanes == 1:
        a, b = c.broadcast(a, b)
    else:
        cond, a, b = c.broadcast(cond, a, b)
    return c.op(f"select {cond}, {a}, {b}", a.dtype, a.lanes)


def _extremum(c: Code, op: str, a: Value, b: Value) -> Value:
    if a.dtype.is_float:  # nsz: no sign of zero; b before a: a reduction waits for a
        name = f"llvm.{op}imum.{suffix_of(a.dtype, a.lanes)}"
        c.module.declare(name, a.type, f"{a.type}, {a.type}")
        return c.op(f"call nsz {a.type} @{name}({b}, {a})", a.dtype, a.lanes)
    if a.dtype is BOOL:
        return c.op(f"{'and' if op == 'min' else 'or'} {a}, {b.text}", BOOL, a.lanes)
    return c.intrinsic(("u" if a.dtype.kind == "uint" else "s") + op, a, b)


def compare(c: Code, op: tir.CompareOp, a: Value, b: Value) -> Value:
    """Emit the comparison `a op b`. With a NaN, != is true and every other comparison is false."""
    if a.dtype == BFLOAT16:
        a, b = cast(c, a, FLOAT32), cast(c, b, FLOAT32)
    a, b = c.broadcast(a, b)
    if a.dtype.is_float:
        test = f"fcmp {'u' if op == '!=' else 'o'}{ORDER[op]}"
    elif op in ("==", "!="):
        test = f"icmp {ORDER[op]}"
    else:
        test = f"icmp {'s' if a.dtype.kind == 'int' else 'u'}{ORDER[op]}"
    return c.op(f"{test} {a}, {b.text}", BOOL, a.lanes)


def invert(c: Code, a: Value) -> Value:
    """Emit the negation of the bool `a`."""
    return c.op(f"xor {a}, {_like(a, True).text}", BOOL, a.lanes)


# --- integers ------------------------------------------------------------------------------------


def _shift(c: Code, op: str, a: Value, b: Value) -> Value:
    """Emit a << b or a >> b; if b is not in 0 .. bits-1, all bits are shifted out, as in numpy."""
    in_range = c.op(f"icmp ult {b}, {_like(b, a.dtype.bits).text}", BOOL, b.lanes)
    if op == "shr" and a.dtype.kind == "int":  # sign bits come in
        most = select(c, in_range, b, _like(b, a.dtype.bits - 1))
        return c.op(f"ashr {a}, {most.text}", a.dtype, a.lanes)
    shifted = c.op(f"{'shl' if op == 'shl' else 'lshr'} {a}, {b.text}", a.dtype, a.lanes)
    return select(c, in_range, shifted, _like(a, 0))


def divide_by_power(c: Code, op: str, a: Value, power: int) -> Value:
    """Emit a // power or a % power, rounded down, as a shift or a mask (power is 2**n)."""
    if op == "floormod":
        return c.op(f"and {a}, {_like(a, power - 1).text}", a.dtype, a.lanes)
    shift = "lshr" if a.dtype.kind == "uint" else "ashr"
    return c.op(f"{shift} {a}, {_like(a, power.bit_length() - 1).text}", a.dtype, a.lanes)


def _divide(c: Code, op: str, a: Value, b: Value) -> Value:
    """Emit a quotient or remainder, rounded to minus infinity (floor*) or to zero (trunc*).

    The code does not trap: x / 0 = x % 0 = 0, and -2**63 / -1 wraps around to -2**63 in int64.
    """
    unsigned = a.dtype.kind == "uint"
    divide, remainder = ("udiv", "urem") if unsigned else ("sdiv", "srem")
    zero, divisor = _like(b, 0), b
    divisor_is_zero = compare(c, "==", b, zero)  # folds away when b is a literal
    divisor = select(c, divisor_is_zero, _like(b, 1), b)
    if unsigned:
        how = divide if "div" in op else remainder
        result = c.op(f"{how} {a}, {divisor.text}", a.dtype, a.lanes)
        return select(c, divisor_is_zero, zero, result)
    divisor_is_minus_one = compare(c, "==", b, _like(b, -1))
    # a // -1 is -a, and a % -1 is 0
    divisor = select(c, divisor_is_minus_one, _like(b, 1), divisor)
    rest = c.op(f"{remainder} {a}, {divisor.text}", a.dtype, a.lanes)
    if op == "truncmod":
        return rest
    signs = c.op(f"xor {rest}, {divisor.text}", a.dtype, a.lanes)
    rounds_down = binary(c, "and", compare(c, "!=", rest, zero), compare(c, "<", signs, zero))
    if op == "floormod":
        return binary(c, "add", rest, select(c, rounds_down, divisor, zero))
    quotient = c.op(f"{divide} {a}, {divisor.text}", a.dtype, a.lanes)
    if op == "floordiv":
        quotient = binary(c, "add", quotient, select(c, rounds_down, _like(a, -1), zero))
    quotient = select(c, divisor_is_minus_one, binary(c, "sub", zero, a), quotient)
    return select(c, divisor_is_zero, zero, quotient)


# --- conversions ---------------------------------------------------------------------------------


def cast(c: Code, v: Value, to: DType) -> Value:
    """Convert `v` to `to`. For an integer `to`, floats truncate and saturate, and integers wrap.

    CPUs convert float16 only from and to float32, so other types are converted through float32.
    So is bfloat16, whose bits are the upper half of a float32.
    """
    if v.dtype is to:
        return v
    if to is BOOL:
        return compare(c, "!=", v, _like(v, 0))
    if to in HALVES and v.dtype is not FLOAT32:
        once = v.dtype is FLOAT64 and to is FLOAT16
        return cast(c, _to_odd(c, v) if once else cast(c, v, FLOAT32), to)
    if v.dtype in HALVES and to is not FLOAT32:
        return cast(c, cast(c, v, FLOAT32), to)
    if to == BFLOAT16:
        return _upper_half(Number(c, v), to)
    if v.dtype == BFLOAT16:
        bits = cast(c, Value(v.text, UINT16, v.lanes), INT32)
        return (Number(c, bits) << 16).from_bits().value
    if v.dtype.is_float and to.is_integer:
        return to_integer(Number(c, v), to)
    if to.is_float:
        signed = v.dtype.kind == "int"
        widen = "fpext" if to.bits > v.dtype.bits else "fptrunc"
        how = widen if v.dtype.is_float else "sitofp" if signed else "uitofp"
    elif v.dtype.bits == to.bits:  # int8 and uint8 share their bits
        return Value(v.text, to, v.lanes)
    elif v.dtype.bits > to.bits:
        how = "trunc"
    else:
        how = "sext" if v.dtype.kind == "int" else "zext"
    return c.op(f"{how} {v} to {type_of(to, v.lanes)}", to, v.lanes)


def _upper_half(x: Number, to: DType) -> Value:
    """Round the float32 `x` to bfloat16 `to`: to the nearest, a tie to even; NaN stays NaN."""
    pattern = x.bits()
    rounded = pattern + 0x7FFF + (pattern >> 16 & 1)
    quiet = pattern | 0x400000  # the upper half of a NaN alone may be an infinity
    bits = where(x.differs(x), quiet, rounded) >> 16
    return bits.converted("trunc", to).value


def _to_odd(c: Code, v: Value) -> Value:
    """Round the float64 `v` to float32, with an odd last bit unless the result is exact.

    Rounding this again to float16 gives the same result as rounding once: the odd bit records
    on which side of a tie `v` is.
    Source: Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums".
    """
    x = Number(c, v)
    nearest = x.converted("fptrunc", FLOAT32)
    back = nearest.converted("fpext", FLOAT64)
    below, above = back < x, back > x  # both false for NaN, which is kept
    pattern = nearest.bits()
    step = where(abs(back) < abs(x), pattern.same(1), pattern.same(-1))
    even = (pattern & 1).equals(0)
    return where((below | above) & even, pattern + step, pattern).from_bits().value


# --- intrinsics ----------------------------------------------------------------------------------


def _abs(x: Number) -> Number:
    if x.dtype.is_float:
        return abs(x)
    return x if x.dtype.kind == "uint" else _of_integer("abs", x)


def _of_integer(name: str, x: Number) -> Number:
    """Return LLVM's intrinsic `name` of an integer; with "false" it is defined for every x."""
    return Number(x.code, x.code.intrinsic(name, x.value, ("i1", "false")))


def _clz(x: Number) -> Number:
    return Number(x.code, cast(x.code, _of_integer("ctlz", x).value, INT32))


UNARY: dict[str, Callable[[Number], Number]] = {
    **{f.__name__: f for f in APPROXIMATIONS},
    "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan,
    "sqrt": Number.sqrt, "rsqrt": lambda x: 1.0 / x.sqrt(),
    "floor": lambda x: x.intrinsic("floor"), "ceil": lambda x: x.intrinsic("ceil"),
    "trunc": lambda x: x.intrinsic("trunc"), "round": lambda x: x.intrinsic("roundeven"),
    "abs": _abs, "clz": _clz,
    "isnan": lambda x: x.differs(x), "isfinite": lambda x: abs(x) < math.inf,
    "isinf": lambda x: abs(x).equals(math.inf),
}  # fmt: skip
BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "pow": power, "atan2": atan2, "hypot": hypot,
    "fmod": lambda x, y: x.op(f"frem {x.value}, {y.value.text}", x.dtype),
    "copysign": lambda x, y: x.intrinsic("copysign", y),
}  # fmt: skip
INTRINSICS: dict[str, Callable[..., Number]] = {**UNARY, **BINARY}


def intrinsic(c: Code, name: str, args: list[Value]) -> Value:
    """Emit `name(*args)`; raise BuildError for a function the LLVM target does not have."""
    if name not in INTRINSICS:
        fix = f"one of {', '.join(INTRINSICS)}"
        raise BuildError(f"{name}(...)", "the LLVM target has no such function", fix)
    kind = args[0].dtype
    narrow = kind in HALVES
    operands = c.broadcast(*(cast(c, a, FLOAT32) if narrow else a for a in args))
    result = INTRINSICS[name](*(Number(c, a) for a in operands)).value
    return cast(c, result, kind) if narrow and result.dtype is FLOAT32 else result
