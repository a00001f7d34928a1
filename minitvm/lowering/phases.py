"""Changes to a tuple of passes: insert a pass, or swap in your own for a standard one.

Phases, as in TVM:   0  before flatten       A[i, j] still has one index for each dimension
                     1  after flatten        flat offsets; loops as scheduled
                     2  after unroll         no loop is left to vectorize or unroll
                     3  at the end
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import TypeAlias

from minitvm import tir
from minitvm.base import ArgumentError

Pass: TypeAlias = Callable[[tir.Stmt], tir.Stmt]


def names_of(passes: tuple[Pass, ...]) -> list[str]:
    """Return the names of the passes; raise ArgumentError unless it is a tuple of functions."""
    if isinstance(passes, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = [getattr(p, "__name__", "") for p in passes]
        if all(found) and all(map(callable, passes)):
            return found
    raise ArgumentError(
        f"passes={reprlib.repr(passes)}",
        "it is a tuple of functions that have names",
        'PASSES["llvm"], or insert and swap of minitvm.lowering',
    )


def insert(passes: tuple[Pass, ...], phase: int, f: Pass) -> tuple[Pass, ...]:
    """Return `passes` with `f` inserted at the end of a phase (phase 0: just before flatten).

    In a tuple without `unroll`, phase 2 ends before a final `tidy`, or after the last pass.
    Raises ArgumentError for a phase outside 0 .. 3, or a tuple without `flatten`.
    """
    names = names_of(passes)
    if not callable(f) or not hasattr(f, "__name__"):
        raise ArgumentError(
            f"insert {reprlib.repr(f)}",
            "it is no function that has a name",
            "def mine(s: Stmt) -> Stmt: ...",
        )
    if type(phase) is not int or not 0 <= phase <= 3:
        raise ArgumentError(
            f"insert {f.__name__} in phase {phase!r}", "there are four phases", "0, 1, 2 or 3"
        )
    if "flatten" not in names:
        raise ArgumentError(
            f"insert {f.__name__} in phase {phase}",
            f"phases are counted from flatten, which is not one of: {', '.join(names)}",
            "write the tuple out: (*passes, f)",
        )
    flat = names.index("flatten")
    end = len(names) - (names[-1] == "tidy")
    unrolled = names.index("unroll") + 1 if "unroll" in names else end
    at = (flat, flat + 1, unrolled, len(names))[phase]
    return (*passes[:at], f, *passes[at:])


def swap(passes: tuple[Pass, ...], **others: Pass) -> tuple[Pass, ...]:
    """Return `passes` with some replaced by name: swap(PASSES["llvm"], vectorize=mine).

    The new passes keep the old names, so until="vectorize" still stops there.
    Raises ArgumentError if there is no pass of that name.
    """
    names = names_of(passes)
    for name in others:
        if name not in names:
            raise ArgumentError(
                f"swap {name}", "no such pass", f"one of {', '.join(names) or 'no passes'}"
            )
    return tuple(
        _named(others[n], n) if n in others else p for n, p in zip(names, passes, strict=True)
    )


def _named(f: Pass, name: str) -> Pass:
    def run(s: tir.Stmt) -> tir.Stmt:
        return f(s)

    run.__name__ = name
    return run
