"""Kernels: the statements at the root of a program, each of which is one launch (simt.roots)."""

from __future__ import annotations

from collections.abc import Callable

from minitvm import schedule, simt, tir
from minitvm.base import INT32

BARRIER, WARP_BARRIER, ASYNC_WAIT = (
    tir.Evaluate(tir.Call(name, (), INT32))
    for name in (simt.BARRIER, simt.WARP_BARRIER, simt.ASYNC_WAIT)
)

UNIT = 16  # bytes of what cp16 copies: its addresses are multiples of them


def shared_elements(buffer: tir.Buffer, size: int) -> int:
    """Return how many elements shared memory has for an array of `size` elements.

    Arrays follow one another without gaps, so the size of each is a multiple of UNIT bytes.
    """
    unit = max(1, UNIT // buffer.dtype.bytes)
    return -(-size // unit) * unit


def copied(value: tir.Expr) -> tuple[tir.Load, tir.Expr] | None:
    """Return (what is copied, on which condition) if `value` is an element, or else zero.

    A[i]                      ->  A[i], True
    A[i] if i < n else 0.0    ->  A[i], i < n
    """
    match value:
        case tir.Load():
            return value, tir.TRUE
        case tir.IfThenElse(cond, tir.Load() as load, tir.Const(0)):
            return load, cond
        case _:
            return None


def is_barrier(s: tir.Stmt, *, warp: bool = False) -> bool:
    """Return whether `s` is a barrier of a block, or with `warp` one of a warp or a block."""
    names = (simt.BARRIER, simt.WARP_BARRIER) if warp else (simt.BARRIER,)
    match s:
        case tir.Evaluate(tir.Call(name)):
            return name in names
        case _:
            return False


def is_hardware(s: tir.Stmt) -> bool:
    """Return whether `s` is a loop bound to blocks or threads of the hardware."""
    return isinstance(s, tir.For) and schedule.is_hardware(s.thread)


def most_iterations(loop: tir.For) -> int | None:
    """Return an upper bound on the iterations of a loop, or None."""
    if isinstance(loop.extent, int):
        return loop.extent
    return None if loop.var.high == tir.INF else int(loop.var.high) + 1


def is_power(n: int) -> bool:
    """Return whether `n` is a power of two."""
    return n & (n - 1) == 0


def is_kernel(s: tir.Stmt) -> bool:
    """Return whether hardware threads run `s`."""
    return any(map(is_hardware, tir.every(s)))


def map_kernels(body: tir.Stmt, change: Callable[[tir.Stmt], tir.Stmt]) -> tir.Stmt:
    """Apply `change` to each kernel of a program; leave other root statements alone."""
    match body:
        case tir.Seq(parts):
            return tir.seq(*(map_kernels(part, change) for part in parts))
        case tir.Allocate(buffer, inner) if buffer.scope == "global":
            return tir.Allocate(buffer, map_kernels(inner, change))
        case _:
            return change(body) if is_kernel(body) else body
