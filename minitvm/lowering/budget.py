"""Estimate compile time, and limit how much code passes may duplicate."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm import tir

MAX_OPERATIONS = 12_288  # largest size that one loop may expand to: LLVM compiles it in about 10 s
# Auto-unrolling may expand one loop to these. LLVM compares each store in an innermost loop with
# each other access: it took 1 to 2 s for 256 stores and 768 loads, and 0.2 s for half as many.
MAX_SCALAR_STORES = 256
MAX_SCALAR_ACCESSES = 512
LOOP = 48  # LLVM compiles a loop, without its body, in the time of this many operations
REGISTER = 16  # lanes of a vector register; LLVM emits code for longer vectors once per register


@dataclass(frozen=True, slots=True)
class CodeSize:
    """The amount of code in a statement as it is written, not counting iterations.

    statements        the number of stores and calls
    scalar_stores     the number of stores of single elements, not of vectors
    scalar_accesses   the number of scalar stores and of the loads in them
    operations        the estimated cost of compiling it: 1 for a scalar load, store or operation
    """

    statements: int
    scalar_stores: int
    scalar_accesses: int
    operations: int


def code_size(s: tir.Stmt) -> CodeSize:
    """Return the amount of code in `s`."""
    statements = scalar_stores = scalar_accesses = operations = 0
    for part in tir.every(s):
        match part:
            case tir.For():
                operations += LOOP
            case tir.Evaluate():
                statements += 1
                operations += tir.CALL
            case tir.Store(value=value):
                lanes = width(part)
                statements += 1
                operations += (1 + sum(map(cost, tir.walk(value)))) * (1 + lanes // REGISTER)
                if lanes == 1:
                    scalar_stores += 1
                    scalar_accesses += 1 + sum(isinstance(n, tir.Load) for n in tir.walk(value))
            case _:
                pass
    return CodeSize(statements, scalar_stores, scalar_accesses, operations)


def cost(n: tir.Node) -> int:
    """Return how many operations the expression `n` counts as, without its operands.

    Index arithmetic counts as none, because it usually folds.
    """
    if isinstance(n, tir.Const) or tir.is_index(n):
        return 0
    return tir.CALL if isinstance(n, tir.Call) else 1


def width(s: tir.Store) -> int:
    """Return the number of lanes of a store."""
    return max(tir.lanes(e) for e in (*s.indices, s.value))


def operations(s: tir.Stmt) -> int:
    """Estimate the cost of compiling `s`; a scalar load, store or arithmetic operation costs 1."""
    return code_size(s).operations
