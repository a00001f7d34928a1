"""The memory of a running program, and checks that arguments fit their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    """The memory of a buffer during a run: a 1-d array that includes gaps between strided rows."""

    data: Array = field(default_factory=lambda: np.empty(0))
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    written: Array | None = None  # which elements are written; None: all (an argument)

    def begin(self, dtype: DType, shape: Iterable[int], strides: Iterable[int]) -> None:
        """Allocate the memory: mark every element as not written, and fill it with poison."""
        self.shape, self.strides = tuple(shape), tuple(strides)
        size = _size(self.shape, self.strides)
        poison = np.nan if dtype.is_float else True if dtype.kind == "bool" else dtype.high
        self.data, self.written = np.full(size, poison, dtype.numpy), np.zeros(size, np.bool_)


def _size(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return the number of elements from the first to the last one, including gaps between rows.

    It is 0 if an extent is 0.
    """
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def borrow(b: Buffer, array: Array, values: Mapping[Var, int]) -> BufferData:
    """Wrap `array`, the argument that is passed for the buffer `b`, without copying it.

    values   the values of symbolic sizes, which the strides of `b` may contain
    """
    strides = tuple(int(substitute(s, values)) for s in row_strides(b))
    size = _size(array.shape, strides)
    row: Array = np.lib.stride_tricks.as_strided(array, (size,), (array.itemsize,))
    return BufferData(row, array.shape, strides)


def window(row: Array, shape: list[int], strides: list[int]) -> Array:
    """Return a view of `row` with the given shape and strides; strides are in elements.

    Raises VerifyError if the view would reach past the end of `row`.
    """
    reach = _size(tuple(shape), tuple(strides))
    if reach > len(row):
        why = f"it spans {reach} elements, but the memory has only {len(row)}"
        raise VerifyError(f"a view of shape {shape} with strides {strides}", why)
    steps = [s * row.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(row, shape, steps)


def outside(d: int, i: Any, n: int, flat: bool) -> str:
    """Return the part of an error message that states which index is not in 0 .. n-1.

    d      the dimension
    i      the index; an array of one index per lane in a vector access
    flat   whether `i` is an element offset instead
    """
    bad = next(x for x in np.atleast_1d(i).tolist() if not 0 <= x < n)
    what = f"element {bad} is" if flat else f"index {d} is {bad},"
    return f"{what} not in 0 .. {n - 1}"


def sizes_of(f: PrimFunc, args: tuple[Any, ...]) -> dict[Var, int]:
    """Return the value of every scalar parameter and symbolic size in a call of `f` with `args`.

    Raises ArgumentError if an argument does not fit its parameter.
    """
    if len(args) != len(f.params):
        what = f"{f.name}({', '.join(p.name for p in f.params)})"
        raise ArgumentError(what, f"takes {len(f.params)} arguments, {len(args)} given")
    facts = [fact for p, arg in zip(f.params, args, strict=True) for fact in _facts(f, p, arg)]
    values: dict[Var, int] = {}
    for _, declared_size, actual in facts:
        if isinstance(declared_size, Var):
            values.setdefault(declared_size, actual)
    for what, declared_size, actual in facts:
        expected = substitute(declared_size, values)
        if not isinstance(expected, int) or expected != actual:
            raise ArgumentError(f"{f.name}: {what}", f"is {actual}, not {text(expected)}")
    for v in f.sizes:
        if v not in values:
            why = "no argument has an extent that determines it"
            raise ArgumentError(f"{f.name}: size {v.name}", why)
    for need in f.needs:
        _check_need(f, need, values)
    for v, n in values.items():
        _check_range(f, v, n)
    return values


def _check_range(f: PrimFunc, v: Var, n: int) -> None:
    """Raise ArgumentError if `n` is not a value that the size `v` may have."""
    if not v.low <= n <= v.high:
        raise ArgumentError(f"{f.name}: {v.name} = {n}", f"is not in {v.low} .. {v.high}")


def signature_at(f: PrimFunc, n: int) -> PrimFunc:
    """Return `f` with the parameters that remain if all its scalar parameters are `n`.

    Its body does not change: it still reads the scalars. Raises ArgumentError if the program does
    not work for this value.
    """
    values = {p: n for p in f.params if isinstance(p, Var)}
    for need in f.needs:
        _check_need(f, need, values)
    for v in values:
        _check_range(f, v, n)
    new = {id(b): _buffer_at(b, values) for b in f.params if isinstance(b, Buffer)}
    return replace(
        f,
        params=tuple(new[id(p)] for p in f.params if id(p) in new),
        outputs=tuple(new[id(b)] for b in f.outputs),
        constants=tuple(new[id(b)] for b in f.constants),
        scratch=tuple(new[id(b)] for b in f.scratch),
        needs=(),
    )


def _buffer_at(b: Buffer, values: Mapping[Var, int]) -> Buffer:
    shape, strides = (tuple(substitute(n, values) for n in sizes) for sizes in (b.shape, b.strides))
    return replace(b, shape=shape, strides=strides)


def _check_need(f: PrimFunc, need: Index, values: Mapping[Var, int]) -> None:
    """Raise ArgumentError if `need` is negative, since a read could then be out of bounds.

    need     an index from f.needs; `values` has the value of each size
    """
    slack = substitute(need, values)
    if not isinstance(slack, int) or slack < 0:
        sizes = ", ".join(f"{v.name} = {values.get(v, '?')}" for v in variables(need))
        why = f"the program needs {text(add(need, 1))} >= 1, which a read or a split assumes"
        raise ArgumentError(f"{f.name}: {sizes}", why, "larger arrays")


def _facts(f: PrimFunc, p: Buffer | Var, arg: Any) -> Iterator[tuple[str, Index, int]]:
    """Yield (what, declared, actual) for each extent and stride of an array, or for a scalar.

    `what` names this quantity: "A.shape[0]". Raises ArgumentError for a wrong type or rank.
    """
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
    """Yield (why,) if `arg` is not an int, or not an array of the type and rank of `p`."""
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
        yield ("is an output, but the array is read-only",)
