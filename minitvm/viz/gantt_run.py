"""What there is to see of a program on the accelerator: times, tokens, waits, virtual threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from minitvm.accel import (
    Config,
    Event,
    Memory,
    Program,
    Queue,
    Run,
    Stall,
    Unit,
    Verdict,
    explain,
    label,
    simulate,
    verify,
    witness,
)
from minitvm.base import ArgumentError

from .accelerator_use import Ints, Use

MOST = 60  # instructions of a window
MOST_THREADS = 4
SPACE = 1 << 16  # elements that a memory has at most
SEVERAL = 1 << 8  # instead of a thread
MOST_FAULTS = 4  # lines of a verdict
MOST_STEPS = 10  # instructions of a witness order that are written out
QUEUES = tuple(Queue)
FLAGS = {  # what an instruction's flag is called here: where the other unit's lane is
    "pop_prev": "pop ↑",
    "pop_next": "pop ↓",
    "push_prev": "push ↑",
    "push_next": "push ↓",
}
ENDS = {  # the flags of who pushes a token and of who pops it
    Queue.L2G: ("push_next", "pop_prev"),
    Queue.G2L: ("push_prev", "pop_next"),
    Queue.G2S: ("push_next", "pop_prev"),
    Queue.S2G: ("push_prev", "pop_next"),
}


@dataclass(frozen=True, slots=True)
class Token:
    """The number-th token of a queue: who pushes it and who pops it, and when.

    An instruction is -1 where there is none; a time is -1 where it never comes.
    """

    queue: Queue
    number: int
    push: int
    pop: int
    sent: int
    taken: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a unit's time: it runs an instruction, or waits with it for `stall`."""

    unit: Unit
    begin: int
    end: int
    index: int
    stall: Stall | None = None


