"""The table of instruction fields that the checks, the encoder and the assembler use.

The layout is VTA's default: two little-endian words of 64 bits, w0 and w1,
with the opcode in the lowest three bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from .config import Memory
from .isa import Alu, Finish, Flags, Gemm, Instruction, Load, Op, Store, UopLoops

INDEX = 16  # bits of an index in a program: memories may be deeper than VTA's fields address


def _reader(path: str) -> Callable[[object], Any]:
    """Return a function that reads the attribute `path` of a record, such as "y_pad[0]"."""
    attribute, _, position = path.partition("[")
    get = attrgetter(attribute)
    if not position:
        return get
    at = int(position.removesuffix("]"))
    return lambda record: get(record)[at]


@dataclass(frozen=True, slots=True)
class Field:
    """One number of an instruction.

    name    its name in VTA
    first   the number of its lowest bit, from 0 to 127
    bits    its width in bits
    path    the attribute of the record, such as "loops.begin" or "y_pad[0]"
    key     its name in assembly text, such as y in y=2, or ""; four fields share pad=1,0,1,1
    kind    its type in the record
    signed  whether its highest bit is the sign
    most    the bits that a program may use, if more than `bits` (for machines larger than VTA)
    """

    name: str
    first: int
    bits: int
    path: str
    key: str = ""
    kind: type[int] = int
    signed: bool = False
    most: int = 0
    read: Callable[[object], Any] = field(init=False, repr=False, compare=False)
    limit: int = field(init=False)

    def __post_init__(self) -> None:
        """Set `read`, a function that reads the field of a record, and `limit`, its range's end."""
        object.__setattr__(self, "read", _reader(self.path))
        object.__setattr__(self, "limit", 1 << max(self.bits, self.most))

    def take(self, bits: int) -> int:
        """Return this field's number from `bits`, an encoded instruction or micro-operation."""
        sign = 1 << self.bits - 1 if self.signed else 0
        return ((bits >> self.first & (1 << self.bits) - 1) ^ sign) - sign


class Format(NamedTuple):
    """The format of one kind of instruction.

    opcode   the number in bits 0 to 2
    default  an instruction whose fields have the values that assembly text omits
    fields   all fields but the opcode, in the order of assembly text
    """

    opcode: int
    default: Instruction
    fields: tuple[Field, ...]


# fmt: off
FLAGS = (
    Field("pop_prev", 3, 1, "flags.pop_prev", kind=bool),
    Field("pop_next", 4, 1, "flags.pop_next", kind=bool),
    Field("push_prev", 5, 1, "flags.push_prev", kind=bool),
    Field("push_next", 6, 1, "flags.push_next", kind=bool),
)
TRANSFER = (
    *FLAGS,
    Field("memory_type", 7, 3, "memory", kind=Memory),
    Field("sram_base", 10, 16, "sram"),
    Field("dram_base", 26, 32, "dram"),
    Field("y_size", 64, 16, "y", "y"),
    Field("x_size", 80, 16, "x", "x"),
    Field("x_stride", 96, 16, "stride", "stride"),
)
PADDING = (
    Field("y_pad_0", 112, 4, "y_pad[0]", "pad"),
    Field("y_pad_1", 116, 4, "y_pad[1]", "pad"),
    Field("x_pad_0", 120, 4, "x_pad[0]", "pad"),
    Field("x_pad_1", 124, 4, "x_pad[1]", "pad"),
)
LOOPED = (
    *FLAGS,
    Field("uop_bgn", 8, 13, "loops.begin"),
    Field("uop_end", 21, 14, "loops.end"),
    Field("iter_out", 35, 14, "loops.outer", "outer"),
    Field("iter_in", 49, 14, "loops.inner", "inner"),
    Field("dst_factor_out", 64, 11, "loops.dst_factors[0]", "dst", most=INDEX),
    Field("dst_factor_in", 75, 11, "loops.dst_factors[1]", "dst", most=INDEX),
    Field("src_factor_out", 86, 11, "loops.src_factors[0]", "src", most=INDEX),
    Field("src_factor_in", 97, 11, "loops.src_factors[1]", "src", most=INDEX),
)
MATRIX = (
    *LOOPED,
    Field("reset", 7, 1, "reset", kind=bool),
    Field("wgt_factor_out", 108, 10, "loops.wgt_factors[0]", "wgt", most=INDEX),
    Field("wgt_factor_in", 118, 10, "loops.wgt_factors[1]", "wgt", most=INDEX),
)
VECTOR = (
    *LOOPED,
    Field("alu_opcode", 108, 3, "op", kind=Op),
    Field("use_imm", 111, 1, "use_imm", kind=bool),
    Field("imm", 112, 16, "imm", "imm", signed=True),
)
UOP = (
    Field("dst_idx", 0, 11, "dst", most=INDEX),
    Field("src_idx", 11, 11, "src", most=INDEX),
    Field("wgt_idx", 22, 10, "wgt", most=INDEX),
)
# fmt: on

NO_LOOPS = UopLoops(begin=0, end=0)
FORMATS: Mapping[type[Instruction], Format] = {
    Load: Format(0, Load(memory=Memory.INP), TRANSFER + PADDING),
    Store: Format(1, Store(), TRANSFER),
    Gemm: Format(2, Gemm(loops=NO_LOOPS), MATRIX),
    Finish: Format(3, Finish(), FLAGS),
    Alu: Format(4, Alu(op=Op.ADD, loops=NO_LOOPS), VECTOR),
}


@cache
def keyed(kind: type[Instruction]) -> Mapping[str, tuple[Field, ...]]:
    """Return, for each key of assembly text such as "pad", the fields that it sets."""
    fields = [f for f in FORMATS[kind].fields if f.key]
    return {f.key: tuple(g for g in fields if g.key == f.key) for f in fields}


def record(kind: type[Instruction], values: Mapping[str, Any]) -> Instruction:
    """Return the instruction whose fields have `values`, a mapping from Field.path to value.

    {"sram": 2, "y_pad[0]": 1, "y_pad[1]": 0}   ->   Load(sram=2, y_pad=(1, 0))
    """
    parts: dict[str, dict[str, Any]] = {"": {}, "flags": {}, "loops": {}}
    for path, value in values.items():
        owner, name, indexed = _split(path)
        part = parts[owner]
        part[name] = (*part.get(name, ()), value) if indexed else value
    if parts["flags"]:
        parts[""]["flags"] = Flags(**parts["flags"])
    if parts["loops"]:
        parts[""]["loops"] = UopLoops(**parts["loops"])
    return kind(**parts[""])


@cache
def _split(path: str) -> tuple[str, str, bool]:
    """Split "loops.dst_factors[0]" into ("loops", "dst_factors", True)."""
    owner, _, rest = path.rpartition(".")
    name, _, position = rest.partition("[")
    return owner, name, bool(position)
