"""Unrolled loops are written out."""

from __future__ import annotations

from dataclasses import replace

from minitvm import tir

from .statements import every, inner

MOST = 12_288  # operations that one unrolled loop may become: LLVM compiles them in about 10 s
CALL = 20  # operations that exp or tanh becomes
LOOP = 48  # operations that take LLVM as long as a loop does, without its body
REGISTER = 16  # lanes; code for longer vectors is written once for each register


def unroll(s: tir.Stmt) -> tir.Stmt:
    """Write every unrolled loop out, and loops under auto_unroll_max_step where they are short.

    for i in unroll(2):               C[0] = A[0]
      C[i] = A[i]              ->     C[1] = A[1]

    Under the pragma unroll_explicit = 0, short loops stay as they are: the compiler of the target
    may unroll them. Loops marked "unroll" are written out all the same. No loop becomes more than
    MOST operations, and all together become at most twice as many: longer loops stay loops.
    """
    most, before = MOST, operations(s)
    while operations(done := _unroll(s, most)) - before > 2 * MOST and most:
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


def statements(s: tir.Stmt) -> int:
    """Return how many stores and calls `s` holds, at least 1."""
    return max(1, sum(isinstance(n, tir.Store | tir.Evaluate) for n in every(s)))


def operations(s: tir.Stmt) -> int:
    """Estimate what compiling `s` costs, in scalar loads, stores and arithmetic operations."""
    match s:
        case tir.Store(_, indices, value):
            width = max(tir.lanes(e) for e in (*indices, value))
            return (1 + _operations(value)) * (1 + width // REGISTER)
        case tir.Evaluate():
            return CALL
        case tir.For(body=body):
            return LOOP + operations(body)
        case _:
            return sum(map(operations, inner(s)))


def _operations(e: tir.Expr) -> int:
    return sum(
        CALL if isinstance(n, tir.Call) else 1
        for n in tir.walk(e)
        if not isinstance(n, tir.Const) and not tir.is_index(n)
    )
