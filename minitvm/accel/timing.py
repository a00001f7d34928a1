"""The timing model: an event-driven simulation of three units, their queues and two channels.

One event is one instruction. It starts when its unit is free, it has been fetched, its tokens have
arrived and, if it moves data, its channel is free. All reads of DRAM share one channel, first come,
first served; STORE has its own. An instruction pops its tokens before it waits for its channel, and
pushes tokens when it ends; if a queue is full, the unit waits. Instructions are fetched in program
order, without delay, into the command queue of their unit; a full command queue blocks all later
instructions, whatever their unit.

A transfer keeps the channel until it ends. Therefore an earlier token does not always mean an
earlier end: a load that starts one cycle earlier may delay a load of the compute unit on the
critical path. Some programs take longer with a token_latency of 0 than with 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never, overload

import numpy as np

from .config import Config, Memory, check_config
from .elements import Ints, total
from .isa import QUEUE_FROM_TO, Alu, Finish, Gemm, Load, Store, Unit, is_nop, mnemonic
from .program import QUEUES, UNITS, Program, check_program


class Stall(Enum):
    """The reason why a unit waits. A wait for a token is named after the token's queue."""

    L2G = "l2g"
    G2L = "g2l"
    G2S = "g2s"
    S2G = "s2g"
    FETCH = "fetch"  # the next instruction: another unit's command queue is full
    CHANNEL = "channel"  # the channel to DRAM, which another unit uses
    ROOM = "room"  # space for its token in a full queue


@dataclass(frozen=True, slots=True)
class Event:
    """One instruction that ran from cycle `start` to cycle `end`.

    `stalls` contains (reason, cycles) for each time that the unit waited since its previous
    instruction, and for ROOM after `end`.
    """

    index: int
    unit: Unit
    name: str
    start: int
    end: int
    stalls: tuple[tuple[Stall, int], ...]


@dataclass(frozen=True, slots=True)
class Blocked:
    """A unit that is blocked forever: its instruction, and the reason why it waits."""

    unit: Unit
    index: int
    name: str
    waits_for: Stall

    def __str__(self) -> str:
        what = {
            Stall.FETCH: "to be fetched: the command queue of another unit is full",
            Stall.ROOM: "for space in the queue that it pushes to",
        }.get(self.waits_for, f"for a token of {self.waits_for.value}")
        return f"{self.unit.value} waits at instruction {self.index} ({self.name}) {what}"


class Trace(Sequence[Event]):
    """The instructions that ran, in the order of their numbers; events are created on access."""

    def __init__(self, program: Program, machine: _Machine) -> None:
        self._program, self._machine = program, machine
        self._ran = [n for n, start in enumerate(machine.start) if start < NEVER]

    def __len__(self) -> int:
        return len(self._ran)

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, at: int | slice) -> Event | tuple[Event, ...]:
        if isinstance(at, slice):
            return tuple(self._event(n) for n in self._ran[at])
        return self._event(self._ran[at])

    def table(self) -> dict[str, Ints]:
        """Return the trace as columns: index, unit (a position in Unit), start, end, and others.

        fetch, tokens, channel, room: the cycles of waiting for each cause. queue: the position in
        Queue of the last token that was waited for, -1 if none.
        """
        m, trace_order = self._machine, np.array(self._ran, np.int64)

        def column(values: Sequence[int]) -> Ints:
            return np.array(values, np.int64)[trace_order]

        start, end, ready = column(m.start), column(m.end), column(m.ready)
        fetch = column(m.fetch)
        return {
            "index": trace_order,
            "unit": column([wire.unit for wire in m.wires]),
            "start": start,
            "end": end,
            "fetch": fetch - column(m.since),
            "tokens": ready - fetch,
            "queue": column(m.late),
            "channel": start - ready,
            "room": column(m.release) - end,
        }

    def _event(self, n: int) -> Event:
        m = self._machine
        waits = (
            (Stall.FETCH, m.fetch[n] - m.since[n]),
            (STALLS[m.late[n]], m.ready[n] - m.fetch[n]),
            (Stall.CHANNEL, m.start[n] - m.ready[n]),
            (Stall.ROOM, m.release[n] - m.end[n]),
        )
        stalls = tuple((stall, cycles) for stall, cycles in waits if cycles)
        name = mnemonic(self._program.instructions[n])
        return Event(n, UNITS[m.wires[n].unit], name, m.start[n], m.end[n], stalls)


