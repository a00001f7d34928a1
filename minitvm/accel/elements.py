"""Compute the exact elements that an instruction accesses, and check that they exist."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import ArgumentError, check_kind

from .config import Config, Memory, check_config
from .isa import Alu, Gemm, Instruction, Load, Store, UopLoops
from .program import Area, Program, check_program, label

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.integer[Any]]]


@dataclass(frozen=True, slots=True)
class Capacities:
    """The sizes of memories and areas against which every transfer is checked."""

    size: dict[Memory, int]  # bytes of an element
    depth: dict[Memory, int]  # elements of a buffer
    areas: tuple[tuple[int, int], ...]  # bytes of DRAM


MAX_DRAM_BYTES = 1 << 28  # enough for the weights of VGG-16
MAX_INDICES = 1 << 24  # limit of micro-operations whose indices are stored: 200 MB


@dataclass(frozen=True, slots=True)
class Indices:
    """The elements that each micro-operation of an instruction uses, in the order of issue."""

    dst: Ints
    src: Ints
    wgt: Ints


def indices(loops: UopLoops, uops: Ints) -> Indices:
    """Return the indices of the micro-operations uops[n, 3] in all iterations of the loops."""
    outer = np.arange(loops.outer, dtype=np.int32)[:, None, None]
    inner = np.arange(loops.inner, dtype=np.int32)[None, :, None]

    def affine(column: int, factors: tuple[int, int]) -> Ints:
        return (outer * factors[0] + inner * factors[1] + uops[None, None, :, column]).reshape(-1)

    return Indices(
        affine(0, loops.dst_factors), affine(1, loops.src_factors), affine(2, loops.wgt_factors)
    )


def resolve(program: Program, config: Config) -> tuple[Indices | None, ...]:
    """Return the indices of each GEMM and ALU instruction, None for other instructions.

    Only the compute unit loads and uses micro-operations, in its own order, so they are known
    before anything runs. Raises ArgumentError for addresses outside buffers or DRAM areas, and for
    programs whose distinct instructions have more than MAX_INDICES micro-operations.
    """
    check_program(program)
    check_config(config)
    _check_layout(program.areas, config)
    limits = Capacities(
        {memory: config.element_bytes(memory) for memory in Memory},
        {memory: config.depth(memory) for memory in Memory},
        tuple(area.byte_range(config) for area in program.areas),
    )
    table = np.full((config.depth(Memory.UOP), 3), -1, np.int32)  # -1: not loaded yet
    uops = np.array([(u.dst, u.src, u.wgt) for u in program.uops], np.int32).reshape(-1, 3)
    known: dict[tuple[UopLoops, bytes], Indices] = {}  # equal instructions share their indices
    resolved: list[Indices | None] = []
    stored = 0
    for n, instruction in enumerate(program.instructions):
        used = None
        match instruction:
            case Load(memory=Memory.UOP):
                _load_uops(program, n, instruction, uops, table)
            case Load() | Store():
                _check_transfer(program, config, n, instruction, limits)
            case Gemm(loops=loops) | Alu(loops=loops):
                key = loops, table[loops.begin : loops.end].tobytes()
                used = known.get(key)
                if used is None:
                    stored += loops.count
                    if stored > MAX_INDICES:
                        why = f"{stored} distinct micro-operations up to here; the limit is"
                        fix = "smaller loops, or several programs"
                        raise ArgumentError(label(program, n), f"{why} {MAX_INDICES}", fix)
                    used = indices(loops, _fetch_uops(program, n, loops, table))
                    known[key] = used
                _check_indices(program, n, used, limits)
            case _:
                pass
        resolved.append(used)
    return tuple(resolved)


def _check_layout(areas: tuple[Area, ...], config: Config) -> None:
    """Raise ArgumentError for areas that overlap or are too large to simulate."""
    end, last = 0, ""
    for area in sorted(areas, key=lambda area: area.byte_range(config)):
        begin, after = area.byte_range(config)
        if begin < end:
            what = f"areas {last!r} and {area.name!r}"
            why = f"they overlap in bytes {begin} to {min(end, after) - 1} of DRAM"
            raise ArgumentError(what, why, "place(config, ...)")
        end, last = max(end, after), area.name
    if end > MAX_DRAM_BYTES:
        why = f"it ends at byte {end} of DRAM; the simulator has {MAX_DRAM_BYTES} bytes"
        raise ArgumentError(f"area {last!r}", why, "smaller areas")


def sources(instruction: Instruction) -> tuple[Memory, ...]:
    """Return the memories that a GEMM or ALU reads besides the accumulators that it writes."""
    match instruction:
        case Gemm(reset=False):
            return Memory.INP, Memory.WGT
        case Alu(imm=None):
            return (Memory.ACC,)
        case _:
            return ()


def rows(move: Load | Store) -> tuple[Ints, Ints]:
    """Return the position in DRAM of each row's first element, and the offsets inside a row.

    The elements of a transfer are rows[:, None] + columns.
    """
    check_kind("move", move, Load, Store, fix="one of program.instructions")
    first = move.dram + np.arange(move.y, dtype=np.int64) * move.stride
    return first, np.arange(move.x, dtype=np.int64)


def total(move: Load | Store) -> int:
    """Return how many on-chip elements a transfer writes or reads, padding included."""
    check_kind("move", move, Load, Store, fix="one of program.instructions")
    if not move.x:
        return 0
    if isinstance(move, Store):
        return move.y * move.x
    return (sum(move.y_pad) + move.y) * (sum(move.x_pad) + move.x)


def _load_uops(program: Program, n: int, load: Load, uops: Ints, table: Ints) -> None:
    """Copy the micro-operations that `load` loads into `table`, the on-chip memory."""
    if load.dram + load.x > len(uops):
        why = f"it loads uops up to {load.dram + load.x - 1}, but the program has {len(uops)}"
        raise ArgumentError(label(program, n), why, "more uops in the program, or a smaller load")
    if load.sram + load.x > len(table):
        raise _too_deep(program, n, Memory.UOP, load.sram + load.x, len(table))
    table[load.sram : load.sram + load.x] = uops[load.dram : load.dram + load.x]


def _fetch_uops(program: Program, n: int, loops: UopLoops, table: Ints) -> Ints:
    """Return the micro-operations of an instruction; raise ArgumentError if one is not loaded."""
    if loops.end > len(table):
        raise _too_deep(program, n, Memory.UOP, loops.end, len(table))
    uops = table[loops.begin : loops.end]
    missing = np.flatnonzero(uops[:, 0] < 0)
    if len(missing):
        why = f"it runs UOP[{loops.begin + int(missing[0])}], which no instruction has loaded"
        raise ArgumentError(label(program, n), why, "a load of uops before it")
    return uops


def _check_transfer(
    program: Program, config: Config, n: int, move: Load | Store, limits: Capacities
) -> None:
    """Raise ArgumentError unless a transfer is inside its buffer and each row inside one area."""
    if not move.x:
        return
    if move.sram + total(move) > limits.depth[move.memory]:
        depth = limits.depth[move.memory]
        raise _too_deep(program, n, move.memory, move.sram + total(move), depth)
    size = limits.size[move.memory]

    def inside(at: int, count: int) -> bool:
        begin, end = at * size, (at + count) * size
        return any(first <= begin and end <= after for first, after in limits.areas)

    if inside(move.dram, (move.y - 1) * move.stride + move.x):
        return
    for row in range(move.y):
        at = move.dram + row * move.stride
        if not inside(at, move.x):
            transfer = f"row {row}, {move.memory.name} elements {at} to {at + move.x - 1} of DRAM"
            why = f"{transfer}, is not inside an area"
            raise ArgumentError(label(program, n), why, _areas(program.areas, config))


def _areas(areas: tuple[Area, ...], config: Config) -> str:
    """Describe the areas in an error message, each in elements of its own kind."""
    return "; ".join(
        f"{area.name}: {area.memory.name} {area.base} to {area.base + prod(area.shape) - 1}"
        for area in sorted(areas, key=lambda area: area.byte_range(config))
    )


def _check_indices(program: Program, n: int, used: Indices, limits: Capacities) -> None:
    """Raise ArgumentError unless every index of a GEMM or ALU instruction is in its buffer."""
    reads = zip(sources(program.instructions[n]), (used.src, used.wgt), strict=False)
    for memory, index in ((Memory.ACC, used.dst), *reads):
        most = int(index.max(initial=-1))
        if most >= limits.depth[memory]:
            raise _too_deep(program, n, memory, most + 1, limits.depth[memory])


def _too_deep(program: Program, n: int, memory: Memory, needs: int, depth: int) -> ArgumentError:
    why = f"it accesses {memory.name}[{needs - 1}], but {memory.name} has {depth} elements"
    return ArgumentError(label(program, n), why, "a smaller tile, or a larger buffer in Config")
