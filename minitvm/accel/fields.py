"""What the fields of an instruction may hold, whatever the configuration."""

from __future__ import annotations

import reprlib
from typing import Any

from minitvm.base import ArgumentError, check_kind

from .config import Memory
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

MOST_UOPS = 1 << 22  # of one instruction: twice what 2048 accumulators and 1024 weights make


# --- types ----------------------------------------------------------------------------------------


def check_types(what: str, given: Any) -> None:
    """Refuse what is no instruction, and fields that hold no such thing; numbers come later."""
    match given:
        case Load(memory=memory):
            if type(memory) is not Memory or memory not in LOADABLE:
                raise ArgumentError(
                    what, f"memory={memory!r} cannot be loaded", "UOP, WGT, INP, ACC or ACC_8BIT"
                )
            _check_pair(what, "y_pad", given.y_pad, "(before, after)")
            _check_pair(what, "x_pad", given.x_pad, "(before, after)")
        case Store(memory=memory):
            if memory is not Memory.OUT:
                raise ArgumentError(what, f"memory={memory!r} cannot be stored", "Memory.OUT")
        case Gemm(loops=loops, reset=reset):
            _check_factors(what, loops)
            check_kind(f"{what}: reset", reset, bool, fix="True or False")
        case Alu(op=op, loops=loops):
            _check_factors(what, loops)
            check_kind(f"{what}: op", op, Op, fix="Op.ADD")
            if loops.wgt_factors != (0, 0):
                raise ArgumentError(what, "it has factors for weights, and reads none")
            _check_immediate(what, given.imm)
        case Finish():
            pass
        case _:
            raise ArgumentError(
                what, f"{given!r:.60} is no instruction", "Load, Store, Gemm, Alu or Finish"
            )
    _check_flags(what, given.flags)


def _check_pair(what: str, name: str, given: Any, parts: str) -> None:
    if type(given) is not tuple or len(given) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentError(
            f"{what}: {name}={given!r:.60}", f"not a pair {parts}", f"{name}=(0, 0)"
        )


def _check_factors(what: str, loops: Any) -> None:
    check_kind(f"{what}: loops", loops, Loops, fix="Loops(begin=0, end=1)")
    for name in ("dst_factors", "src_factors", "wgt_factors"):
        _check_pair(what, name, getattr(loops, name), "(outer, inner)")


def _check_flags(what: str, flags: Any) -> None:
    check_kind(f"{what}: flags", flags, Flags, fix="Flags(push_next=True)")
    if not all(type(getattr(flags, name)) is bool for name in Flags.__slots__):
        raise ArgumentError(
            f"{what}: {flags!r:.90}", "flags are True or False", "Flags(push_next=True)"
        )


def _check_immediate(what: str, imm: Any) -> None:
    if imm is not None and (type(imm) is not int or imm not in IMMEDIATES):
        raise ArgumentError(
            f"{what}: imm={imm!r:.60}",
            f"an immediate is an int from {IMMEDIATES[0]} to {IMMEDIATES[-1]}",
            "load the number into an accumulator",
        )


# --- numbers --------------------------------------------------------------------------------------


def check_number(what: str, name: str, value: object, bits: int) -> None:
    """Refuse what is no number of so many bits."""
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise ArgumentError(
            f"{what}: {name}={reprlib.repr(value)}",
            f"it is an int from 0 to {(1 << bits) - 1}",
            f"{name}=0, or int(n) for a number n of numpy's",
        )


def check_uop(what: str, uop: Uop) -> None:
    """Refuse what is no micro-operation, or has numbers that no memory reaches."""
    check_kind(what, uop, Uop, fix="Uop(dst=0, src=0)")
    for name in Uop.__slots__:
        check_number(what, name, getattr(uop, name), 16)


def check_fields(what: str, instruction: Any) -> None:
    """Refuse what is no instruction, and numbers that no machine could make right."""
    check_types(what, instruction)
    match instruction:
        case Load():
            _check_move(what, instruction)
            _check_padding(what, instruction)
        case Store():
            _check_move(what, instruction)
        case Gemm(loops=loops) | Alu(loops=loops):
            _check_loops(what, loops)
        case _:
            if instruction.flags != NO_FLAGS:
                raise ArgumentError(
                    what, "it carries tokens", "a nop of compute before it that pops them"
                )


def _check_move(what: str, move: Load | Store) -> None:
    for name in ("sram", "y", "x", "stride"):
        check_number(what, name, getattr(move, name), 16)
    check_number(what, "dram", move.dram, 32)


def _check_padding(what: str, load: Load) -> None:
    pads = (*load.y_pad, *load.x_pad)
    for pad in pads:
        check_number(what, "padding", pad, 4)
    if any(pads) and (not load.x or load.memory is Memory.UOP):
        raise ArgumentError(
            what, "x=0 moves nothing and pads nothing" if not load.x else "uops are not padded"
        )
    if load.memory is Memory.UOP and load.y != 1:
        raise ArgumentError(what, f"y={load.y} rows of uops", "uops are loaded as one row: y=1")


def _check_loops(what: str, loops: Loops) -> None:
    check_number(what, "begin", loops.begin, 13)
    for name in ("end", "outer", "inner"):
        check_number(what, name, getattr(loops, name), 14)
    for factor in (*loops.dst_factors, *loops.src_factors, *loops.wgt_factors):
        check_number(what, "factor", factor, 16)
    if loops.end < loops.begin:
        raise ArgumentError(what, f"micro-operations {loops.begin} to {loops.end} run backwards")
    if loops.count > MOST_UOPS:
        raise ArgumentError(
            what,
            f"{loops.count} micro-operations, the model runs at most {MOST_UOPS}",
            "several instructions",
        )