@dataclass(frozen=True, slots=True)
class Timing:
    """The cycles that a program takes, and its trace.

    blocked  the units that are blocked forever; empty if FINISH was reached
    """

    cycles: int
    trace: Trace
    blocked: tuple[Blocked, ...]


def measure(program: Program, config: Config) -> Timing:
    """Return the times of all instructions; after a deadlock, `blocked` names the units."""
    check_program(program)
    check_config(config)
    machine = _Machine(program, config)
    machine.run()
    return Timing(max(machine.end), Trace(program, machine), _blocked(program, machine))


def durations(program: Program, config: Config) -> list[int]:
    """Return the cycles for which each instruction occupies its unit, without waiting."""
    check_program(program)
    check_config(config)
    element_bytes = {memory: config.element_bytes(memory) for memory in Memory}
    times: list[int] = []
    for instruction in program.instructions:
        match instruction:
            case Load(x=0) | Store(x=0) | Finish():
                cycles = 0
            case Load(memory=memory, x=x, y=y) | Store(memory=memory, x=x, y=y):
                padded = total(instruction) - x * y
                cycles = config.transfer_cycles(element_bytes[memory], x, y, padded)
            case Gemm(loops=loops):
                cycles = config.issue + config.fill + loops.count
            case Alu(loops=loops, imm=imm):
                interval = config.alu_ii_reg if imm is None else config.alu_ii_imm
                cycles = config.issue + config.fill + loops.count * interval
            case _:
                assert_never(instruction)
        times.append(cycles)
    return times


NEVER = 1 << 62
READ, WRITE, NO_CHANNEL = range(3)
CHANNELS: dict[type, int] = {Load: READ, Store: WRITE}  # of DRAM
PRODUCER = {QUEUES.index(q): UNITS.index(source) for (source, _), q in QUEUE_FROM_TO.items()}
STALLS = tuple(Stall(q.value) for q in QUEUES)


