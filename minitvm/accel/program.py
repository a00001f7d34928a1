"""Programs: instructions, the micro-operations they load, and the areas of DRAM they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from numbers import Integral
from typing import NamedTuple

from minitvm.base import ArgumentError, check_kind, check_text

from . import isa
from .config import Config, Memory, check_config
from .fields import check_fields, check_number, check_uop

UNITS = tuple(isa.Unit)
QUEUES = tuple(isa.Queue)


class Wire(NamedTuple):
    """An instruction's unit and queues, as positions in UNITS and QUEUES."""

    unit: int
    pops: tuple[int, ...]
    pushes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Area:
    """A named area of DRAM: an array of shape `shape` whose elements are of the kind `memory`.

    base counts elements of that kind from the start of DRAM, as the `dram` of an instruction does.
    """

    name: str
    memory: Memory
    base: int
    shape: tuple[int, ...]

    def byte_range(self, config: Config) -> tuple[int, int]:
        """Return the first byte of the area in DRAM, and the byte after its last one."""
        size = config.element_bytes(self.memory)
        return self.base * size, (self.base + prod(self.shape)) * size


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions in the order in which they are fetched; the last one is FINISH.

    A `load uop` with dram=n copies from `uops`, beginning at n; all other transfers address the
    areas. Building a program checks everything that does not depend on the configuration: types,
    the ranges of fields, tokens between units without a queue, and FINISH.
    """

    instructions: tuple[isa.Instruction, ...]
    uops: tuple[isa.Uop, ...] = ()
    areas: tuple[Area, ...] = ()
    wires: tuple[Wire, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields, turn lists into tuples, and record each instruction's queues."""
        for name in ("instructions", "uops", "areas"):
            items = getattr(self, name)
            check_kind(name, items, Iterable, fix="a list")
            object.__setattr__(self, name, tuple(items))
        wires = tuple(wire_of(n, instruction) for n, instruction in enumerate(self.instructions))
        object.__setattr__(self, "wires", wires)
        for n, uop in enumerate(self.uops):
            check_uop(f"uop {n}", uop)
        for n, instruction in enumerate(self.instructions[:-1]):
            if isinstance(instruction, isa.Finish):
                what = f"instruction {n} (finish)"
                raise ArgumentError(what, "FINISH must be the last instruction")
        if not self.instructions or not isinstance(self.instructions[-1], isa.Finish):
            why = "the host would wait forever"
            raise ArgumentError("a program without finish", why, "Finish() as the last instruction")
        check_areas(self.areas)

    def area(self, name: str) -> Area:
        """Return the area called `name`; raise ArgumentError if it does not exist."""
        check_text("name of an area", name, 'area("A")')
        for area in self.areas:
            if area.name == name:
                return area
        known = " or ".join(area.name for area in self.areas)
        raise ArgumentError(f"area {name!r}", "the program has no area of that name", known)


def label(program: Program, index: int) -> str:
    """Return the name of an instruction for messages, such as "instruction 7 (load inp)"."""
    check_program(program)
    check_index(program, index)
    return f"instruction {index} ({isa.mnemonic(program.instructions[index])})"


def check_program(program: object) -> None:
    """Raise ArgumentError unless `program` is a Program."""
    check_kind("program", program, Program, fix="parse(text), vta.build(s, args).program")


def check_index(program: Program, index: object) -> None:
    """Raise ArgumentError unless `index` is the number of an instruction."""
    last = len(program.instructions) - 1
    if not isinstance(index, Integral) or not 0 <= int(index) <= last:
        why = f"the program has instructions 0 to {last}"
        raise ArgumentError(f"instruction {index!r:.60}", why, "listing(program)")


