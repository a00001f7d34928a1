"""Estimate compile time, and limit how much code passes may duplicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

from minitvm import tir

from .statements import inner

T = TypeVar("T")
MOST_OPERATIONS = 12_288  # most operations one loop may expand to: LLVM compiles them in about 10 s
# Auto-unrolling may expand one loop to these. LLVM compares each store in an innermost loop with
# each other access: it took 1 to 2 s for 256 stores and 768 loads, and 0.2 s for half as many.
MOST_SCALAR_STORES = 256
MOST_SCALAR_ACCESSES = 512
LOOP = 48  # LLVM compiles a loop, without its body, in the time of this many operations
REGISTER = 16  # lanes of a vector register; LLVM emits code for longer vectors once per register


@dataclass(frozen=True, slots=True)
class CodeSize:
    """The amount of code in a program or a part of it.

    statements        the number of stores and calls
    scalar_stores     the number of stores of single elements, not of vectors
    scalar_accesses   the number of scalar stores and of the loads in them
    operations        the estimated cost of compiling it: 1 for a scalar load, store or operation
    """

    statements: int = 0
    scalar_stores: int = 0
    scalar_accesses: int = 0
    operations: int = 0

    def __add__(self, other: CodeSize) -> CodeSize:
        return CodeSize(
            self.statements + other.statements,
            self.scalar_stores + other.scalar_stores,
            self.scalar_accesses + other.scalar_accesses,
            self.operations + other.operations,
        )

    def times(self, n: int) -> CodeSize:
        """Return the size of `n` copies."""
        return CodeSize(
            self.statements * n,
            self.scalar_stores * n,
            self.scalar_accesses * n,
            self.operations * n,
        )


def code_size(s: tir.Stmt) -> CodeSize:
    """Return the size of `s` as it is written, not counting iterations."""
    match s:
        case tir.Store():
            return store_size(s)
        case tir.Evaluate():
            return CodeSize(statements=1, operations=tir.CALL)
        case tir.For(body=body):
            return code_size(body) + CodeSize(operations=LOOP)
        case _:
            return reduce(CodeSize.__add__, map(code_size, inner(s)), CodeSize())


def store_size(s: tir.Store, lanes: int = 1) -> CodeSize:
    """Return the size of a store; a scalar store counts as a vector store of `lanes` elements."""
    width = max(lanes, *(tir.lanes(e) for e in (*s.indices, s.value)))
    loads, cost = 0, 1
    for n in tir.walk(s.value):
        loads += isinstance(n, tir.Load)
        if not isinstance(n, tir.Const) and not tir.is_index(n):
            cost += tir.CALL if isinstance(n, tir.Call) else 1
    scalar = int(width == 1)
    return CodeSize(1, scalar, scalar * (1 + loads), cost * (1 + width // REGISTER))


def statements(s: tir.Stmt) -> int:
    """Return the number of stores and calls in `s`, or 1 if there are none."""
    return max(1, code_size(s).statements)


def operations(s: tir.Stmt) -> int:
    """Estimate the cost of compiling `s`; a scalar load, store or arithmetic operation costs 1."""
    return code_size(s).operations


class Unrolling:
    """Decides which loops to unroll; a loop may become at most `most` operations."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.added = 0  # operations that copies have added so far

    def copies(self, loop: tir.For, body: CodeSize, auto: int) -> bool:
        """Return whether to unroll `loop`; if so, add the operations of its copies to `added`.

        A serial loop is short if iterations times statements are at most `auto`, and if its copies
        have no more scalar stores and accesses than LLVM compiles fast.
        """
        n = loop.extent
        if not isinstance(n, int):
            return False
        short = (
            n * max(1, body.statements) <= auto
            and n * body.scalar_stores <= MOST_SCALAR_STORES
            and n * body.scalar_accesses <= MOST_SCALAR_ACCESSES
        )
        asked = loop.kind == "unroll" or (loop.kind == "serial" and auto > 0 and short)
        if not asked or n * body.operations > self.most:
            return False
        self.added += (n - 1) * body.operations
        return True


def within_limits(run: Callable[[Unrolling], T]) -> T:
    """Run a pass that unrolls loops; halve its limit and rerun it while it adds too much code."""
    unrolling = Unrolling(MOST_OPERATIONS)
    done = run(unrolling)
    while unrolling.added > 2 * MOST_OPERATIONS:
        unrolling = Unrolling(unrolling.most // 2)
        done = run(unrolling)
    return done
