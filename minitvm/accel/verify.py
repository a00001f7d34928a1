"""Do the tokens say enough? An exact answer that no timing enters.

Units run in order and the i-th pop of a queue takes the i-th push, so the instructions form one
graph, and what may happen are its linear extensions (tokens.py). From it follow, without running
anything: whether units come to a standstill, which tokens are left over, and which two accesses to
the same element are in no order. Queues that are finite add waiting, never a race.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, TypeAlias

import numpy as np

from .config import Config, Memory, vta_pynq
from .elements import Indices, resolve, rows, total
from .isa import Alu, Finish, Gemm, Load, Queue, Store
from .program import QUEUES, UNITS, Program, label
from .timing import Blocked, measure
from .tokens import in_order, predecessors, walk

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.integer[Any]]]

DRAM = "DRAM"


@dataclass(frozen=True, slots=True)
class Access:
    """Elements that an instruction reads or writes; of DRAM, pieces of gcd(element sizes) bytes."""

    space: Memory | str
    elements: Ints
    writes: bool


@dataclass(frozen=True, slots=True)
class Race:
    """Two instructions that touch `space`[element], at least one writing, in no order.

    first   the one with which the program's own order begins
    kind    RAW or WAR: what the second one does after the first, if they run in that order
    """

    first: int
    second: int
    space: str
    element: int
    kind: str


@dataclass(frozen=True, slots=True)
class Hazard:
    """A micro-operation that reads ACC[element] `distance` issues after another writes it.

    The pipeline is not that short: hardware reads the old value. `step` counts issues.
    """

    index: int
    step: int
    distance: int
    element: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a program means one thing, on every machine of this configuration.

    deadlock  the units that come to a standstill; races are not looked for then
    leaks     tokens that nothing pops, by queue: the next program would find them
    races     pairs of accesses in no order; some order runs them the other way round
    hazards   accumulators that are read again too soon
    """

    deadlock: tuple[Blocked, ...]
    leaks: tuple[tuple[Queue, int], ...]
    races: tuple[Race, ...]
    hazards: tuple[Hazard, ...]

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not (self.deadlock or self.leaks or self.races or self.hazards)


def verify(program: Program, config: Config = vta_pynq) -> Verdict:
    """The verdict on a program. Raises ArgumentError for addresses that do not exist.

    FINISH counts as reading all of DRAM: the host does when it is reached.
    """
    resolved = resolve(program, config)
    deadlock = measure(program, config).blocked
    return Verdict(
        deadlock,
        leaks(program),
        () if deadlock else tuple(_races(program, config, resolved)),
        tuple(hazards(program, config, resolved)),
    )


def leaks(program: Program) -> tuple[tuple[Queue, int], ...]:
    """The queues that more tokens go into than out of, and how many more."""
    left = [0] * len(QUEUES)
    for wire in program.wires:
        for q in wire.pushes:
            left[q] += 1
        for q in wire.pops:
            left[q] -= 1
    return tuple((q, count) for q, count in zip(QUEUES, left, strict=True) if count > 0)


def witness(program: Program, race: Race) -> tuple[int, ...]:
    """A legal order in which `race.second` runs before `race.first`."""
    before = predecessors(program)
    needed, waiting = {race.second}, [race.second]
    while waiting:
        for n in before[waiting.pop()]:
            if n not in needed:
                needed.add(n)
                waiting.append(n)
    return walk(program, lambda ready: min(ready, key=lambda n: (n not in needed, n)))


def accesses(program: Program, config: Config, n: int, found: Indices | None) -> list[Access]:
    """What the n-th instruction reads and writes where other units may, too."""
    match program.instructions[n]:
        case Load(x=0) | Store(x=0) | Load(memory=Memory.UOP):
            return []
        case Load() as load:
            written = np.arange(load.sram, load.sram + total(load))
            return [
                Access(DRAM, _pieces(load, config), False),
                Access(load.memory, written, True),
            ]
        case Store() as store:
            read = np.arange(store.sram, store.sram + total(store))
            return [Access(Memory.ACC, read, False), Access(DRAM, _pieces(store, config), True)]
        case Gemm(reset=reset) if found is not None:
            sources = [(Memory.INP, found.src), (Memory.WGT, found.wgt)] if not reset else []
            reads = [Access(memory, elements, False) for memory, elements in sources]
            return [*reads, Access(Memory.ACC, found.dst, True)]
        case Alu(imm=imm) if found is not None:
            reads = [Access(Memory.ACC, found.src, False)] if imm is None else []
            return [*reads, Access(Memory.ACC, found.dst, True)]
        case Finish():
            return [Access(DRAM, np.arange(_dram_pieces(program, config)), False)]
        case _:
            raise AssertionError("resolve() gives indices for every gemm and alu")


def _piece(config: Config) -> int:
    """The bytes of DRAM that are either in a transfer or not: all addresses are multiples."""
    return gcd(*(config.element_bytes(memory) for memory in Memory if memory is not Memory.UOP))


