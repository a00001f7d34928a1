"""Error messages for names of TVM's `te` that minitvm lacks: why, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable

from minitvm.base import NameMissingError, name_missing

UNSUPPORTED: dict[str, tuple[str, str]] = {  # name -> why, what to try
    "gradient": (
        "minitvm does not differentiate formulas",
        "write the gradient as a te.compute",
    ),
    "hybrid": (
        "loops in Python syntax would be a second language beside formulas",
        "te.extern with tir.ir_builder for loops by hand",
    ),
    "create_prim_func": (
        "loop IR is made by lowering a schedule",
        "tvm.lower(s, args), which returns a PrimFunc",
    ),
    "extern_primfunc": (
        "a PrimFunc cannot be called from a formula",
        "te.extern with the same statement on (ins, outs)",
    ),
    "infinity": ("a Python float has the same effect", 'float("inf"), or te.max_value(dtype)'),
    "popcount": ("no target counts bits yet", "a sum of (x // 2**n) % 2 over a reduce axis n"),
    "trace": (
        "compiled code does not call Python to print values",
        "tir.interpret, or another output of te.compute",
    ),
    "tag_scope": ("a tag belongs to one operation", 'te.compute(..., tag="...")'),
    "SpecializedCondition": (
        "schedules are specialised by making several of them",
        "one schedule for each case",
    ),
}

STEPS: dict[str, tuple[str, str]] = {  # method -> why, what to try
    "create_group": ("stages are placed one by one", "s[B].compute_at(s[C], axis) for each"),
    "env_threads": (
        "the loop of a te.scan over time runs in one thread",
        "s[C].bind(axis, thread) in the stages inside it",
    ),
    "normalize": ("lowering does that", 'tvm.lower(s, args, until="nest")'),
    "rolling_buffer": ("store_at has this effect, as in Halide", "s[B].store_at(s[C], axis)"),
    "set_axis_separators": ("memory has one dimension", "s[B].transform_layout(fn)"),
}


def missing(name: str, known: Iterable[str]) -> NameMissingError:
    """Return the error for the missing attribute `te.name`; `known` are the existing names."""
    if name in UNSUPPORTED:
        why, fix = UNSUPPORTED[name]
        return NameMissingError(f"te.{name} is not supported", why, fix)
    return name_missing("te", name, known)


def missing_step(name: str, known: Iterable[str], steps: Iterable[str]) -> NameMissingError:
    """Return the error for the missing attribute `name` of a schedule `s`.

    known   the existing names of a schedule
    steps   the names of a stage: for s.split(...), the error suggests s[C].split(...)
    """
    if name in STEPS:
        return NameMissingError(f"s.{name} is not supported", *STEPS[name])
    if name in steps and not name.startswith("_"):
        fix = f"s[C].{name}(...), with C the tensor whose loops are meant"
        return NameMissingError(f"s.{name}", "loops belong to a stage of the schedule", fix)
    return name_missing("s", name, known)


def missing_stage_step(stage: str, name: str, known: Iterable[str]) -> NameMissingError:
    """Return the error for the missing attribute `name` of s[C], where `stage` is the name of C."""
    if name in STEPS:
        return NameMissingError(f"s[{stage}].{name} is not supported", *STEPS[name])
    return name_missing(f"s[{stage}]", name, known)
