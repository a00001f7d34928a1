"""Operators that move elements: transpose, pad, reshape, concatenate, strided_slice, take."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, as_tuple

from .operands import check_tensor, checks_arguments, dimension, integers

__all__ = ["concatenate", "pad", "reshape", "strided_slice", "take", "transpose"]

INJECTIVE = "injective"


@checks_arguments
def transpose(x: te.Tensor, axes: Sequence[int] | None = None) -> te.Tensor:
    """Permute the dimensions of x: dimension k of the result is dimension axes[k] of x.

    If axes is None, the order is reversed.
    """
    order = list(reversed(range(x.ndim)))
    if axes is not None:
        order = integers("topi.transpose: axes", axes)
    if sorted(order) != list(range(x.ndim)):
        why = f"not a permutation of its {x.ndim} dimensions"
        raise ExprError(f"topi.transpose of {x.name} by {order}", why)

    def body(*i: Any) -> Any:
        source: list[Any] = [0] * x.ndim
        for at, d in zip(i, order, strict=True):
            source[d] = at
        return x(*source)

    return te.compute([x.shape[d] for d in order], body, name="T_transpose", tag=INJECTIVE)


@checks_arguments
def pad(
    x: te.Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: float = 0.0,
    name: str = "T_pad",
) -> te.Tensor:
    """Add pad_before[d] elements before x and pad_after[d] after it along each dimension d.

    The new elements are pad_value. If pad_after is None, pad_before is used for both.
    """
    pad_before = integers("topi.pad: pad_before", pad_before)
    after = pad_before if pad_after is None else integers("topi.pad: pad_after", pad_after)
    fits = len(pad_before) == len(after) == x.ndim
    if not fits or min([*pad_before, *after], default=0) < 0:
        what = f"topi.pad of {x.name} by {list(pad_before)}, {list(after)}"
        raise ExprError(what, f"give one size >= 0 for each of the {x.ndim} dimensions")
    shape = [n + b + a for n, b, a in zip(x.shape, pad_before, after, strict=True)]

    def body(*i: Any) -> Any:
        indices = [at - b for at, b in zip(i, pad_before, strict=True)]
        is_inside = [te.all(p >= 0, p < n) for p, n in zip(indices, x.shape, strict=True)]
        return te.if_then_else(te.all(*is_inside), x(*indices), te.const(pad_value, x.dtype))

    return te.compute(shape, body, name=name, tag=INJECTIVE)


@checks_arguments
def reshape(x: te.Tensor, shape: Sequence[int | tir.Expr]) -> te.Tensor:
    """Give x another shape with the same number of elements, in the same order.

    Sizes may be symbolic: (n, m) becomes (n*m,).
    """
    sizes = _indices("topi.reshape: shape", shape)
    if not tir.prove_equal(
        functools.reduce(tir.mul, x.shape, 1), functools.reduce(tir.mul, sizes, 1)
    ):
        raise ExprError(
            f"topi.reshape of {x.name} to [{', '.join(tir.text(n) for n in sizes)}]",
            f"its shape [{', '.join(tir.text(n) for n in x.shape)}] has another number of elements",
        )

    def body(*i: Any) -> Any:
        if any(isinstance(n, int) and n == 0 for n in x.shape):  # no element is ever read
            return te.const(0, x.dtype)
        flat: Any = 0
        for at, n in zip(i, sizes, strict=True):
            flat = flat * n + at
        indices: list[Any] = []
        for n in reversed(x.shape[1:]):
            indices.insert(0, flat % n)
            flat = flat // n
        return x(*[flat, *indices][: x.ndim])

    return te.compute(sizes, body, name="T_reshape", tag=INJECTIVE)


def concatenate(tensors: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Join the tensors along `axis`; their sizes must agree in all other dimensions."""
    tensors = as_tuple(tensors)
    if not tensors:
        raise ExprError("topi.concatenate([])", "there is nothing to concatenate")
    for t in tensors:
        check_tensor("topi.concatenate", "one of tensors", t)
    first = tensors[0]
    d = dimension("concatenate", first, axis)
    for t in tensors:
        fits = t.ndim == first.ndim and all(
            e == d or tir.prove_equal(a, b)
            for e, (a, b) in enumerate(zip(t.shape, first.shape, strict=False))
        )
        if not fits or t.dtype != first.dtype:
            why = f"{t.name} and {first.name} differ in type or in another dimension"
            raise ExprError(f"topi.concatenate along {axis}", why)
    ends: list[tir.Index] = []
    for t in tensors:
        ends.append(tir.add(ends[-1] if ends else 0, t.shape[d]))

    def body(*i: Any) -> Any:
        def among(first: int, last: int) -> Any:
            if first == last:
                start = ends[first - 1] if first else 0
                return tensors[first](*i[:d], i[d] - start, *i[d + 1 :])
            half = (first + last - 1) // 2
            left, right = among(first, half), among(half + 1, last)
            return te.if_then_else(i[d] < ends[half], left, right)

        return among(0, len(tensors) - 1)

    shape = [ends[-1] if e == d else n for e, n in enumerate(first.shape)]
    return te.compute(shape, body, name="T_concat", tag=INJECTIVE)


