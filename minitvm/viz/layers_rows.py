"""The costs of layers on the accelerator, with and without latency hiding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from minitvm import accel
from minitvm.base import ArgumentError

from .gantt_view import operation
from .roofline import positive

Units = tuple[accel.Unit, ...]
MAX_ROWS = 40  # rows: more would be too small to tell apart
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One layer on the accelerator: the costs of its program, and of a baseline to compare with.

    operations      useful operations, 2 for each multiply-add
    bytes_moved     the larger of the bytes read from DRAM and written to it, since reads and
                    writes have separate channels
    baseline_cycles   the cycles of the baseline
    cycles          the cycles of the program
    roof            the share of the peak, 0 to 1, that is possible if the compute unit never waits;
                    it is below 1 because of resets and ALU operations
    overlap         units that work at the same time -> cycles, like Run.overlap; optional
    against         the name of the baseline
    baseline_bytes    the bytes that the baseline moves; 0 if as many as the program
    """

    name: str
    operations: int
    bytes_moved: int
    baseline_cycles: int
    cycles: int
    roof: float = 1.0
    overlap: Mapping[Units, int] = field(default_factory=dict[Units, int])
    against: str = "one unit at a time"
    baseline_bytes: int = 0

    def __post_init__(self) -> None:
        for what in ("operations", "bytes_moved", "baseline_cycles", "cycles", "roof"):
            positive(f"LayerRow({self.name!r}): {what}", getattr(self, what))
        if self.baseline_bytes:
            positive(f"LayerRow({self.name!r}): baseline_bytes", self.baseline_bytes)
        if self.roof > 1:
            why = "more than the peak"
            raise ArgumentError(f"LayerRow({self.name!r}): roof={self.roof}", why, "0.9 for 90 %")

    @property
    def intensity(self) -> float:
        """Operations per byte that the program moves."""
        return self.operations / self.bytes_moved

    @property
    def baseline_intensity(self) -> float:
        """Operations per byte that the baseline moves."""
        return self.operations / (self.baseline_bytes or self.bytes_moved)

    @property
    def speedup(self) -> float:
        """The ratio of the baseline's cycles to the program's."""
        return self.baseline_cycles / self.cycles

    def utilisation(self, config: accel.Config, hiding: bool = True) -> float:
        """Return useful multiply-adds / multiply-adds possible in the cycles taken, 0 to 1.

        hiding   True for the cycles of the program, False for the baseline's cycles
        """
        cycles = self.cycles if hiding else self.baseline_cycles
        return self.operations / (2 * config.macs_per_cycle * cycles)

    def dram_roof(self, config: accel.Config) -> float:
        """Return the share of the peak that the bandwidth of DRAM allows, 0 to 1."""
        return min(1.0, self.intensity / ridge(config))

    def bound(self, config: accel.Config) -> float:
        """Return the lower of `roof` and `dram_roof(config)`, as a share of the peak, 0 to 1."""
        return min(self.roof, self.dram_roof(config))


def several(who: str, rows: Any, kind: type[T], example: str) -> tuple[T, ...]:
    """Return `rows` as a tuple; raise ArgumentError unless 1 to MAX_ROWS of `kind`."""
    row_list = tuple(cast("Iterable[Any]", rows)) if isinstance(rows, Iterable) else ()
    if not row_list or not all(isinstance(row, kind) for row in row_list):
        raise ArgumentError(f"{who}({rows!r:.60})", f"not a list of {kind.__name__}", example)
    if len(row_list) > MAX_ROWS:
        why = f"at most {MAX_ROWS} can be told apart"
        raise ArgumentError(f"{who} of {len(row_list)} rows", why, "fewer rows")
    return row_list


def ridge(config: accel.Config) -> float:
    """Return the ridge point in operations per byte: 64 for vta_pynq."""
    return 2 * config.macs_per_cycle / config.port_bytes


def layer_row(
    name: str,
    program: accel.Program,
    config: accel.Config = accel.vta_pynq,
    *,
    baseline: accel.Program | None = None,
    against: str = "the baseline program",
) -> LayerRow:
    """Simulate a layer and return its row.

    baseline   the program to compare with; by default the same instructions, one unit at a time
    against    the name of the baseline, such as "one thread"

    Raises ArgumentError for a program that deadlocks, has no GEMM, or moves no data.
    """
    run = finished(name, program, config)
    slow = finished(name, accel.serial(program) if baseline is None else baseline, config)
    counters = run.counters
    pairs = zip(program.instructions, accel.durations(program, config), strict=True)
    compute = sum(cycles for i, cycles in pairs if isinstance(i, accel.Gemm | accel.Alu))
    bytes_moved = _busier_bytes(run)
    if not counters.gemm_counter or not bytes_moved:
        raise ArgumentError(f"layer {name!r}", "the program has no GEMM or moves no data", "a GEMM")
    return LayerRow(
        name=name,
        operations=2 * config.macs_per_cycle * counters.gemm_counter,
        bytes_moved=bytes_moved,
        baseline_cycles=slow.cycles,
        cycles=run.cycles,
        roof=counters.gemm_counter / compute,
        overlap=run.overlap,
        against="one unit at a time" if baseline is None else against,
        baseline_bytes=_busier_bytes(slow),
    )


