"""RooflineDot: show whether programs are compute-bound or memory-bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, cast

import numpy as np

from minitvm import accesses, cachesim, driver, te, testing, tir
from minitvm.base import ArgumentError, Target, check_kind

from .blocks import arguments
from .boxes import Box
from .cache_lens import recorded
from .cache_run import check_cache, size_text
from .chart import short
from .controls import Button, CodeLine, Frame, Layout, Panel, both_ways, index_in, numbered
from .figure import Figure
from .roofline_scene import Point, roofline_box

COPIED = 1 << 26  # bytes of the copied array: more than the caches hold
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def positive(what: str, x: object) -> None:
    """Raise ArgumentError unless `x` is a finite number above 0."""
    if isinstance(x, bool) or not isinstance(x, Real) or not 0 < float(x) < math.inf:
        raise ArgumentError(f"{what}: {x!r}", "not a number above 0", "100.0")


@dataclass(frozen=True, slots=True)
class Machine:
    """The peak rates of a machine, in 10**9 operations and 10**9 bytes per second.

    name   the name shown in the title
    """

    gflops: float
    gbytes: float
    name: str = "given"

    def __post_init__(self) -> None:
        for what in ("gflops", "gbytes"):
            positive(f"Machine({what}=...)", getattr(self, what))

    @property
    def ridge(self) -> float:
        """The ridge point, in operations per byte; above it a kernel is compute-bound."""
        return self.gflops / self.gbytes

    def attainable(self, intensity: float) -> float:
        """Return the highest possible GFLOP/s at an intensity in operations per byte.

        Source: Williams, Waterman, Patterson 2009, "Roofline".
        """
        return min(self.gflops, self.gbytes * intensity)

    @classmethod
    def measured(cls, threads: int = 1, repeat: int = 7) -> Machine:
        """Measure this machine: its rate of multiply-adds, and the bandwidth of a large copy."""
        a, b = np.ones(COPIED // 4, np.float32), np.zeros(COPIED // 4, np.float32)
        seconds = testing.interleaved({"copy": lambda: np.copyto(b, a)}, repeat)["copy"]
        return cls(testing.fma_peak(threads, repeat), 2 * COPIED / seconds / 1e9, "this machine")


NOMINAL = Machine(100.0, 20.0, "a nominal machine")


@dataclass(frozen=True, slots=True)
class Dot:
    """A program under the roof; `gflops` is its speed, None if neither measured nor given."""

    name: str
    intensity: accesses.Intensity
    gflops: float | None = None

    def roof(self, machine: Machine) -> float:
        """Return the highest possible GFLOP/s of the program."""
        return machine.attainable(self.intensity.actual)

    def limit(self, machine: Machine) -> str:
        """Return what limits the program's speed: "memory" or "arithmetic"."""
        return "memory" if self.intensity.actual < machine.ridge else "arithmetic"


class RooflineDot(Figure):
    """Show schedules as dots under a roofline: how fast they are, how fast they could be.

    The x axis shows operations per byte moved between a simulated cache and memory, the y axis
    GFLOP/s. A filled dot is a measured or given speed; a hollow dot on the roof is the best
    possible speed. A thin line leads to the intensity of a schedule that moves each byte once.

    s          a schedule, a list of them, or {"name": schedule}; also programs and recorded runs
    args       the arguments of every schedule, as for tvm.build; by default inputs and outputs
    machine    Machine(gflops, gbytes), or Machine.measured(); by default a nominal one
    gflops     the known GFLOP/s, by name or in the order of the schedules
    cache      the cache that is simulated; by default Cache.l1()
    """

    def __init__(
        self,
        s: Any,
        args: Sequence[Any] | None = None,
        machine: Machine | None = None,
        *,
        gflops: Mapping[str, float] | Sequence[float] | None = None,
        cache: cachesim.Cache | None = None,
    ) -> None:
        self._programs, self._args = named(s), args
        self.machine = check_kind(
            "machine", NOMINAL if machine is None else machine, Machine, fix="viz.Machine(100, 20)"
        )
        self.cache = check_cache(cachesim.Cache.l1() if cache is None else cache)
        traces = {n: recorded("RooflineDot", p, args) for n, p in self._programs.items()}
        self.dots = dots(traces, speeds(list(traces), gflops), self.cache)
        super().__init__()

    def measure(self, threads: int = 1, repeat: int = 7) -> None:
        """Measure this machine and every schedule on random arrays, and draw again."""
        best = [seconds(p, self._args, threads, repeat) for p in self._programs.values()]
        self.dots = tuple(
            replace(d, gflops=d.intensity.flops / t / 1e9)
            for d, t in zip(self.dots, best, strict=True)
        )
        self.machine = Machine.measured(threads, repeat)
        self.refresh()

    def title(self) -> str:
        return f"roofline of {self._rates()}"

    def body(self) -> Box:
        m = self.machine
        points = [
            Point(
                d.name,
                d.intensity.actual,
                d.intensity.ideal,
                d.gflops or d.roof(m),
                d.gflops is not None,
            )
            for d in self.dots
        ]
        return roofline_box(points, m.gflops, m.gbytes, self._rates())

    def _rates(self) -> str:
        m = self.machine
        return f"{m.name}: {m.gflops:.3g} GFLOP/s, {m.gbytes:.3g} GB/s"

    def ascii(self) -> str:
        """Return a line of text per schedule: operations per byte, speed, roof, and limit."""
        head = f"{'':14}{'flop/byte':>10}{'at best':>9}{'GFLOP/s':>9}{'roof':>8}  limit"
        cache = f"bytes moved by a cache of {size_text(self.cache.bytes)}"
        return "\n".join(
            [self._rates(), cache, "", head, *(_row(d, self.machine) for d in self.dots)]
        )

    def layout(self) -> Layout:
        _, _, _, head, *rows = self.ascii().split("\n")
        return Layout(
            controls=(Button("measure", "measure here", tip="this machine and all schedules"),),
            frames=tuple(
                Frame(
                    {f"dot:{n}": "now", f"row:{n}": "now"},
                    f"{d.intensity.flops} operations, {d.intensity.bytes_moved} bytes moved, "
                    f"{d.intensity.bytes_touched} touched\n{_verdict(d, self.machine)}",
                )
                for n, d in enumerate(self.dots)
            ),
            links=both_ways((f"dot:{n}", f"row:{n}") for n in range(len(self.dots))),
            panels=(Panel("schedules", (CodeLine(head), *numbered(rows, "row"))),),
            selectable="dot:",
        )

    def on(self, name: str, value: Any) -> str | None:
        if name == "measure":
            self.measure()
            return f"measured: {self._rates()}"
        n = index_in(value, "dot", len(self.dots))
        return None if n is None else _verdict(self.dots[n], self.machine)


