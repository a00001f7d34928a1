"""Encode instructions as the 128 bits that the hardware reads, and decode them.

Programs for memories deeper than the fields can address cannot always be encoded.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from minitvm.base import ArgumentError, check_kind

from .fields import check_types
from .formats import FORMATS, UOP, Field, record
from .isa import Instruction, Store, Uop

KINDS = {form.opcode: kind for kind, form in FORMATS.items()}


def encode(instruction: Instruction) -> tuple[int, int]:
    """Return the words (w0, w1) of an instruction; raise ArgumentError if a number is too large."""
    name = type(instruction).__name__.lower()
    check_types(name, instruction)
    opcode, _, fields = FORMATS[type(instruction)]
    bits = opcode | _pack(name, fields, instruction)
    return bits & (1 << 64) - 1, bits >> 64


def decode(w0: int, w1: int) -> Instruction:
    """Return the instruction that two words encode: decode(*encode(i)) == i."""
    bits = _word("w0", w0, 64) | _word("w1", w1, 64) << 64
    kind = KINDS.get(bits & 7)
    if kind is None:
        raise ArgumentError(f"instruction {w0:#018x}", f"unknown opcode {w0 & 7}", "opcodes 0 to 4")
    name = kind.__name__.lower()
    if kind is Store and bits >> 112:
        raise ArgumentError(name, "a store cannot pad", "zeros in bits 112 to 127")
    values = {f.path: _typed(name, f, f.take(bits)) for f in FORMATS[kind].fields}
    if not values.pop("use_imm", True):
        values["imm"] = None
    instruction = record(kind, values)
    check_types(name, instruction)
    return instruction


def encode_uop(uop: Uop) -> int:
    """Return the 32 bits of a micro-operation."""
    check_kind("uop", uop, Uop, fix="Uop(dst=0, src=0)")
    return _pack("uop", UOP, uop)


def decode_uop(word: int) -> Uop:
    """Return the micro-operation that 32 bits encode."""
    bits = _word("uop", word, 32)
    return Uop(*(field.take(bits) for field in UOP))


def _pack(what: str, fields: tuple[Field, ...], source: Instruction | Uop) -> int:
    """Return an int with the fields of a record, each at the bits that its Field gives."""
    bits = 0
    for field in fields:
        value, mask = field.read(source), (1 << field.bits) - 1
        if field.signed:
            value = (value or 0) & mask  # check_types has checked its range
        if not isinstance(value, int) or not 0 <= value <= mask:
            why = f"the field has {field.bits} bits, so its range is 0 to {mask}"
            raise ArgumentError(f"{what}: {field.name}={value!r:.60}", why)
        bits |= value << field.first
    return bits


def _typed(name: str, field: Field, value: int) -> Any:
    """Convert the number of a field to the type of that field in the record."""
    if issubclass(field.kind, Enum) and value not in tuple(field.kind):
        raise ArgumentError(name, f"{field.name}={value} is not a valid {field.kind.__name__}")
    return field.kind(value)


def _word(name: str, value: object, width: int) -> int:
    """Return `value`; raise ArgumentError unless it is a word of `width` bits."""
    if type(value) is not int or not 0 <= value < 1 << width:
        raise ArgumentError(f"{name}={value!r}", f"not an unsigned int of {width} bits")
    return value
