"""Instructions as the 128 bits that the hardware reads, and back.

The layout is the one of VTA's default configuration: two little-endian words of 64 bits, w0 and w1.
A machine with deeper memories than its fields address has programs that do not encode.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import assert_never

from minitvm.base import ArgumentError, check_kind

from .config import Memory
from .fields import check_types
from .isa import LOADABLE, Alu, Finish, Flags, Gemm, Instruction, Load, Loops, Op, Store, Uop


class Opcode(IntEnum):
    """The number in the first three bits of an instruction."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


Layout = Mapping[str, tuple[int, int]]  # field -> (first bit, bits), counted over both words
Fields = dict[str, int]

COMMON: Layout = {
    "opcode": (0, 3),
    "pop_prev": (3, 1),
    "pop_next": (4, 1),
    "push_prev": (5, 1),
    "push_next": (6, 1),
}
TRANSFER: Layout = {
    **COMMON,
    "memory_type": (7, 3),
    "sram_base": (10, 16),
    "dram_base": (26, 32),
    "y_size": (64, 16),
    "x_size": (80, 16),
    "x_stride": (96, 16),
    "y_pad_0": (112, 4),
    "y_pad_1": (116, 4),
    "x_pad_0": (120, 4),
    "x_pad_1": (124, 4),
}
LOOPED: Layout = {
    **COMMON,
    "reset": (7, 1),
    "uop_bgn": (8, 13),
    "uop_end": (21, 14),
    "iter_out": (35, 14),
    "iter_in": (49, 14),
    "dst_factor_out": (64, 11),
    "dst_factor_in": (75, 11),
    "src_factor_out": (86, 11),
    "src_factor_in": (97, 11),
}
MATRIX: Layout = {**LOOPED, "wgt_factor_out": (108, 10), "wgt_factor_in": (118, 10)}
VECTOR: Layout = {**LOOPED, "alu_opcode": (108, 3), "use_imm": (111, 1), "imm": (112, 16)}
UOP: Layout = {"dst_idx": (0, 11), "src_idx": (11, 11), "wgt_idx": (22, 10)}

LAYOUTS: Mapping[int, Layout] = {
    Opcode.LOAD: TRANSFER,
    Opcode.STORE: TRANSFER,
    Opcode.GEMM: MATRIX,
    Opcode.FINISH: COMMON,
    Opcode.ALU: VECTOR,
}


def encode(instruction: Instruction) -> tuple[int, int]:
    """The words (w0, w1) of an instruction. ArgumentError where a field is too narrow."""
    name = type(instruction).__name__.lower()
    check_types(name, instruction)
    fields = _fields(instruction)
    bits = _pack(name, fields, LAYOUTS[fields["opcode"]])
    return bits & (1 << 64) - 1, bits >> 64


def decode(w0: int, w1: int) -> Instruction:
    """The instruction that two words stand for; decode(*encode(i)) == i."""
    bits = _word("w0", w0, 64) | _word("w1", w1, 64) << 64
    layout = LAYOUTS.get(w0 & 7)
    if layout is None:
        raise ArgumentError(f"instruction {w0:#018x}", f"no instruction has opcode {w0 & 7}")
    return _instruction(_unpack(bits, layout))


def encode_uop(uop: Uop) -> int:
    """The 32 bits of a micro-operation."""
    check_kind("uop", uop, Uop, fix="Uop(dst=0, src=0)")
    return _pack("uop", {"dst_idx": uop.dst, "src_idx": uop.src, "wgt_idx": uop.wgt}, UOP)


def decode_uop(word: int) -> Uop:
    """The micro-operation that 32 bits stand for."""
    return Uop(*_unpack(_word("uop", word, 32), UOP).values())


def _pack(what: str, fields: Mapping[str, object], layout: Layout) -> int:
    """The fields side by side."""
    bits = 0
    for name, value in fields.items():
        first, width = layout[name]
        if not isinstance(value, int) or not 0 <= value < 1 << width:
            raise ArgumentError(
                f"{what}: {name}={value!r:.60}",
                f"the field has {width} bits and holds 0 to {(1 << width) - 1}",
            )
        bits |= value << first
    return bits


def _unpack(bits: int, layout: Layout) -> Fields:
    return {name: bits >> first & (1 << width) - 1 for name, (first, width) in layout.items()}


def _word(name: str, value: object, width: int) -> int:
    """`value`, if it is a word of that many bits."""
    if type(value) is not int or not 0 <= value < 1 << width:
        raise ArgumentError(f"{name}={value!r}", f"it is not an int of {width} bits")
    return value