@checks_arguments
def strided_slice(
    x: te.Tensor,
    begin: Sequence[int | tir.Expr],
    end: Sequence[int | tir.Expr],
    strides: Sequence[int] | None = None,
) -> te.Tensor:
    """Slice x[begin : end : stride] in every dimension, as numpy does.

    Where a size, a begin or an end is symbolic, the stride is 1, and 0 <= begin <= end <= size must
    follow from the bounds of the variables.
    """
    first = _indices("topi.strided_slice: begin", begin)
    last = _indices("topi.strided_slice: end", end)
    step = [1] * x.ndim if strides is None else integers("topi.strided_slice: strides", strides)
    if not len(first) == len(last) == len(step) == x.ndim or 0 in step:
        why = "each dimension must have a begin, an end and a stride != 0"
        raise ExprError(f"topi.strided_slice of {x.name}", why)
    cuts = [_cut(x, *cut) for cut in zip(x.shape, first, last, step, strict=True)]

    def body(*i: Any) -> Any:
        return x(*(at * stride + start for at, (start, stride, _) in zip(i, cuts, strict=True)))

    return te.compute([n for *_, n in cuts], body, name="T_slice", tag=INJECTIVE)


def _cut(
    x: te.Tensor, size: tir.Index, begin: tir.Index, end: tir.Index, stride: int
) -> tuple[tir.Index, int, tir.Index]:
    """Return the first index, the stride and the length of a slice of one dimension of `x`."""
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int):
        indices = range(size)[begin:end:stride]
        return indices.start, indices.step, len(indices)
    length = tir.sub(end, begin)
    whole = tir.prove_equal(begin, 0) and tir.prove_equal(end, size)
    inside = min(map(tir.lower_bound, (begin, length, tir.sub(size, end)))) >= 0
    if stride != 1 or not (whole or inside):
        cut = f"{tir.text(begin)} : {tir.text(end)} : {stride}"
        why = f"0 <= begin <= end <= {tir.text(size)} with stride 1 does not follow"
        raise ExprError(f"topi.strided_slice of {x.name} by {cut}", why)
    return begin, 1, length


def _indices(what: str, sizes: Sequence[int | tir.Expr]) -> list[tir.Index]:
    """Return sizes or indices as a list; ExprError if one is no integer and not symbolic."""
    return [
        tir.index(n) if isinstance(n, tir.Expr) else integers(what, (n,))[0]
        for n in as_tuple(sizes)
    ]


@checks_arguments
def take(
    x: te.Tensor, indices: te.Tensor, axis: int | None = None, mode: str = "clip"
) -> te.Tensor:
    """Return the elements of x at `indices` along `axis`; if axis is None, x is flattened first.

    For x of shape [a, n, c], indices of shape [p, q] and axis 1, the result is [a, p, q, c]. An
    index out of bounds selects the nearest element: this is mode "clip", the only mode.
    """
    if mode != "clip":
        raise ExprError(f"topi.take with mode={mode!r}", "no such mode", 'mode="clip"')
    if axis is None:
        sizes = [n for n in x.shape if isinstance(n, int)]
        x, axis = reshape(x, [math.prod(sizes)]), 0
    d = dimension("take", x, axis)

    def body(*i: Any) -> Any:
        inner = d + indices.ndim
        return x(*i[:d], indices(*i[d:inner]), *i[inner:])

    shape = [*x.shape[:d], *indices.shape, *x.shape[d + 1 :]]
    return te.compute(shape, body, name="T_take", tag=INJECTIVE)
