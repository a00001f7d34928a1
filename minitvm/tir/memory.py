"""What a program runs on: buffers as rows of elements, and arguments that fit the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm.base import ArgumentError, DType, Reason, VerifyError, raise_first

from .func import PrimFunc
from .index import add, row_strides
from .nodes import Buffer, Index, Var
from .text import text
from .walk import substitute, variables

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(slots=True)
class BufferData:
    """A buffer while it exists: its elements in a row, gaps between strided rows included."""

    data: Array = field(default_factory=lambda: np.empty(0))
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    written: Array | None = None  # which elements are written; None: all, in the caller's memory

    def begin(self, dtype: DType, shape: Iterable[int], strides: Iterable[int]) -> None:
        """Start as an allocation does: nothing is written, and values are poison."""
        self.shape, self.strides = tuple(shape), tuple(strides)
        size = _size(self.shape, self.strides)
        poison = np.nan if dtype.is_float else True if dtype.kind == "bool" else dtype.high
        self.data, self.written = np.full(size, poison, dtype.numpy), np.zeros(size, np.bool_)


def _size(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return how many elements lie from the first to the last; 0 if an extent is 0."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def borrow(b: Buffer, array: Array, values: Mapping[Var, int]) -> BufferData:
    """Return the memory of an argument as a row of elements; writes reach the argument."""
    strides = tuple(int(substitute(s, values)) for s in row_strides(b))
    size = _size(array.shape, strides)
    row: Array = np.lib.stride_tricks.as_strided(array, (size,), (array.itemsize,))
    return BufferData(row, array.shape, strides)


def window(row: Array, shape: list[int], strides: list[int]) -> Array:
    """Return a strided view of `row` with this shape and these strides in elements."""
    reach = _size(tuple(shape), tuple(strides))
    if reach > len(row):
        raise VerifyError(
            f"a view of {shape}, strides {strides}", f"it needs {reach} elements of {len(row)}"
        )
    steps = [s * row.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(row, shape, steps)


def outside(d: int, i: Any, n: int, flat: bool) -> str:
    """Say which index is outside 0 .. n-1."""
    bad = next(x for x in np.atleast_1d(i).tolist() if not 0 <= x < n)
    what = f"element {bad} is" if flat else f"index {d} is {bad},"
    return f"{what} not in 0 .. {n - 1}"


def sizes_of(f: PrimFunc, args: tuple[Any, ...]) -> dict[Var, int]:
    """Return the value of every scalar parameter and symbolic size.

    Raises ArgumentError where an argument does not fit its parameter.
    """
    if len(args) != len(f.params):
        what = f"{f.name}({', '.join(p.name for p in f.params)})"
        raise ArgumentError(what, f"takes {len(f.params)} arguments, {len(args)} given")
    facts = [fact for p, arg in zip(f.params, args, strict=True) for fact in _facts(f, p, arg)]
    values: dict[Var, int] = {}
    for _, declared, actual in facts:
        if isinstance(declared, Var):
            values.setdefault(declared, actual)
    for what, declared, actual in facts:
        wanted = substitute(declared, values)
        if not isinstance(wanted, int) or wanted != actual:
            raise ArgumentError(f"{f.name}: {what}", f"is {actual}, not {text(wanted)}")
    for v in f.sizes:
        if v not in values:
            raise ArgumentError(f"{f.name}: size {v.name}", "no argument has it as an extent")
    for need in f.needs:
        _check_need(f, need, values)
    for v, n in values.items():
        if not v.low <= n <= v.high:
            raise ArgumentError(f"{f.name}: {v.name} = {n}", f"is not in {v.low} .. {v.high}")
    return values


def _check_need(f: PrimFunc, need: Index, values: Mapping[Var, int]) -> None:
    """Raise ArgumentError if `need` is negative: a read would be out of bounds."""
    found = substitute(need, values)
    if not isinstance(found, int) or found < 0:
        given = ", ".join(f"{v.name} = {values.get(v, '?')}" for v in variables(need))
        raise ArgumentError(
            f"{f.name}: {given}",
            f"the program needs {text(add(need, 1))} >= 1: a read or a split relies on it",
            "larger arrays",
        )


def _facts(f: PrimFunc, p: Buffer | Var, arg: Any) -> Iterator[tuple[str, Index, int]]:
    """Yield (what, declared, actual) for every number that an argument fixes."""
    raise_first(ArgumentError, f"{f.name}: {p.name}", _about_argument(f, p, arg))
    if isinstance(p, Var):
        yield p.name, p, int(arg)
        return
    array = cast("Array", arg)
    for d, n in enumerate(p.shape):
        yield f"{p.name}.shape[{d}]", n, array.shape[d]
    for d, s in enumerate(row_strides(p)):
        if array.size and array.shape[d] > 1:  # otherwise the stride is never used
            yield f"{p.name}.strides[{d}] in elements", s, array.strides[d] // array.itemsize


def _about_argument(f: PrimFunc, p: Buffer | Var, arg: Any) -> Iterator[Reason]:
    """Check that an argument is an int, or an array of its parameter's type and rank."""
    kind, array = type(arg).__name__, cast("Array", arg)
    if isinstance(p, Var):
        if not isinstance(arg, Integral):
            yield (f"is {kind}, not an int",)
    elif not isinstance(arg, np.ndarray):
        yield (f"is {kind}, not a numpy array",)
    elif array.dtype != p.dtype.numpy:
        yield (f"holds {array.dtype}, not {p.dtype}",)
    elif array.ndim != len(p.shape):
        yield (f"has {array.ndim} dimensions, not {len(p.shape)}",)
    elif not array.flags.writeable and any(p is b for b in f.outputs):
        yield ("is an output, and the array is read-only",)