def _fields(instruction: Instruction) -> Fields:
    """The hardware's fields of an instruction."""
    flags = instruction.flags
    tokens = {name: int(getattr(flags, name)) for name in Flags.__slots__}
    match instruction:
        case Load(y_pad=y_pad, x_pad=x_pad):
            pads = {"y_pad_0": y_pad[0], "y_pad_1": y_pad[1]}
            pads |= {"x_pad_0": x_pad[0], "x_pad_1": x_pad[1]}
            return {"opcode": Opcode.LOAD, **tokens, **_transfer(instruction), **pads}
        case Store():
            return {"opcode": Opcode.STORE, **tokens, **_transfer(instruction)}
        case Gemm(loops=loops, reset=reset):
            factors = {
                "wgt_factor_out": loops.wgt_factors[0],
                "wgt_factor_in": loops.wgt_factors[1],
            }
            return {
                "opcode": Opcode.GEMM,
                **tokens,
                "reset": int(reset),
                **_looped(loops),
                **factors,
            }
        case Alu(op=op, loops=loops, imm=imm):
            number = {"use_imm": int(imm is not None), "imm": (imm or 0) & 0xFFFF}
            return {"opcode": Opcode.ALU, **tokens, **_looped(loops), "alu_opcode": op, **number}
        case Finish():
            return {"opcode": Opcode.FINISH, **tokens}
        case _:
            assert_never(instruction)


def _transfer(move: Load | Store) -> Fields:
    return {
        "memory_type": move.memory,
        "sram_base": move.sram,
        "dram_base": move.dram,
        "y_size": move.y,
        "x_size": move.x,
        "x_stride": move.stride,
    }


def _looped(loops: Loops) -> Fields:
    return {
        "uop_bgn": loops.begin,
        "uop_end": loops.end,
        "iter_out": loops.outer,
        "iter_in": loops.inner,
        "dst_factor_out": loops.dst_factors[0],
        "dst_factor_in": loops.dst_factors[1],
        "src_factor_out": loops.src_factors[0],
        "src_factor_in": loops.src_factors[1],
    }


def _instruction(fields: Fields) -> Instruction:
    """The record that holds these fields of the hardware."""
    flags = Flags(**{name: bool(fields[name]) for name in Flags.__slots__})
    match Opcode(fields["opcode"]):
        case Opcode.LOAD:
            return _load(fields, flags)
        case Opcode.STORE:
            return _store(fields, flags)
        case Opcode.GEMM:
            wgt_factors = fields["wgt_factor_out"], fields["wgt_factor_in"]
            loops = _loops(fields, wgt_factors)
            return Gemm(loops=loops, reset=bool(fields["reset"]), flags=flags)
        case Opcode.ALU:
            return _alu(fields, flags)
        case Opcode.FINISH:
            return Finish(flags=flags)


def _load(fields: Fields, flags: Flags) -> Load:
    if fields["memory_type"] not in LOADABLE:
        raise ArgumentError("load", f"memory_type {fields['memory_type']} cannot be loaded")
    return Load(
        memory=Memory(fields["memory_type"]),
        sram=fields["sram_base"],
        dram=fields["dram_base"],
        y=fields["y_size"],
        x=fields["x_size"],
        stride=fields["x_stride"],
        y_pad=(fields["y_pad_0"], fields["y_pad_1"]),
        x_pad=(fields["x_pad_0"], fields["x_pad_1"]),
        flags=flags,
    )


def _store(fields: Fields, flags: Flags) -> Store:
    if any(fields[f"{axis}_pad_{end}"] for axis in "xy" for end in (0, 1)):
        raise ArgumentError("store", "its padding is not 0, and a store cannot pad")
    if fields["memory_type"] != Memory.OUT:
        raise ArgumentError("store", f"memory_type {fields['memory_type']} is not OUT (4)")
    return Store(
        sram=fields["sram_base"],
        dram=fields["dram_base"],
        y=fields["y_size"],
        x=fields["x_size"],
        stride=fields["x_stride"],
        flags=flags,
    )


def _loops(fields: Fields, wgt_factors: tuple[int, int]) -> Loops:
    return Loops(
        begin=fields["uop_bgn"],
        end=fields["uop_end"],
        outer=fields["iter_out"],
        inner=fields["iter_in"],
        dst_factors=(fields["dst_factor_out"], fields["dst_factor_in"]),
        src_factors=(fields["src_factor_out"], fields["src_factor_in"]),
        wgt_factors=wgt_factors,
    )


def _alu(fields: Fields, flags: Flags) -> Alu:
    if fields["alu_opcode"] not in tuple(Op):
        raise ArgumentError("alu", f"no operation has opcode {fields['alu_opcode']}")
    imm = (fields["imm"] ^ 0x8000) - 0x8000 if fields["use_imm"] else None  # sign-extended
    return Alu(op=Op(fields["alu_opcode"]), loops=_loops(fields, (0, 0)), imm=imm, flags=flags)
