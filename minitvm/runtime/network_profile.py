"""Measure how long each kernel of a network takes, and how much memory it reads and writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from minitvm.base import MeasureError, is_count

from .arguments import is_among
from .network import Call, Library, NetworkPlan, byte_size

COLUMNS = f"{'call':32} {'us':>9} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7}  kernel"


@dataclass(frozen=True, slots=True)
class CallTime:
    """The measured time of one call of a kernel, and the sizes of its arguments.

    read, written   the bytes that the call reads (inputs, constants) and writes (its output)
    """

    name: str
    kernel: str
    seconds: float
    operations: int
    read: int
    written: int

    @property
    def gflops(self) -> float:
        """Billions of operations per second."""
        return self.operations / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gigabytes_per_second(self) -> float:
        """Bytes read and written per nanosecond, if each is moved once."""
        return (self.read + self.written) / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The measured times of a network: of each call, in the order of execution, and of a run.

    All times are those of the fastest run, so they add up.

    seconds   the time of the run, measured in Python
    """

    calls: tuple[CallTime, ...]
    seconds: float

    @property
    def outside(self) -> float:
        """Return the seconds of the run that are spent outside the kernels."""
        return max(0.0, self.seconds - sum(c.seconds for c in self.calls))

    def __str__(self) -> str:
        total = sum(c.seconds for c in self.calls) or 1.0
        rows = [
            f"{c.name[:32] or '-':32} {c.seconds * 1e6:9.1f} {c.seconds / total:6.1%} "
            f"{c.gflops:8.1f} {c.gigabytes_per_second:7.1f}  {c.kernel}"
            for c in self.calls
        ]
        share = self.outside / self.seconds if self.seconds else 0.0
        last = f"one run: {self.seconds * 1e6:.1f} us, {share:.1%} of it outside the kernels"
        return "\n".join([COLUMNS, *rows, last])


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes that the calls of a network read and write in one run.

    read, written   bytes of all arguments, each counted once per call
    temporaries     bytes of the intermediate tensors, if each had its own memory
    arena           bytes of the arena, in which intermediate tensors share memory
    """

    calls: int
    read: int
    written: int
    temporaries: int
    arena: int


def traffic(plan: NetworkPlan, lib: Library) -> Traffic:
    """Return how many bytes the calls of `plan` read and write, to compare plans of one network."""
    moves = [_moved(call, lib) for call in plan.calls]
    return Traffic(
        calls=len(plan.calls),
        read=sum(bytes_read for bytes_read, _ in moves),
        written=sum(written for _, written in moves),
        temporaries=sum(_temporary(call, lib) for call in plan.calls),
        arena=plan.arena_bytes,
    )


def profile_of(
    plan: NetworkPlan,
    lib: Library,
    stamps: Callable[[], list[float]],
    number: int,
) -> Profile:
    """Run a network `number` times after a warm-up, and return the times of the fastest run.

    stamps   runs the network, and returns when it started and when each call ended
    """
    if not is_count(number):
        raise MeasureError(f"profile(number={number!r})", "not an int of at least 1", "10")
    stamps()
    runs = list[tuple[float, list[float]]]()
    for _ in range(number):
        start = time.perf_counter()
        times = stamps()
        runs.append((time.perf_counter() - start, times))
    seconds, times = min(runs)
    durations = (end - begin for begin, end in pairwise(times))
    return Profile(
        tuple(_measured(c, lib, t) for c, t in zip(plan.calls, durations, strict=True)), seconds
    )


def _measured(call: Call, lib: Library, seconds: float) -> CallTime:
    kernel = lib.kernels[call.kernel].name
    return CallTime(call.name, kernel, seconds, call.operations, *_moved(call, lib))


def _moved(call: Call, lib: Library) -> tuple[int, int]:
    """Return how many bytes a call reads and writes, without its scratch memory.

    If the kernel has packed constants, it reads these in place of the parameters.
    """
    func = lib.kernels[call.kernel].func
    constants = func.packed or func.constants
    outputs = [b for b in func.outputs if not is_among(b, func.scratch)]
    inputs = [
        b for b in func.params if not is_among(b, func.outputs) and not is_among(b, func.constants)
    ]
    return sum(map(byte_size, (*inputs, *constants))), sum(map(byte_size, outputs))


def _temporary(call: Call, lib: Library) -> int:
    """Return the bytes that a call writes to the arena."""
    func = lib.kernels[call.kernel].func
    pairs = zip(func.params, call.args, strict=True)
    return sum(
        byte_size(b) for b, place in pairs if place.space == "arena" and is_among(b, func.outputs)
    )