def _pieces(move: Load | Store, config: Config) -> Ints:
    """The pieces of DRAM that a transfer touches."""
    first, column = rows(move)
    per = config.element_bytes(move.memory) // _piece(config)
    elements = (first[:, None] + column).reshape(-1, 1)
    return (elements * per + np.arange(per)).reshape(-1)


def _dram_pieces(program: Program, config: Config) -> int:
    end = max((area.byte_range(config)[1] for area in program.areas), default=0)
    return -(-end // _piece(config))


class _Last:
    """Of each element of one space, the last instruction of each unit that read it or wrote it.

    Instructions are counted from 1 within their unit; 0 is none.
    """

    def __init__(self, size: int) -> None:
        self.read = np.zeros((len(UNITS), size), np.int32)
        self.write = np.zeros((len(UNITS), size), np.int32)


def _races(
    program: Program, config: Config, resolved: tuple[Indices | None, ...]
) -> Iterator[Race]:
    """Each unordered pair once, with the first element they share.

    Vector clocks: clock[n][v] is how many instructions of unit v come before instruction n in every
    order. An earlier access is compared only if it is its unit's last one to that element: if any
    is in no order with n, the last one is.
    Source: FastTrack (Flanagan and Freund 2009), with three threads.
    """
    spaces: dict[Memory | str, _Last] = {m: _Last(config.depth(m)) for m in Memory}
    spaces[DRAM] = _Last(_dram_pieces(program, config))
    before = predecessors(program)
    streams: list[list[int]] = [[] for _ in UNITS]
    clocks: dict[int, list[int]] = {}
    for n in in_order(program):
        unit = program.wires[n].unit
        clock = [max((clocks[p][v] for p in before[n]), default=0) for v in range(len(UNITS))]
        touched = accesses(program, config, n, resolved[n])
        pairs: dict[int, Race] = {}
        for access in touched:
            for race in _conflicts(access, n, unit, clock, spaces[access.space], streams):
                pairs.setdefault(race.first, race)
        yield from pairs.values()
        streams[unit].append(n)
        clock[unit] = len(streams[unit])
        clocks[n] = clock
        for access in touched:
            last = spaces[access.space]
            (last.write if access.writes else last.read)[unit, access.elements] = clock[unit]


def _conflicts(
    access: Access, n: int, unit: int, clock: list[int], last: _Last, streams: list[list[int]]
) -> Iterator[Race]:
    """The earlier accesses of other units that instruction n is in no order with.

    Only load writes INP and WGT, only compute ACC, only store DRAM: no two units write one element.
    """
    space = access.space.name if isinstance(access.space, Memory) else access.space
    table, kind = (last.read, "WAR") if access.writes else (last.write, "RAW")
    for other in range(len(UNITS)):
        seen = table[other, access.elements]
        if other == unit or seen.max(initial=0) <= clock[other]:
            continue
        for position in np.unique(seen[seen > clock[other]]):
            element = int(access.elements[seen == position].min())
            yield Race(streams[other][int(position) - 1], n, space, element, kind)


def hazards(
    program: Program, config: Config, resolved: tuple[Indices | None, ...]
) -> Iterator[Hazard]:
    """The first too early read of an accumulator in each instruction, over all of its loops.

    GEMM reads the accumulator that it adds to, ALU that and another one; a reset reads nothing.
    """
    known: dict[tuple[int, bool], Hazard | None] = {}  # equal loops share their indices
    for n, (instruction, found) in enumerate(zip(program.instructions, resolved, strict=True)):
        if found is None or (isinstance(instruction, Gemm) and instruction.reset):
            continue
        two = isinstance(instruction, Alu) and instruction.imm is None
        key = id(found), two
        if key not in known:
            known[key] = _hazard(n, found, two, config.rmw_distance)
        hazard = known[key]
        if hazard is not None:
            yield replace(hazard, index=n)


def _hazard(n: int, found: Indices, two: bool, least: int) -> Hazard | None:
    """The first micro-operation that reads what one of the `least` - 1 before it writes."""
    first: Hazard | None = None
    for distance in range(1, min(least, len(found.dst))):
        written = found.dst[:-distance]
        for read in (found.dst, found.src) if two else (found.dst,):
            at = np.flatnonzero(read[distance:] == written)
            if len(at) and (first is None or int(at[0]) + distance < first.step):
                first = Hazard(n, int(at[0]) + distance, distance, int(written[at[0]]))
    return first


def explain(program: Program, verdict: Verdict) -> str:
    """The verdict in sentences, one a line; "ok" if there is nothing to say."""
    lines = [f"deadlock: {blocked}" for blocked in verdict.deadlock]
    lines += [f"leak: {count} tokens stay in {queue.value}" for queue, count in verdict.leaks]
    lines += [
        f"race: {label(program, race.first)} and {label(program, race.second)} both touch "
        f"{race.space}[{race.element}] ({race.kind}), and nothing orders them"
        for race in verdict.races
    ]
    lines += [
        f"hazard: {label(program, hazard.index)} reads ACC[{hazard.element}] at step {hazard.step},"
        f" {hazard.distance} after writing it"
        for hazard in verdict.hazards
    ]
    return "\n".join(lines) or "ok"
