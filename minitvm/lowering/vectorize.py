"""Vectorized loops become vector statements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minitvm.tir import (
    Allocate,
    Buffer,
    Call,
    Evaluate,
    For,
    Index,
    Lane,
    Load,
    Stmt,
    Store,
    Var,
    add,
    free_of,
    is_opaque,
    lane,
    mul,
    rewrite,
    seq,
    substitute,
    walk,
)

WIDEST = 64  # most lanes in one vector; a longer loop becomes several vectors


def vectorize(s: Stmt) -> Stmt:
    """The loop variable becomes the vector 0, 1, ..., n-1.

        for j in vectorize(16):           C[i*64 : i*64 + 16] = A[i*64 : i*64 + 16] * 2.0
          C[i*64 + j] = A[i*64 + j]*2  ->

    A guard on the variable becomes a mask. Memory allocated inside gets one copy a lane. The loop
    runs serially instead if it holds another vectorized loop, a loop whose length depends on the
    variable, or a store that all lanes would make to the same element.
    """

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "vectorize":
            return _vector(s, s.extent) if isinstance(s.extent, int) else replace(s, kind="serial")
        return s

    return rewrite(s, on_stmt)


def _vector(loop: For, extent: int) -> Stmt:
    """The loop as vector statements; inner loops have been done already."""
    if not lanewise(loop.var, loop.body):
        return replace(loop, kind="serial")
    whole, rest = divmod(extent, WIDEST)
    parts: list[Stmt] = []
    if whole > 1:
        piece = Var(f"{loop.var.name}.vector", 0, whole - 1)
        parts.append(For(piece, whole, _lanes(loop, mul(piece, WIDEST), WIDEST)))
    elif whole == 1:
        parts.append(_lanes(loop, 0, WIDEST))
    first, lanes = whole * WIDEST, WIDEST
    while rest:  # 44 = 32 + 8 + 4: vectors of other lengths are stored badly
        lanes //= 2
        if rest >= lanes:
            parts.append(_lanes(loop, first, lanes))
            first, rest = first + lanes, rest - lanes
    return seq(*parts)


def _lanes(loop: For, first: Index, lanes: int) -> Stmt:
    """Iterations first .. first+lanes-1 at once."""
    if lanes == 1:
        return substitute(loop.body, {loop.var: first})
    body = _widen(loop.body, loop.var, lanes, first)
    return substitute(body, {loop.var: add(lane(lanes), first)})


def lanewise(var: Var, body: Stmt) -> bool:
    """May all iterations run at once, one a lane?"""
    own = {id(n.buffer) for n in walk(body) if isinstance(n, Allocate)}
    for n in walk(body):
        match n:
            case Lane():  # a vector statement already
                return False
            case For(extent=extent) if not free_of(extent, (var,)):
                return False
            case Store(buffer, (i,), _) if id(buffer) not in own and free_of(i, (var,)):
                return False
            case Evaluate():  # what it does in one lane, nobody knows
                return False
            case Call() if is_opaque(n):
                return False
            case _:
                pass
    return True


def _wide_strides(b: Buffer, lanes: int) -> tuple[Index, ...]:
    return (*(mul(s, lanes) for s in b.strides), 1) if b.strides else ()


def _widen(body: Stmt, var: Var, lanes: int, first: Index) -> Stmt:
    """Buffers allocated in `body` with room for every lane: t[i] -> t[i*lanes + lane]."""
    old = [n.buffer for n in walk(body) if isinstance(n, Allocate)]
    if not old:
        return body
    wide = {b: replace(b, shape=(*b.shape, lanes), strides=_wide_strides(b, lanes)) for b in old}
    me = add(var, mul(first, -1))

    def index(i: Index) -> Index:
        return add(mul(i, lanes), me)

    def on_expr(e: Any) -> Any:
        if isinstance(e, Load) and e.buffer in wide:
            return Load(wide[e.buffer], (index(e.indices[0]),), e.dtype)
        return e

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case Store(buffer, (i,), value) if buffer in wide:
                return Store(wide[buffer], (index(i),), value)
            case Allocate(buffer, inner) if buffer in wide:
                return Allocate(wide[buffer], inner)
            case _:
                return s

    return rewrite(body, on_stmt, on_expr)
