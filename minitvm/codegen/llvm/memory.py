"""Emit loads and stores of one element, of consecutive elements, or of scattered elements.

A bool is one byte in memory and one bit in a register.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from minitvm.base import BOOL, UINT8, BuildError, DType

from .code import Code, Value, constant, suffix_of, type_of, vector
from .math import cast

CHUNKS = 4  # up to this stride, whole vectors and shuffles are cheaper than a gather


class Address(NamedTuple):
    """The address of a scalar or vector: lane n is `stride` * n elements after `pointer`.

    If `stride` is None, `pointer` is a vector of `lanes` pointers.
    """

    pointer: str
    lanes: int = 1
    stride: int | None = 0


def read(c: Code, dtype: DType, at: Address, mask: Value | None) -> Value:
    """Load the elements at `at`; a lane whose `mask` is false accesses no memory and is 0."""
    stored = UINT8 if dtype is BOOL else dtype
    if at.lanes == 1:
        v = _read_one(c, stored, at.pointer, mask)
    elif at.stride == 1:
        v = _read_row(c, stored, at, mask)
    elif mask is None and at.stride and abs(at.stride) <= CHUNKS:
        v = _read_strided(c, stored, at.pointer, at.lanes, at.stride)
    else:
        v = _gather(c, stored, at, mask)
    return cast(c, v, dtype)


def write(c: Code, at: Address, v: Value, mask: Value | None) -> None:
    """Store `v` at the address `at`, in all lanes or in those where `mask` is true."""
    if v.dtype is BOOL:
        v = cast(c, v, UINT8)
    if v.lanes > at.lanes:
        what = f"a store of {v.lanes} lanes to one element"
        raise BuildError(what, "its index is the same in every lane")
    v = c.splat(v, at.lanes)
    if at.lanes == 1:
        _write_one(c, at.pointer, v, mask)
    elif at.stride == 1:
        _write_row(c, at.pointer, v, mask)
    elif at.stride == -1:
        first = advance(c, v.dtype, at.pointer, 1 - at.lanes)
        _write_row(c, first, _reverse(c, v), None if mask is None else _reverse(c, mask))
    else:
        _scatter(c, _pointers(c, v.dtype, at), v, mask)


# --- one element ---------------------------------------------------------------------------------


def _read_one(c: Code, dtype: DType, pointer: str, mask: Value | None) -> Value:
    def load() -> Value:
        return c.op(f"load {type_of(dtype)}, ptr {pointer}, align {dtype.bytes}", dtype)

    if mask is None:
        return load()
    return c.choose(c.any_lane(mask), load, lambda: constant(0, dtype))


def _write_one(c: Code, pointer: str, v: Value, mask: Value | None) -> None:
    if mask is None:
        c.emit(f"store {v}, ptr {pointer}, align {v.dtype.bytes}")
        return
    yes, end = c.label("then"), c.label("end")
    c.branch(c.any_lane(mask), yes, end)
    c.block(yes)
    c.emit(f"store {v}, ptr {pointer}, align {v.dtype.bytes}")
    c.jump(end)
    c.block(end)


# --- consecutive elements ------------------------------------------------------------------------


def _read_row(c: Code, dtype: DType, at: Address, mask: Value | None) -> Value:
    kind = type_of(dtype, at.lanes)
    if mask is None:
        return c.op(f"load {kind}, ptr {at.pointer}, align {dtype.bytes}", dtype, at.lanes)
    if at.lanes * dtype.bytes > c.module.vector_bytes:
        mask = _disguise(c, mask)
    result = Value("zeroinitializer", dtype, at.lanes)
    name = f"llvm.masked.load.{suffix_of(dtype, at.lanes)}.p0"
    return c.call(name, result, ("ptr", at.pointer), ("i32", str(dtype.bytes)), mask, result)


def _write_row(c: Code, pointer: str, v: Value, mask: Value | None) -> None:
    if mask is None:
        c.emit(f"store {v}, ptr {pointer}, align {v.dtype.bytes}")
        return
    if v.dtype.is_integer:
        mask = _disguise(c, mask)
    name = f"llvm.masked.store.{suffix_of(v.dtype, v.lanes)}.p0"
    c.run(name, v, ("ptr", pointer), ("i32", str(v.dtype.bytes)), mask)


def _disguise(c: Code, mask: Value) -> Value:
    """Return `mask` in a form that keeps LLVM from folding lanes to constants.

    LLVM 22.1.0 stores too many bytes if a mask is a constant with one lane on and the stored value
    was truncated (LLVM issue 179489). Without AVX-512, LLVM splits a longer vector into registers,
    and loads all lanes of a register if it knows that they are off.
    """
    if c.certainty is None:
        c.certainty = Value(c.name("certain"), BOOL)
        at = f"{c.certainty.text}.at"
        c.entry += [
            f"  {at} = alloca i1",
            f"  store volatile i1 true, ptr {at}",
            f"  {c.certainty.text} = load volatile i1, ptr {at}",
        ]
    sure = c.splat(c.certainty, mask.lanes)
    return c.op(f"icmp eq {mask}, {sure.text}", BOOL, mask.lanes)


def _reverse(c: Code, v: Value) -> Value:
    return shuffle(c, v, Value("poison", v.dtype, v.lanes), list(reversed(range(v.lanes))))


def shuffle(c: Code, a: Value, b: Value, picks: list[int]) -> Value:
    """Return a vector of the lanes `picks`, which count the lanes of `a` and then those of `b`."""
    order = ", ".join(f"i32 {n}" for n in picks)
    return c.op(f"shufflevector {a}, {b}, <{len(picks)} x i32> <{order}>", a.dtype, len(picks))


def interleaved(c: Code, vectors: list[Value]) -> Value:
    """Return one vector: lane 0 of each of 1, 2, 3, 4, 8, ... vectors, then lane 1 of each, ..."""
    if len(vectors) == 1:
        return vectors[0]
    n = vectors[0].lanes
    if len(vectors) == 3:
        both = [*range(2 * n)]
        left, right = (shuffle(c, a, b, both) for a, b in pairwise(vectors))
        return shuffle(c, left, right, [at + k for k in range(n) for at in (0, n, 3 * n)])
    even, odd = interleaved(c, vectors[::2]), interleaved(c, vectors[1::2])
    wide = Value("", even.dtype, 2 * even.lanes)
    return c.call(f"llvm.vector.interleave2.{suffix_of(wide.dtype, wide.lanes)}", wide, even, odd)


# --- anything else -------------------------------------------------------------------------------


def advance(c: Code, dtype: DType, pointer: str, offset: int) -> str:
    """Return `pointer` advanced by `offset` elements."""
    if offset == 0:
        return pointer
    return c.op(f"getelementptr {type_of(dtype)}, ptr {pointer}, i64 {offset}", dtype).text


def _read_strided(c: Code, dtype: DType, pointer: str, lanes: int, stride: int) -> Value:
    """Load every stride-th element, by loading whole vectors and selecting lanes of them.

    The vectors do not reach beyond the first and last element: for 8 lanes of stride 2, they are
    elements 0 .. 7 and 7 .. 14.
    """
    first, span = min(0, stride * (lanes - 1)), abs(stride) * (lanes - 1) + 1
    where = [stride * n - first for n in range(lanes)]  # of lane n, counted from the lowest one
    result = Value("poison", dtype, lanes)
    for chunk in range(0, span, lanes):
        start = min(chunk, span - lanes)
        part = _read_row(c, dtype, Address(advance(c, dtype, pointer, first + start), lanes), None)
        picks = [
            lanes + w - start if chunk <= w < chunk + lanes else n for n, w in enumerate(where)
        ]
        result = shuffle(c, result, part, picks)
    return result


def _pointers(c: Code, dtype: DType, at: Address) -> tuple[str, str]:
    """Return the type and the text of a vector of pointers, one per lane."""
    kind = f"<{at.lanes} x ptr>"
    if at.stride is None:
        return kind, at.pointer
    steps = vector([at.stride * n for n in range(at.lanes)])
    text = f"getelementptr {type_of(dtype)}, ptr {at.pointer}, {steps}"
    return kind, c.op(text, dtype, at.lanes).text


def _everywhere(lanes: int) -> Value:
    return Value("splat (i1 true)", BOOL, lanes)


def _gather(c: Code, dtype: DType, at: Address, mask: Value | None) -> Value:
    result = Value("zeroinitializer", dtype, at.lanes)
    name = f"llvm.masked.gather.{suffix_of(dtype, at.lanes)}.v{at.lanes}p0"
    lane_mask = mask or _everywhere(at.lanes)
    return c.call(
        name, result, _pointers(c, dtype, at), ("i32", str(dtype.bytes)), lane_mask, result
    )


def _scatter(c: Code, pointers: tuple[str, str], v: Value, mask: Value | None) -> None:
    name = f"llvm.masked.scatter.{suffix_of(v.dtype, v.lanes)}.v{v.lanes}p0"
    lane_mask = mask or _everywhere(v.lanes)
    c.run(name, v, pointers, ("i32", str(v.dtype.bytes)), lane_mask)
