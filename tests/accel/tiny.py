"""Tiny random programs, and all the ways in which each can run, tried one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from minitvm.accel import Config, Program, parse

TINY = Config(  # one number an element: 8 of INP, 4 of WGT, 8 of ACC
    name="tiny",
    batch=1,
    block_in=1,
    block_out=1,
    inp_bytes=8,
    wgt_bytes=4,
    acc_bytes=8 * 4,
    uop_bytes=8 * 4,
)
HEAD = """
area C out 16
area A inp 12
area W wgt 8
area B acc 8
uop 0 0 0
uop 2 1 1
uop 3 3 0
ex uop[0] = uops[0] x=3
"""
BYTES = {"C": 0, "A": 16, "W": 28, "B": 36}  # where the areas begin
DRAM_BYTES = 36 + 8 * 4
UOPS = ((0, 0, 0), (2, 1, 1), (3, 3, 0))
UNITS = ("ld", "ex", "st")
NEIGHBOURS = (("ld", "ex"), ("ex", "ld"), ("ex", "st"), ("st", "ex"))

Cell = tuple[str, int]  # ("acc", 3), ("DRAM", 17)


@dataclass
class Line:
    """One instruction: who runs it, its text without tokens, what it touches, its tokens.

    pops and pushes are the units that it takes a token from, and gives one to.
    """

    unit: str
    body: str
    reads: set[Cell] = field(default_factory=set)
    writes: set[Cell] = field(default_factory=set)
    pops: set[str] = field(default_factory=set)
    pushes: set[str] = field(default_factory=set)

    def text(self) -> str:
        tokens = [f"pop {u}" for u in sorted(self.pops)] + [
            f"push {u}" for u in sorted(self.pushes)
        ]
        return "   ".join([f"{self.unit}  {self.body}", *tokens])


Lines = list[Line]


def program(lines: Lines) -> Program:
    return parse("\n".join([HEAD, *(line.text() for line in lines)]), TINY)


# --- random lines, with what they touch ----------------------------------------------------------


def cells(name: str, at: range | set[int]) -> set[Cell]:
    return {(name, n) for n in at}


def dram(area: str, elements: set[int], size: int = 1) -> set[Cell]:
    first = BYTES[area]
    return {("DRAM", first + n * size + k) for n in elements for k in range(size)}


def rows(rng: np.random.Generator, most: int) -> tuple[int, int, int, int]:
    """y, x, stride and the first element of a box inside of `most` elements."""
    boxes = [(1, 1, 0), (1, 2, 0), (2, 1, 2), (1, 4, 0), (2, 2, 3)]
    y, x, stride = boxes[int(rng.integers(5 if most > 4 else 4))]
    return y, x, stride, int(rng.integers(most - (y - 1) * stride - x + 1))


def box(y: int, x: int, stride: int, first: int) -> set[int]:
    return {first + i * stride + j for i in range(y) for j in range(x)}


def a_load(rng: np.random.Generator) -> Line:
    """Into INP, WGT or ACC; from where such numbers lie, or from the results."""
    memory, area, size, count, depth = (
        ("inp", "A", 1, 12, 8),
        ("inp", "C", 1, 16, 8),
        ("wgt", "W", 1, 8, 4),
        ("acc", "B", 4, 8, 8),
        ("acc", "C", 4, 4, 8),
        ("acc_8bit", "C", 1, 16, 8),
    )[int(rng.integers(6))]
    y, x, stride, first = rows(rng, count)
    pad = int(rng.integers(2)) if x == 1 and y == 1 else 0
    total = (y + pad) * x
    sram = int(rng.integers(depth - total + 1))
    body = f"{memory}[{sram}] = {area}[{first}] y={y} x={x} stride={stride} pad={pad},0,0,0"
    unit, name = ("ex", "acc") if memory.startswith("acc") else ("ld", memory)
    read = dram(area, box(y, x, stride, first), size)
    return Line(unit, body, read, cells(name, range(sram, sram + total)))


def a_store(rng: np.random.Generator) -> Line:
    y, x, stride, first = rows(rng, 16)
    sram = int(rng.integers(8 - y * x + 1))
    body = f"C[{first}] = acc[{sram}] y={y} x={x} stride={stride}"
    read = cells("acc", range(sram, sram + y * x))
    return Line("st", body, read, dram("C", box(y, x, stride, first)))


def a_computation(rng: np.random.Generator) -> Line:
    """A product, a reset, or an operation of the ALU, over one to three micro-operations."""
    begin = int(rng.integers(3))
    end = int(rng.integers(begin, 4))  # none at all, too
    outer, step = (1, 0) if rng.random() < 0.6 else (2, int(rng.integers(1, 4)))
    at = [(UOPS[n], i) for i in range(outer) for n in range(begin, end)]
    dst = cells("acc", {uop[0] + i * step for uop, i in at})
    name, imm = (("gemm", ""), ("reset", ""), ("add", ""), ("max", " imm=3"), ("shr", " imm=1"))[
        int(rng.integers(5))
    ]
    reads = {
        "gemm": dst | cells("inp", {uop[1] for uop, _ in at}) | cells("wgt", {u[2] for u, _ in at}),
        "reset": set[Cell](),
        "add": dst | cells("acc", {uop[1] for uop, _ in at}),
    }
    body = f"{name} u[{begin}:{end}] outer={outer} dst={step},0{imm}"
    return Line("ex", body, reads.get(name, dst), dst)


def a_nop(rng: np.random.Generator) -> Line:
    return Line(UNITS[int(rng.integers(3))], "nop")


KINDS = (a_load, a_load, a_store, a_store, a_computation, a_computation, a_nop)


def random_lines(rng: np.random.Generator, most: int = 8) -> Lines:
    """Up to `most` lines and FINISH; tokens of neighbours, then a few that are out of place."""
    lines = [
        KINDS[int(rng.integers(len(KINDS)))](rng) for _ in range(int(rng.integers(2, most + 1)))
    ]
    for j, late in enumerate(lines):
        for early in lines[:j]:
            if (early.unit, late.unit) in NEIGHBOURS and rng.random() < 0.45:
                early.pushes.add(late.unit)
                late.pops.add(early.unit)
    if rng.random() < 0.7:
        last = Line("ex", "nop", pops={line.unit for line in lines if line.unit != "ex"})
        lines.append(last)
        for unit in last.pops:
            next(line for line in reversed(lines) if line.unit == unit).pushes.add("ex")
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        edit(lines, rng)
    return [*lines, Line("ex", "finish", cells("DRAM", range(DRAM_BYTES)))]


def edit(lines: Lines, rng: np.random.Generator) -> None:
    """One token more, or one less."""
    line = lines[int(rng.integers(len(lines)))]
    others = [b for a, b in NEIGHBOURS if a == line.unit]
    tokens = (line.pops, line.pushes)[int(rng.integers(2))]
    tokens ^= {others[int(rng.integers(len(others)))]}


# --- the oracle: all ways to run -----------------------------------------------------------------


class State(NamedTuple):
    """Where a run is: how many lines each unit has done; tokens between them; what has been read.

    memory    of each element the line that wrote it last, and what that one had read: a number
              that no other line, and not the same line at another time, could have written
    seen      for each line that ran, the contents that it read
    """

    done: tuple[int, ...]
    memory: frozenset[tuple[Cell, int]]
    seen: frozenset[tuple[int, int]]


START = State((0, 0, 0), frozenset(), frozenset())


@dataclass
class Ways:
    """All that may come of a program.

    stuck   the lines that never run, for each way to end
    ends    what all lines have read and what is left in memory, for each way to end
    before  the pairs (a, b) of lines of which a ran earlier than b in some way
    """

    stuck: set[frozenset[int]] = field(default_factory=set)
    ends: set[State] = field(default_factory=set)
    before: set[tuple[int, int]] = field(default_factory=set)


def tokens_left(lines: Lines, ran: set[int]) -> dict[tuple[str, str], int]:
    """How many tokens lie in each queue after these lines."""
    left = dict.fromkeys(NEIGHBOURS, 0)
    for n in ran:
        for other in lines[n].pushes:
            left[lines[n].unit, other] += 1
        for other in lines[n].pops:
            left[other, lines[n].unit] -= 1
    return left


def all_ways(lines: Lines) -> Ways:
    """Every order in which the three units can take turns."""
    streams = {u: [n for n, line in enumerate(lines) if line.unit == u] for u in UNITS}
    found, known = Ways(), set[State]()
    waiting = [START]
    while waiting:
        state = waiting.pop()
        if state in known:
            continue
        known.add(state)
        ran = {n for u, done in zip(UNITS, state.done, strict=True) for n in streams[u][:done]}
        left = tokens_left(lines, ran)
        heads = [
            streams[u][d] for u, d in zip(UNITS, state.done, strict=True) if d < len(streams[u])
        ]
        ready = [n for n in heads if all(left[u, lines[n].unit] for u in lines[n].pops)]
        found.before |= {(a, n) for n in ready for a in ran}
        waiting += [after(state, n, lines[n]) for n in ready]
        if not ready:
            found.stuck.add(frozenset(range(len(lines))) - ran)
            found.ends.add(state)
    return found


def after(state: State, n: int, line: Line) -> State:
    """The state when line n has run."""
    memory = dict(state.memory)
    value = hash((n, frozenset((cell, memory.get(cell, 0)) for cell in line.reads)))
    memory |= dict.fromkeys(line.writes, value)
    unit = UNITS.index(line.unit)
    done = tuple(count + (unit == u) for u, count in enumerate(state.done))
    return State(done, frozenset(memory.items()), state.seen | {(n, value)})


def orders(lines: Lines, most: int) -> Iterator[tuple[int, ...]]:
    """Orders of all lines, up to `most` of them: as many as there are, if those are fewer."""
    streams = {u: [n for n, line in enumerate(lines) if line.unit == u] for u in UNITS}
    waiting: list[tuple[int, ...]] = [()]
    while waiting and most:
        order = waiting.pop()
        left = tokens_left(lines, set(order))
        heads = [next((n for n in streams[u] if n not in order), None) for u in UNITS]
        ready = [
            n for n in heads if n is not None and all(left[u, lines[n].unit] for u in lines[n].pops)
        ]
        waiting += [(*order, n) for n in ready]
        if not ready:
            most -= 1
            yield order


def conflict(a: Line, b: Line) -> bool:
    return bool(a.writes & (b.reads | b.writes) or a.reads & b.writes)
