"""Checks of an instruction's fields that do not depend on the configuration."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from minitvm.base import ArgumentError, Reason, check_kind, raise_first

from . import isa
from .config import Memory
from .formats import FORMATS, UOP, Field

MAX_UOPS = 1 << 22  # limit per instruction: twice 2048 accumulators x 1024 weights
EXAMPLES: Mapping[type[int], str] = {bool: "True or False", isa.Op: "Op.ADD"}


# --- types ----------------------------------------------------------------------------------------


def check_types(what: str, instruction: Any) -> None:
    """Raise ArgumentError unless it is an instruction whose fields have the right types."""
    if type(instruction) not in FORMATS:
        raise isa.not_an_instruction(f"{what}: {instruction!r:.60}")
    check_kind(f"{what}: flags", instruction.flags, isa.Flags, fix="Flags(push_next=True)")
    match instruction:
        case isa.Load(memory=memory):
            if type(memory) is not Memory or memory not in isa.LOADABLE:
                why = f"memory={memory!r} cannot be loaded"
                raise ArgumentError(what, why, "UOP, WGT, INP, ACC or ACC_8BIT")
            _check_pairs(what, instruction, "y_pad", "x_pad")
        case isa.Store(memory=memory):
            if memory is not Memory.OUT:
                raise ArgumentError(what, f"memory={memory!r} cannot be stored", "Memory.OUT")
        case isa.Gemm() | isa.Alu():
            check_kind(
                f"{what}: loops", instruction.loops, isa.UopLoops, fix="UopLoops(begin=0, end=1)"
            )
            _check_pairs(what, instruction.loops, "dst_factors", "src_factors", "wgt_factors")
        case _:
            pass
    for field in FORMATS[type(instruction)].fields:
        if field.kind in EXAMPLES and type(value := field.read(instruction)) is not field.kind:
            check_kind(f"{what}: {field.path}", value, field.kind, fix=EXAMPLES[field.kind])
    if isinstance(instruction, isa.Alu):
        imm = instruction.imm
        if instruction.loops.wgt_factors != (0, 0):
            raise ArgumentError(what, "the ALU does not read weights", "wgt_factors=(0, 0)")
        if imm is not None and (type(imm) is not int or imm not in isa.IMMEDIATES):
            why = f"not an int from {isa.IMMEDIATES[0]} to {isa.IMMEDIATES[-1]}"
            raise ArgumentError(f"{what}: imm={imm!r:.60}", why, "load it into an accumulator")


def _check_pairs(what: str, record: Any, *names: str) -> None:
    """Raise ArgumentError unless the attributes `names` of a record are pairs."""
    for name in names:
        pair = getattr(record, name)
        if type(pair) is not tuple or len(pair) != 2:  # pyright: ignore[reportUnknownArgumentType]
            why = f"not a pair {'(before, after)' if name.endswith('pad') else '(outer, inner)'}"
            raise ArgumentError(f"{what}: {name}={pair!r:.60}", why, f"{name}=(0, 0)")


# --- numbers --------------------------------------------------------------------------------------


def check_number(what: str, name: str, value: object, limit: int) -> None:
    """Raise ArgumentError unless `value` is an int from 0 to `limit` - 1."""
    if type(value) is not int or not 0 <= value < limit:
        shown, fix = reprlib.repr(value), f"{name}=0, or int(n) for a numpy integer n"
        raise ArgumentError(f"{what}: {name}={shown}", f"not an int from 0 to {limit - 1}", fix)


def _check_numbers(what: str, fields: tuple[Field, ...], record: object) -> None:
    """Raise ArgumentError unless the plain numbers of a record are in range."""
    for field in fields:
        if field.kind is int and not field.signed:
            check_number(what, field.path, field.read(record), field.limit)


def check_uop(what: str, uop: isa.Uop) -> None:
    """Raise ArgumentError unless `uop` is a micro-operation whose indices are in range."""
    check_kind(what, uop, isa.Uop, fix="Uop(dst=0, src=0)")
    _check_numbers(what, UOP, uop)


def check_fields(what: str, instruction: Any) -> None:
    """Raise ArgumentError unless some machine can run the instruction."""
    check_types(what, instruction)
    _check_numbers(what, FORMATS[type(instruction)].fields, instruction)
    raise_first(ArgumentError, what, _about(instruction))


def _about(instruction: isa.Instruction) -> Iterator[Reason]:
    """Yield reasons why no machine can run an instruction whose fields are all in range."""
    match instruction:
        case isa.Load(memory=memory, x=x, y=y):
            padded = any((*instruction.y_pad, *instruction.x_pad))
            if padded and not x:
                yield "with x=0 it moves nothing, so it cannot pad", "y_pad=(0, 0), x_pad=(0, 0)"
            if memory is Memory.UOP and padded:
                yield "a load of uops cannot pad", "y_pad=(0, 0), x_pad=(0, 0)"
            if memory is Memory.UOP and y != 1:
                yield f"a load of uops has one row, not {y}", "y=1"
        case isa.Gemm(loops=loops) | isa.Alu(loops=loops):
            if loops.end < loops.begin:
                fix = "begin <= end"
                yield f"its uops begin at {loops.begin}, after their end {loops.end}", fix
            if loops.count > MAX_UOPS:
                why = f"it issues {loops.count} micro-operations, more than {MAX_UOPS}"
                yield why, "several instructions"
        case isa.Finish(flags=flags) if flags != isa.NO_FLAGS:
            yield "FINISH cannot carry tokens", "a compute nop before it that pops them"
        case _:
            pass