@dataclass(frozen=True, eq=False)
class Look:
    """A program, what came of it, and whether its tokens say enough."""

    program: Program
    config: Config
    run: Run
    verdict: Verdict

    @cached_property
    def events(self) -> dict[int, Event]:
        """Those that ran, by the number of the instruction."""
        return {event.index: event for event in self.run.trace}

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """All tokens, those of l2g first; the i-th pop of a queue takes the i-th push."""
        return tuple(t for q in range(len(QUEUES)) for t in _matched(self, q))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """What each unit does when, in the order of the instructions."""
        last = [s for event in self.run.trace for s in _segments(event)]
        ends = {unit: max((s.end for s in last if s.unit is unit), default=0) for unit in Unit}
        stuck = [
            Segment(b.unit, ends[b.unit], self.run.cycles, b.index, b.waits_for)
            for b in self.run.blocked
        ]
        return (*last, *stuck)

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The windows, [begin, end) in cycles, in each of which about MOST instructions start."""
        starts = np.sort(self.run.trace.table()["start"]).tolist()
        cuts = sorted({0, *starts[MOST : -(MOST // 2) : MOST]})
        return tuple(zip(cuts, [*cuts[1:], self.run.cycles], strict=True))


def look(program: Program, config: Config) -> Look:
    """Simulate and verify a program. ArgumentError for addresses that do not exist."""
    return Look(program, config, simulate(program, config), verify(program, config))


def _matched(look: Look, q: int) -> Iterator[Token]:
    """The tokens of one queue."""
    wires = look.program.wires
    pushes = [n for n, wire in enumerate(wires) if q in wire.pushes]
    pops = [n for n, wire in enumerate(wires) if q in wire.pops]
    for number in range(max(len(pushes), len(pops))):
        push = pushes[number] if number < len(pushes) else -1
        pop = pops[number] if number < len(pops) else -1
        source, target = look.events.get(push), look.events.get(pop)
        sent = -1 if source is None else source.end
        taken = -1 if target is None else target.start - dict(target.stalls).get(Stall.CHANNEL, 0)
        yield Token(QUEUES[q], number, push, pop, sent, taken)


def _segments(event: Event) -> Iterator[Segment]:
    """The waiting before an instruction, the instruction, and the waiting after it."""
    before = [(stall, cycles) for stall, cycles in event.stalls if stall is not Stall.ROOM]
    at = event.start - sum(cycles for _, cycles in before)
    for stall, cycles in before:
        yield Segment(event.unit, at, at + cycles, event.index, stall)
        at += cycles
    yield Segment(event.unit, event.start, event.end, event.index)
    room = dict(event.stalls).get(Stall.ROOM, 0)
    if room:
        yield Segment(event.unit, event.end, event.end + room, event.index, Stall.ROOM)


def virtual_threads(found: Sequence[Use]) -> tuple[int, ...]:
    """The virtual thread of each instruction, -1 where it is of none or of several.

    A thread is what shares elements of INP; what else only its GEMMs touch, of OUT and WGT, is its
    own too. -1 for all if there is one thread only, or more than MOST_THREADS.
    """
    linked = _linked([use.elements(Memory.INP) for use in found])
    names = {root: k for k, root in enumerate(dict.fromkeys(r for r in linked if r >= 0))}
    if not 1 < len(names) <= MOST_THREADS:
        return (-1,) * len(found)
    thread = [names.get(root, -1) for root in linked]
    for memory in (Memory.OUT, Memory.WGT):
        owner = np.full(SPACE, -1, np.int64)
        for n, use in enumerate(found):
            elements = use.elements(memory)
            if linked[n] >= 0:
                other = (owner[elements] >= 0) & (owner[elements] != thread[n])
                owner[elements] = np.where(other, SEVERAL, thread[n])
        for n, use in enumerate(found):
            owners = np.unique(owner[use.elements(memory)])
            if thread[n] < 0 and len(owners) == 1 and owners[0] != SEVERAL:
                thread[n] = int(owners[0])
    return tuple(thread)


def _linked(elements: Sequence[Ints]) -> list[int]:
    """Equal numbers for those that share an element, perhaps through others; -1 for no elements."""
    parent = list(range(len(elements)))
    owner = np.full(SPACE, -1, np.int64)

    def root(n: int) -> int:
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    for n, mine in enumerate(elements):
        for other in np.unique(owner[mine]).tolist():
            if other >= 0:
                parent[root(other)] = root(n)
        owner[mine] = n
    return [root(n) if len(mine) else -1 for n, mine in enumerate(elements)]


# --- tokens ---------------------------------------------------------------------------------------


def toggled(program: Program, n: int, flag: str) -> Program:
    """The program with one flag of its n-th instruction the other way round."""
    count = len(program.instructions)
    if flag not in FLAGS or not 0 <= n < count:
        known = f"instructions 0 to {count - 1} have {', '.join(FLAGS)}"
        raise ArgumentError(f"flag {flag!r} of instruction {n}", known)
    old = program.instructions[n]
    flags = replace(old.flags, **{flag: not getattr(old.flags, flag)})
    instructions = list(program.instructions)
    instructions[n] = replace(old, flags=flags)
    return Program(tuple(instructions), program.uops, program.areas)


def changed(program: Program, original: Program) -> dict[int, tuple[str, ...]]:
    """The flags that differ, by instruction."""
    pairs = enumerate(zip(program.instructions, original.instructions, strict=True))
    found = {
        n: tuple(f for f in FLAGS if getattr(a.flags, f) != getattr(b.flags, f))
        for n, (a, b) in pairs
        if a is not b
    }
    return {n: flags for n, flags in found.items() if flags}


def verdict_lines(look: Look) -> list[str]:
    """The verdict in sentences, the first faults of many; for a race an order that shows it."""
    v, program = look.verdict, look.program
    if v.ok:
        return ["ok: no deadlock, no race, no token left over, no hazard"]
    sentences = explain(program, v).split("\n")
    races = dict(zip(range(len(v.deadlock) + len(v.leaks), len(sentences)), v.races, strict=False))
    lines: list[str] = []
    for n, sentence in enumerate(sentences[:MOST_FAULTS]):
        lines.append(sentence)
        if n in races:
            order = witness(program, races[n])
            lines.append(_witness(program, order, races[n].first, races[n].second))
    more = len(sentences) - MOST_FAULTS
    return [*lines, f"and {more} more"] if more > 0 else lines


def _witness(program: Program, order: tuple[int, ...], first: int, second: int) -> str:
    """an order that the tokens allow: 0 1 4, and instruction 2 (load inp) later"""
    steps = order[: order.index(second) + 1]
    dots = "… " if len(steps) > MOST_STEPS else ""
    shown = " ".join(map(str, steps[-MOST_STEPS:]))
    return f"an order that the tokens allow: {dots}{shown}, and {label(program, first)} later"
