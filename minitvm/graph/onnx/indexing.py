"""ONNX operators that gather, scatter, search, and accumulate along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elements import element_type, pair
from .place import Place, Value, dtype_of, shape_of


def gather_elements(at: Place, x: Value, indices: Value) -> Value:
    """GatherElements along `axis`."""
    axis = at.axis(at.attrs.get("axis", 0), len(shape_of(x)))
    return at.make("gather", x, indices, axis=axis)


def gather_nd(at: Place, x: Value, indices: Value) -> Value:
    """GatherND, with `batch_dims` dimensions in common."""
    return at.make("gather_nd", x, indices, batch_dims=at.attrs.get("batch_dims", 0))


def scatter_elements(at: Place, x: Value, indices: Value, updates: Value) -> Value:
    """ScatterElements along `axis`; also the older operator Scatter."""
    axis = at.axis(at.attrs.get("axis", 0), len(shape_of(x)))
    if shape_of(indices) != shape_of(updates):
        raise at.refusal(f"indices {shape_of(indices)} and updates {shape_of(updates)} differ")
    return at.make("scatter_elements", x, indices, updates, axis=axis, **_reduction(at))


def scatter_nd(at: Place, x: Value, indices: Value, updates: Value) -> Value:
    """ScatterND."""
    outer, depth = shape_of(indices)[:-1], shape_of(indices)[-1]
    if shape_of(updates) != (*outer, *shape_of(x)[depth:]):
        raise at.refusal(f"its updates {list(shape_of(updates))} do not fit its indices")
    return at.make("scatter_nd", x, indices, updates, **_reduction(at))


def _reduction(at: Place) -> dict[str, str]:
    reduction = at.attrs.get("reduction", "none")
    return {} if reduction == "none" else {"reduction": reduction}


def topk(at: Place, x: Value, k: Value) -> tuple[Value, Value]:
    """TopK: the k largest or smallest elements along `axis`, in order, and their indices."""
    axis = at.axis(at.attrs.get("axis", -1), len(shape_of(x)))
    (count,) = at.ints(k, "k")
    indices = at.make("topk", x, k=count, axis=axis, largest=at.flag("largest", 1))
    return at.make("gather", x, indices, axis=axis), indices


def best_index(at: Place, x: Value, op: str) -> Value:
    """ArgMax and ArgMin, where op is "max" or "min": the place of the best element along `axis`."""
    axis = at.axis(at.attrs.get("axis", 0), len(shape_of(x)))
    index = _best(at, x, axis, op, last=at.flag("select_last_index"))
    if at.flag("keepdims", 1):
        return index
    return at.reshape(index, tuple(n for d, n in enumerate(shape_of(index)) if d != axis))


def _best(at: Place, x: Value, axis: int, op: str, last: bool = False) -> Value:
    """Return the index of the first or the last best element along `axis`, with size 1 there."""
    rank, size = len(shape_of(x)), shape_of(x)[axis]
    is_best = at.make("equal", x, at.make(op, x, axis=(axis,), keepdims=True))
    places = np.arange(size, dtype=np.int64).reshape(-1, *([1] * (rank - axis - 1)))
    others = np.asarray(0 if last else size - 1, np.int64)
    chosen = at.make("where", is_best, places, others)
    return at.make("max" if last else "min", chosen, axis=(axis,), keepdims=True)


def hardmax(at: Place, x: Value) -> Value:
    """Hardmax: 1 at the first largest element along `axis`, else 0."""
    axis = at.axis(at.attrs.get("axis", -1), len(shape_of(x)))
    rank, size = len(shape_of(x)), shape_of(x)[axis]
    places = np.arange(size, dtype=np.int64).reshape(-1, *([1] * (rank - axis - 1)))
    is_best = at.make("equal", _best(at, x, axis, "max"), places)
    return at.make("cast", is_best, dtype=str(dtype_of(x)))


def one_hot(at: Place, indices: Value, depth: Value, values: Value) -> Value:
    """OneHot: a new dimension `axis`, which holds the second of two values at the index."""
    size = int(at.constant(depth, "depth").item())
    axis = at.axis(at.attrs.get("axis", -1), len(shape_of(indices)) + 1)
    at.limit((*shape_of(indices), max(size, 1)))
    rest = len(shape_of(indices)) - axis
    places = np.arange(size).reshape(-1, *([1] * rest)).astype(dtype_of(indices).numpy)
    counted = pair(at, "add", indices, np.asarray(size, dtype_of(indices).numpy))
    is_negative = pair(at, "less", indices, np.asarray(0, dtype_of(indices).numpy))
    index = at.make("where", is_negative, counted, indices)
    shape = shape_of(indices)
    index = at.reshape(index, (*shape[:axis], 1, *shape[axis:]))
    off, on = (at.reshape(_element(at, values, k), ()) for k in (0, 1))
    return at.make("where", at.make("equal", index, places), on, off)


def _element(at: Place, vector: Value, k: int) -> Value:
    return at.make("strided_slice", vector, begin=(k,), end=(k + 1,), strides=(1,))


def cumulative(at: Place, x: Value, axis: Value, op: str) -> Value:
    """CumSum and CumProd along an axis."""
    (dim,) = at.ints(axis, "axis")
    flags: dict[str, Any] = {k: True for k in ("exclusive", "reverse") if at.flag(k)}
    return at.make(op, x, axis=at.axis(dim, len(shape_of(x))), **flags)


def trilu(at: Place, x: Value, k: Value | None = None) -> Value:
    """Trilu: the upper or lower triangle of matrices, from the diagonal k on."""
    (diagonal,) = (0,) if k is None else at.ints(k, "k")
    *_, rows, columns = shape_of(x)
    at.limit((rows, columns), 1)
    diagonal = min(max(diagonal, -rows - 1), columns + 1)
    triangle = np.triu if at.flag("upper", 1) else np.tril
    mask = triangle(np.ones((rows, columns), np.bool_), diagonal)
    return at.make("where", mask, x, np.asarray(0, dtype_of(x).numpy))


def tile(at: Place, x: Value, repeats: Value) -> Value:
    """Tile: repeat x along each dimension."""
    counts = at.ints(repeats, "repeats")
    if len(counts) != len(shape_of(x)):
        raise at.refusal(f"its repeats {list(counts)} do not fit {len(shape_of(x))} dimensions")
    for axis, count in enumerate(counts):
        size = shape_of(x)[axis]
        at.limit((max(count, 0), size))
        if count != 1:
            x = at.make("take", x, np.tile(np.arange(size, dtype=np.int64), count), axis=axis)
    return x


def compress(at: Place, x: Value, condition: Value) -> Value:
    """Compress: the slices along `axis` for which a constant condition is true."""
    indices = np.flatnonzero(at.constant(condition, "condition")).astype(np.int64)
    axis = at.attrs.get("axis")  # without it, x is flattened
    return at.make(
        "take", x, indices, axis=None if axis is None else at.axis(axis, len(shape_of(x)))
    )


def nonzero(at: Place, x: Value) -> Value:
    """NonZero of a constant."""
    return np.array(np.nonzero(at.constant(x, "input")), np.int64)


def eye_like(at: Place, x: Value) -> Value:
    """EyeLike: ones on the diagonal `k` of a matrix of the shape of x."""
    kind = element_type(at, "dtype") if "dtype" in at.attrs else str(dtype_of(x))
    at.limit(shape_of(x))
    rows, columns = shape_of(x)
    return np.eye(rows, columns, at.attrs.get("k", 0), dtype=np.dtype(kind))


def reverse_sequence(at: Place, x: Value, lengths: Value) -> Value:
    """ReverseSequence: the first elements of each row, as many as a constant says, in reverse."""
    time: int = at.attrs.get("time_axis", 0)
    batch: int = at.attrs.get("batch_axis", 1)
    n = shape_of(x)[time]
    counts = at.constant(lengths, "sequence_lens")
    rows = np.tile(np.arange(n, dtype=np.int64)[:, None], len(counts))
    rows = np.where(rows < counts, counts - 1 - rows, rows)  # [time, batch]
    rank = len(shape_of(x))
    shape = [1] * rank
    shape[time], shape[batch] = rows.shape
    indices = (rows if time < batch else rows.T).reshape(shape)
    return at.make(
        "gather", x, np.ascontiguousarray(np.broadcast_to(indices, shape_of(x))), axis=time
    )
