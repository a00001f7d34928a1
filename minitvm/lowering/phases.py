"""Insert your own pass into a tuple of passes or replace a standard pass, and run a pass.

Phases, as in TVM:   0  before flatten       A[i, j] still has one index for each dimension
                     1  after flatten        flat offsets; loops as scheduled
                     2  after unroll         no loop is left to vectorize or unroll
                     3  at the end
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from minitvm import tir
from minitvm.base import ArgumentError, Reason, raise_first

Pass: TypeAlias = Callable[[tir.Stmt], tir.Stmt]


def names_of(passes: tuple[Pass, ...]) -> list[str]:
    """Return the names of the passes; raise ArgumentError unless `passes` are named functions."""
    if isinstance(passes, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        names = [getattr(p, "__name__", "") for p in passes]
        if all(names) and all(map(callable, passes)):
            return names
    fix = 'PASSES["llvm"], or a tuple made by lowering.insert or lowering.swap'
    raise ArgumentError(f"passes={reprlib.repr(passes)}", "not a tuple of named functions", fix)


def insert(passes: tuple[Pass, ...], phase: int, f: Pass) -> tuple[Pass, ...]:
    """Return `passes` with `f` inserted at the end of a phase (phase 0: just before flatten).

    In a tuple without `unroll`, phase 2 ends before a final `tidy`, or after the last pass.
    Raises ArgumentError for a phase outside 0 .. 3, or a tuple without `flatten`.
    """
    names = names_of(passes)
    if not callable(f) or not hasattr(f, "__name__"):
        fix = "def mine(s: Stmt) -> Stmt: ..."
        raise ArgumentError(f"insert {reprlib.repr(f)}", "not a named function", fix)
    raise_first(
        ArgumentError, f"insert {f.__name__} in phase {phase!r}", _about_phase(phase, names)
    )
    flat = names.index("flatten")
    end = len(names) - (names[-1] == "tidy")
    unroll_end = names.index("unroll") + 1 if "unroll" in names else end
    at = (flat, flat + 1, unroll_end, len(names))[phase]
    return (*passes[:at], f, *passes[at:])


def _about_phase(phase: object, names: list[str]) -> Iterator[Reason]:
    """Yield a reason unless the phase is 0 .. 3 and `flatten` is among the passes."""
    if type(phase) is not int or not 0 <= phase <= 3:
        yield "there are four phases", "0, 1, 2 or 3"
    if "flatten" not in names:
        why = f"phases are defined relative to flatten, and the passes are {', '.join(names)}"
        yield why, "write the tuple without insert: (*passes, f)"


def swap(passes: tuple[Pass, ...], **others: Pass) -> tuple[Pass, ...]:
    """Return `passes` with some replaced by name: swap(PASSES["llvm"], vectorize=mine).

    The new passes get the old names, so until="vectorize" then stops after the new pass.
    Raises ArgumentError if there is no pass of that name.
    """
    names = names_of(passes)
    for name in others:
        if name not in names:
            fix = f"one of {', '.join(names)}" if names else "a tuple that is not empty"
            raise ArgumentError(f"swap {name}", "no such pass", fix)
    return tuple(
        _named(others[n], n) if n in others else p for n, p in zip(names, passes, strict=True)
    )


def _named(f: Pass, name: str) -> Pass:
    def run(s: tir.Stmt) -> tir.Stmt:
        return f(s)

    run.__name__ = name
    return run


# --- running -------------------------------------------------------------------------------------


def check_watching(names: list[str], until: str, watch: object) -> None:
    """Raise ArgumentError if `until` names none of the passes, or `watch` is not a function."""
    if until and until not in names:
        raise ArgumentError(f"until={until!r}", "no such pass", f"one of {', '.join(names)}")
    if watch is not None and not callable(watch):
        raise ArgumentError(f"watch={watch!r}", "not a function", "watch(pass name, program)")


def run_pass(run: Pass, body: tir.Stmt) -> tir.Stmt:
    """Run a pass, and check that it returns a statement, because users can write passes."""
    new = run(body)
    if not isinstance(new, tir.Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
        why = f"it returns {type(new).__name__}"
        raise ArgumentError(f"pass {run.__name__}", why, "return a statement")
    return new


def level_after(done: list[str]) -> tir.Level:
    """Return the level at which the verifier checks a program after the passes named in `done`."""
    if "flatten" not in done:
        return "nest"
    return "vector" if "vectorize" in done and "unroll" in done else "flat"
