"""A pass that waits for asynchronous copies from global to shared memory, as late as possible."""

from __future__ import annotations

from minitvm import schedule, simt, tir
from minitvm.base import LoweringError

from .kernels import ASYNC_WAIT, copied


def wait_for_copies(body: tir.Stmt) -> tir.Stmt:
    """Wait for the copies of stages with the pragma async_copy, before threads read them.

        for k in range(n):                        for k in range(n):
          if k + 1 < n:                             if k + 1 < n:
            # pragma async_copy = 1                   # pragma async_copy = 1
            S[(k + 1) % 2] = A[k + 1]        ->       S[(k + 1) % 2] = A[k + 1]
          use S[k % 2]                              use S[k % 2]
                                                    async_wait()

    The copy of the next tile into a double buffer has the whole iteration to arrive; other copies
    are waited for at once. The pass thread_sync adds the barrier after the wait: a thread waits for
    its own copies only.

    An asynchronous copy (cp.async of PTX, for sm_80 and later) does not pass through registers.
    Raises LoweringError for a stage that is no plain copy of global memory to shared memory.
    """
    return _visit(tir.rewrite(body, _without_zero), None, False)[0]


def _without_zero(s: tir.Stmt) -> tir.Stmt:
    return s.body if isinstance(s, tir.Pragma) and s.key == simt.ASYNC and not s.value else s


def _visit(s: tir.Stmt, loop: tir.For | None, under_way: bool) -> tuple[tir.Stmt, bool]:
    """Return (the statement with its waits, whether copies may be under way after it).

    loop        the loop whose body `s` is
    under_way   whether copies may be under way before it
    """
    if _is_fill(s):
        return s, True
    match s:
        case tir.Seq(parts):
            stmts, ahead = list[tir.Stmt](), False
            for part in parts:
                if loop is not None and _is_fill(part) and _fills_ahead(part, loop):
                    stmts.append(part)
                    ahead = True
                else:
                    stmt, under_way = _visit(part, None, under_way)
                    stmts.append(stmt)
            return tir.seq(*stmts, ASYNC_WAIT if ahead else None), under_way and not ahead
        case tir.Allocate(buffer, inner):
            body, late = _visit(inner, loop, under_way)
            return tir.Allocate(buffer, body), late
        case tir.Pragma(key, value, inner):
            body, late = _visit(inner, loop, under_way)
            return tir.Pragma(key, value, body), late
        case tir.For(var, extent, inner, kind, thread):
            s = tir.For(var, extent, _settled(inner, s), kind, thread)
        case tir.If(cond, inner, orelse):
            else_branch = None if orelse is None else _settled(orelse, None)
            s = tir.If(cond, _settled(inner, None), else_branch, s.likely)
        case _:
            pass
    return tir.seq(ASYNC_WAIT if under_way else None, s), False


def _settled(s: tir.Stmt, loop: tir.For | None) -> tir.Stmt:
    """Return a statement with its waits; no copies are under way after it."""
    stmt, late = _visit(s, loop, False)
    return tir.seq(stmt, ASYNC_WAIT if late else None)


def _is_fill(s: tir.Stmt) -> bool:
    """Return whether `s` does nothing but asynchronous copies."""
    match s:
        case tir.Pragma(simt.ASYNC, _, body):
            _check(body)
            return True
        case tir.For(_, _, body) | tir.Pragma(_, _, body) | tir.If(_, body, None):
            return _is_fill(body)
        case tir.Seq(parts):
            return bool(parts) and all(map(_is_fill, parts))
        case _:
            return False


def _fills_ahead(s: tir.Stmt, loop: tir.For) -> bool:
    """Return whether `s` fills the next half of a double buffer: if k + 1 < n: ..."""
    return isinstance(s, tir.If) and not s.likely and not tir.free_of(s.cond, (loop.var,))


def _check(body: tir.Stmt) -> None:
    """Raise LoweringError unless `body` copies global memory to shared memory."""
    for s in tir.every(body):
        if isinstance(s, tir.Store):
            copy, name = copied(s.value), s.buffer.name
            if schedule.scope_kind(s.buffer.scope) != "shared":
                why = f"it is in {s.buffer.scope} memory"
                raise LoweringError(f"async_copy of {name}", why, 'scope "shared"')
            if copy is None or copy[0].buffer.scope != "global":
                why = f"{tir.text(s.value)} is not an element of global memory"
                fix = "cache_read, which copies; or leave out the pragma"
                raise LoweringError(f"async_copy of {name}", why, fix)
