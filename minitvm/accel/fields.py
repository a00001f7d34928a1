"""Checks of an instruction's fields that do not depend on the configuration."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from minitvm.base import ArgumentError, check_kind

from .config import Memory
from .formats import FORMATS, UOP, Field
from .isa import (
    IMMEDIATES,
    LOADABLE,
    NO_FLAGS,
    Alu,
    Finish,
    Flags,
    Gemm,
    Load,
    Loops,
    Op,
    Store,
    Uop,
)

MOST_UOPS = 1 << 22  # limit per instruction: twice 2048 accumulators x 1024 weights
EXAMPLES: Mapping[type[int], str] = {bool: "True or False", Op: "Op.ADD"}


# --- types ----------------------------------------------------------------------------------------


def check_types(what: str, given: Any) -> None:
    """Raise ArgumentError unless `given` is an instruction whose fields have the right types."""
    if type(given) not in FORMATS:
        raise ArgumentError(
            what, f"{given!r:.60} is no instruction", "Load, Store, Gemm, Alu or Finish"
        )
    check_kind(f"{what}: flags", given.flags, Flags, fix="Flags(push_next=True)")
    match given:
        case Load(memory=memory):
            if type(memory) is not Memory or memory not in LOADABLE:
                raise ArgumentError(
                    what, f"memory={memory!r} cannot be loaded", "UOP, WGT, INP, ACC or ACC_8BIT"
                )
            _check_pairs(what, given, "y_pad", "x_pad")
        case Store(memory=memory):
            if memory is not Memory.OUT:
                raise ArgumentError(what, f"memory={memory!r} cannot be stored", "Memory.OUT")
        case Gemm() | Alu():
            check_kind(f"{what}: loops", given.loops, Loops, fix="Loops(begin=0, end=1)")
            _check_pairs(what, given.loops, "dst_factors", "src_factors", "wgt_factors")
        case _:
            pass
    for field in FORMATS[type(given)].fields:
        if field.kind in EXAMPLES:
            _check_type(what, field, field.read(given))
    if isinstance(given, Alu):
        _check_alu(what, given)


def _check_pairs(what: str, record: Any, *names: str) -> None:
    """Raise ArgumentError unless these attributes are pairs."""
    for name in names:
        given = getattr(record, name)
        if type(given) is not tuple or len(given) != 2:  # pyright: ignore[reportUnknownArgumentType]
            parts = "(before, after)" if name.endswith("pad") else "(outer, inner)"
            raise ArgumentError(
                f"{what}: {name}={given!r:.60}", f"not a pair {parts}", f"{name}=(0, 0)"
            )


def _check_type(what: str, field: Field, value: object) -> None:
    """Raise ArgumentError unless a field holds its type, bool or Op."""
    if type(value) is not field.kind:
        check_kind(f"{what}: {field.path}", value, field.kind, fix=EXAMPLES[field.kind])


def _check_alu(what: str, alu: Alu) -> None:
    """Raise ArgumentError for factors of weights and for an immediate out of range."""
    if alu.loops.wgt_factors != (0, 0):
        raise ArgumentError(what, "it has factors for weights, but an ALU reads no weights")
    imm = alu.imm
    if imm is not None and (type(imm) is not int or imm not in IMMEDIATES):
        raise ArgumentError(
            f"{what}: imm={imm!r:.60}",
            f"an immediate is an int from {IMMEDIATES[0]} to {IMMEDIATES[-1]}",
            "load the number into an accumulator",
        )


# --- numbers --------------------------------------------------------------------------------------


def check_number(what: str, name: str, value: object, limit: int) -> None:
    """Raise ArgumentError unless `value` is an int from 0 to `limit` - 1."""
    if type(value) is not int or not 0 <= value < limit:
        raise ArgumentError(
            f"{what}: {name}={reprlib.repr(value)}",
            f"it is an int from 0 to {limit - 1}",
            f"{name}=0, or int(n) for a number n of numpy's",
        )


def _check_numbers(what: str, fields: tuple[Field, ...], record: object) -> None:
    """Raise ArgumentError unless the plain numbers of a record are in range."""
    for field in fields:
        if field.kind is int and not field.signed:
            check_number(what, field.path, field.read(record), field.limit)


def check_uop(what: str, uop: Uop) -> None:
    """Raise ArgumentError unless `uop` is a micro-operation whose indices are in range."""
    check_kind(what, uop, Uop, fix="Uop(dst=0, src=0)")
    _check_numbers(what, UOP, uop)


def check_fields(what: str, instruction: Any) -> None:
    """Raise ArgumentError unless some machine can run the instruction."""
    check_types(what, instruction)
    _check_numbers(what, FORMATS[type(instruction)].fields, instruction)
    match instruction:
        case Load():
            _check_load(what, instruction)
        case Gemm(loops=loops) | Alu(loops=loops):
            _check_loops(what, loops)
        case Finish() if instruction.flags != NO_FLAGS:
            raise ArgumentError(
                what, "it carries tokens", "a nop of compute before it that pops them"
            )
        case _:
            pass


def _check_load(what: str, load: Load) -> None:
    padded = any((*load.y_pad, *load.x_pad))
    if padded and not load.x:
        raise ArgumentError(what, "x=0 moves nothing and pads nothing")
    if load.memory is Memory.UOP and padded:
        raise ArgumentError(what, "uops are not padded")
    if load.memory is Memory.UOP and load.y != 1:
        raise ArgumentError(what, f"y={load.y} rows of uops", "uops are loaded as one row: y=1")


def _check_loops(what: str, loops: Loops) -> None:
    if loops.end < loops.begin:
        raise ArgumentError(what, f"micro-operations {loops.begin} to {loops.end} run backwards")
    if loops.count > MOST_UOPS:
        raise ArgumentError(
            what,
            f"{loops.count} micro-operations; the model runs at most {MOST_UOPS}",
            "several instructions",
        )
