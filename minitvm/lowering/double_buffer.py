"""Double buffering: fetch the next tile while the current one is used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minitvm import tir
from minitvm.base import LoweringError

from .budget import operations
from .statements import Access, redirect
from .vthread import written

DOUBLE = "double_buffer"  # the pragma around the statement that fills the buffer


def inject_double_buffer(s: tir.Stmt) -> tir.Stmt:
    """Double the marked buffers: fill one half while the other half is read.

        for i in range(8):                B = allocate((2, 4), ...)
          B = allocate((4,), ...)         for x in range(4): B[x] = A[x]
          # pragma double_buffer = 1      for i in range(8):
          for x in range(4):         ->     if i + 1 < 8:
            B[x] = A[i*4 + x]                 for x in range(4):
          use B                                 B[(i + 1) % 2*4 + x] = A[i*4 + x + 4]
                                            use B[i % 2*4 + ...]

    If an earlier pass has removed the loop because it had one iteration, only the pragma is
    removed. Needs flat offsets. Raises LoweringError if the code that fills the buffer reads a
    result of the same loop, or is too large to duplicate.
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        return _doubled(s) if isinstance(s, tir.For) and s.kind in ("serial", "unroll") else s

    return tir.rewrite(tir.rewrite(s, on_stmt), _forget)


def _forget(s: tir.Stmt) -> tir.Stmt:
    return s.body if isinstance(s, tir.Pragma) and s.key == DOUBLE else s


def _doubled(loop: tir.For) -> tir.Stmt:
    """Double every buffer that is filled directly inside the loop."""
    found = _find(loop.body, ())
    if found is None:
        return loop
    fill, around = found
    stored = {id(b) for b in written(fill.body)}
    own = [b for b in around if id(b) in stored]
    rest = _without(loop.body, fill, tir.NOTHING)
    if not own or not all(tir.free_of(tir.elements(b), (loop.var,)) for b in own):
        return _doubled(replace(loop, body=_without(loop.body, fill, fill.body)))
    _independent(loop, fill, own, rest)
    if (size := 2 * operations(fill.body)) > tir.LARGEST:
        raise LoweringError(
            f"double_buffer of {own[0].name}",
            f"the code that fills it would be written twice, which makes {size} operations; "
            f"at most {tir.LARGEST} can be compiled",
            "double_buffer fewer of the stages that are nested in each other",
        )
    wide = {b: replace(b, shape=(2, *b.shape), strides=_far(b)) for b in own}
    first = _half(tir.substitute(fill.body, {loop.var: 0}), wide, 0)
    following = tir.substitute(fill.body, {loop.var: tir.add(loop.var, 1)})
    more = tir.compare("<", tir.add(loop.var, 1), loop.extent)
    ahead = tir.If(more, _half(following, wide, tir.floormod(tir.add(loop.var, 1), 2)))
    body = _half(_unallocated(loop.body, own), wide, tir.floormod(loop.var, 2), keep=fill)
    inner = _doubled(replace(loop, body=_without(body, fill, ahead)))
    some = tir.compare("<", 0, loop.extent)
    made = tir.seq(_guarded(some, first), inner)
    for b in reversed(own):
        made = tir.Allocate(wide[b], made)
    return made


def _guarded(cond: Any, s: tir.Stmt) -> tir.Stmt:
    """Guard `s` by `cond`, which is false if a symbolic extent is 0; fold the guard if possible."""
    return tir.rewrite(tir.If(cond, s))


def _far(b: tir.Buffer) -> tuple[tir.Index, ...]:
    return (tir.elements(b), *b.strides) if b.strides else ()


def _find(
    s: tir.Stmt, around: tuple[tir.Buffer, ...]
) -> tuple[tir.Pragma, tuple[tir.Buffer, ...]] | None:
    """Find the first statement in `s` marked for double buffering that is in no inner loop.

    Returns the statement and the buffers allocated around it, or None if there is none.
    """
    match s:
        case tir.Pragma(key) if key == DOUBLE:
            return s, around
        case tir.Allocate(buffer, body):
            return _find(body, (*around, buffer))
        case tir.Pragma(_, _, body):
            return _find(body, around)
        case tir.Seq(parts):
            return next((f for f in (_find(p, around) for p in parts) if f is not None), None)
        case _:
            return None


def _without(s: tir.Stmt, old: tir.Stmt, new: tir.Stmt) -> tir.Stmt:
    """Return `s` with the statement `old` replaced by `new`."""
    match s:
        case _ if s is old:
            return new
        case tir.Allocate(buffer, body):
            return tir.Allocate(buffer, _without(body, old, new))
        case tir.Pragma(key, value, body):
            return tir.Pragma(key, value, _without(body, old, new))
        case tir.Seq(parts):
            return tir.seq(*(_without(p, old, new) for p in parts))
        case _:
            return s


def _unallocated(s: tir.Stmt, own: list[tir.Buffer]) -> tir.Stmt:
    """Return `s` without the allocations of `own`, because these are moved out of the loop."""
    match s:
        case tir.Allocate(buffer, body):
            inner = _unallocated(body, own)
            return inner if any(buffer is b for b in own) else tir.Allocate(buffer, inner)
        case tir.Pragma(key, value, body) if key != DOUBLE:
            return tir.Pragma(key, value, _unallocated(body, own))
        case tir.Seq(parts):
            return tir.seq(*(_unallocated(p, own) for p in parts))
        case _:
            return s


def _independent(loop: tir.For, fill: tir.Pragma, own: list[tir.Buffer], rest: tir.Stmt) -> None:
    """Raise LoweringError if `fill` reads what `rest`, the rest of the loop, writes.

    The fill runs one iteration ahead, when such a result has not been computed yet.
    """
    stored = {id(b) for b in written(rest)}
    for n in tir.walk(fill.body):
        if isinstance(n, tir.Load) and id(n.buffer) in stored:
            raise LoweringError(
                f"double_buffer of {own[0].name}",
                f"it is filled from {n.buffer.name}, which the same loop {loop.var.name!r} "
                "computes",
                f"compute {n.buffer.name} outside that loop",
            )


def _half(
    s: tir.Stmt, wide: dict[tir.Buffer, tir.Buffer], half: tir.Index, keep: tir.Stmt | None = None
) -> tir.Stmt:
    """Redirect accesses of each buffer b in `wide` to the half number `half` of wide[b].

    The accesses in the statement `keep` do not change.
    """

    def moved(b: tir.Buffer, indices: tuple[tir.Index, ...]) -> Access | None:
        if b not in wide:
            return None
        return wide[b], (tir.add(indices[0], tir.mul(half, tir.elements(b))),)

    def go(s: tir.Stmt) -> tir.Stmt:
        match s:
            case _ if s is keep:
                return s
            case tir.Allocate(buffer, body):
                return tir.Allocate(buffer, go(body))
            case tir.Pragma(key, value, body):
                return tir.Pragma(key, value, go(body))
            case tir.Seq(parts):
                return tir.seq(*(go(p) for p in parts))
            case _:
                return redirect(s, moved)

    return go(s)
