"""What TVM's te has and this one has not, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable

from minitvm.base import NameMissingError, name_missing

UNSUPPORTED: dict[str, tuple[str, str]] = {  # name -> why, what to try
    "gradient": (
        "a schedule describes one formula; derivatives are formulas of their own",
        "write the gradient as a te.compute",
    ),
    "hybrid": (
        "loops in Python syntax would be a second language beside formulas",
        "te.extern with tir.ir_builder for loops by hand",
    ),
    "create_prim_func": (
        "there is one loop IR, and a schedule leads to it",
        "tvm.lower(s, args), which returns a PrimFunc",
    ),
    "extern_primfunc": (
        "a PrimFunc has arguments of its own",
        "te.extern with the same statement on (ins, outs)",
    ),
    "tag_scope": ("a tag belongs to one operation", 'te.compute(..., tag="...")'),
    "SpecializedCondition": (
        "schedules are specialised by making several of them",
        "one schedule for each case",
    ),
}


def missing(name: str, known: Iterable[str]) -> NameMissingError:
    """The error for `te.name`; `known` are the names that there are."""
    if name in UNSUPPORTED:
        why, fix = UNSUPPORTED[name]
        return NameMissingError(f"te.{name} is not supported", why, fix)
    return name_missing("te", name, known)


def missing_step(name: str, known: Iterable[str], steps: Iterable[str]) -> NameMissingError:
    """The error for `s.name`; s.split(...) is meant as s[C].split(...)."""
    if name in steps and not name.startswith("_"):
        fix = f"s[C].{name}(...), with C the tensor whose loops are meant"
        return NameMissingError(f"s.{name}", "loops belong to a stage of the schedule", fix)
    return name_missing("s", name, known)
