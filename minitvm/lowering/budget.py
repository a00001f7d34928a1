"""Estimate compile time, and limit how much code passes may duplicate."""

from __future__ import annotations

from minitvm import tir

from .statements import every, inner

MOST_OPERATIONS = 12_288  # most operations one loop may expand to: LLVM compiles them in about 10 s
LOOP = 48  # LLVM compiles a loop, without its body, in the time of this many operations
REGISTER = 16  # lanes of a vector register; LLVM emits code for longer vectors once per register


def statements(s: tir.Stmt) -> int:
    """Return the number of stores and calls in `s`, or 1 if there are none."""
    return max(1, sum(isinstance(n, tir.Store | tir.Evaluate) for n in every(s)))


def operations(s: tir.Stmt) -> int:
    """Estimate the cost of compiling `s`; a scalar load, store or arithmetic operation costs 1."""
    match s:
        case tir.Store(_, indices, value):
            width = max(tir.lanes(e) for e in (*indices, value))
            return (1 + _operations(value)) * (1 + width // REGISTER)
        case tir.Evaluate():
            return tir.CALL
        case tir.For(body=body):
            return LOOP + operations(body)
        case _:
            return sum(map(operations, inner(s)))


def _operations(e: tir.Expr) -> int:
    return sum(
        tir.CALL if isinstance(n, tir.Call) else 1
        for n in tir.walk(e)
        if not isinstance(n, tir.Const) and not tir.is_index(n)
    )
