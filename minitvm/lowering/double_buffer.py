"""Double buffering: fetch the next tile while the current one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from minitvm import tir
from minitvm.base import LoweringError

from .budget import operations
from .statements import stacked, use_copy
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
    fill, allocated = next(_fills(loop.body, ()), (None, ()))
    if fill is None:
        return loop
    stored = {id(b) for b in written(fill.body)}
    filled_buffers = [b for b in allocated if id(b) in stored]
    rest = _without(loop.body, fill, tir.NOTHING)
    if not filled_buffers or not all(
        tir.free_of(tir.elements(b), (loop.var,)) for b in filled_buffers
    ):
        return _doubled(replace(loop, body=_without(loop.body, fill, fill.body)))
    _check_independent(loop, fill, filled_buffers[0], rest)
    if (size := 2 * operations(fill.body)) > tir.LARGEST:
        raise LoweringError(
            f"double_buffer of {filled_buffers[0].name}",
            f"the code that fills it would be written twice, which makes {size} operations; "
            f"at most {tir.LARGEST} can be compiled",
            "double_buffer fewer of the stages that are nested in each other",
        )
    halves = {b: stacked(b, 2) for b in filled_buffers}
    first = use_copy(tir.substitute(fill.body, {loop.var: 0}), halves, 0)
    later = tir.add(loop.var, 1)
    next_fill = tir.substitute(fill.body, {loop.var: later})
    guarded_fill = tir.If(
        tir.compare("<", later, loop.extent),
        use_copy(next_fill, halves, tir.floormod(later, 2)),
    )
    body = _map_spine(loop.body, lambda s: _unallocated(s, filled_buffers))
    current_half = tir.floormod(loop.var, 2)
    body = _map_spine(body, lambda s: s if s is fill else _leaf(s, halves, current_half))
    inner = _doubled(replace(loop, body=_without(body, fill, guarded_fill)))
    # the loop may have a symbolic extent of 0; rewrite folds the guard if possible
    first_fill = tir.rewrite(tir.If(tir.compare("<", 0, loop.extent), first))
    body = tir.seq(first_fill, inner)
    for b in reversed(filled_buffers):
        body = tir.Allocate(halves[b], body)
    return body


def _fills(
    s: tir.Stmt, around: tuple[tir.Buffer, ...]
) -> Iterator[tuple[tir.Pragma, tuple[tir.Buffer, ...]]]:
    """Yield the statements in `s` marked for double buffering that are in no inner loop.

    Also yield the buffers that are allocated around each of them.
    """
    match s:
        case tir.Pragma(key) if key == DOUBLE:
            yield s, around
        case tir.Allocate(buffer, body):
            yield from _fills(body, (*around, buffer))
        case tir.Pragma(_, _, body):
            yield from _fills(body, around)
        case tir.Seq(parts):
            for part in parts:
                yield from _fills(part, around)
        case _:
            pass


def _map_spine(s: tir.Stmt, rule: Callable[[tir.Stmt], tir.Stmt | None]) -> tir.Stmt:
    """Replace statements x of the loop body `s` by rule(x), outermost first.

    If rule(x) is None, x stays, and the rule is applied inside it, but not in loops and branches.
    """
    new = rule(s)
    if new is not None:
        return new
    match s:
        case tir.Allocate(buffer, body):
            return tir.Allocate(buffer, _map_spine(body, rule))
        case tir.Pragma(key, value, body):
            return tir.Pragma(key, value, _map_spine(body, rule))
        case tir.Seq(parts):
            return tir.seq(*(_map_spine(p, rule) for p in parts))
        case _:
            return s


def _without(s: tir.Stmt, old: tir.Stmt, new: tir.Stmt) -> tir.Stmt:
    """Return `s` with the statement `old` replaced by `new`."""
    return _map_spine(s, lambda x: new if x is old else None)


def _unallocated(s: tir.Stmt, moved: list[tir.Buffer]) -> tir.Stmt | None:
    """Remove the allocations of buffers that are moved out of the loop; leave the fill alone."""
    if isinstance(s, tir.Allocate) and any(s.buffer is b for b in moved):
        return _map_spine(s.body, lambda x: _unallocated(x, moved))
    return s if isinstance(s, tir.Pragma) and s.key == DOUBLE else None


def _leaf(s: tir.Stmt, halves: dict[tir.Buffer, tir.Buffer], half: tir.Index) -> tir.Stmt | None:
    if isinstance(s, tir.Allocate | tir.Pragma | tir.Seq):
        return None
    return use_copy(s, halves, half)


def _check_independent(loop: tir.For, fill: tir.Pragma, b: tir.Buffer, rest: tir.Stmt) -> None:
    """Raise LoweringError if `fill` reads what `rest`, the rest of the loop, writes.

    The fill of `b` runs one iteration ahead, when such a result has not been computed yet.
    """
    stored = {id(b) for b in written(rest)}
    for n in tir.walk(fill.body):
        if isinstance(n, tir.Load) and id(n.buffer) in stored:
            raise LoweringError(
                f"double_buffer of {b.name}",
                f"it is filled from {n.buffer.name}, which the same loop {loop.var.name!r} "
                "computes",
                f"compute {n.buffer.name} outside that loop",
            )