def place(
    config: Config, shapes: Mapping[str, tuple[Memory, Sequence[int]]], after: Sequence[Area] = ()
) -> tuple[Area, ...]:
    """Return consecutive areas of DRAM with the given kinds and shapes, aligned to their elements.

    place(vta_pynq, {"A": (Memory.INP, (4, 8))}) makes an area of 32 elements of 16 bytes.
    The areas begin after those in `after`.
    """
    check_config(config)
    check_kind("shapes", shapes, Mapping, fix='{"A": (Memory.INP, (4, 8))}')
    check_kind("after", after, Sequence, fix="program.areas")
    check_areas(after)
    end = max((area.byte_range(config)[1] for area in after), default=0)
    areas: list[Area] = []
    for name, pair in shapes.items():
        what, fix = f"shapes[{name!r:.60}]", "(Memory.INP, (4, 8))"
        check_kind(what, pair, Sequence, fix=fix)
        if len(pair) != 2:
            raise ArgumentError(f"{what}={pair!r:.60}", "not a pair (memory, extents)", fix)
        memory, shape = pair
        check_kind(f"{what}: memory", memory, Memory, fix="Memory.INP")
        check_kind(f"{what}: extents", shape, Sequence, fix="(4, 8)")
        area = Area(name, memory, -(-end // config.element_bytes(memory)), tuple(shape))
        check_areas((*after, *areas, area))
        areas.append(area)
        end = area.byte_range(config)[1]
    return tuple(areas)


@cache
def _wire(unit: isa.Unit, flags: isa.Flags) -> Wire | None:
    """Return the Wire for the flags of a unit's instruction; None if a queue does not exist."""
    queues: dict[str, list[int]] = {"pop": [], "push": []}
    for verb, neighbour in isa.tokens(unit, flags):
        if neighbour is None:
            return None
        ends = (neighbour, unit) if verb == "pop" else (unit, neighbour)
        queues[verb].append(QUEUES.index(isa.QUEUE_FROM_TO[ends]))
    return Wire(UNITS.index(unit), tuple(queues["pop"]), tuple(queues["push"]))


def wire_of(n: int, instruction: isa.Instruction) -> Wire:
    """Return the Wire of instruction n; raise ArgumentError if no machine can run it."""
    check_fields(f"instruction {n} ({type(instruction).__name__.lower()})", instruction)
    unit = isa.unit_of(instruction)
    wire = _wire(unit, instruction.flags)
    if wire is None:
        side = "before" if unit is isa.Unit.LOAD else "after"
        raise ArgumentError(
            f"instruction {n} ({isa.mnemonic(instruction)})",
            f"its flags name the unit {side} {unit.value}, but there is no such unit",
            "tokens between load and compute, or compute and store; a compute nop can pass them on",
        )
    return wire


RESERVED_NAMES = {"DRAM", "uops", *(memory.name.lower() for memory in Memory)}  # of assembly text
MAX_EXTENTS = 16


def check_areas(areas: Sequence[Area]) -> None:
    """Raise ArgumentError unless every area has a unique name, a valid memory and a size."""
    names: set[str] = set()
    for area in areas:
        check_kind("area", area, Area, fix='Area("A", Memory.INP, base=0, shape=(4, 8))')
        what = f"area {area.name!r:.60}"
        check_text(f"{what}: name", area.name, 'name="A"')
        if not area.name.isidentifier() or area.name in RESERVED_NAMES | names:
            words = ", ".join(sorted(RESERVED_NAMES))
            why = "the name is not an identifier, or it is taken"
            raise ArgumentError(what, why, f"a name other than {words}")
        names.add(area.name)
        if area.memory is Memory.UOP or type(area.memory) is not Memory:
            why = "DRAM has no areas of such elements"
            raise ArgumentError(what, why, "INP, WGT, ACC, ACC_8BIT or OUT")
        check_number(what, "base", area.base, 1 << 32)
        check_kind(f"{what}: shape", area.shape, tuple, fix="shape=(4, 8)")
        if len(area.shape) > MAX_EXTENTS:
            raise ArgumentError(what, f"{len(area.shape)} extents, more than {MAX_EXTENTS}")
        for extent in area.shape:
            check_number(what, "extent", extent, 1 << 32)
