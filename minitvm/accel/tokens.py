"""The execution orders that the tokens allow.

Each unit runs its own instructions in order, and a pop waits for its push. Tokens carry no data, so
the i-th pop of a queue always takes the i-th push. Therefore the legal orders of a program are the
linear extensions of one graph, and whether it deadlocks does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from minitvm.base import ArgumentError, check_kind

from .program import QUEUES, UNITS, Program, check_program, label

Pick = Callable[[list[int]], int]


class Walk:
    """A partial execution of a program: its position in each unit, and the tokens in queues."""

    def __init__(self, program: Program) -> None:
        self.wires = program.wires
        self.streams: list[list[int]] = [[] for _ in UNITS]
        for n, wire in enumerate(self.wires):
            self.streams[wire.unit].append(n)
        self.heads = [0] * len(UNITS)
        self.tokens = [0] * len(QUEUES)

    def ready(self) -> list[int]:
        """Return the units' next instructions whose tokens have arrived, by increasing number."""
        heads = [
            stream[head]
            for stream, head in zip(self.streams, self.heads, strict=True)
            if head < len(stream)
        ]
        return sorted(n for n in heads if all(self.tokens[q] for q in self.wires[n].pops))

    def run(self, n: int) -> None:
        """Run instruction n: pop its tokens, then push."""
        wire = self.wires[n]
        self.heads[wire.unit] += 1
        for q in wire.pops:
            self.tokens[q] -= 1
        for q in wire.pushes:
            self.tokens[q] += 1


def in_order(program: Program, rng: np.random.Generator | None = None) -> tuple[int, ...]:
    """Return a legal order: program order as far as tokens allow, or one drawn with `rng`.

    The order is shorter than the program if the program deadlocks.
    """
    check_program(program)
    if rng is not None:
        check_kind("rng", rng, np.random.Generator, fix="numpy.random.default_rng(0)")
    return walk(program, min if rng is None else lambda ready: ready[int(rng.integers(len(ready)))])


def walk(program: Program, pick: Pick) -> tuple[int, ...]:
    """Return the order that results if `pick` chooses among the ready instructions."""
    at, order = Walk(program), list[int]()
    while ready := at.ready():
        order.append(pick(ready))
        at.run(order[-1])
    return tuple(order)


def check_order(program: Program, order: Sequence[Any]) -> tuple[int, ...]:
    """Return `order`; raise ArgumentError unless it is legal and has every runnable instruction."""
    check_kind("order", order, Sequence, np.ndarray, fix="in_order(program)")
    at = Walk(program)
    for position, n in enumerate(order):
        ready = at.ready()
        if not isinstance(n, Integral) or n not in ready:
            able = ", ".join(label(program, n) for n in ready) or "none"
            why = f"it cannot run at this point; ready: {able}"
            raise ArgumentError(f"order[{position}]={n!r:.60}", why, "in_order(program)")
        at.run(int(n))
    if ready := at.ready():
        why = f"{label(program, ready[0])} is missing"
        raise ArgumentError(f"order of {len(order)} instructions", why, "in_order(program)")
    return tuple(int(n) for n in order)


def predecessors(program: Program) -> list[tuple[int, ...]]:
    """Return, for each instruction, the instructions for which it waits.

    These are the previous instruction of its unit, and those that push the tokens it pops. If a
    token is never pushed, the instruction that pops it never runs; that pop adds no predecessor.
    """
    pushed: list[list[int]] = [[] for _ in QUEUES]
    for n, wire in enumerate(program.wires):
        for q in wire.pushes:
            pushed[q].append(n)
    popped, last = [0] * len(QUEUES), [-1] * len(UNITS)
    earlier: list[tuple[int, ...]] = []
    for n, wire in enumerate(program.wires):
        before = [last[wire.unit]] if last[wire.unit] >= 0 else []
        for q in wire.pops:
            before += pushed[q][popped[q] : popped[q] + 1]
            popped[q] += 1
        last[wire.unit] = n
        earlier.append(tuple(before))
    return earlier
