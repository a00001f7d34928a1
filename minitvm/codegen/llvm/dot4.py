"""Emit dot4, which adds the products of four pairs of bytes to an int32.

The code is the instruction vpdpbusd if the CPU has it, else shifts and products. Both take the four
bytes of an operand as one 32-bit number, whose lowest byte is the first.
"""

from __future__ import annotations

from minitvm.base import INT32, INT64, UINT8

from .code import Code, Value, suffix_of
from .math import binary, cast


def together(c: Code, four: list[Value]) -> Value:
    """Pack four bytes, or vectors of them, into 32-bit numbers."""
    total = Value("0", INT32)
    for n, byte in enumerate(four):
        wide = cast(c, Value(byte.text, UINT8, byte.lanes), INT32)
        total = binary(c, "bitor", total, _shifted(c, "shl", wide, 8 * n))
    return total


def dot4(c: Code, acc: Value, a: Value, b: Value) -> Value:
    """Return `acc` plus the dot product of four unsigned bytes `a` and four signed bytes `b`."""
    acc, a, b = c.broadcast(acc, a, b)
    width = next((n for n in c.module.dot4_lanes if acc.lanes % n == 0), 0)
    if not width:
        return _by_shifts(c, acc, a, b)
    result = Value("poison", INT32, acc.lanes)
    for first in range(0, acc.lanes, width):
        part = _instruction(c, *(_part(c, v, first, width) for v in (acc, a, b)))
        result = _with_part(c, result, part, first)
    return result


def _instruction(c: Code, acc: Value, a: Value, b: Value) -> Value:
    # LLVM 22 declares a and b as vectors of bytes, but accepts this form too; LLVM 20 requires it
    return c.call(f"llvm.x86.avx512.vpdpbusd.{32 * acc.lanes}", acc, acc, a, b)


def _part(c: Code, v: Value, first: int, width: int) -> Value:
    """Return the lanes first .. first+width-1 of `v`."""
    if v.lanes == width:
        return v
    name = f"llvm.vector.extract.{suffix_of(INT32, width)}.{suffix_of(INT32, v.lanes)}"
    return c.call(name, Value("", INT32, width), v, Value(str(first), INT64))


def _with_part(c: Code, v: Value, part: Value, first: int) -> Value:
    """Return `v` with its lanes replaced by the lanes of `part`, starting at lane `first`."""
    if v.lanes == part.lanes:
        return part
    name = f"llvm.vector.insert.{suffix_of(INT32, v.lanes)}.{suffix_of(INT32, part.lanes)}"
    return c.call(name, v, v, part, Value(str(first), INT64))


def _by_shifts(c: Code, acc: Value, a: Value, b: Value) -> Value:
    for n in range(4):
        x = binary(c, "bitand", _shifted(c, "lshr", a, 8 * n), Value("255", INT32))
        y = _shifted(c, "ashr", _shifted(c, "shl", b, 24 - 8 * n), 24)  # sign-extended
        acc = binary(c, "add", acc, binary(c, "mul", x, y))
    return acc


def _shifted(c: Code, how: str, v: Value, places: int) -> Value:
    by = c.splat(Value(str(places), INT32), v.lanes)
    return c.op(f"{how} {v}, {by.text}", INT32, v.lanes)
