"""Double buffering: the next tile is fetched while this one is used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minitvm.base import LoweringError
from minitvm.tir import (
    NOTHING,
    Allocate,
    Buffer,
    For,
    If,
    Index,
    Load,
    Pragma,
    Seq,
    Stmt,
    Store,
    add,
    compare,
    elements,
    floormod,
    free_of,
    mul,
    rewrite,
    seq,
    substitute,
    walk,
)

from .vthread import written

DOUBLE = "double_buffer"  # the pragma around the statement that fills the buffer


def inject_double_buffer(s: Stmt) -> Stmt:
    """Twice the memory: one half is filled while the other is read.

        for i in range(8):                B = allocate((2, 4), ...)
          B = allocate((4,), ...)         for x in range(4): B[x] = A[x]
          # pragma double_buffer = 1      for i in range(8):
          for x in range(4):         ->     if i + 1 < 8:
            B[x] = A[i*4 + x]                 for x in range(4):
          use B                                 B[(i + 1) % 2*4 + x] = A[i*4 + x + 4]
                                            use B[i % 2*4 + ...]

    Where the loop has vanished (one iteration) the pragma just goes. Needs flat offsets. Raises
    LoweringError if what fills the buffer reads something that the same loop computes.
    """

    def on_stmt(s: Stmt) -> Stmt:
        return _doubled(s) if isinstance(s, For) and s.kind in ("serial", "unroll") else s

    return rewrite(rewrite(s, on_stmt), _forget)


def _forget(s: Stmt) -> Stmt:
    return s.body if isinstance(s, Pragma) and s.key == DOUBLE else s


def _doubled(loop: For) -> Stmt:
    """The loop with everything doubled that is filled directly inside it."""
    found = _find(loop.body, ())
    if found is None:
        return loop
    fill, around = found
    stored = {id(b) for b in written(fill.body)}
    own = [b for b in around if id(b) in stored]
    rest = _without(loop.body, fill, NOTHING)
    if not own or not all(free_of(elements(b), (loop.var,)) for b in own):
        return _doubled(replace(loop, body=_without(loop.body, fill, fill.body)))
    _independent(loop, fill, own, rest)
    wide = {b: replace(b, shape=(2, *b.shape), strides=_far(b)) for b in own}
    first = _half(substitute(fill.body, {loop.var: 0}), wide, 0)
    following = substitute(fill.body, {loop.var: add(loop.var, 1)})
    more = compare("<", add(loop.var, 1), loop.extent)
    ahead = If(more, _half(following, wide, floormod(add(loop.var, 1), 2)))
    body = _half(_unallocated(loop.body, own), wide, floormod(loop.var, 2), keep=fill)
    inner = _doubled(replace(loop, body=_without(body, fill, ahead)))
    some = compare("<", 0, loop.extent)
    made = seq(_guarded(some, first), inner)
    for b in reversed(own):
        made = Allocate(wide[b], made)
    return made


def _guarded(cond: Any, s: Stmt) -> Stmt:
    """`s` if cond; symbolic extents may be 0."""
    return rewrite(If(cond, s))


def _far(b: Buffer) -> tuple[Index, ...]:
    return (elements(b), *b.strides) if b.strides else ()


def _find(s: Stmt, around: tuple[Buffer, ...]) -> tuple[Pragma, tuple[Buffer, ...]] | None:
    """The first statement to double that runs once an iteration, and the buffers around it."""
    match s:
        case Pragma(key) if key == DOUBLE:
            return s, around
        case Allocate(buffer, body):
            return _find(body, (*around, buffer))
        case Pragma(_, _, body):
            return _find(body, around)
        case Seq(parts):
            return next((f for f in (_find(p, around) for p in parts) if f is not None), None)
        case _:
            return None


def _without(s: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """`s` with `new` where the statement `old` was."""
    match s:
        case _ if s is old:
            return new
        case Allocate(buffer, body):
            return Allocate(buffer, _without(body, old, new))
        case Pragma(key, value, body):
            return Pragma(key, value, _without(body, old, new))
        case Seq(parts):
            return seq(*(_without(p, old, new) for p in parts))
        case _:
            return s


def _unallocated(s: Stmt, own: list[Buffer]) -> Stmt:
    """`s` without the allocations of `own`, which move out of the loop."""
    match s:
        case Allocate(buffer, body):
            inner = _unallocated(body, own)
            return inner if any(buffer is b for b in own) else Allocate(buffer, inner)
        case Pragma(key, value, body) if key != DOUBLE:
            return Pragma(key, value, _unallocated(body, own))
        case Seq(parts):
            return seq(*(_unallocated(p, own) for p in parts))
        case _:
            return s


def _independent(loop: For, fill: Pragma, own: list[Buffer], rest: Stmt) -> None:
    """What fills the buffer may run an iteration early: it reads nothing the loop computes."""
    stored = {id(b) for b in written(rest)}
    for n in walk(fill.body):
        if isinstance(n, Load) and id(n.buffer) in stored:
            raise LoweringError(
                f"double_buffer of {own[0].name}",
                f"{n.buffer.name}, from which it is filled, is computed by the same loop "
                f"{loop.var.name!r}",
                f"compute {n.buffer.name} outside that loop",
            )


def _half(s: Stmt, wide: dict[Buffer, Buffer], half: Index, keep: Stmt | None = None) -> Stmt:
    """`s` with the buffers' accesses in the given half; the statement `keep` stays as it is."""

    def at(b: Buffer, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        return (add(indices[0], mul(half, elements(b))),)

    def on_expr(e: Any) -> Any:
        if isinstance(e, Load) and e.buffer in wide:
            return Load(wide[e.buffer], at(e.buffer, e.indices), e.dtype)
        return e

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer in wide:
            return Store(wide[s.buffer], at(s.buffer, s.indices), s.value)
        return s

    def go(s: Stmt) -> Stmt:
        match s:
            case _ if s is keep:
                return s
            case Allocate(buffer, body):
                return Allocate(buffer, go(body))
            case Pragma(key, value, body):
                return Pragma(key, value, go(body))
            case Seq(parts):
                return seq(*(go(p) for p in parts))
            case _:
                return rewrite(s, on_stmt, on_expr)

    return go(s)
