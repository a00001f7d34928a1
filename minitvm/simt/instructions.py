"""How many instructions a warp issues for the expressions and loops of a kernel: a model.

A multiplication whose product is added to something is one instruction with the addition. A call of
an intrinsic, such as exp, counts as MATH instructions. Arithmetic on indices is left out, because
compilers keep most of it out of loops. A loop costs LOOP instructions an iteration, unless it is
unrolled: by the schedule, or by the compiler, which unrolls loops of constant lengths if their body
runs at most UNROLLED times in all.
"""

from __future__ import annotations

import math

from minitvm import tir

MATH = 8
LOOP = 2  # add to the counter; compare and branch
UNROLLED = 256


def in_value(e: tir.Expr) -> int:
    """Return how many instructions compute `e`, without those of its loads."""
    parts = [n for n in tir.walk(e) if isinstance(n, tir.Binary | tir.Call | tir.Compare)]
    fused = sum(_is_product_added(n) for n in parts)
    calls = sum(isinstance(n, tir.Call) for n in parts)
    return len(parts) - fused + (MATH - 1) * calls


def _is_product_added(e: tir.Expr) -> bool:
    return (
        isinstance(e, tir.Binary)
        and e.op in ("add", "sub")
        and any(isinstance(a, tir.Binary) and a.op == "mul" for a in (e.a, e.b))
    )


def in_loop(loop: tir.For) -> int:
    """Return how many instructions each iteration of a loop costs apart from those of its body."""
    if loop.kind in ("unroll", "vectorize"):
        return 0
    extents = [s.extent for s in tir.every(loop) if isinstance(s, tir.For)]
    constant = [n for n in extents if isinstance(n, int)]
    small = len(constant) == len(extents) and math.prod(constant) <= UNROLLED
    return 0 if small else LOOP