class _Machine:
    """The state of the timing model; lists of times have one entry per instruction.

    The times of an instruction, and what its unit waits for between them:

        since      fetch      ready      start       end      release
          |          |          |          |##########|          |
             FETCH     a token    CHANNEL     works       ROOM

        since     the unit has finished its previous instruction
        fetch     ... and this one is in the unit's command queue
        ready     ... and its tokens have arrived: it pops them (`late`: the queue of the last one)
        start     ... and its channel is free
        end       start + duration: it pushes its tokens
        release   ... and its queues had space for them: `since` of the unit's next instruction

    The instruction that can start earliest starts first. Everything that it unblocks starts later,
    so instructions start in the order of time, and the channel serves them in order of arrival.
    """

    def __init__(self, program: Program, config: Config) -> None:
        count = len(program.instructions)
        self.config = config
        self.wires = program.wires
        self.duration = durations(program, config)
        self.channel = [
            NO_CHANNEL if is_nop(instruction) else CHANNELS.get(type(instruction), NO_CHANNEL)
            for instruction in program.instructions
        ]
        # per instruction
        self.since, self.fetch, self.ready = [0] * count, [0] * count, [0] * count
        self.late = [-1] * count
        self.start = [NEVER] * count
        self.end, self.release = [0] * count, [0] * count
        # per unit
        self.streams: list[list[int]] = [[] for _ in UNITS]  # its fetched instructions
        self.heads = [0] * len(UNITS)  # how many of them have started
        self.released: list[list[int]] = [[] for _ in UNITS]  # when those finished were released
        self.waiting: list[list[int]] = [[] for _ in UNITS]  # full queues that it must push to
        # per queue, for each token
        self.pushed: list[list[int]] = [[] for _ in QUEUES]  # when it can be popped
        self.popped: list[list[int]] = [[] for _ in QUEUES]  # when it was popped
        # for the whole machine
        self.channel_free = [0, 0]
        self.fetched, self.now = 0, 0  # the next instruction to fetch; the time of the last fetch

    def run(self) -> None:
        """Start instructions until none can start."""
        while True:
            self.fetch_some()
            best, first = -1, NEVER
            for unit in range(len(UNITS)):
                ready = self.ready_at(unit)
                if ready < first:
                    best, first = unit, ready
            if best < 0:
                return
            self.start_one(best, first)

    def fetch_some(self) -> None:
        """Fetch instructions until a command queue is full.

        The running instruction is not in the queue. If a queue has 2 places, instruction 3 of its
        unit is fetched when instruction 0 = 3 - 2 - 1 is released.
        """
        while self.fetched < len(self.wires):
            unit = self.wires[self.fetched].unit
            stream, released = self.streams[unit], self.released[unit]
            index = len(stream) - self.config.command_queue - 1
            if index >= len(released):
                return
            if index >= 0:
                self.now = max(self.now, released[index])
            self.fetch[self.fetched] = self.now
            stream.append(self.fetched)
            self.fetched += 1

    def ready_at(self, unit: int) -> int:
        """Return when a unit's next instruction is fetched and has its tokens, or NEVER."""
        head, released = self.heads[unit], self.released[unit]
        if head == len(self.streams[unit]) or head > len(released):
            return NEVER  # none is fetched, or one is running
        instruction = self.streams[unit][head]
        idle_since, late = released[-1] if released else 0, -1
        fetch = ready = max(idle_since, self.fetch[instruction])
        for q in self.wires[instruction].pops:
            at = len(self.popped[q])
            if at == len(self.pushed[q]):
                return NEVER
            if self.pushed[q][at] > ready:
                ready, late = self.pushed[q][at], q
        self.since[instruction], self.fetch[instruction] = idle_since, fetch
        self.ready[instruction], self.late[instruction] = ready, late
        return ready

    def start_one(self, unit: int, ready: int) -> None:
        """Run a unit's next instruction: pop tokens at `ready`, wait for a channel, work, push."""
        n = self.streams[unit][self.heads[unit]]
        self.heads[unit] += 1
        start, channel = ready, self.channel[n]
        if channel != NO_CHANNEL:
            start = max(start, self.channel_free[channel])
            self.channel_free[channel] = start + self.duration[n]
        self.start[n] = start
        self.end[n] = self.release[n] = start + self.duration[n]
        self.waiting[unit] = list(self.wires[n].pushes)
        self.push(unit)
        for q in self.wires[n].pops:
            self.popped[q].append(ready)
            if q in self.waiting[PRODUCER[q]]:
                self.push(PRODUCER[q])

    def push(self, unit: int) -> None:
        """Push tokens where queues have space; the instruction is released after the last one.

        With space for 2 tokens, token 2 is pushed when token 0 = 2 - 2 is popped.
        """
        n = self.streams[unit][self.heads[unit] - 1]  # the last one started
        stuck: list[int] = []
        for q in self.waiting[unit]:
            leaves = len(self.pushed[q]) - self.config.token_queue
            if leaves >= len(self.popped[q]):
                stuck.append(q)
                continue
            at = max(self.end[n], self.popped[q][leaves]) if leaves >= 0 else self.end[n]
            self.pushed[q].append(at + self.config.token_latency)
            self.release[n] = max(self.release[n], at)
        self.waiting[unit] = stuck
        if not stuck:
            self.released[unit].append(self.release[n])


def _blocked(program: Program, machine: _Machine) -> tuple[Blocked, ...]:
    """Return, for each unit with instructions left, what it waits for."""
    blocked: list[Blocked] = []
    for position, unit in enumerate(UNITS):
        head, stream = machine.heads[position], machine.streams[position]
        later = (n for n in range(machine.fetched, len(machine.wires)))
        if machine.waiting[position]:
            n, stall = stream[head - 1], Stall.ROOM
        elif head < len(stream):
            n = stream[head]
            pushed, popped = machine.pushed, machine.popped
            empty = (q for q in machine.wires[n].pops if len(pushed[q]) == len(popped[q]))
            stall = STALLS[next(empty)]
        else:
            n = next((n for n in later if machine.wires[n].unit == position), -1)
            stall = Stall.FETCH
        if n >= 0:
            blocked.append(Blocked(unit, n, mnemonic(program.instructions[n]), stall))
    return tuple(blocked)