def _row(d: Dot, m: Machine) -> str:
    speed = "" if d.gflops is None else f"{d.gflops:.3g}"
    numbers = f"{d.intensity.actual:>10.3g}{d.intensity.ideal:>9.3g}{speed:>9}{d.roof(m):>8.3g}"
    return f"{short(d.name, 13):14}{numbers}  {d.limit(m)}"


def _verdict(d: Dot, m: Machine) -> str:
    """Describe a dot: "naive: bound by memory, at most 2.5 GFLOP/s; it reaches 40% of that"."""
    words = f"{d.name}: bound by {d.limit(m)}, at most {d.roof(m):.3g} GFLOP/s"
    if d.gflops is None:
        return words
    words += f"; it reaches {d.gflops / d.roof(m):.0%} of that"
    above_text = "\nabove the roof: the real cache keeps more than the simulated one"
    return words + above_text if d.gflops > d.roof(m) else words


# --- what is given -------------------------------------------------------------------------------


def named(s: Any) -> dict[str, Any]:
    """Map names to programs; unnamed programs are called a, b, c, ... Schedules are copied."""
    if isinstance(s, Mapping):
        programs = [*cast("Mapping[Any, Any]", s).values()]
    elif isinstance(s, te.Schedule | tir.PrimFunc | accesses.AccessTrace):
        programs = [s]
    elif isinstance(s, Iterable) and not isinstance(s, str):
        programs = [*cast("Iterable[Any]", s)]
    else:
        why = "neither a schedule nor a list or mapping of schedules"
        raise ArgumentError(f"RooflineDot({type(s).__name__})", why, '{"naive": s1, "tiled": s2}')
    if not 1 <= len(programs) <= len(LETTERS):
        why = "there is nothing to draw" if not programs else f"more than {len(LETTERS)} dots"
        raise ArgumentError(f"RooflineDot of {len(programs)} schedules", why)
    names = map(str, cast("Mapping[Any, Any]", s)) if isinstance(s, Mapping) else LETTERS
    copies = (p.copy() if isinstance(p, te.Schedule) else p for p in programs)
    return dict(zip(names, copies, strict=False))


def speeds(
    names: Sequence[str], gflops: Mapping[str, float] | Sequence[float] | None
) -> dict[str, float]:
    """Map names to known GFLOP/s; raise ArgumentError if `gflops` does not match the names."""
    if gflops is None:
        return {}
    if isinstance(gflops, Mapping):
        known = dict(gflops)
    elif isinstance(gflops, Sequence) and len(gflops) == len(names):  # pyright: ignore[reportUnnecessaryIsInstance]
        known = dict(zip(names, gflops, strict=True))
    else:
        why = f"one number for each of {', '.join(names)} is needed"
        raise ArgumentError(f"gflops={gflops!r}", why)
    for name, speed in known.items():
        if name not in names:
            raise ArgumentError(f"gflops: {name!r}", "no such schedule", ", ".join(names))
        positive(f"gflops: {name}", speed)
    return known


def dots(
    traces: Mapping[str, accesses.AccessTrace], known: Mapping[str, float], cache: cachesim.Cache
) -> tuple[Dot, ...]:
    """Return the dot of each recorded run; raise ArgumentError for a run without operations."""
    dot_list: list[Dot] = []
    for name, trace in traces.items():
        intensity = accesses.arithmetic_intensity(trace, cache)
        if not intensity.flops or not intensity.bytes_moved:
            why = "the program has no arithmetic on tensors, or moves no data"
            raise ArgumentError(f"RooflineDot: {name}", why)
        dot_list.append(Dot(name, intensity, known.get(name)))
    return tuple(dot_list)


def seconds(program: Any, args: Sequence[Any] | None, threads: int, repeat: int) -> float:
    """Build a program and return the shortest time of a call on random arrays."""
    if isinstance(program, accesses.AccessTrace):
        raise ArgumentError("measure", "a recorded run cannot be built", "give the schedule")
    if isinstance(program, te.Schedule):
        args = arguments(program.state) if args is None else args
    f = driver.build(program, args or (), target=Target(f"llvm -num-cores={threads}"))
    rng = np.random.default_rng(0)
    arrays: list[Any] = []
    for p in f.func.params:
        shape = [n for n in p.shape if isinstance(n, int)] if isinstance(p, tir.Buffer) else []
        if not isinstance(p, tir.Buffer) or len(shape) < len(p.shape):
            why = "not an array of constant size"
            raise ArgumentError(f"measure: {p.name}", why, "constant sizes")
        arrays.append(rng.integers(1, 5, shape).astype(p.dtype.numpy))
    return f.time_evaluator(repeat=repeat, min_repeat_ms=20)(*arrays).min
