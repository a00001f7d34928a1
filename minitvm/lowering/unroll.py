"""A pass that unrolls loops."""

from __future__ import annotations

from dataclasses import replace

from minitvm import tir

from .budget import Unrolling, code_size, within_limits


def unroll(s: tir.Stmt) -> tir.Stmt:
    """Unroll the loops marked for it, and short loops under the pragma auto_unroll_max_step.

    for i in unroll(2):               C[0] = A[0]
      C[i] = A[i]              ->     C[1] = A[1]

    Inside the pragma unroll_explicit = 0, short loops are left to the target's compiler, but loops
    marked "unroll" are still unrolled. A loop is short if iterations times statements are at most
    the pragma's value, and its copies at most MOST_SCALAR_STORES scalar stores and at most
    MOST_SCALAR_ACCESSES scalar loads and stores. A loop whose copies would have more than
    MOST_OPERATIONS operations stays a loop; all copies together add at most twice that number.
    """
    return within_limits(lambda unrolling: _unrolled(s, unrolling, 0, True))


def _unrolled(s: tir.Stmt, unrolling: Unrolling, auto: int, explicit: bool) -> tir.Stmt:
    """Return `s` with its marked loops unrolled; if `explicit`, its short serial loops, too."""
    if isinstance(s, tir.Pragma) and s.key == "auto_unroll_max_step":
        return _unrolled(s.body, unrolling, int(s.value), explicit)
    if isinstance(s, tir.Pragma) and s.key == "unroll_explicit":
        explicit = bool(s.value)

    def inside(c: tir.Stmt) -> tir.Stmt:
        return _unrolled(c, unrolling, auto, explicit)

    if isinstance(s, tir.Allocate | tir.Seq):
        return tir.map_parts(s, inside)
    s = tir.map_children(s, inside, lambda e: e)
    short = auto if explicit else 0
    if not isinstance(s, tir.For) or not (s.kind == "unroll" or (s.kind == "serial" and short)):
        return s
    if unrolling.copies(s, code_size(s.body), short):
        assert isinstance(s.extent, int)
        return tir.seq(*(tir.substitute(s.body, {s.var: i}) for i in range(s.extent)))
    return replace(s, kind="serial") if s.kind == "unroll" else s
