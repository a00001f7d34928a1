"""Simulate a server of a language model, with recorded times of our kernels.

Requests run in the slots of a batch. With the level "request", all of a batch enter and leave
together. With "iteration" (ORCA: Yu et al., OSDI 2022, section 3), a request leaves after its last
symbol, and a waiting one takes its slot before the next symbol is written.

    served = serve(requests(rate=0.5, count=100), recorded(), slots=8, level="iteration")
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from minitvm.base import ArgumentError, check_count, check_kind

Level: TypeAlias = Literal["request", "iteration"]
LEVELS: tuple[Level, ...] = ("request", "iteration")
FILE = Path(__file__).with_name("serving.json")  # written by benchmarks/serving.py
LENGTHS = ((16, 128), (1, 128))  # the fewest and the most symbols of a question, of an answer


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds that the kernels of a decoder take.

    read    reading a question and writing the first symbol of its answer, by its symbols
    write   writing one more symbol of each answer in a batch, by the size of the batch
    """

    read: Mapping[int, float]
    write: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Request:
    """A question that arrives after some seconds, and the lengths of both texts in symbols."""

    arrival: float
    question: int
    answer: int


@dataclass(frozen=True, slots=True)
class Served:
    """A request in its slot: the seconds of its start, of its last symbol, and of its return.

    left   the symbols that are still to be written
    """

    request: Request
    slot: int
    start: float
    written: float
    left: int
    returned: float = math.inf

    @property
    def latency(self) -> float:
        """The seconds from the arrival of the request to its return."""
        return self.returned - self.request.arrival


def recorded() -> Times:
    """Return the times of our kernels for 4 layers of TinyLlama's shapes, on one core."""
    stored: dict[str, dict[str, float]] = json.loads(FILE.read_text(encoding="utf-8"))
    return Times(*({int(n): s for n, s in stored[name].items()} for name in ("read", "write")))


def requests(rate: float, count: int, seed: int = 0) -> tuple[Request, ...]:
    """Draw `count` requests, `rate` per second: exponential gaps, uniform lengths."""
    check_kind("rate", rate, Real, fix="rate=0.5")
    if not 0 < rate < math.inf:
        raise ArgumentError(f"rate={rate}", "not a positive number", "rate=0.5")
    rng = np.random.default_rng(check_kind("seed", seed, int, fix="seed=0"))
    arrivals = np.cumsum(rng.exponential(1 / rate, check_count("count", count))).tolist()
    lengths = [rng.integers(low, high + 1, count).tolist() for low, high in LENGTHS]
    return tuple(map(Request, arrivals, *lengths))


def serve(
    requests: Sequence[Request], times: Times, slots: int, level: Level
) -> tuple[Served, ...]:
    """Serve requests in the order of their arrival, at most `slots` at once; return them as served.

    The batch waits while a question is read. With the level "request", a slot whose answer is
    complete computes on until all of its batch are. Raises ArgumentError for sizes not in `times`.
    """
    check_kind("times", times, Times, fix="times=serving.recorded()")
    if level not in LEVELS:
        raise ArgumentError(f"level={level!r}", "no such level", f"one of {', '.join(LEVELS)}")
    check_kind("requests", requests, Sequence, fix="serving.requests(0.5, 100)")
    if {type(each) for each in requests} != {Request}:
        raise ArgumentError("requests", "not a list of requests", "serving.requests(0.5, 100)")
    waiting = deque(sorted(requests, key=lambda request: request.arrival))
    free, running = range(check_count("slots", slots)), dict[int, Served]()
    clock, served = 0.0, list[Served]()
    while waiting or running:
        if not running:
            clock = max(clock, waiting[0].arrival)
        if not running or level == "iteration":
            for slot in [n for n in free if n not in running]:
                if waiting and waiting[0].arrival <= clock:
                    request, start = waiting.popleft(), clock
                    clock += _seconds(times.read, request.question)
                    running[slot] = Served(request, slot, start, clock, request.answer - 1)
        unfinished = {n: each for n, each in running.items() if each.left}
        if unfinished:
            clock += _seconds(times.write, len(running))
            for n, each in unfinished.items():
                running[n] = replace(each, left=each.left - 1, written=clock)
        finished = [n for n, each in running.items() if not each.left]
        if level == "iteration" or len(finished) == len(running):
            served += [replace(running.pop(n), returned=clock) for n in finished]
    return tuple(served)


def _seconds(table: Mapping[int, float], size: int) -> float:
    """Return the seconds of a size, interpolated linearly between the recorded ones."""
    sizes = sorted(table)
    if not sizes[0] <= size <= sizes[-1]:
        why = f"recorded are {sizes[0]} to {sizes[-1]}"
        raise ArgumentError(f"a batch or a question of {size}", why, "a size between them")
    return float(np.interp(size, sizes, [table[n] for n in sizes]))
