"""Operators of torch that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import onnx
from ..node import Node
from ..onnx import Place, Value, shape_of


def view(at: Place, x: Value, sizes: Sequence[int]) -> Value:
    """Return x with another shape; a size of -1 is inferred."""
    return onnx.shapes.reshape(at.having(allowzero=1), x, np.asarray(sizes, np.int64))


def permute(at: Place, x: Value, axes: Sequence[int]) -> Value:
    """Permute the dimensions."""
    rank = len(shape_of(x))
    return at.make("transpose", x, axes=tuple(at.axis(d, rank) for d in axes))


def transpose(at: Place, x: Value, first: int, second: int) -> Value:
    """Exchange two dimensions."""
    axes = list(range(len(shape_of(x))))
    axes[first], axes[second] = axes[second], axes[first]
    return permute(at, x, axes)


def expand(at: Place, x: Value, sizes: Sequence[int], implicit: bool = False) -> Value:
    """Repeat dimensions of size 1; -1 keeps a size."""
    del implicit
    old = (1,) * (len(sizes) - len(shape_of(x))) + shape_of(x)
    shape = tuple(n if m == -1 else m for n, m in zip(old, sizes, strict=True))
    return x if shape == shape_of(x) else at.make("broadcast_to", x, shape=shape)


def unsqueeze(at: Place, x: Value, axis: int) -> Value:
    """Insert a dimension of size 1."""
    return onnx.shapes.unsqueeze(at, x, np.asarray([axis]))


def squeeze(at: Place, x: Value, axes: int | Sequence[int] | None = None) -> Value:
    """Remove the dimensions of size 1 among `axes`, or all."""
    shape, axes = shape_of(x), (axes,) if isinstance(axes, int) else axes
    chosen = range(len(shape)) if axes is None else {at.axis(d, len(shape)) for d in axes}
    return at.reshape(x, tuple(n for d, n in enumerate(shape) if n != 1 or d not in chosen))


def slice_(
    at: Place,
    x: Value,
    axis: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """Slice one dimension, as Python does."""
    shape = shape_of(x)
    axis = at.axis(axis, len(shape))
    begin, stop, step = slice(start, end, step).indices(shape[axis])
    return x if (begin, stop, step) == (0, shape[axis], 1) else _cut(at, x, axis, begin, stop, step)


def _cut(at: Place, x: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
    return onnx.shapes.cut(at, x, {axis: (begin, end, step)})


def select(at: Place, x: Value, axis: int, index: int) -> Value:
    """Return the elements at one index of a dimension, without that dimension."""
    shape = shape_of(x)
    axis = at.axis(axis, len(shape))
    index = at.axis(index, shape[axis])
    return at.reshape(_cut(at, x, axis, index, index + 1), (*shape[:axis], *shape[axis + 1 :]))


def cat(at: Place, parts: Sequence[Value], axis: int = 0) -> Value:
    """Concatenate along a dimension."""
    return onnx.shapes.concat(at.having(axis=axis), *parts)


def split(at: Place, x: Value, sizes: int | Sequence[int], axis: int = 0) -> tuple[Value, ...]:
    """Cut a dimension into parts of these sizes, or of one size."""
    axis = at.axis(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    ends = range(sizes, n + sizes, sizes) if isinstance(sizes, int) else np.cumsum(sizes).tolist()
    begins = [0, *ends][: len(ends)]
    return tuple(_cut(at, x, axis, b, min(e, n)) for b, e in zip(begins, ends, strict=True))


def unbind(at: Place, x: Value, axis: int = 0) -> tuple[Value, ...]:
    """Return the slices at each index of a dimension."""
    count = shape_of(x)[at.axis(axis, len(shape_of(x)))]
    return tuple(select(at, x, axis, k) for k in range(count))


def flip(at: Place, x: Value, axes: Sequence[int]) -> Value:
    """Reverse dimensions."""
    shape = shape_of(x)
    cuts = {at.axis(d, len(shape)): (shape[d] - 1, -1, -1) for d in axes}
    return onnx.shapes.cut(at, x, cuts)


def pad(at: Place, x: Value, rims: Sequence[int], value: float = 0.0) -> Value:
    """Pad with a number: sizes before and after the last dimension, then of that before it, ..."""
    unpadded = [0] * (len(shape_of(x)) - len(rims) // 2)
    before, after = [*unpadded, *rims[-2::-2]], [*unpadded, *rims[-1::-2]]
    pads = np.asarray([*before, *after], np.int64)
    return onnx.padding.pad(at.having(), x, pads, np.asarray(value, np.float32))


def take(at: Place, x: Value, axis: int, indices: Value) -> Value:
    """Return the elements at indices of a dimension."""
    return onnx.shapes.gather(at.having(axis=axis), x, indices)


def embedding(at: Place, weight: Value, indices: Value, *_: object) -> Value:
    """Return the rows of `weight` at indices."""
    return take(at, weight, 0, indices)


def index(at: Place, x: Value, indices: Sequence[Value | None]) -> Value:
    """Return x[indices], where all indices but one are `:`."""
    chosen = [d for d, i in enumerate(indices) if i is not None]
    if len(chosen) != 1:
        raise at.refusal(f"it has {len(chosen)} tensors as indices, not 1")
    (axis,) = chosen
    at_index = indices[axis]
    assert at_index is not None  # by the choice of `axis`
    return take(at, x, axis, at_index)


def repeat(at: Place, x: Value, times: Sequence[int]) -> Value:
    """Repeat the whole tensor along each dimension."""
    shape = (1,) * (len(times) - len(shape_of(x))) + shape_of(x)
    ones = tuple(n for size in shape for n in (1, size))
    repeated = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    whole = tuple(map(math.prod, zip(times, shape, strict=True)))
    return at.reshape(at.make("broadcast_to", at.reshape(x, ones), shape=repeated), whole)


def index_copy(at: Place, x: Value, axis: int, indices: Value, new: Value) -> Value:
    """Return x with the rows of `new` at indices of a dimension: new rows of a cache.

    x is [B, G, N, D], such as the keys of B sequences, of G heads and at most N words. The indices
    of several rows are `first + torch.arange(rows)`. Where torch raises an error for rows past the
    end of the cache, they are left out; compiled networks refuse an input `first` that is not the
    index of a row, except where one row is written at first + torch.arange(1).
    """
    rank, rows = len(shape_of(x)), math.prod(shape_of(indices))
    first = first_of(at, indices)
    if rank != 4 or at.axis(axis, rank) != 2 or first is None:
        why = f"it copies {rows} rows along dimension {axis} of {rank} dimensions"
        fix = "new rows at first + torch.arange(rows), along dimension 2 of 4"
        raise at.refusal(why, fix)
    return at.make("cache_update", x, new, for_each(at, first, shape_of(x)[0]))


def for_each(at: Place, x: Value, batch: int) -> Value:
    """Return x, a tensor of one element, as a vector with this element for each sequence."""
    return expand(at, at.reshape(x, (1,)), (batch,))


def first_of(at: Place, indices: Value) -> Value | None:
    """Return x if the indices are x, x + 1, x + 2, ...; else None."""
    if math.prod(shape_of(indices)) == 1:
        return indices
    if isinstance(indices, Node) and indices.op == "add" and len(indices.inputs) == 2:
        for x, y in (indices.inputs, indices.inputs[::-1]):
            if x.type.elements == 1 and at.scope.is_arange(y, indices.type.elements):
                return x
    return None
