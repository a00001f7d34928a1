"""A pass that unrolls loops."""

from __future__ import annotations

from dataclasses import replace

from minitvm import tir

from .budget import MOST_OPERATIONS, operations, statements


def unroll(s: tir.Stmt) -> tir.Stmt:
    """Unroll the loops marked for it, and short loops under the pragma auto_unroll_max_step.

    for i in unroll(2):               C[0] = A[0]
      C[i] = A[i]              ->     C[1] = A[1]

    Under the pragma unroll_explicit = 0, short loops are left to the target's compiler. Loops
    marked "unroll" are still unrolled. A loop that would become more than MOST operations stays a
    loop; all loops together become at most twice as many.
    """
    most, before = MOST_OPERATIONS, operations(s)
    while operations(done := _unroll(s, most)) - before > 2 * MOST_OPERATIONS and most:
        most //= 2
    return done


def _unroll(s: tir.Stmt, most: int, auto: int = 0, explicit: bool = True) -> tir.Stmt:
    """Unroll `s`; serial loops too if their iterations times statements are at most `auto`.

    A loop that would become more than `most` operations stays a loop.
    """
    if isinstance(s, tir.Pragma) and s.key == "auto_unroll_max_step":
        return _unroll(s.body, most, int(s.value), explicit)
    if isinstance(s, tir.Pragma) and s.key == "unroll_explicit":
        explicit = bool(s.value)
    if isinstance(s, tir.Allocate | tir.Seq):
        return tir.map_parts(s, lambda c: _unroll(c, most, auto, explicit))
    s = tir.map_children(s, lambda c: _unroll(c, most, auto, explicit), lambda e: e)
    if not isinstance(s, tir.For):
        return s
    asked = s.kind == "unroll"
    if not asked and not (s.kind == "serial" and explicit and auto):
        return s
    if isinstance(s.extent, int):
        short = asked or s.extent * statements(s.body) <= auto
        if short and s.extent * operations(s.body) <= most:
            return tir.seq(*(tir.substitute(s.body, {s.var: i}) for i in range(s.extent)))
    return replace(s, kind="serial") if asked else s
