"""Find the unit of the accelerator that runs a statement: load, compute or store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from minitvm import accel, tir

LOAD, COMPUTE, STORE = "ld", "ex", "st"
UNITS = {LOAD: accel.Unit.LOAD, COMPUTE: accel.Unit.COMPUTE, STORE: accel.Unit.STORE}


def unit(s: tir.Stmt) -> str:
    """Return the one unit that runs all of `s`; "" if several units run it, or no unit does."""
    names = units(s)
    return next(iter(names)) if len(names) == 1 else ""


def units(s: tir.Stmt) -> set[str]:
    """Return the units that run statements of `s`; they include "" if no unit runs some of them."""
    return {_prefix(n) for n in tir.every(s) if isinstance(n, tir.Evaluate | tir.Store)}


def _prefix(s: tir.Stmt) -> str:
    """Return the prefix in UNITS of the call that `s` makes, or ""."""
    match s:
        case tir.Evaluate(tir.Call(name)) if (prefix := name.partition(".")[0]) in UNITS:
            return prefix
        case _:
            return ""


def blocks(parts: tuple[tir.Stmt, ...]) -> Iterator[tuple[str, tuple[tir.Stmt, ...]]]:
    """Group neighbouring statements that the same unit runs, and yield (unit, group).

    A statement that no unit or several units run is yielded alone, with the unit "".
    """
    for name, group in groupby(parts, unit):
        stmts = tuple(group)
        if name:
            yield name, stmts
        else:
            yield from (("", (part,)) for part in stmts)
