"""The verifier: an exact check, independent of timing, that the tokens order all conflicts.

Units run in order and the i-th pop of a queue takes the i-th push, so the instructions form one
graph whose linear extensions are the possible executions (tokens.py). The graph shows, without
running anything, which tokens are left over, which conflicting accesses are unordered, and which
elements are read before they are written (initialised.py). Deadlocks are found by the timing model,
because a full queue can cause one. Otherwise finite queues only add waiting, not races.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from minitvm.base import ArgumentError, check_kind, plural

from .config import Config, Memory, vta_pynq
from .elements import Indices, resolve, sources
from .footprints import DRAM, Access, Footprints
from .initialised import Stale, Uninitialised, memory_faults
from .isa import Gemm, Queue
from .program import QUEUES, UNITS, Program, check_program, label
from .timing import Blocked, measure
from .tokens import in_order, predecessors, walk

MAX_RACES = 1000
SHOWN = 3  # faults of each kind in the repr of a verdict


@dataclass(frozen=True, slots=True)
class Race:
    """Two unordered instructions that access `space`[element], and at least one writes it.

    first   the number of the instruction that is first in program order
    kind    RAW or WAR, the dependence between the two in program order
    """

    first: int
    second: int
    space: str
    element: int
    kind: str


@dataclass(frozen=True, slots=True)
class Hazard:
    """A micro-operation that reads ACC[element] before the pipeline has written it.

    The read is micro-operation number `step` of instruction `index`; the write was issued
    `distance` micro-operations before. Hardware reads the old value.
    """

    index: int
    step: int
    distance: int
    element: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on whether a program has the same result in every legal order.

    deadlock       the units that deadlock; after a deadlock, races and memories are not checked
    leaks          tokens that nothing pops, by queue: the next program would find them
    races          pairs of unordered accesses; some legal order swaps them
    hazards        accumulators that are read too soon after a write
    uninitialised  reads of elements that nothing has written: an earlier program's data
    stale          a warning only: stores of accumulators that were loaded but not computed
    more           whether there are more races than the MAX_RACES that are listed
    """

    deadlock: tuple[Blocked, ...] = ()
    leaks: tuple[tuple[Queue, int], ...] = ()
    races: tuple[Race, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    uninitialised: tuple[Uninitialised, ...] = ()
    stale: tuple[Stale, ...] = ()
    more: bool = False

    def __repr__(self) -> str:
        names = (name for name in self.__slots__ if name != "more")
        parts = [f"{name}={_few(getattr(self, name))}" for name in names]
        return f"Verdict({', '.join(parts)}, more={self.more})"

    @property
    def ok(self) -> bool:
        """Return whether no fault was found; a program with warnings only is ok."""
        return not (self.deadlock or self.leaks or self.races or self.hazards or self.uninitialised)


def _few(faults: tuple[object, ...]) -> str:
    """Format the first few faults, and how many more there are; explain() lists all of them."""
    if len(faults) <= SHOWN:
        return repr(faults)
    return f"({', '.join(map(repr, faults[:SHOWN]))}, and {len(faults) - SHOWN} more)"


def verify(program: Program, config: Config = vta_pynq) -> Verdict:
    """Return the verdict on a program; raise ArgumentError for addresses that do not exist.

    FINISH is treated as a read of all DRAM, because the host may read DRAM after it.
    """
    resolved = resolve(program, config)
    deadlock = measure(program, config).blocked
    footprints = Footprints(program, config)
    races = iter(()) if deadlock else _races(program, config, resolved, footprints)
    first_races = tuple(islice(races, MAX_RACES))
    memory = ((), ()) if deadlock else memory_faults(program, config, resolved, footprints)
    return Verdict(
        deadlock,
        leaks(program),
        first_races,
        tuple(hazards(program, config, resolved)),
        *memory,
        more=next(races, None) is not None,
    )


def leaks(program: Program) -> tuple[tuple[Queue, int], ...]:
    """Return the queues with more pushes than pops, and how many more."""
    left = Counter(q for wire in program.wires for q in wire.pushes)
    left.subtract(q for wire in program.wires for q in wire.pops)
    return tuple((queue, left[q]) for q, queue in enumerate(QUEUES) if left[q] > 0)


def witness(program: Program, fault: Race | Uninitialised) -> tuple[int, ...]:
    """Return a legal order that shows the fault.

    It runs `second` of a race before `first`, or an uninitialised read before any write.
    """
    check_program(program)
    check_kind("fault", fault, Race, Uninitialised, fix="verify(program).races[0]")
    if isinstance(fault, Uninitialised):
        label(program, fault.index)  # raises for an instruction of another program
        return in_order(program)
    first, second = label(program, fault.first), label(program, fault.second)
    before = predecessors(program)
    needed, stack = {fault.second}, [fault.second]
    while stack:
        for n in before[stack.pop()]:
            if n not in needed:
                needed.add(n)
                stack.append(n)
    if fault.first in needed:
        raise ArgumentError(f"{first} and {second}", "no race: the tokens order them")
    order = walk(program, lambda ready: min(ready, key=lambda n: (n not in needed, n)))
    if fault.second not in order:
        raise ArgumentError(second, "it never runs, because the program deadlocks")
    return order


class _Last:
    """For each unit and element of one memory, the last instruction that accessed the element.

    Instructions are numbered from 1 within their unit; 0 means none.
    """

    def __init__(self, size: int) -> None:
        self.of = np.zeros((len(UNITS), size), np.int32)  # by unit and element
        self.newest = [0] * len(UNITS)  # by unit, over all elements


def _races(
    program: Program, config: Config, resolved: tuple[Indices | None, ...], footprints: Footprints
) -> Iterator[Race]:
    """Yield one Race, with a shared element, for each pair of unordered conflicting instructions.

    Vector clocks: clock[n][v] is how many instructions of unit v precede instruction n in every
    order. Only the last earlier access of each unit to an element is compared: if any access is
    unordered with n, the last one is.
    Source: FastTrack (Flanagan and Freund 2009), with three threads.
    """
    sizes: dict[Memory | str, int] = {m: config.depth(m) for m in Memory}
    sizes[DRAM] = footprints.dram
    reads = {space: _Last(size) for space, size in sizes.items()}
    writes = {space: _Last(size) for space, size in sizes.items()}
    before = predecessors(program)
    streams: list[list[int]] = [[] for _ in UNITS]
    clocks: dict[int, list[int]] = {}
    for n in in_order(program):
        unit = program.wires[n].unit
        known = [clocks[p] for p in before[n]] or [[0] * len(UNITS)]
        clock = [max(counts) for counts in zip(*known, strict=True)]
        footprint = footprints.of(program.instructions[n], resolved[n])
        pairs: dict[int, Race] = {}
        for access in footprint:
            last = (reads if access.writes else writes)[access.space]
            for race in _conflicts(access, n, unit, clock, last, streams):
                pairs.setdefault(race.first, race)
        yield from pairs.values()
        streams[unit].append(n)
        clock[unit] = len(streams[unit])
        clocks[n] = clock
        for access in footprint:
            last = (writes if access.writes else reads)[access.space]
            last.of[unit, access.elements] = last.newest[unit] = clock[unit]


def _conflicts(
    access: Access, n: int, unit: int, clock: list[int], last: _Last, streams: list[list[int]]
) -> Iterator[Race]:
    """Yield a race for each earlier access by another unit that is unordered with `access`.

    Only load writes INP and WGT, only compute writes ACC, and only store writes DRAM, so no two
    units write the same element.
    """
    space = access.space.name if isinstance(access.space, Memory) else access.space
    for other in range(len(UNITS)):
        if other == unit or last.newest[other] <= clock[other]:
            continue
        positions = last.of[other, access.elements]
        if positions.max(initial=0) <= clock[other]:
            continue
        for position in np.unique(positions[positions > clock[other]]):
            at = np.flatnonzero(positions == position)
            elements = access.elements
            first = elements.start + at[0] if isinstance(elements, slice) else elements[at].min()
            kind = "WAR" if access.writes else "RAW"
            yield Race(streams[other][int(position) - 1], n, space, int(first), kind)


def hazards(
    program: Program, config: Config, resolved: tuple[Indices | None, ...]
) -> Iterator[Hazard]:
    """Yield, for each instruction, the first read of an accumulator that is too early.

    GEMM reads the accumulator that it adds to, ALU reads its destination and perhaps a second
    accumulator, a reset reads none.
    """
    known: dict[tuple[int, bool], Hazard | None] = {}  # equal loops share their indices
    for n, (instruction, used) in enumerate(zip(program.instructions, resolved, strict=True)):
        if used is None or (isinstance(instruction, Gemm) and instruction.reset):
            continue
        two = sources(instruction) == (Memory.ACC,)
        key = id(used), two
        if key not in known:
            known[key] = _hazard(n, used, two, config.rmw_distance)
        hazard = known[key]
        if hazard is not None:
            yield replace(hazard, index=n)


def _hazard(n: int, used: Indices, two: bool, least: int) -> Hazard | None:
    """Return the first read of what one of the last `least` - 1 micro-operations wrote, or None."""
    first: Hazard | None = None
    for distance in range(1, min(least, len(used.dst))):
        written = used.dst[:-distance]
        for indices in (used.dst, used.src) if two else (used.dst,):
            at = np.flatnonzero(indices[distance:] == written)
            if len(at) and (first is None or int(at[0]) + distance < first.step):
                first = Hazard(n, int(at[0]) + distance, distance, int(written[at[0]]))
    return first


def explain(program: Program, verdict: Verdict) -> str:
    """Return the verdict in sentences, one per line; "ok" if there are no faults or warnings."""
    check_program(program)
    check_kind("verdict", verdict, Verdict, fix="verify(program)")
    lines = [f"deadlock: {blocked}" for blocked in verdict.deadlock]
    lines += [
        f"leak: {n} token{plural(n)} {'stays' if n == 1 else 'stay'} in {queue.value}"
        for queue, n in verdict.leaks
    ]
    lines += [
        f"race: {label(program, race.first)} and {label(program, race.second)} both touch "
        f"{race.space}[{race.element}] ({race.kind}), and nothing orders them"
        for race in verdict.races
    ]
    lines += [f"race: and more than these {len(verdict.races)}"] if verdict.more else []
    lines += [
        f"hazard: {label(program, hazard.index)} reads ACC[{hazard.element}] at step {hazard.step},"
        f" {hazard.distance} after writing it"
        for hazard in verdict.hazards
    ]
    lines += [
        f"uninitialised: {label(program, read.index)} reads {read.space}[{read.element}], which "
        "nothing has written"
        for read in verdict.uninitialised
    ]
    lines += [
        f"warning: {label(program, store.index)} stores ACC[{store.element}], which was loaded but "
        "not computed: hardware stores an older value"
        for store in verdict.stale
    ]
    return "\n".join(lines) or "ok"
