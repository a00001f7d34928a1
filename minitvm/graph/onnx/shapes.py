"""ONNX operators that move elements, or compute shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .place import Place, Value, dtype_of, shape_of


def reshape(at: Place, x: Value, shape: Value) -> Value:
    """Reshape: a size of 0 is copied from the input, and -1 is inferred."""
    sizes, old = list(at.ints(shape, "shape")), shape_of(x)
    if not at.flag("allowzero"):
        if any(n == 0 and k >= len(old) for k, n in enumerate(sizes)):
            raise at.refusal(f"its shape {sizes} copies sizes that {list(old)} does not have")
        sizes = [old[k] if n == 0 else n for k, n in enumerate(sizes)]
    known = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and known and math.prod(old) % known == 0:
        sizes[sizes.index(-1)] = math.prod(old) // known
    if min(sizes, default=0) < 0 or math.prod(sizes) != math.prod(old):
        raise at.refusal(f"{list(old)} cannot be reshaped to {sizes}")
    return at.reshape(x, tuple(sizes))


def flatten(at: Place, x: Value) -> Value:
    """Flatten to a matrix, whose rows are the dimensions before `axis`."""
    shape = shape_of(x)
    axis = at.attrs.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise at.refusal(f"it has axis {axis}, but the tensor has {len(shape)} dimensions")
    axis += len(shape) if axis < 0 else 0
    return at.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def squeeze(at: Place, x: Value, axes: Value | None = None) -> Value:
    """Remove dimensions of size 1: those of `axes`, or all."""
    shape = shape_of(x)
    if axes is None:
        return at.reshape(x, tuple(n for n in shape if n != 1))
    squeezed_axes = {at.axis(d, len(shape)) for d in at.ints(axes, "axes")}
    if any(shape[d] != 1 for d in squeezed_axes):
        raise at.refusal(
            f"dimensions {sorted(squeezed_axes)} of {list(shape)} are not all of size 1"
        )
    return at.reshape(x, tuple(n for d, n in enumerate(shape) if d not in squeezed_axes))


def unsqueeze(at: Place, x: Value, axes: Value) -> Value:
    """Insert dimensions of size 1, at these places of the result."""
    dims, old = at.ints(axes, "axes"), shape_of(x)
    rank = len(old) + len(dims)
    new_axes = {at.axis(d, rank) for d in dims}
    if len(new_axes) != len(dims):
        raise at.refusal(f"its axes {dims} name a dimension twice")
    rest = iter(old)
    return at.reshape(x, tuple(1 if d in new_axes else next(rest) for d in range(rank)))


def transpose(at: Place, x: Value) -> Value:
    """Transpose; the order is reversed by default."""
    rank = len(shape_of(x))
    axes = at.attrs.get("perm", tuple(reversed(range(rank))))
    return at.make("transpose", x, axes=axes)


def concat(at: Place, *values: Value) -> Value:
    """Concatenate along `axis`."""
    axis = at.axis(at.attrs["axis"], len(shape_of(values[0])))
    return concat_along(at, axis, [v for v in values if 0 not in shape_of(v)] or values[:1])


def concat_along(at: Place, axis: int, values: Sequence[Value]) -> Value:
    """Concatenate values, none of which is empty, along `axis`."""
    return values[0] if len(values) == 1 else at.make("concatenate", *values, axis=axis)


def cut(at: Place, x: Value, cuts: dict[int, tuple[int, int, int]]) -> Value:
    """Slice dimensions by (begin, end, step), where the end may be -1 for negative steps."""
    shape = shape_of(x)
    whole = [cuts.get(d, (0, n, 1)) for d, n in enumerate(shape)]
    left = [len(range(*bounds)) for bounds in whole]
    if 0 in left:
        if isinstance(x, np.ndarray):  # the empty part of a shape
            return np.empty(left, x.dtype)
        raise at.refusal(f"it leaves no elements of {list(shape)}")
    begin, end, strides = zip(*whole, strict=True)
    end = tuple(-n - 1 if e < 0 else e for e, n in zip(end, shape, strict=True))
    return at.make("strided_slice", x, begin=begin, end=end, strides=strides)


def slice_(
    at: Place,
    x: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    """Slice, as Python does."""
    begin, end = at.ints(starts, "starts"), at.ints(ends, "ends")
    dims = range(len(begin)) if axes is None else at.ints(axes, "axes")
    step = (1,) * len(begin) if steps is None else at.ints(steps, "steps")
    if not len(begin) == len(end) == len(dims) == len(step) or 0 in step:
        raise at.refusal("its starts, ends, axes and steps do not fit each other")
    shape = shape_of(x)
    cuts: dict[int, tuple[int, int, int]] = {}
    for b, e, d, s in zip(begin, end, dims, step, strict=True):
        axis = at.axis(d, len(shape))
        cuts[axis] = slice(b, e, s).indices(shape[axis])
    return cut(at, x, cuts) if cuts else x


def split(at: Place, x: Value, sizes: Value | None = None) -> tuple[Value, ...]:
    """Split along `axis` into slices."""
    shape, count = shape_of(x), len(at.call.outputs)
    axis = at.axis(at.attrs.get("axis", 0), len(shape))
    if sizes is None:
        if at.attrs.get("num_outputs", count) != count:
            raise at.refusal(f"it has {count} outputs, not num_outputs")
        largest = -(-shape[axis] // count)
        parts = (*([largest] * (count - 1)), shape[axis] - largest * (count - 1))
    else:
        parts = at.ints(sizes, "split")
    if len(parts) != count or sum(parts) != shape[axis] or min(parts) < 1:
        raise at.refusal(f"parts {list(parts)} are not those of {shape[axis]} in {count} outputs")
    ends = [sum(parts[: k + 1]) for k in range(count)]
    return tuple(cut(at, x, {axis: (e - n, e, 1)}) for e, n in zip(ends, parts, strict=True))


def expand(at: Place, x: Value, shape: Value) -> Value:
    """Broadcast x with a tensor of this shape."""
    try:
        sizes = np.broadcast_shapes(shape_of(x), at.ints(shape, "shape"))
    except ValueError as e:
        raise at.refusal(str(e)) from e
    return x if sizes == shape_of(x) else at.make("broadcast_to", x, shape=sizes)


def gather(at: Place, x: Value, indices: Value) -> Value:
    """Gather along `axis`; an index below 0 counts from the end."""
    shape, rows = shape_of(x), shape_of(indices)
    axis = at.axis(at.attrs.get("axis", 0), len(shape))
    n = shape[axis]
    if not isinstance(indices, np.ndarray):
        return at.make("take", x, indices, axis=axis, mode="index")
    if indices.size and not -n <= indices.min() <= indices.max() < n:
        raise at.refusal(f"its indices {indices.min()} .. {indices.max()} are not of {n} elements")
    indices = np.where(indices < 0, indices + n, indices)
    if indices.size == 1:  # one row
        at_ = int(indices.item())
        row = cut(at, x, {axis: (at_, at_ + 1, 1)})
        return at.reshape(row, (*shape[:axis], *rows, *shape[axis + 1 :]))
    return at.make("take", x, indices, axis=axis)


def shape(at: Place, x: Value) -> Value:
    """Return the shape, or a part of it, as a constant."""
    cut_ = slice(at.attrs.get("start", 0), at.attrs.get("end"))
    return np.asarray(shape_of(x)[cut_], np.int64)


def size(at: Place, x: Value) -> Value:
    """Return the number of elements."""
    del at
    return np.asarray(math.prod(shape_of(x)), np.int64)


def constant(at: Place) -> Value:
    """Return the value of a Constant, which is in one of several attributes."""
    attr_dtypes = {"value_float": "float32", "value_floats": "float32"}
    attr_dtypes |= {"value_int": "int64", "value_ints": "int64"}
    match list(at.attrs.items()):
        case [("value", value)]:
            return value
        case [(key, value)] if key in attr_dtypes:
            return np.asarray(value, attr_dtypes[key])
        case _:
            raise at.refusal("it needs exactly one attribute that gives its value, as numbers")


def constant_of_shape(at: Place, sizes: Value) -> Value:
    """Return a tensor of one number."""
    shape = at.ints(sizes, "shape")
    if min(shape, default=0) < 0:
        raise at.refusal(f"its shape {list(shape)} has negative sizes")
    value = at.attrs.get("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise at.refusal("its value is not one number")
    at.limit(shape, value.itemsize)
    return np.full(shape, value.item(), value.dtype)


def range_(at: Place, start: Value, limit: Value, delta: Value) -> Value:
    """Return the constant numbers from `start` to before `limit`."""
    first, last, step = (at.constant(v, "bound").item() for v in (start, limit, delta))
    if not step:
        raise at.refusal("its step is 0")
    count = max(0, math.ceil((last - first) / step))
    at.limit((count,))
    steps = np.arange(count)
    return np.asarray(first + steps * step, dtype_of(start).numpy)


def identity(at: Place, x: Value, *rest: Value | None) -> Value:
    """Return x: the operators Identity and, in inference, Dropout."""
    if len(rest) == 2 and rest[1] is not None and at.constant(rest[1], "training_mode").any():
        raise at.refusal("it trains: its training_mode is true", "export the model for inference")
    return x
