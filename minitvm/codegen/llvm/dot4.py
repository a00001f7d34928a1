"""Emit dot4, which adds the products of four pairs of bytes to an int32.

The code is an instruction of the CPU if it has one, else two products of int16 (pmaddwd, in all
x86 CPUs), else shifts and products. All take the four bytes of an operand as one 32-bit number,
whose lowest byte is the first.
"""

from __future__ import annotations

from minitvm.base import INT16, INT32, INT64, UINT8, Dot2, Dot4, DType

from .code import Code, Value, suffix_of, type_of
from .math import binary, cast
from .memory import interleaved

FLIP = Value(str(0x80808080 - (1 << 32)), INT32)  # the highest bit of each of four bytes


def together(c: Code, four: list[Value]) -> Value:
    """Pack four bytes, or vectors of them, into 32-bit numbers."""
    lanes = max(byte.lanes for byte in four)
    if lanes > 1:
        whole = interleaved(c, [c.splat(byte, lanes) for byte in four])
        return c.op(f"bitcast {whole} to {type_of(INT32, lanes)}", INT32, lanes)
    total = Value("0", INT32)
    for n, byte in enumerate(four):
        wide = cast(c, Value(byte.text, UINT8, byte.lanes), INT32)
        total = binary(c, "bitor", total, _shifted(c, "shl", wide, 8 * n))
    return total


def dot4(c: Code, types: tuple[DType, DType], acc: Value, a: Value, b: Value) -> Value:
    """Return `acc` plus the dot product of four bytes `a` and four bytes `b` of these `types`.

    An instruction that takes the other type for `a` serves too. With f = a ^ 128, and -128 or 128,
    which is the byte 128 in that type, sum(a * b) = sum(f * b) - sum(128 * b).
    """
    lanes = max(acc.lanes, a.lanes, b.lanes)
    known = [d for d in c.module.dot4 if lanes % d.lanes == 0 and d.b is types[1]]
    if not known:
        pairs = next((d for d in c.module.dot2 if lanes % d.lanes == 0), None)
        operands = c.broadcast(acc, a, b)
        return _by_pairs(c, pairs, types, *operands) if pairs else _by_shifts(c, types, *operands)
    d = next((d for d in known if d.a is types[0]), known[0])
    if d.a is not types[0]:
        # a scalar is flipped before it is copied: LLVM 22 never ends if it can swap the two on x86
        a = binary(c, "bitxor", a, c.splat(FLIP, a.lanes))
        zero, flip = Value("zeroinitializer", INT32, lanes), c.splat(FLIP, lanes)
        acc = binary(c, "sub", acc, _by_instruction(c, d, *c.broadcast(zero, flip, b)))
    return _by_instruction(c, d, *c.broadcast(acc, a, b))


def _by_instruction(c: Code, d: Dot4, acc: Value, a: Value, b: Value) -> Value:
    """Call the instruction for each part of the vectors that fits it."""
    result = Value("poison", INT32, acc.lanes)
    for first in range(0, acc.lanes, d.lanes):
        start, *factors = (_part(c, v, first, d.lanes) for v in (acc, a, b))
        if d.operand is not INT32:
            kind, n = type_of(d.operand, 4 * d.lanes), 4 * d.lanes
            factors = [c.op(f"bitcast {v} to {kind}", d.operand, n) for v in factors]
        result = _with_part(c, result, c.call(d.intrinsic, start, start, *factors), first)
    return result


def _part(c: Code, v: Value, first: int, width: int) -> Value:
    """Return the lanes first .. first+width-1 of `v`."""
    if v.lanes == width:
        return v
    name = f"llvm.vector.extract.{suffix_of(v.dtype, width)}.{suffix_of(v.dtype, v.lanes)}"
    return c.call(name, Value("", v.dtype, width), v, Value(str(first), INT64))


def _with_part(c: Code, v: Value, part: Value, first: int) -> Value:
    """Return `v` with its lanes replaced by the lanes of `part`, starting at lane `first`."""
    if v.lanes == part.lanes:
        return part
    name = f"llvm.vector.insert.{suffix_of(INT32, v.lanes)}.{suffix_of(INT32, part.lanes)}"
    return c.call(name, v, v, part, Value(str(first), INT64))


def _by_pairs(
    c: Code, d: Dot2, types: tuple[DType, DType], acc: Value, a: Value, b: Value
) -> Value:
    """Add the products of the even bytes, then those of the odd ones; bytes become int16."""
    halves = (_halves(c, v, kind) for v, kind in zip((a, b), types, strict=True))
    for factors in zip(*halves, strict=True):
        total = Value("poison", INT32, acc.lanes)
        for first in range(0, acc.lanes, d.lanes):
            x, y = (_part(c, v, 2 * first, 2 * d.lanes) for v in factors)
            sums = c.call(d.intrinsic, Value("", INT32, d.lanes), x, y)
            total = _with_part(c, total, sums, first)
        acc = binary(c, "add", acc, total)
    return acc


def _halves(c: Code, four: Value, kind: DType) -> tuple[Value, Value]:
    """Return the even bytes and the odd ones of 32-bit numbers, zero- or sign-extended to int16."""
    n = 2 * four.lanes
    pairs = c.op(f"bitcast {four} to {type_of(INT16, n)}", INT16, n)
    if kind is UINT8:
        low = binary(c, "bitand", pairs, c.splat(Value("255", INT16), n))
        return low, _shifted(c, "lshr", pairs, 8)
    return _shifted(c, "ashr", _shifted(c, "shl", pairs, 8), 8), _shifted(c, "ashr", pairs, 8)


def _by_shifts(c: Code, types: tuple[DType, DType], acc: Value, a: Value, b: Value) -> Value:
    for n in range(4):
        x, y = (_byte(c, v, n, kind) for v, kind in zip((a, b), types, strict=True))
        acc = binary(c, "add", acc, binary(c, "mul", x, y))
    return acc


def _byte(c: Code, four: Value, n: int, kind: DType) -> Value:
    """Return byte n of 32-bit numbers, zero- or sign-extended."""
    if kind is UINT8:
        return binary(c, "bitand", _shifted(c, "lshr", four, 8 * n), Value("255", INT32))
    return _shifted(c, "ashr", _shifted(c, "shl", four, 24 - 8 * n), 24)


def _shifted(c: Code, how: str, v: Value, places: int) -> Value:
    shift = c.splat(Value(str(places), v.dtype), v.lanes)
    return c.op(f"{how} {v}, {shift.text}", v.dtype, v.lanes)
