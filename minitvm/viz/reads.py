"""Find which elements of its inputs an element of a tensor reads, according to its formula.

Conditions on indices (padding) are taken into account exactly. If data decide what is read, as in
A[P[i]] or under a condition on values, the reads include every element that might be read, and
`Reads.unsure` contains the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import tensor, tir
from minitvm.base import ArgumentError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Point: TypeAlias = tuple[int, ...]

MAX_STEPS = 4_000_000  # elements times terms of a sum: about a second


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """The elements of inputs that some elements of a tensor read.

    pairs   input -> array [m, 2] of distinct rows: the number of the element that reads, and the
            row-major offset of an element of the input that it reads
    unsure  the inputs for which data decide what is read; their pairs are an upper bound
    """

    pairs: dict[tensor.Tensor, Array]
    unsure: frozenset[tensor.Tensor] = frozenset()


def footprint(
    t: tensor.Tensor, tile: Sequence[Any], inputs: Iterable[tensor.Tensor] = ()
) -> dict[tensor.Tensor, tuple[Point, ...]]:
    """Return, for each input of `t`, the elements that a tile of `t` reads, in row-major order.

    tile     one entry per dimension: (start, extent), or one coordinate
    inputs   the tensors whose elements to return: reads of other tensors are followed back to
             these. By default the tensors that the formula names

    For C = A B with 8 x 8 matrices, footprint(C, [(0, 2), 5]) is A[0..1, 0..7] and B[0..7, 5].
    Raises ArgumentError for a tile out of bounds, and for symbolic shapes.
    """
    sizes = sizes_of(checked(t))
    if not isinstance(tile, Sequence) or len(tile) != len(sizes):  # pyright: ignore[reportUnnecessaryIsInstance]
        why = f"{t.name} has {len(sizes)} dimensions"
        raise ArgumentError(f"tile {tile!r}", why, "(start, extent) for each")
    axes = [_span(part, d, n) for d, (part, n) in enumerate(zip(tile, sizes, strict=True))]
    reads = reads_of(t, points_of(axes), tuple(inputs))
    return {u: places_of(u, distinct(pairs[:, 1])) for u, pairs in reads.pairs.items()}


def places_of(t: tensor.Tensor, offsets: Array) -> tuple[Point, ...]:
    """Return the coordinates of the elements of `t` at row-major offsets."""
    if not t.shape:
        return ((),) * len(offsets)
    return tuple(zip(*(a.tolist() for a in np.unravel_index(offsets, sizes_of(t))), strict=True))


def _span(part: Any, d: int, n: int) -> Array:
    """Convert the entry `part` of a tile to coordinates in dimension `d`, whose size is `n`."""
    pair = cast("Sequence[Any]", part if isinstance(part, tuple | list) else (part, 1))
    whole = len(pair) == 2 and all(isinstance(x, int) and not isinstance(x, bool) for x in pair)
    start, extent = pair if whole else (0, 0)
    if not 0 <= start < start + extent <= n:
        what = f"tile: {part!r} in dimension {d}"
        why = f"the coordinates are 0 .. {n - 1}"
        raise ArgumentError(what, why, "(start, extent), or one coordinate")
    return np.arange(start, start + extent)


def points_of(axes: Sequence[Array]) -> Array:
    """Return all points of a box as an array [n, d], the last coordinate varying fastest."""
    if not axes:
        return np.zeros((1, 0), np.int64)
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)


def sizes_of(t: tensor.Tensor) -> tuple[int, ...]:
    """Return the shape of `t`; raise ArgumentError if part of it is symbolic."""
    for n in t.shape:
        if not isinstance(n, int):
            what = f"{t.name} with a dimension of {tir.text(n)}"
            why = "its elements are not known before the program runs"
            raise ArgumentError(what, why, "constant sizes")
    return tuple(n for n in t.shape if isinstance(n, int))


def checked(t: Any) -> tensor.Tensor:
    """Return `t` if it is a tensor with a formula; otherwise raise ArgumentError."""
    if not isinstance(t, tensor.Tensor):
        raise ArgumentError(f"{type(t).__name__} as a formula", "not a tensor", "te.compute(...)")
    if not isinstance(t.op, tensor.ComputeOp):
        why = f"no formula computes it: {t.op}"
        raise ArgumentError(f"the reads of {t.name}", why, "a tensor of te.compute")
    for e in tensor.extent_loads(t.op):
        why = f"the length of its sum depends on {tir.text(e)}"
        raise ArgumentError(f"the reads of {t.name}", why, "constant sizes")
    return t


def terms_of(t: tensor.Tensor) -> int:
    """Return an upper bound on the number of terms in the reduction of `t`; 1 if it has none."""
    axes = t.op.reduce_axis if isinstance(t.op, tensor.ComputeOp) else ()
    return prod(max(0, int(a.high) - int(a.low) + 1) for a in axes)


def reads_of(t: tensor.Tensor, points: Array, stop: tuple[tensor.Tensor, ...] = ()) -> Reads:
    """Return what the elements of `t` at `points` [n, ndim] read, followed back to `stop`.

    stop   the tensors whose read elements to return; by default the tensors in the formula of `t`
    """
    direct = _Walk(checked(t), points).reads()
    parts: dict[tensor.Tensor, list[Array]] = {}
    unsure = set(direct.unsure)
    for u, pairs in direct.pairs.items():
        if not stop or u in stop or not isinstance(u.op, tensor.ComputeOp):
            parts.setdefault(u, []).append(pairs)
            continue
        elements, number = np.unique(pairs[:, 1], return_inverse=True)
        inner_points = np.array(places_of(u, elements), np.int64).reshape(-1, u.ndim)
        inner = reads_of(u, inner_points, stop)
        unsure |= inner.pairs.keys() if u in direct.unsure else inner.unsure
        for v, more in inner.pairs.items():  # (t, u) joined with (u, v): (t, v)
            first, last = (np.searchsorted(more[:, 0], number, side) for side in ("left", "right"))
            count = last - first
            at = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - last, count)
            new_pairs = np.stack([np.repeat(pairs[:, 0], count), more[at, 1]], axis=1)
            parts.setdefault(v, []).append(new_pairs)
    return Reads({u: _each_once(u, pairs) for u, pairs in parts.items()}, frozenset(unsure))


def _each_once(t: tensor.Tensor, parts: list[Array]) -> Array:
    """Return the pairs of all parts in one array, sorted and without repetition."""
    size = max(1, prod(sizes_of(t)))  # one number per pair: numpy sorts numbers faster than rows
    flat = distinct(np.concatenate([p[:, 0] * size + p[:, 1] for p in parts]))
    return np.stack(np.divmod(flat, size), axis=1)


def distinct(numbers: Array) -> Array:
    """Return sorted distinct numbers: numpy.unique without its slow hash table."""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]


class _Walk:
    """Collects the reads of one formula, at all points and all terms of the sum at once.

    The value of an index is an array that broadcasts to [points, terms].
    """

    def __init__(self, t: tensor.Tensor, points: Array) -> None:
        self.op = cast("tensor.ComputeOp", t.op)
        self.which = t.value_index
        self.count = len(points)
        self.values: dict[tir.Var, Array] = {
            a: points[:, d : d + 1] for d, a in enumerate(self.op.axis)
        }
        self.pairs: dict[tensor.Tensor, list[Array]] = {}
        self.unsure: set[tensor.Tensor] = set()

    def reads(self) -> Reads:
        r = self.op.reduction
        all_true = np.ones((self.count, 1), np.bool_)
        if r is None:
            self.visit(self.op.body[self.which], all_true, True)
        else:
            for e in r.init:
                self.visit(e, all_true, True)
            frame = self.enter()
            self.visit(r.where, frame, True)
            for e in r.sources:
                self.visit(e, *self.under(r.where, frame, True))
        pairs = {u: _each_once(u, parts) for u, parts in self.pairs.items()}
        return Reads(pairs, frozenset(self.unsure))

    def enter(self) -> Array:
        """Set the values of the reduce axes; return a mask [points, terms] of the valid terms."""
        axes = self.op.reduce_axis
        firsts = [np.asarray(self.value(a.start)) for a in axes]
        stops = [f + self.value(a.extent) for f, a in zip(firsts, axes, strict=True)]
        spans: list[Array] = [
            np.arange(f.min(), s.max()) if s.size else np.arange(0)
            for f, s in zip(firsts, stops, strict=True)
        ]
        check_effort(self.op.name, self.count, prod(map(len, spans)))
        terms = points_of(spans)
        exists = np.ones((self.count, len(terms)), np.bool_)
        for d, (a, first, stop) in enumerate(zip(axes, firsts, stops, strict=True)):
            self.values[a] = terms[None, :, d]
            exists &= (first <= self.values[a]) & (self.values[a] < stop)
        return exists

    def visit(self, e: Any, active: Array, sure: bool) -> None:
        """Collect all loads in `e`.

        active   mask of the points and terms for which `e` may be computed
        sure     whether `e` is certainly computed for them
        """
        match e:
            case tir.IfThenElse(cond, a, b):
                self.visit(cond, active, sure)
                self.visit(a, *self.under(cond, active, sure))
                self.visit(b, *self.under(tir.Not(cond), active, sure))
            case tir.Load():
                self.load(e, active, sure)
                for i in e.indices:
                    self.visit(i, active, sure)
            case tir.Expr():
                for c in tir.children(e):
                    self.visit(c, active, sure)
            case _:
                return

    def under(self, cond: tir.Expr, active: Array, sure: bool) -> tuple[Array, bool]:
        """Return where an expression under `cond` may be computed, and whether it certainly is."""
        if tir.is_decided_by(self.values, cond):
            return active & np.asarray(self.value(cond)), sure
        return active, False

    def load(self, e: tir.Load, active: Array, sure: bool) -> None:
        """Collect the elements of a load; an index that depends on data may have any value."""
        t = cast("tensor.Tensor", e.buffer)
        sizes = sizes_of(t)
        active, offset = active[..., None], np.zeros((1, 1, 1), np.int64)
        for i, n in zip(e.indices, sizes, strict=True):
            if tir.is_decided_by(self.values, i):
                at = np.asarray(self.value(i))
                at = at.reshape(*(1,) * (2 - at.ndim), *at.shape)[..., None]
                active = active & (at >= 0) & (at < n)
                offset = offset * n + at
            else:
                sure = False
                check_effort(t.name, active.size, offset.shape[-1] * n)
                lane_offsets = offset[..., None] * n + np.arange(n)
                offset = lane_offsets.reshape(*offset.shape[:2], -1)
                active = np.repeat(active, n, axis=-1) if active.shape[-1] > 1 else active
        shape = np.broadcast_shapes(active.shape, offset.shape)
        mask = np.broadcast_to(active, shape)
        points = np.broadcast_to(np.arange(self.count)[:, None, None], shape)[mask]
        elements = np.broadcast_to(offset, shape)[mask]
        self.unsure |= set() if sure else {t}
        self.pairs.setdefault(t, []).append(np.stack([points, elements], axis=1))

    def value(self, e: tir.Index) -> Any:
        """Return the value of an index or a condition at all points and terms."""
        return tir.index_value(e, self.values)


def check_effort(name: str, points: int, terms: int) -> None:
    """Raise ArgumentError if there are too many reads: `points` elements of `terms` terms each."""
    if points * terms > MAX_STEPS:
        what = f"the reads of {points} elements of {name}"
        why = f"each has {terms} terms, and the limit for all together is {MAX_STEPS}"
        raise ArgumentError(what, why, "a smaller shape, for the same pattern")
