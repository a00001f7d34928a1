"""A program: instructions, the micro-operations they load, and the pieces of DRAM they work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, product
from math import prod
from typing import NamedTuple

from minitvm.base import ArgumentError

from .config import Config, Memory
from .isa import (
    LOADABLE,
    POPS,
    PUSHES,
    Alu,
    Finish,
    Flags,
    Gemm,
    Instruction,
    Load,
    Loops,
    Op,
    Queue,
    Store,
    Unit,
    Uop,
    mnemonic,
    unit_of,
)

UNITS = tuple(Unit)
QUEUES = tuple(Queue)


class Wire(NamedTuple):
    """Where an instruction runs and what it waits for, as positions in UNITS and QUEUES."""

    unit: int
    pops: tuple[int, ...]
    pushes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Area:
    """A named piece of DRAM: `shape` elements of the kind that `memory` holds.

    base counts elements of that kind from the start of DRAM, as the `dram` of an instruction does.
    """

    name: str
    memory: Memory
    base: int
    shape: tuple[int, ...]

    def byte_range(self, config: Config) -> tuple[int, int]:
        """The first byte and the one after the last."""
        size = config.element_bytes(self.memory)
        return self.base * size, (self.base + prod(self.shape)) * size


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions in the order in which they are fetched; the last one is FINISH.

    A `load uop` with dram=n takes from `uops`, from its n-th on; all other transfers address the
    areas. Building a program checks what no configuration could make right: types, the ranges of
    fields, tokens between units that no queue joins, FINISH.
    """

    instructions: tuple[Instruction, ...]
    uops: tuple[Uop, ...] = ()
    areas: tuple[Area, ...] = ()
    wires: tuple[Wire, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is no program, and note who waits for whom. Lists become tuples."""
        for name in ("instructions", "uops", "areas"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        wires = tuple(_wire(n, instruction) for n, instruction in enumerate(self.instructions))
        object.__setattr__(self, "wires", wires)
        for n, uop in enumerate(self.uops):
            if type(uop) is not Uop:
                raise ArgumentError(f"uop {n}", f"{uop!r:.60} is no Uop")
            for name in Uop.__slots__:
                _number(f"uop {n}", name, getattr(uop, name), 16)
        _check_finish(self.instructions)
        _check_names(self.areas)

    def area(self, name: str) -> Area:
        """The area of that name."""
        for area in self.areas:
            if area.name == name:
                return area
        known = ", ".join(area.name for area in self.areas) or "none"
        raise ArgumentError(f"area {name!r}", f"the program has no such area, it has: {known}")


def label(program: Program, index: int) -> str:
    """How messages name an instruction: "instruction 7 (load inp)"."""
    return f"instruction {index} ({mnemonic(program.instructions[index])})"


def place(
    config: Config, shapes: Mapping[str, tuple[Memory, Sequence[int]]], after: Sequence[Area] = ()
) -> tuple[Area, ...]:
    """Areas of these kinds and shapes, one behind the other in DRAM, each aligned to its elements.

    place(vta_pynq, {"A": (Memory.INP, (4, 8))}) has an area of 32 elements of 16 bytes.
    They begin behind the areas in `after`.
    """
    end = max((area.byte_range(config)[1] for area in after), default=0)
    areas: list[Area] = []
    for name, (memory, shape) in shapes.items():
        area = Area(name, memory, -(-end // config.element_bytes(memory)), tuple(shape))
        _check_names((*after, *areas, area))
        areas.append(area)
        end = area.byte_range(config)[1]
    return tuple(areas)


def _wires() -> dict[Unit, dict[tuple[bool, bool, bool, bool], Wire]]:
    """For each unit and (pop_prev, pop_next, push_prev, push_next) the wire; -1 is no queue."""
    table: dict[Unit, dict[tuple[bool, bool, bool, bool], Wire]] = {}
    for position, unit in enumerate(UNITS):
        pops = [QUEUES.index(q) if q else -1 for q in POPS[unit]]
        pushes = [QUEUES.index(q) if q else -1 for q in PUSHES[unit]]
        table[unit] = {
            (a, b, c, d): Wire(
                position, tuple(compress(pops, (a, b))), tuple(compress(pushes, (c, d)))
            )
            for a, b, c, d in product((False, True), repeat=4)
        }
    return table


WIRES = _wires()


def _wire(n: int, instruction: Instruction) -> Wire:
    """The wire of the n-th instruction, if it is one."""
    match instruction:
        case Load():
            _check_load(n, instruction)
        case Store():
            _check_store(n, instruction)
        case Gemm(loops=loops):
            _check_loops(n, "gemm", loops)
        case Alu():
            _check_alu(n, instruction)
        case Finish():
            pass
        case _:
            raise ArgumentError(f"instruction {n}", f"{instruction!r:.60} is no instruction")
    unit, flags = unit_of(instruction), instruction.flags
    if type(flags) is not Flags:
        raise ArgumentError(f"instruction {n}", f"flags={flags!r:.60} are no Flags")
    tokens = flags.pop_prev, flags.pop_next, flags.push_prev, flags.push_next
    if tokens not in WIRES[unit]:
        raise ArgumentError(f"instruction {n}", f"{flags} are not True or False")
    wire = WIRES[unit][tokens]
    if -1 in wire.pops or -1 in wire.pushes:
        raise ArgumentError(
            f"instruction {n} ({mnemonic(instruction)})",
            f"its flags ask for a token between {unit.value} and no neighbour",
            "tokens pass between load and compute, and between compute and store; from store to "
            "load they go through a nop of compute",
        )
    return wire


def _number(what: str, name: str, value: object, bits: int) -> None:
    """Refuse what is no number of so many bits."""
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise ArgumentError(
            f"{what}: {name}={value!r}", f"it is an int from 0 to {(1 << bits) - 1}"
        )


def _check_move(what: str, move: Load | Store) -> None:
    for name in ("sram", "y", "x", "stride"):
        _number(what, name, getattr(move, name), 16)
    _number(what, "dram", move.dram, 32)


def _check_load(n: int, load: Load) -> None:
    what = f"instruction {n} (load)"
    _check_move(what, load)
    if load.memory not in LOADABLE:
        raise ArgumentError(
            what, f"memory={load.memory!r} cannot be loaded", "UOP, WGT, INP or ACC"
        )
    for pads in (load.y_pad, load.x_pad):
        if type(pads) is not tuple or len(pads) != 2:
            raise ArgumentError(what, f"padding {pads!r} is not a pair (before, after)")
        for pad in pads:
            _number(what, "padding", pad, 4)
    padded = any((*load.y_pad, *load.x_pad))
    if padded and (not load.x or load.memory is Memory.UOP):
        raise ArgumentError(
            what, "x=0 moves nothing and pads nothing" if not load.x else "uops are not padded"
        )
    if load.memory is Memory.UOP and load.y != 1:
        raise ArgumentError(what, f"y={load.y} rows of uops", "uops are loaded as one row: y=1")


def _check_store(n: int, store: Store) -> None:
    _check_move(f"instruction {n} (store)", store)
    if store.memory is not Memory.OUT:
        raise ArgumentError(
            f"instruction {n} (store)", f"memory={store.memory!r} cannot be stored", "Memory.OUT"
        )


def _check_loops(n: int, name: str, loops: Loops) -> None:
    what = f"instruction {n} ({name})"
    if type(loops) is not Loops:
        raise ArgumentError(what, f"loops={loops!r:.60} are no Loops")
    _number(what, "begin", loops.begin, 13)
    for field_name in ("end", "outer", "inner"):
        _number(what, field_name, getattr(loops, field_name), 14)
    for factors in (loops.dst_factors, loops.src_factors, loops.wgt_factors):
        if type(factors) is not tuple or len(factors) != 2:
            raise ArgumentError(what, f"factors {factors!r} are not a pair (outer, inner)")
        for factor in factors:
            _number(what, "factor", factor, 16)
    if loops.end < loops.begin:
        raise ArgumentError(what, f"micro-operations {loops.begin} to {loops.end} run backwards")
    if loops.count > MOST_UOPS:
        raise ArgumentError(
            what,
            f"{loops.count} micro-operations, the model runs at most {MOST_UOPS}",
            "several instructions",
        )


MOST_UOPS = 1 << 22  # of one instruction: twice what 2048 accumulators and 1024 weights make


def _check_alu(n: int, alu: Alu) -> None:
    _check_loops(n, "alu", alu.loops)
    if type(alu.op) is not Op:
        raise ArgumentError(f"instruction {n} (alu)", f"op={alu.op!r} is no Op")
    if alu.loops.wgt_factors != (0, 0):
        raise ArgumentError(f"instruction {n} (alu)", "it has factors for weights, and reads none")
    if alu.imm is not None and (type(alu.imm) is not int or not -(1 << 15) <= alu.imm < 1 << 15):
        raise ArgumentError(
            f"instruction {n} (alu): imm={alu.imm!r}",
            "an immediate is an int from -32768 to 32767",
            "load the number into an accumulator",
        )


def _check_finish(instructions: tuple[Instruction, ...]) -> None:
    """One FINISH, the last, without tokens."""
    for n, instruction in enumerate(instructions):
        if isinstance(instruction, Finish):
            if instruction.flags != Flags():
                raise ArgumentError(
                    f"instruction {n} (finish)",
                    "it carries tokens",
                    "a nop of compute before it that pops them",
                )
            if n + 1 < len(instructions):
                raise ArgumentError(f"instruction {n} (finish)", "instructions follow it")
    if not instructions or not isinstance(instructions[-1], Finish):
        raise ArgumentError("a program without finish", "the host would wait for its end for ever")


RESERVED = {"DRAM", "uops", *(memory.name.lower() for memory in Memory)}  # of assembly text


def _check_names(areas: Sequence[Area]) -> None:
    """Every area has a name of its own and a size."""
    names: set[str] = set()
    for area in areas:
        if type(area) is not Area or type(area.name) is not str:
            raise ArgumentError(f"{area!r:.60}", "it is no Area with a name")
        what = f"area {area.name!r}"
        if not area.name.isidentifier() or area.name in RESERVED | names:
            taken = ", ".join(sorted(RESERVED))
            raise ArgumentError(what, f"a name is an identifier, given once, and none of {taken}")
        names.add(area.name)
        if area.memory is Memory.UOP or type(area.memory) is not Memory:
            raise ArgumentError(what, "an area holds elements of INP, WGT, ACC or OUT")
        _number(what, "base", area.base, 32)
        for extent in area.shape:
            _number(what, "extent", extent, 32)
