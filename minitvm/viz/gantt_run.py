"""A simulated accelerator program: its times, tokens, waits, virtual threads and verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np

from minitvm import accel
from minitvm.base import ArgumentError

from .accelerator_use import Ints, Use

MOST = 60  # instructions per window, fully zoomed in
ZOOM = 4  # windows merged by one step of zooming out
MOST_THREADS = 4
SEVERAL = 1 << 8  # marks an element of several threads
MOST_FAULTS = 4  # most faults that a verdict lists
MOST_STEPS = 10  # most instructions of a witness order that are written out
UNITS, QUEUES = tuple(accel.Unit), tuple(accel.Queue)
FLAGS = {  # flag -> its label; the arrow points to the other unit's lane
    "pop_prev": "pop ↑",
    "pop_next": "pop ↓",
    "push_prev": "push ↑",
    "push_next": "push ↓",
}
ENDS = {  # queue -> the flags that push and pop its tokens
    accel.Queue.L2G: ("push_next", "pop_prev"),
    accel.Queue.G2L: ("push_prev", "pop_next"),
    accel.Queue.G2S: ("push_next", "pop_prev"),
    accel.Queue.S2G: ("push_prev", "pop_next"),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a queue; `number` counts the tokens of that queue from 0.

    push, pop     the instructions that push and pop the token; -1 if no instruction does
    sent, taken   the cycles of the push and the pop; -1 if that event never happens
    """

    queue: accel.Queue
    number: int
    push: int
    pop: int
    sent: int
    taken: int


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """All tokens of a queue, as arrays of Token's fields; the i-th pop takes token i."""

    queue: accel.Queue
    push: Ints
    pop: Ints
    sent: Ints
    taken: Ints

    def __len__(self) -> int:
        return len(self.push)

    def token(self, number: int) -> Token:
        """Return the token with this number."""
        columns = (self.push, self.pop, self.sent, self.taken)
        return Token(self.queue, number, *(int(column[number]) for column in columns))


