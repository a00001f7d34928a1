"""What does nothing goes."""

from __future__ import annotations

from minitvm.tir import Allocate, For, If, Pragma, Seq, Stmt, rewrite, substitute


def tidy(s: Stmt) -> Stmt:
    """Remove what does nothing: loops that never run, empty branches, unused memory.

    for i in range(0): body    ->   pass
    if c: pass                 ->   pass
    """

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case For(extent=n, body=body) if _empty(body) or (isinstance(n, int) and n <= 0):
                return Seq(())
            case For(var, extent, body) if isinstance(extent, int) and extent == 1:
                return substitute(body, {var: 0})
            case If(_, body, orelse) if _empty(body) and (orelse is None or _empty(orelse)):
                return Seq(())
            case Allocate(_, body) | Pragma(_, _, body) if _empty(body):
                return Seq(())
            case _:
                return s

    return rewrite(s, on_stmt)


def _empty(s: Stmt) -> bool:
    return isinstance(s, Seq) and not s.body
