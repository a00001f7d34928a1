"""A simulated accelerator program: its times, tokens, waits, virtual threads and verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, zip_longest

import numpy as np

from minitvm import accel
from minitvm.base import ArgumentError

from .accelerator_use import Ints, Use

WINDOW = 60  # instructions per window, fully zoomed in
ZOOM = 4  # windows merged by one step of zooming out
MAX_THREADS = 4
SEVERAL = 1 << 8  # marks an element of several threads
MAX_FAULTS = 4  # most faults that a verdict lists
MAX_STEPS = 10  # most instructions of a witness order that are written out
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
        shown = ((begin < self.end) | self.last) & ((end > self.begin) | (begin >= self.begin))
        return np.flatnonzero(shown).tolist()


@dataclass(frozen=True, eq=False)
class SimulatedRun:
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
        """The verdict in words, with an order of instructions that shows each race."""
        v, program = self.verdict, self.program
        if v.ok:
            return ["ok: no deadlock, no race, no token left over, no hazard"]
        faults = accel.explain(program, v).split("\n")
        races = dict(enumerate(v.races, len(v.deadlock) + len(v.leaks)))
        lines: list[str] = []
        for n, fault in enumerate(faults[:MAX_FAULTS]):
            lines.append(fault)
            if n in races:
                order, race = accel.witness(program, races[n]), races[n]
                steps = order[: order.index(race.second) + 1]
                dots = "… " if len(steps) > MAX_STEPS else ""
                shown = f"{dots}{' '.join(map(str, steps[-MAX_STEPS:]))}"
                later = f"{accel.label(program, race.first)} later"
                lines.append(f"an order that the tokens allow: {shown}, and {later}")
        more = len(faults) - MAX_FAULTS
        return [*lines, f"and {more} more"] if more > 0 else lines

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
        has_run = at < len(self.run.trace) and int(self.table["index"][at]) == n
        return self.run.trace[at] if has_run else None

    def events(self, span: Span) -> list[accel.Event]:
        """Return the events of the instructions that run in a window, in program order."""
        return [self.run.trace[at] for at in span.meets(self.table["start"], self.table["end"])]

    @cached_property
    def tokens(self) -> dict[accel.Queue, Tokens]:
        """The tokens of each queue: its pushes matched with its pops."""
        wires, t = self.program.wires, self.table
        times = np.full((2, len(wires) + 1), -1, np.int64)  # the last entry is for instruction -1
        times[:, t["index"]] = t["end"], t["start"] - t["channel"]
        queues: dict[accel.Queue, Tokens] = {}
        for q, queue in enumerate(QUEUES):
            pushes = [n for n, wire in enumerate(wires) if q in wire.pushes]
            pops = [n for n, wire in enumerate(wires) if q in wire.pops]
            pairs = np.array([*zip_longest(pushes, pops, fillvalue=-1)], np.int64).reshape(-1, 2)
            push, pop = pairs.T
            queues[queue] = Tokens(queue, push, pop, times[0, push], times[1, pop])
        return queues

    def segments(self, span: Span) -> list[Segment]:
        """Return the periods of work and waiting that a window shows, in program order."""
        t = self.table
        since, until = t["start"] - t["fetch"] - t["tokens"] - t["channel"], t["end"] + t["room"]
        rows = [self.run.trace[at] for at in span.meets(since, until)]
        segments = [s for event in rows for s in _segments(event)]
        segments += [
            Segment(b.unit, self.done(b.unit), self.run.cycles, b.index, b.waits_for)
            for b in self.run.blocked
        ]
        ends = (np.array([getattr(s, field) for s in segments]) for field in ("begin", "end"))
        return [segments[at] for at in span.meets(*ends)]

    def done(self, unit: accel.Unit) -> int:
        """Return the cycle after which a unit only idles or waits for ever."""
        of_unit = self.table["unit"] == UNITS.index(unit)
        return int((self.table["end"] + self.table["room"])[of_unit].max(initial=0))

    @cached_property
    def cuts(self) -> list[int]:
        """The cycles at which windows begin; about WINDOW instructions start in each window."""
        starts = np.sort(self.table["start"]).tolist()
        return sorted({0, *starts[WINDOW : -(WINDOW // 2) : WINDOW]})

    @property
    def steps(self) -> int:
        """The number of zoom steps from the whole program to windows of WINDOW instructions."""
        return next(n for n in count() if ZOOM**n >= len(self.cuts))

    def spans(self, zoom: int) -> tuple[Span, ...]:
        """Return the windows at a zoom level: one at level 0, the shortest at level `steps`."""
        cuts = self.cuts[:: ZOOM ** (self.steps - zoom)]
        return tuple(
            Span(begin, end, begin == cuts[-1])
            for begin, end in zip(cuts, [*cuts[1:], self.run.cycles], strict=True)
        )


def simulated(program: accel.Program, config: accel.Config) -> SimulatedRun:
    """Return a program with its simulated run; raise ArgumentError for addresses out of bounds."""
    return SimulatedRun(program, config, accel.simulate(program, config))


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


def virtual_threads(each: Sequence[Use]) -> tuple[int, ...]:
    """Return the virtual thread of each instruction; -1 if it has none, or several.

    Instructions that share elements of INP belong to the same thread. Any other instruction belongs
    to a thread if only GEMMs of the thread access its OUT elements, or its WGT elements. The result
    is -1 for all instructions if there is only one thread, or more than MAX_THREADS.
    """
    groups = _linked([use.elements(accel.Memory.INP) for use in each])
    names = {group: k for k, group in enumerate(dict.fromkeys(g for g in groups if g >= 0))}
    if not 1 < len(names) <= MAX_THREADS:
        return (-1,) * len(each)
    first = threads = [names.get(group, -1) for group in groups]
    for memory in (accel.Memory.OUT, accel.Memory.WGT):
        sets = [use.elements(memory) for use in each]
        keys, owner = [elements.tobytes() for elements in sets], _unowned(sets)
        for key, t in dict.fromkeys((key, t) for key, t in zip(keys, first, strict=True) if t >= 0):
            elements = np.frombuffer(key, np.int64)
            is_shared = (owner[elements] >= 0) & (owner[elements] != t)
            owner[elements] = np.where(is_shared, SEVERAL, t)
        thread_of: dict[bytes, int] = {}
        for key in dict.fromkeys(keys):
            owners = np.unique(owner[np.frombuffer(key, np.int64)]).tolist()
            thread_of[key] = owners[0] if len(owners) == 1 and owners[0] != SEVERAL else -1
        threads = [thread_of[key] if t < 0 else t for key, t in zip(keys, threads, strict=True)]
    return tuple(threads)


def _unowned(sets: Sequence[Ints]) -> Ints:
    """Return an array with -1 for each element of a memory up to the last accessed one."""
    return np.full(1 + max((int(elements.max(initial=-1)) for elements in sets), default=-1), -1)


def _linked(sets: Sequence[Ints]) -> list[int]:
    """Number sets of elements: sets connected by shared elements have equal numbers, empty ones -1.

    Programs reuse few sets of elements, so each distinct set is processed once.
    """
    distinct = {elements.tobytes(): elements for elements in sets}
    owner = _unowned(sets)
    for n, elements in enumerate(distinct.values()):
        before = np.unique(owner[elements])
        owner[np.isin(owner, before[before >= 0])] = n
        owner[elements] = n
    groups = {key: int(owner[of[0]]) if len(of) else -1 for key, of in distinct.items()}
    return [groups[elements.tobytes()] for elements in sets]


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
    edits: dict[int, tuple[str, ...]] = {}
    for n, (a, b) in enumerate(zip(program.instructions, original.instructions, strict=True)):
        if a.flags != b.flags:
            edits[n] = tuple(f for f in FLAGS if getattr(a.flags, f) != getattr(b.flags, f))
    return edits


def removed_tokens(original: SimulatedRun, edited: accel.Program) -> list[Token]:
    """Return the tokens of the given program whose push or pop was dropped."""
    dropped_flags = {
        (n, flag)
        for n, flags in changed(edited, original.program).items()
        for flag in flags
        if not getattr(edited.instructions[n].flags, flag)
    }
    removed: list[Token] = []
    for queue, tokens in original.tokens.items():
        pushers, poppers = ([n for n, flag in dropped_flags if flag == end] for end in ENDS[queue])
        is_removed = np.isin(tokens.push, pushers) | np.isin(tokens.pop, poppers)
        removed += [tokens.token(number) for number in np.flatnonzero(is_removed).tolist()]
    return removed