def _busier_bytes(run: accel.Run) -> int:
    """Return the larger of the bytes read from DRAM and the bytes written to it."""
    c = run.counters
    reads = c.inp_load_nbytes, c.wgt_load_nbytes, c.acc_load_nbytes, c.uop_load_nbytes
    return max(sum(reads), c.out_store_nbytes)


def named_baseline(rows: Sequence[LayerRow]) -> str:
    """Return the name of the baseline if all rows share it, else "the baseline of each"."""
    names = {row.against for row in rows}
    return names.pop() if len(names) == 1 else "the baseline of each"


def finished(name: str, program: accel.Program, config: accel.Config) -> accel.Run:
    """Simulate a program and return its run; raise ArgumentError if it deadlocks."""
    run = accel.simulate(program, config)
    if run.blocked:
        why = f"deadlock: {run.blocked[0]}"
        raise ArgumentError(f"program {name!r}", why, "look at it in viz.TokenGantt")
    return run


def overlapping(run: accel.Run) -> float:
    """Return the share of the cycles in which more than one unit works, 0 to 1."""
    return sum(n for units, n in run.overlap.items() if len(units) > 1) / max(1, run.cycles)


def cycle_parts(run: accel.Run, unit: accel.Unit = accel.Unit.COMPUTE) -> dict[str, int]:
    """Map each activity of a unit to its cycles: work by instruction, waiting by reason, the rest.

    The cycles add up to run.cycles.
    """
    work: Counter[str] = Counter()
    for event in run.trace:
        if event.unit is unit and event.end > event.start:
            work[operation(event.name)] += event.end - event.start
    waits = {f"waits: {stall.value}": cycles for stall, cycles in run.stalls[unit].items()}
    rest = run.cycles - work.total() - sum(waits.values())
    parts = {**work, **waits, "nothing left to do": rest}
    return {name: cycles for name, cycles in parts.items() if cycles}


@dataclass(frozen=True, slots=True)
class Cpu:
    """A processor with its speed on the layers of a network, in 10**9 operations per second."""

    name: str
    gflops: float

    def __post_init__(self) -> None:
        positive(f"Cpu({self.name!r}): gflops", self.gflops)

    def seconds(self, part: NetworkPart) -> float:
        """Return the time of a part of a network on this processor."""
        return part.operations / self.gflops / 1e9


# Two cores at 667 MHz reach at most 5.3 GFLOP/s. A speedup of 40 (OSDI'18 paper on TVM, 6.4)
# over the simulated times of its layers at 200 MHz gives 2.2.
CORTEX_A9 = Cpu("Cortex-A9", 2.2)


@dataclass(frozen=True, slots=True)
class NetworkPart:
    """A part of a network; `seconds` is its time on the accelerator, None if it is on the CPU."""

    name: str
    operations: float
    seconds: float | None = None

    def __post_init__(self) -> None:
        positive(f"NetworkPart({self.name!r}): operations", self.operations)
        if self.seconds is not None:
            positive(f"NetworkPart({self.name!r}): seconds", self.seconds)


@dataclass(frozen=True, slots=True)
class Amdahl:
    """The time that a network takes, in seconds.

    alone      the time on the CPU alone
    together   the time on the CPU and the accelerator
    limit      the time with an infinitely fast accelerator
    """

    alone: float
    together: float
    limit: float

    @property
    def speedup(self) -> float:
        """The ratio of the time on the CPU alone to the time with the accelerator."""
        return self.alone / self.together

    @property
    def most(self) -> float:
        """The speedup with an infinitely fast accelerator; infinite if nothing stays on the CPU."""
        return self.alone / self.limit if self.limit else math.inf


def amdahl(works: tuple[NetworkPart, ...], cpu: Cpu) -> Amdahl:
    """Return the times of a whole network on the CPU and with an accelerator.

    Source: Amdahl 1967.
    """
    rest = sum(cpu.seconds(w) for w in works if w.seconds is None)
    offloaded_seconds = sum(w.seconds for w in works if w.seconds is not None)
    return Amdahl(sum(map(cpu.seconds, works)), rest + offloaded_seconds, rest)
