"""A pass that removes code without effect."""

from __future__ import annotations

from minitvm import tir


def tidy(s: tir.Stmt) -> tir.Stmt:
    """Remove code without effect: loops that never run, empty branches, unused memory.

    for i in range(0): body    ->   pass
    if c: pass                 ->   pass
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.For(extent=n, body=body) if _empty(body) or (isinstance(n, int) and n <= 0):
                return tir.Seq(())
            case tir.For(var, extent, body) if isinstance(extent, int) and extent == 1:
                return tir.substitute(body, {var: 0})
            case tir.If(_, body, orelse) if _empty(body) and (orelse is None or _empty(orelse)):
                return tir.Seq(())
            case tir.Allocate(_, body) | tir.Pragma(_, _, body) if _empty(body):
                return tir.Seq(())
            case _:
                return s

    return tir.rewrite(s, on_stmt)


def _empty(s: tir.Stmt) -> bool:
    return isinstance(s, tir.Seq) and not s.body
