"""Loops that copy become transfers between main memory and a memory of the accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from minitvm.base import LoweringError
from minitvm.base import dtype as dtype_of
from minitvm.tir import (
    NOTHING,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    IfThenElse,
    Index,
    Load,
    Pragma,
    Stmt,
    Store,
    Var,
    Where,
    add,
    cast_to,
    is_index,
    maximum,
    mul,
    rewrite,
    row_strides,
    same,
    sub,
    text,
    variables,
    view_at,
)

from .interval import sweep
from .machine import memory_of, prefix
from .statements import peeled, stores
from .units import COPY


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """to = source, element by element, in the order of the loops; `where` it holds, else 0."""

    loops: tuple[For, ...]
    to: Store
    source: Load
    where: tuple[Compare, ...]

    @property
    def what(self) -> str:
        """How messages name it."""
        return f"dma_copy of {self.source.buffer.name} to {self.to.buffer.name}"


def inject_dma_intrin(s: Stmt) -> Stmt:
    """Under the pragma dma_copy, the loops of a copy become one transfer.

        # pragma dma_copy = 1
        for i in range(8):              ->   vta.dma_copy2d(A_buf, A[k][0:8])
          A_buf[0, i] = A[k, i]

    A copy that is 0 where an index leaves the source becomes a transfer with padding: the zeros
    before and after, dimension by dimension, follow as numbers. skip_dma_copy: no transfer at all.
    Needs one index for each dimension. Raises LoweringError for loops that do more than copy, and
    for copies that change the order of elements.
    """

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case Pragma("dma_copy", _, body):
                return _transfer(_copy(body)) if stores(body) else NOTHING
            case Pragma("skip_dma_copy"):
                return NOTHING
            case _:
                return s

    return rewrite(s, on_stmt)


def _copy(body: Stmt) -> Copy:
    """The loops of a copy, its store and its load; or LoweringError."""
    loops, inside = peeled(body)
    if not isinstance(inside, Store):
        guarded = isinstance(inside, If)
        raise LoweringError(
            f"pragma dma_copy around\n{text(body)}",
            "a condition guards the copy" if guarded else "it is not one copy in loops",
            "sizes that divide the extents" if guarded else "pragma on the first loop of the copy",
        )
    value, where = inside.value, tuple[Compare, ...]()
    if isinstance(value, Cast) and memory_of(inside.buffer) is None and _is_value(value.value):
        value = value.value  # STORE keeps the low bits, as the conversion does
    if isinstance(value, IfThenElse | Where) and _is_zero(value.b):
        value, where = value.a, tuple(_comparisons(value.cond, text(body)))
    if not isinstance(value, Load):
        raise LoweringError(
            f"dma_copy to {inside.buffer.name}",
            f"it stores {text(inside.value)}: a transfer moves what is there",
            "a stage of its own for the arithmetic, with pragma 'alu'",
        )
    return Copy(tuple(loops), inside, value, where)


def _is_value(e: Index) -> bool:
    return isinstance(e, Expr) and not is_index(e)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _comparisons(cond: Expr, what: str) -> Sequence[Compare]:
    """The comparisons that hold together."""
    match cond:
        case Binary("and", a, b):
            return (*_comparisons(a, what), *_comparisons(b, what))
        case Compare():
            return (cond,)
        case _:
            raise LoweringError(
                f"pragma dma_copy around\n{what}",
                f"{text(cond)} is no range of indices",
                "te.all(i >= 1, i < n + 1, ...)",
            )


# --- boxes ---------------------------------------------------------------------------------------


def _transfer(copy: Copy) -> Stmt:
    """The instruction that does all of the copy."""
    if memory_of(copy.to.buffer) is None and memory_of(copy.source.buffer) is None:
        raise LoweringError(
            copy.what,
            "neither is in a memory of the accelerator",
            "set_scope(env.inp_scope), wgt_scope or acc_scope for one of them",
        )
    starts, extents = _box(copy, copy.to.indices)
    _check_compact(copy, extents)
    source, counts = _box(copy, copy.source.indices)
    _check_order(copy, (starts, extents), (source, counts))
    to = view_at(copy.to.buffer, tuple(starts), tuple(extents), row_strides(copy.to.buffer))
    pads: list[Index] = []
    if copy.where:
        source, clipped, pads = _clipped(copy, source, counts)
    else:
        clipped = list[Index](counts)
    steps = row_strides(copy.source.buffer)
    place = view_at(copy.source.buffer, tuple(source), tuple(clipped), steps)
    numbers = [cast_to(n, "int32") for n in pads]
    return Evaluate(Call(f"{prefix()}.{COPY}", (to, place, *numbers), dtype_of("int32")))


def _box(copy: Copy, indices: tuple[Index, ...]) -> tuple[list[Index], list[int]]:
    """The first index and the number of indices in each dimension while the loops run."""
    mine = {id(loop.var) for loop in copy.loops}
    starts: list[Index] = []
    extents: list[int] = []
    for i in indices:
        first, last = sweep(i, [v for v in _variables(i) if id(v) not in mine])
        n = add(sub(last, first), 1)
        if not isinstance(n, int):
            raise LoweringError(
                copy.what,
                f"it copies {text(n)} elements along {text(i)}: not a constant",
                "constant extents",
            )
        starts.append(first)
        extents.append(n)
    visits = [loop.extent for loop in copy.loops]
    if any(not isinstance(n, int) for n in visits) or prod(extents) != prod(
        n for n in visits if isinstance(n, int)
    ):
        raise LoweringError(
            copy.what,
            f"its loops do not visit each element of a box of {' x '.join(map(str, extents))} once",
            "loops over the dimensions, one each",
        )
    return starts, extents


def _variables(e: Index) -> list[Var]:
    return [] if isinstance(e, int) else variables(e)


def _check_order(
    copy: Copy, to: tuple[list[Index], list[int]], source: tuple[list[Index], list[int]]
) -> None:
    """Both boxes are swept in the same order, row by row."""
    there = _position(copy.to.indices, *to)
    if not same(there, _position(copy.source.indices, *source)):
        goes = Load(copy.to.buffer, copy.to.indices, copy.to.buffer.dtype)
        raise LoweringError(
            copy.what,
            f"element {text(copy.source)} goes to {text(goes)}: the order of dimensions changes, "
            "and a transfer keeps it",
            "pack the data in that order outside: a.transpose(...)",
        )


def _position(indices: tuple[Index, ...], starts: list[Index], extents: list[int]) -> Index:
    """How many elements of the box come before the one at `indices`, counted row by row."""
    total: Index = 0
    for i, first, n in zip(indices, starts, extents, strict=True):
        total = add(mul(total, n), sub(i, first))
    return total


def _check_compact(copy: Copy, extents: list[int]) -> None:
    """The elements lie side by side in the memory of the accelerator."""
    local, shape = (
        (copy.to.buffer, extents)
        if memory_of(copy.to.buffer) is not None
        else (copy.source.buffer, _box(copy, copy.source.indices)[1])
    )
    partial = [
        d for d, (n, whole) in enumerate(zip(shape, local.shape, strict=True)) if not same(n, whole)
    ]
    gaps = bool(partial) and any(n != 1 for n in shape[: partial[-1]])
    if gaps or local.strides:
        raise LoweringError(
            copy.what,
            f"the {' x '.join(map(str, shape))} elements have gaps between them in {local.name}"
            f"[{', '.join(map(text, local.shape))}], where a transfer is without",
            f"compute_at an outer loop, so that all of {local.name} is copied at once",
        )


# --- padding -------------------------------------------------------------------------------------


def _clipped(
    copy: Copy, starts: list[Index], extents: list[int]
) -> tuple[list[Index], list[Index], list[Index]]:
    """What of the box exists, and the zeros before and after it in each dimension.

    8 rows from h*8 - 1 on, of rows 0 .. 55: from max(h*8 - 1, 0), max(0, 1 - h*8) before, ...
    """
    if memory_of(copy.to.buffer) is None:
        raise LoweringError(copy.what, "a store cannot pad", "pad when it is loaded again")
    lows: dict[int, int] = {}
    ends: dict[int, int] = {}
    for c in copy.where:
        _learn(copy, c, lows, ends)
    new: list[Index] = []
    counts: list[Index] = []
    pads: list[Index] = []
    for d, (first, n) in enumerate(zip(starts, extents, strict=True)):
        before = maximum(0, sub(lows[d], first)) if d in lows else 0
        after = maximum(0, sub(add(first, n), ends[d])) if d in ends else 0
        new.append(add(first, before))
        counts.append(sub(sub(n, before), after))
        pads += [before, after]
    return new, counts, pads


def _learn(copy: Copy, c: Compare, lows: dict[int, int], ends: dict[int, int]) -> None:
    """Note the first index of a dimension, or the one after the last, that `c` lets through."""
    more = {"<": (c.b, c.a, 1), "<=": (c.b, c.a, 0), ">": (c.a, c.b, 1), ">=": (c.a, c.b, 0)}
    if c.op in more:
        big, small, least = more[c.op]
        rest = sub(sub(big, small), least)  # >= 0
        for d, i in enumerate(copy.source.indices):
            if isinstance(up := sub(rest, i), int):
                lows[d] = max(-up, lows.get(d, -up))
                return
            if isinstance(down := add(rest, i), int):
                ends[d] = min(down + 1, ends.get(d, down + 1))
                return
    raise LoweringError(
        copy.what,
        f"{text(c)} does not say where an index of {text(copy.source)} ends",
        "zeros where an index leaves the source: te.all(i >= 1, i < n + 1, ...)",
    )
