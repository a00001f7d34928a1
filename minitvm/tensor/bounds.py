"""Bounds checks of formulas: te.compute raises ExprError unless every read is proven in bounds.

Proofs make two assumptions about symbolic sizes. First, the axes of the formula are not empty.
Second, the tensor that is read is not empty: A[0] of a tensor of shape (n,) needs n >= 1. The
operation lists the second kind in `needs`, and a call with n = 0 raises ArgumentError.

An index that comes from data, as in A[B[i]], is clipped to the bounds, like
numpy.take(..., mode="clip"); a read from an empty tensor gives 0. A read of an earlier row,
A[t - 1], is legal if A is the state of a scan: te.scan checks the read, and te.create_schedule
checks that there is a scan.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from minitvm import tir
from minitvm.base import ExprError

from .tensor import (
    Axis,
    ComputeOp,
    PlaceholderOp,
    Reduce,
    Tensor,
    is_from_data,
    loads,
    variable_reduce_ranges,
)

Facts = tuple[tir.Index, ...]  # indices known to be >= 0


def facts_of(cond: tir.Expr, holds: bool = True) -> Facts:
    """Return indices that are >= 0 when `cond` is true or, with holds=False, when it is false.

    i < n gives (n - i - 1,). Conditions that are not affine give ().
    """
    match cond:
        case tir.Compare(op, a, b) if tir.is_index(a) and tir.is_index(b):
            return _comparison(op if holds else _OPPOSITE[op], a, b)
        case tir.Binary("and", a, b) if holds:
            return facts_of(a) + facts_of(b)
        case tir.Binary("or", a, b) if not holds:
            return facts_of(a, False) + facts_of(b, False)
        case tir.Not(a):
            return facts_of(a, not holds)
        case _:
            return ()


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def _comparison(op: str, a: tir.Index, b: tir.Index) -> Facts:
    match op:
        case "<":
            return (tir.sub(tir.sub(b, a), 1),)
        case "<=":
            return (tir.sub(b, a),)
        case ">":
            return (tir.sub(tir.sub(a, b), 1),)
        case ">=":
            return (tir.sub(a, b),)
        case "==":
            return (tir.sub(a, b), tir.sub(b, a))
        case _:
            return ()


def guarded_loads(e: Any, facts: Facts = ()) -> Iterator[tuple[tir.Load, Facts]]:
    """Yield (load, facts) for every load in `e`; the enclosing conditions guarantee the facts."""
    if isinstance(e, tir.Load):
        yield e, facts
    if isinstance(e, tir.IfThenElse):
        yield from guarded_loads(e.cond, facts)
        yield from guarded_loads(e.a, facts + facts_of(e.cond))
        yield from guarded_loads(e.b, facts + facts_of(e.cond, False))
        return
    for c in tir.children(e):
        yield from guarded_loads(c, facts)


def inside(i: tir.Index, size: tir.Index, facts: Facts) -> bool:
    """Return whether 0 <= i < size follows from `facts` by a quick proof."""
    return tir.nonneg(i, facts) and tir.nonneg(tir.sub(tir.sub(size, i), 1), facts)


def _surely_inside(i: tir.Index, size: tir.Index, facts: Facts) -> bool:
    """Return whether 0 <= i < size follows from `facts`, by a longer search than `inside`."""
    return tir.prove_nonnegative(i, facts) and tir.prove_nonnegative(
        tir.sub(tir.sub(size, i), 1), facts
    )


def clip_reads(op: ComputeOp) -> ComputeOp:
    """Clip data-dependent reads; raise ExprError if another read may be out of bounds.

    A select with an arm that may read out of bounds is replaced by te.if_then_else, so that
    tir.Select(i > 0, A[i - 1], 0.0) reads A[i - 1] only for i > 0.
    """
    past, needs, refused = _unsure(op)
    lazy = _lazy(op, {id(e) for e in (*past, *needs, *(e for e, _ in refused))})
    if lazy is not op:
        return clip_reads(lazy)
    for e, d in refused:
        _refuse(op, e, d, e.indices[d], e.buffer.shape[d])
    body = op.body
    if any(is_from_data(i) for e in loads(op) for i in e.indices):
        body = tuple(_clip(e) for e in op.body)
    extents = dict.fromkeys(n for sizes in needs.values() for n in sizes)
    return replace(op, body=body, past=tuple(past), needs=tuple(extents))


def _unsure(
    op: ComputeOp,
) -> tuple[list[tir.Load], dict[tir.Load, list[tir.Index]], list[tuple[tir.Load, int]]]:
    """Return (past, needs, refused), the reads that are not proven to be in bounds.

    past      reads of earlier rows, which are legal in a scan
    needs     reads that are in bounds if certain indices are >= 0: {read: these indices}
    refused   the other reads, each with a dimension in which it may be out of bounds
    """
    past: list[tir.Load] = []
    needs: dict[tir.Load, list[tir.Index]] = {}
    refused: list[tuple[tir.Load, int]] = []
    real = _real_shapes(op)
    for e, facts in _reads(op):
        for d, (i, size) in enumerate(zip(e.indices, e.buffer.shape, strict=True)):
            if d == 0 and _is_state(e.buffer):
                continue  # te.scan checks that t - 1 is earlier
            if d == 0 and _is_past(op, e) and not inside(i, size, facts):
                past.append(e)
                continue
            not_empty = not isinstance(size, int) or size > 0
            if (is_from_data(i) and not_empty) or _surely_inside(i, size, facts + real):
                continue
            need = tir.sub(size, 1)
            if isinstance(size, int) or not _surely_inside(i, size, (*facts, *real, need)):
                refused.append((e, d))
            else:
                needs.setdefault(e, []).append(need)
    return past, needs, refused


def _lazy(op: ComputeOp, unsure: set[int]) -> ComputeOp:
    """Replace each select that contains one of the reads `unsure` (ids) by an if_then_else.

    Return `op` itself if there is no such select.
    """

    def rule(n: Any) -> Any:
        unsafe = isinstance(n, tir.Select) and any(
            id(m) in unsure for m in (*tir.walk(n.a), *tir.walk(n.b))
        )
        return tir.IfThenElse(n.cond, n.a, n.b, n.dtype) if unsafe else n

    if not unsure:
        return op
    body = tuple(_mapped(e, rule) for e in op.body)
    return op if all(map(operator.is_, body, op.body)) else replace(op, body=body)


def _mapped(e: tir.Expr, rule: Callable[[Any], Any]) -> tir.Expr:
    """Rewrite `e` by `rule`; in a reduction, rewrite its sources, where and init instead.

    Return `e` itself if nothing changed.
    """
    if not isinstance(e, Reduce):
        return tir.rewrite_expr(e, rule)
    old = (*e.sources, e.where, *e.init)
    new = tuple(tir.rewrite_expr(s, rule) for s in old)
    if all(map(operator.is_, new, old)):
        return e
    k = len(e.sources)
    return replace(e, sources=new[:k], where=new[k], init=new[k + 1 :])


def _is_state(b: tir.Buffer) -> bool:
    return isinstance(b, Tensor) and isinstance(b.op, PlaceholderOp) and b.op.is_state


def _is_past(op: ComputeOp, e: tir.Load) -> bool:
    """Return whether `e` reads an earlier row of a placeholder with as many rows as `op`."""
    if not isinstance(e.buffer, Tensor) or not isinstance(e.buffer.op, PlaceholderOp):
        return False
    if not op.axis or not tir.prove_equal(op.axis[0].extent, e.buffer.shape[0]):
        return False
    back = tir.sub(op.axis[0], e.indices[0])
    return isinstance(back, int) and back > 0


def _reads(op: ComputeOp) -> Iterator[tuple[tir.Load, Facts]]:
    """Yield (load, facts) for every load in `op`; one fact is that its loops are not empty."""
    outer = _not_empty(op.axis)
    inner = outer + _not_empty(op.reduce_axis)
    for e in variable_reduce_ranges(op):
        yield from guarded_loads(e, outer)
    for e in op.body:
        if not isinstance(e, Reduce):
            yield from guarded_loads(e, outer)
            continue
        for s in e.init:
            yield from guarded_loads(s, outer)
        yield from guarded_loads(e.where, inner)
        for s in e.sources:
            yield from guarded_loads(s, inner + facts_of(e.where))


def _not_empty(axes: Iterable[Axis]) -> Facts:
    """Return facts (indices >= 0) which state that every axis has at least one iteration."""
    return tuple(tir.sub(a.extent, 1) for a in axes if not isinstance(a.extent, int))


def _real_shapes(op: ComputeOp) -> Facts:
    """Return the symbolic extents of the placeholders that `op` reads; they are >= 0."""
    arrays = [t for t in op.input_tensors if isinstance(t.op, PlaceholderOp)]
    return tuple(n for t in arrays for n in t.shape if not isinstance(n, int))


def _clip(e: tir.Expr) -> tir.Expr:
    def rule(n: Any) -> Any:
        if not isinstance(n, tir.Load):
            return n
        pairs = list(zip(n.indices, n.buffer.shape, strict=True))
        clipped = [
            tir.maximum(0, tir.minimum(i, tir.sub(size, 1))) if is_from_data(i) else i
            for i, size in pairs
        ]
        any_element = tir.all_of(
            *(tir.compare("<", 0, size) for i, size in pairs if is_from_data(i))
        )
        return tir.if_then_else(
            any_element, tir.Load(n.buffer, tuple(clipped), n.dtype), tir.const(0, n.dtype)
        )

    return _mapped(e, rule)


def _refuse(op: ComputeOp, e: tir.Load, d: int, i: tir.Index, size: tir.Index) -> None:
    """Raise ExprError for index `d` of `e`, and suggest a condition that makes it safe."""
    lo, hi = tir.lower_bound(i), tir.upper_bound(i)
    last = tir.text(tir.add(size, -1))
    sure = f"{tir.text(i)} >= 0, " if isinstance(i, tir.Expr) else ""
    fix = f"te.if_then_else(te.all({sure}{tir.text(i)} <= {last}), {tir.text(e)}, 0)"
    if isinstance(i, int) and (isinstance(size, int) or i < 0):
        negative = f"; negative indices do not wrap: {e.buffer.name}.shape[{d}] - 1 is the last"
        fix = f"an index from 0 to {last}{negative if i < 0 else ''}"
    wide = lo != hi and abs(lo) + abs(hi) < 2**62
    index = tir.text(i) + (f", from {lo} to {hi}" if wide else "")
    why = f"index {d} is {index}, dimension {d} of {e.buffer.name} is 0 .. {last}"
    raise ExprError(f"compute {op.name}: {tir.text(e)} may leave {e.buffer.name}", why, fix)
