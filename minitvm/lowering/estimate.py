"""Estimate the size of a program after unrolling, without running the passes."""

from __future__ import annotations

from minitvm import tir

from .budget import LOOP, CodeSize, Unrolling, store_size, within_limits
from .statements import every, inner
from .vectorize import vector_lengths


def estimate(func: tir.PrimFunc) -> CodeSize:
    """Estimate the size of `func` once the passes for "llvm" have vectorized and unrolled it.

    `func` is a program before the first pass: tvm.lower(s, args, until="nest"). The result is exact
    unless the program has guards, virtual threads, double buffers or vectors that cannot be made:
    where a guard makes `partition` copy a loop, for example, each copy is as large as the loop was.
    The program that packs constants, func.prepack, is not counted.
    """
    return within_limits(lambda unrolling: _size(func.body, unrolling, 1, 0, True))


def _size(s: tir.Stmt, unrolling: Unrolling, lanes: int, auto: int, explicit: bool) -> CodeSize:
    """Return the size of `s` after unrolling, with stores of `lanes` elements."""
    match s:
        case tir.Pragma("auto_unroll_max_step", value):
            auto = int(value)
        case tir.Pragma("unroll_explicit", value):
            explicit = bool(value)
        case tir.Store():
            return store_size(s, lanes)
        case tir.Evaluate():
            return CodeSize(statements=1, operations=tir.CALL)
        case tir.For(kind="vectorize", extent=int(n), body=body) if not _has_vectors(body):
            loops, lengths = vector_lengths(n)
            sizes = [_size(body, unrolling, length, auto, explicit) for length in lengths]
            if loops > 1:
                sizes[0] += CodeSize(operations=LOOP)
            return sum(sizes, CodeSize())
        case _:
            pass
    body = sum((_size(c, unrolling, lanes, auto, explicit) for c in inner(s)), CodeSize())
    if not isinstance(s, tir.For):
        return body
    if unrolling.copies(s, body, auto if explicit else 0):
        return body.times(int(s.extent))
    return body + CodeSize(operations=LOOP)


def _has_vectors(s: tir.Stmt) -> bool:
    """Return whether `s` contains a vectorized loop, so that no loop around `s` becomes vectors."""
    return any(isinstance(n, tir.For) and n.kind == "vectorize" for n in every(s))
