"""Simulation of a program: its results, cycles, stalls and counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from minitvm.base import ArgumentError, check_kind

from .config import Config, Memory, check_config, vta_pynq
from .elements import resolve
from .execute import execute
from .isa import Alu, Gemm, Load, Store, Unit
from .memory import Array
from .program import QUEUES, Program, check_index, check_program
from .timing import Blocked, Stall, Trace, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The counts of VTA's profiler, under its names. Padding is not counted.

    gemm_counter and alu_counter count micro-operations, without those of resets.
    """

    inp_load_nbytes: int = 0
    wgt_load_nbytes: int = 0
    acc_load_nbytes: int = 0
    uop_load_nbytes: int = 0
    out_store_nbytes: int = 0
    gemm_counter: int = 0
    alu_counter: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of simulating a program.

    outputs      the areas of OUT by name; empty if no inputs were given
    cycles       until the last unit is done or blocked
    trace        the instructions that ran, in the order of their numbers
    counters     the profiler's counts for those instructions
    busy         cycles in which each unit works
    overlap      cycles by the set of working units, such as (LOAD, COMPUTE)
    stalls       cycles in which each unit waits, by reason
    utilisation  multiply-adds of GEMM, as a fraction of those possible in `cycles`
    blocked      after a deadlock, the blocked units with instruction and queue; else empty
    """

    outputs: dict[str, Array]
    cycles: int
    trace: Trace
    counters: Counters
    busy: dict[Unit, int]
    overlap: dict[tuple[Unit, ...], int]
    stalls: dict[Unit, dict[Stall, int]]
    utilisation: float
    blocked: tuple[Blocked, ...]


def simulate(
    program: Program,
    config: Config = vta_pynq,
    inputs: Mapping[str, Array] | None = None,
    *,
    order: Sequence[int] | np.random.Generator | None = None,
) -> Run:
    """Time a program and, if `inputs` are given, compute its outputs.

    inputs  one array per area of DRAM; its shape is the area's shape, then the shape of an element.
            Areas of OUT may be omitted and then start as zeros
    order   the order in which instructions take effect: see execute(). If the tokens order all
            conflicts, the outputs are the same for every order.

    Raises ArgumentError for addresses outside a buffer or an area. A deadlock is a result, not an
    error.
    """
    if inputs is None:
        resolve(program, config)
    timing = measure(program, config)
    table = timing.trace.table()
    busy_cycles = np.bincount(table["unit"], table["end"] - table["start"], len(Unit))
    counts = counters(program, config, table["index"].tolist())
    return Run(
        outputs={} if inputs is None else execute(program, config, inputs, order),
        cycles=timing.cycles,
        trace=timing.trace,
        counters=counts,
        busy={unit: int(busy_cycles[at]) for at, unit in enumerate(Unit)},
        overlap=overlap(table),
        stalls={unit: _waiting(table, at) for at, unit in enumerate(Unit)},
        utilisation=counts.gemm_counter / timing.cycles if timing.cycles else 0.0,
        blocked=timing.blocked,
    )


LOADS = {
    Memory.INP: "inp_load_nbytes",
    Memory.WGT: "wgt_load_nbytes",
    Memory.ACC: "acc_load_nbytes",
    Memory.ACC_8BIT: "acc_load_nbytes",
    Memory.UOP: "uop_load_nbytes",
}


def counters(program: Program, config: Config, indices: Iterable[int] | None = None) -> Counters:
    """Return the counters of all instructions, or of those with the numbers `indices`."""
    check_program(program)
    check_config(config)
    chosen = range(len(program.instructions)) if indices is None else indices
    check_kind("indices", chosen, Iterable, fix="range(4)")
    sums = dict.fromkeys(Counters.__slots__, 0)
    size = {memory: config.element_bytes(memory) for memory in Memory}
    for n in chosen:
        check_index(program, n)
        match program.instructions[n]:
            case Load(memory=memory, x=x, y=y):
                sums[LOADS[memory]] += x * y * size[memory]
            case Store(x=x, y=y):
                sums["out_store_nbytes"] += x * y * size[Memory.OUT]
            case Gemm(loops=loops, reset=False):
                sums["gemm_counter"] += loops.count
            case Alu(loops=loops):
                sums["alu_counter"] += loops.count
            case _:
                pass
    return Counters(**sums)


def overlap(table: Mapping[str, Array]) -> dict[tuple[Unit, ...], int]:
    """Return, for each of the 8 sets of units, the cycles in which exactly these units work.

    table  unit, start and end of instructions, as returned by Trace.table()
    """
    _check_table(table)
    units = tuple(Unit)
    times = np.unique(np.concatenate([[0], table["start"], table["end"]]))
    busy_bits = np.zeros(len(times), np.int64)  # bits of units, from times[k] to times[k + 1]
    for bit in range(len(units)):
        is_of_unit, change = table["unit"] == bit, np.zeros(len(times), np.int64)
        np.add.at(change, np.searchsorted(times, table["start"][is_of_unit]), 1)
        np.add.at(change, np.searchsorted(times, table["end"][is_of_unit]), -1)
        busy_bits |= np.cumsum(change) << bit
    cycles = np.bincount(busy_bits[:-1], np.diff(times), 1 << len(units))
    return {
        tuple(unit for bit, unit in enumerate(units) if code >> bit & 1): int(cycles[code])
        for code in range(1 << len(units))
    }


def _check_table(table: Mapping[str, Array]) -> None:
    """Raise ArgumentError unless the table has integer columns of equal length."""
    fix = "measure(program, config).trace.table()"
    check_kind("table", table, Mapping, fix=fix)
    columns = [table.get(name) for name in ("unit", "start", "end")]
    for column in columns:
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind != "i":
            why = "its columns unit, start and end must be arrays of integers"
            raise ArgumentError("table", why, fix)
    if len({len(column) for column in columns if column is not None}) > 1:
        raise ArgumentError("table", "its columns have different lengths", fix)


def _waiting(table: Mapping[str, Array], unit: int) -> dict[Stall, int]:
    """Map each reason for which a unit waits to the number of cycles that it waits."""
    columns = {name: column[table["unit"] == unit] for name, column in table.items()}
    sums = {
        Stall(queue.value): int(columns["tokens"][columns["queue"] == at].sum())
        for at, queue in enumerate(QUEUES)
    }
    for stall in (Stall.FETCH, Stall.CHANNEL, Stall.ROOM):
        sums[stall] = int(columns[stall.value].sum())
    return {stall: cycles for stall, cycles in sums.items() if cycles}
