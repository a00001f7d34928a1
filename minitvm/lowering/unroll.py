"""Unrolled loops are written out."""

from __future__ import annotations

from dataclasses import replace

from minitvm.tir import (
    Allocate,
    Evaluate,
    For,
    Pragma,
    Seq,
    Stmt,
    Store,
    map_children,
    map_parts,
    seq,
    substitute,
)

from .statements import every

MOST = 4096  # statements a single unrolled loop may become; a longer one stays a loop


def unroll(s: Stmt) -> Stmt:
    """Write every unrolled loop out, and loops under auto_unroll_max_step where they are short.

    for i in unroll(2):               C[0] = A[0]
      C[i] = A[i]              ->     C[1] = A[1]

    Under the pragma unroll_explicit = 0, short loops stay as they are: the compiler of the target
    may unroll them. Loops marked "unroll" are written out all the same.
    """
    return _unroll(s, 0, True)


def _unroll(s: Stmt, auto: int, explicit: bool) -> Stmt:
    """`s` unrolled; serial loops too if their iterations times statements are at most `auto`."""
    if isinstance(s, Pragma) and s.key == "auto_unroll_max_step":
        return _unroll(s.body, int(s.value), explicit)
    if isinstance(s, Pragma) and s.key == "unroll_explicit":
        explicit = bool(s.value)
    if isinstance(s, Allocate | Seq):
        return map_parts(s, lambda c: _unroll(c, auto, explicit))
    s = map_children(s, lambda c: _unroll(c, auto, explicit), lambda e: e)
    if not isinstance(s, For):
        return s
    asked, most = s.kind == "unroll", MOST if s.kind == "unroll" else min(auto, MOST)
    if not asked and not (s.kind == "serial" and explicit and auto):
        return s
    if isinstance(s.extent, int) and s.extent * statements(s.body) <= most:
        return seq(*(substitute(s.body, {s.var: i}) for i in range(s.extent)))
    return replace(s, kind="serial") if asked else s


def statements(s: Stmt) -> int:
    """How many stores and calls `s` holds, at least 1."""
    return max(1, sum(isinstance(n, Store | Evaluate) for n in every(s)))