@dataclass(frozen=True, slots=True)
class Segment:
    """A period in which a unit runs instruction `index`, or waits before or after it.

    stall   the reason for waiting; None while the instruction runs
    """

    unit: accel.Unit
    begin: int
    end: int
    index: int
    stall: accel.Stall | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A window of the cycles [begin, end); the last window of a run also includes `end`."""

    begin: int
    end: int
    last: bool

    def meets(self, begin: Ints, end: Ints) -> list[int]:
        """Return every n for which this window shows a part of the period begin[n] .. end[n]."""
        seen = ((begin < self.end) | self.last) & ((end > self.begin) | (begin >= self.begin))
        return np.flatnonzero(seen).tolist()


@dataclass(frozen=True, eq=False)
class Look:
    """A program, its simulated run, and its verdict."""

    program: accel.Program
    config: accel.Config
    run: accel.Run

    @cached_property
    def verdict(self) -> accel.Verdict:
        """The result of the verifier."""
        return accel.verify(self.program, self.config)

    @cached_property
    def sentences(self) -> list[str]:
        """The verdict in words."""
        return verdict_lines(self)

    @cached_property
    def table(self) -> dict[str, Ints]:
        """The executed instructions as columns, as Trace.table() returns them."""
        columns = self.run.trace.table().items()
        return {name: column.astype(np.int64, copy=False) for name, column in columns}

    @cached_property
    def lines(self) -> list[str]:
        """The instructions as text."""
        return accel.text(self.program, self.config).split("\n")[-len(self.program.instructions) :]

    @cached_property
    def names(self) -> list[str]:
        """The mnemonic of each instruction."""
        return [accel.mnemonic(instruction) for instruction in self.program.instructions]

    def event(self, n: int) -> accel.Event | None:
        """Return the event in which the n-th instruction ran; None if it did not run."""
        at = int(np.searchsorted(self.table["index"], n))
        there = at < len(self.run.trace) and int(self.table["index"][at]) == n
        return self.run.trace[at] if there else None

    def events(self, span: Span) -> list[accel.Event]:
        """Return the events of the instructions that run in a window, in program order."""
        seen = span.meets(self.table["start"], self.table["end"])
        return [self.run.trace[at] for at in seen]

    @cached_property
    def tokens(self) -> dict[accel.Queue, Tokens]:
        """The tokens of each queue."""
        return {queue: _matched(self, q) for q, queue in enumerate(QUEUES)}

    def segments(self, span: Span) -> list[Segment]:
        """Return the periods of work and waiting that a window shows, in program order."""
        t = self.table
        since, until = t["start"] - t["fetch"] - t["tokens"] - t["channel"], t["end"] + t["room"]
        near = [self.run.trace[at] for at in span.meets(since, until)]
        found = [s for event in near for s in _segments(event)]
        found += [
            Segment(b.unit, self.done(b.unit), self.run.cycles, b.index, b.waits_for)
            for b in self.run.blocked
        ]
        ends = (np.array([getattr(s, side) for s in found]) for side in ("begin", "end"))
        return [found[at] for at in span.meets(*ends)]

    def done(self, unit: accel.Unit) -> int:
        """Return the cycle after which a unit only idles or waits for ever."""
        mine = self.table["unit"] == UNITS.index(unit)
        return int((self.table["end"] + self.table["room"])[mine].max(initial=0))

    @cached_property
    def cuts(self) -> list[int]:
        """The cycles at which windows begin; about MOST instructions start in each window."""
        starts = np.sort(self.table["start"]).tolist()
        return sorted({0, *starts[MOST : -(MOST // 2) : MOST]})

    @property
    def steps(self) -> int:
        """The number of zoom steps from the whole program to windows of MOST instructions."""
        return next(n for n in count() if ZOOM**n >= len(self.cuts))

    def spans(self, zoom: int) -> tuple[Span, ...]:
        """Return the windows at a zoom level: one at level 0, the shortest at level `steps`."""
        cuts = self.cuts[:: ZOOM ** (self.steps - zoom)]
        return tuple(
            Span(begin, end, begin == cuts[-1])
            for begin, end in zip(cuts, [*cuts[1:], self.run.cycles], strict=True)
        )


def look(program: accel.Program, config: accel.Config) -> Look:
    """Return a program with its simulated run; raise ArgumentError for addresses out of bounds."""
    return Look(program, config, accel.simulate(program, config))


def _matched(look: Look, q: int) -> Tokens:
    """Match the pushes and pops of the q-th queue, and return its tokens."""
    wires = look.program.wires
    pushes = [n for n, wire in enumerate(wires) if q in wire.pushes]
    pops = [n for n, wire in enumerate(wires) if q in wire.pops]
    most = max(len(pushes), len(pops))
    push = np.array(pushes + [-1] * (most - len(pushes)), np.int64)
    pop = np.array(pops + [-1] * (most - len(pops)), np.int64)
    t = look.table
    times = np.full((2, len(wires) + 1), -1, np.int64)  # the last entry is for instruction -1
    times[:, t["index"]] = t["end"], t["start"] - t["channel"]
    return Tokens(QUEUES[q], push, pop, times[0, push], times[1, pop])


def _segments(event: accel.Event) -> Iterator[Segment]:
    """Yield the waiting before an instruction, the instruction, and the waiting after it."""
    before = [(stall, cycles) for stall, cycles in event.stalls if stall is not accel.Stall.ROOM]
    at = event.start - sum(cycles for _, cycles in before)
    for stall, cycles in before:
        yield Segment(event.unit, at, at + cycles, event.index, stall)
        at += cycles
    yield Segment(event.unit, event.start, event.end, event.index)
    room = dict(event.stalls).get(accel.Stall.ROOM, 0)
    if room:
        yield Segment(event.unit, event.end, event.end + room, event.index, accel.Stall.ROOM)


def virtual_threads(found: Sequence[Use]) -> tuple[int, ...]:
    """Return the virtual thread of each instruction; -1 if it has none, or several.

    Instructions that share elements of INP belong to the same thread. Any other instruction belongs
    to a thread if only GEMMs of the thread access its OUT elements, or its WGT elements. The result
    is -1 for all instructions if there is only one thread, or more than MOST_THREADS.
    """
    linked = _linked([use.elements(accel.Memory.INP) for use in found])
    names = {root: k for k, root in enumerate(dict.fromkeys(r for r in linked if r >= 0))}
    if not 1 < len(names) <= MOST_THREADS:
        return (-1,) * len(found)
    thread = [names.get(root, -1) for root in linked]
    for memory in (accel.Memory.OUT, accel.Memory.WGT):
        touched = [use.elements(memory) for use in found]
        keys, owner = [mine.tobytes() for mine in touched], _unowned(touched)
        for key, t in dict.fromkeys(
            (k, names[r]) for k, r in zip(keys, linked, strict=True) if r >= 0
        ):
            elements = np.frombuffer(key, np.int64)
            other = (owner[elements] >= 0) & (owner[elements] != t)
            owner[elements] = np.where(other, SEVERAL, t)
        only = {key: _only(owner[np.frombuffer(key, np.int64)]) for key in dict.fromkeys(keys)}
        thread = [only[key] if t < 0 else t for key, t in zip(keys, thread, strict=True)]
    return tuple(thread)


def _unowned(touched: Sequence[Ints]) -> Ints:
    """Return an array with -1 for each element of a memory up to the last accessed one."""
    return np.full(1 + max((int(mine.max(initial=-1)) for mine in touched), default=-1), -1)


def _only(owners: Ints) -> int:
    """Return the thread that owns all of these elements; -1 if no single thread does."""
    found = np.unique(owners)
    return int(found[0]) if len(found) == 1 and found[0] != SEVERAL else -1


def _linked(elements: Sequence[Ints]) -> list[int]:
    """Number the instructions; instructions connected by shared elements have equal numbers.

    An instruction without elements has -1. Programs reuse few sets of elements, so each distinct
    set is processed once.
    """
    keys = [mine.tobytes() for mine in elements]
    numbers = {key: n for n, key in enumerate(dict.fromkeys(keys))}
    parent = list(range(len(numbers)))
    owner = _unowned(elements)

    def root(n: int) -> int:
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    for key, n in numbers.items():
        mine = np.frombuffer(key, np.int64)
        for other in np.unique(owner[mine]).tolist():
            if other >= 0:
                parent[root(other)] = root(n)
        owner[mine] = n
    roots = {key: root(n) if key else -1 for key, n in numbers.items()}
    return [roots[key] for key in keys]


# --- tokens ---------------------------------------------------------------------------------------


def toggled(program: accel.Program, n: int, flag: str) -> accel.Program:
    """Return the program with one flag of its n-th instruction toggled."""
    count = len(program.instructions)
    if flag not in FLAGS or not 0 <= n < count:
        known = f"the flags of instructions 0 to {count - 1} are {', '.join(FLAGS)}"
        raise ArgumentError(f"flag {flag!r} of instruction {n}", known)
    old = program.instructions[n]
    flags = replace(old.flags, **{flag: not getattr(old.flags, flag)})
    instructions = list(program.instructions)
    instructions[n] = replace(old, flags=flags)
    return accel.Program(tuple(instructions), program.uops, program.areas)


def changed(program: accel.Program, original: accel.Program) -> dict[int, tuple[str, ...]]:
    """Map the number of each edited instruction to its flags that differ from the original."""
    pairs = enumerate(zip(program.instructions, original.instructions, strict=True))
    found = {
        n: tuple(f for f in FLAGS if getattr(a.flags, f) != getattr(b.flags, f))
        for n, (a, b) in pairs
        if a is not b
    }
    return {n: flags for n, flags in found.items() if flags}


def removed_tokens(given: Look, edited: accel.Program) -> list[Token]:
    """Return the tokens of the given program whose push or pop was dropped."""
    dropped = {
        (n, flag)
        for n, flags in changed(edited, given.program).items()
        for flag in flags
        if not getattr(edited.instructions[n].flags, flag)
    }
    found: list[Token] = []
    for queue, tokens in given.tokens.items():
        pushed, popped = ([n for n, flag in dropped if flag == end] for end in ENDS[queue])
        gone = np.isin(tokens.push, pushed) | np.isin(tokens.pop, popped)
        found += [tokens.token(number) for number in np.flatnonzero(gone).tolist()]
    return found


def verdict_lines(look: Look) -> list[str]:
    """Return the verdict in sentences, with an order of instructions that shows each race."""
    v, program = look.verdict, look.program
    if v.ok:
        return ["ok: no deadlock, no race, no token left over, no hazard"]
    sentences = accel.explain(program, v).split("\n")
    races = dict(zip(range(len(v.deadlock) + len(v.leaks), len(sentences)), v.races, strict=False))
    lines: list[str] = []
    for n, sentence in enumerate(sentences[:MOST_FAULTS]):
        lines.append(sentence)
        if n in races:
            order = accel.witness(program, races[n])
            lines.append(_witness(program, order, races[n].first, races[n].second))
    more = len(sentences) - MOST_FAULTS
    return [*lines, f"and {more} more"] if more > 0 else lines


def _witness(program: accel.Program, order: tuple[int, ...], first: int, second: int) -> str:
    """Describe an order of instructions that shows a race, and name the instruction run later."""
    steps = order[: order.index(second) + 1]
    dots = "… " if len(steps) > MOST_STEPS else ""
    shown = " ".join(map(str, steps[-MOST_STEPS:]))
    return f"an order that the tokens allow: {dots}{shown}, and {accel.label(program, first)} later"
