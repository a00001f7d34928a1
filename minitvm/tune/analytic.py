"""An analytic model of run time, without training: it finds the part of the machine that limits.

seconds(sketch, rows, target)    estimated seconds of one call, float64[candidates]
NAMES                            columns for a cost model: what the estimate is made of, and itself
explain(sketch, row, target)     the limit for one candidate, as text and as numbers

For each statement the model adds up cycles of the core and cycles of transfers. The core needs, for
one iteration of the innermost reduce loop, a little more than the longest of

    arithmetic   vector instructions, two in a cycle
    loads        vectors and broadcast scalars, two in a cycle
    issue        all instructions, six in a cycle
    latency      of a multiply-add, because an accumulator depends on the iteration before; if the
                 sum is short, the core overlaps it with that of the next tile
    spills       accumulators that registers cannot hold: all of them unless the tile is unrolled
    l1           cache lines from the second-level cache, which arrive while the core computes

They overlap, but not perfectly: two parts that are equally long take a fifth more than one. The
model adds `tile`: the loads and stores of the tile around that loop. Transfers `l1`, `l2` and `l3`
are cache lines from the next level: the outermost loop whose single iterations fit in the cache
fetches each line that it touches once per run. The core waits for `l2` and `l3`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from minitvm import cachesim
from minitvm.base import Target

from .affine import Num
from .kernel import LINE, Floats, Ints, Packed, transfers
from .legal import registers_per_store, tile, unrolled
from .operations import OPERATIONS
from .packed import all_packed, footprint_chunks
from .sketch import Sketch
from .space import Mask, Rows
from .statements import Batch, Statement, statements

CLOCK = 2.5e9  # cycles a second; the ranking of candidates does not depend on it
LATENCY = 4.0  # cycles of a multiply-add
WINDOW = 384.0  # instructions that the core can execute out of order
ISSUE = 6.0  # instructions a cycle
SPILLED = 9.0  # cycles of a multiply-add through memory: store, load, add
THROUGH_MEMORY = 2.0  # cycles of each multiply-add of a loop that is not unrolled
LLVM_UNROLLS = 32  # LLVM, if it may, unrolls loops of at most this many iterations by itself
OVERLAP = 4.0  # parts of the core take (a**4 + b**4 + ...)**(1/4) cycles; infinity is their maximum
MATH = 20.0  # instructions of an intrinsic such as exp
USABLE = 0.8  # the part of a cache that one tile can fill
WAYS = {"l1": 8, "l2": 16, "l3": 16}  # lines in a set: rows a power of two apart share few sets
BANDWIDTH = {"l1": 64.0, "l2": 16.0, "l3": 5.0}  # bytes a cycle from the next level

PARTS = ("arithmetic", "loads", "issue", "latency", "spills", "l1", "tile", "l2", "l3")
TILE = ("heaviest", "rows", "columns", "registers", "strip", "loads_each")
ANALYTIC = "analytic"  # the column with the estimate: -log2 of its seconds
NAMES = (*(f"analytic.{name}" for name in (*PARTS, *TILE)), ANALYTIC)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The run time that the analytic model expects of a candidate, and the reason.

    seconds   the expected seconds of one call
    limit     the largest part of the heaviest statement: "loads", "latency", "l2", ...
    text      the reason in one sentence, with the numbers
    parts     the cycles of each part of the heaviest statement
    """

    seconds: float
    limit: str
    text: str
    parts: dict[str, float]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Core:
    """The work of one iteration of a statement's innermost reduce loop, and its register tile.

    rows, columns   the size of the register tile; vectors: registers that hold one of its rows
    registers       registers that the tile needs; in_registers: whether unrolling keeps it there
    loads           vector loads; operations: vector instructions; strip: iterations until the tile
                    is stored; times: how many iterations a call has
    """

    rows: Num | Floats
    columns: Num | Floats
    vectors: Num | Floats
    registers: Num | Floats
    in_registers: Mask
    loads: Floats
    operations: Floats
    strip: Floats
    times: Floats


def seconds(sketch: Sketch, rows: Rows, target: Target) -> Floats:
    """Return the estimated seconds of one call of each candidate."""
    columns = statements(sketch).table(rows, lambda b: columns_of(b, all_packed(b), target))
    return np.exp2(-columns[:, -1])


def columns_of(batch: Batch, packed: Sequence[Packed], target: Target) -> Floats:
    """Return the columns NAMES of candidates, float64[candidates, columns].

    Each part is divided by all cycles; parts overlap, so the sum may be more than 1. Then come
    numbers of the statement with the most cycles: its share, the rows and columns of its register
    tile (log2), the share of the registers that the tile needs, how many iterations apart the tile
    is stored (log2), and loads per operation. The last is -log2(seconds). `packed` has the
    statements of `batch` as arrays. To change NAMES, raise VERSION in features.py.
    """
    columns = np.zeros((batch.count, len(NAMES)))
    cycles, most = np.zeros(batch.count), np.zeros(batch.count)
    for s, arrays in zip(batch.statements, packed, strict=True):
        parts, core = _parts(s, arrays, target)
        total = _total(parts)
        for n, name in enumerate(PARTS):
            columns[:, n] += parts[name]
        tile = (
            *(total, np.log2(core.rows), np.log2(core.columns)),
            *(core.registers / target.vector_registers, np.log2(core.strip)),
            core.loads / core.operations,
        )
        for n, values in enumerate(tile, len(PARTS)):
            columns[:, n] = np.where(total > most, values, columns[:, n])
        cycles, most = cycles + total, np.maximum(most, total)
    columns[:, : len(PARTS) + 1] /= cycles[:, None]
    columns[:, -1] = -np.log2(cycles / CLOCK)
    return columns


def explain(sketch: Sketch, row: Sequence[int], target: Target) -> Explanation:
    """Return which part of the model takes the most cycles for one candidate, and the numbers."""
    batch = statements(sketch).at(np.array([row], np.int32))
    pairs = zip(batch.statements, all_packed(batch), strict=True)
    parts_of_all = [(s, *_parts(s, arrays, target)) for s, arrays in pairs]
    s, parts, core = max(parts_of_all, key=lambda e: float(_total(e[1])[0]))
    cycles = {name: float(np.broadcast_to(c, 1)[0]) for name, c in parts.items()}
    total = sum(float(_total(p)[0]) for _, p, _ in parts_of_all) / CLOCK
    limit = max(cycles, key=lambda name: cycles[name])
    share = cycles[limit] / float(_total(parts)[0])
    return Explanation(total, limit, _text(s, limit, share, core, target), cycles)


def _text(s: Statement, limit: str, share: float, core: Core, target: Target) -> str:
    """Describe a statement's largest part and its register tile."""

    def one(x: Num | Floats) -> float:
        return float(np.broadcast_to(x, 1)[0])

    fits = one(core.registers) <= target.vector_registers
    in_registers = bool(np.broadcast_to(core.in_registers, 1)[0]) and fits
    loads = one(core.loads) / max(1.0, one(core.operations))
    return (
        f"{s.stage} is limited by {limit} ({share:.0%} of its time): "
        f"{loads:.2f} loads per instruction; "
        f"tile {one(core.rows):.0f}x{one(core.columns):.0f} needs {one(core.registers):.0f} of "
        f"{target.vector_registers} registers{'' if in_registers else ' and stays in memory'}; "
        f"it is stored every {one(core.strip):.0f} iterations"
    )


def _total(parts: Mapping[str, Floats]) -> Floats:
    """Return the cycles of a statement: the core's parts, which overlap, plus all other parts."""
    inner = ("arithmetic", "loads", "issue", "latency", "spills", "l1")
    longest = np.maximum.reduce([parts[name] for name in inner])
    share = sum((parts[name] / np.maximum(longest, 1e-9)) ** OVERLAP for name in inner)
    return longest * share ** (1 / OVERLAP) + sum(
        c for name, c in parts.items() if name not in inner
    )


def _parts(s: Statement, arrays: Packed, target: Target) -> tuple[dict[str, Floats], Core]:
    """Return the cycles of each part of a statement on its busiest core."""
    moves, traffic = _transfers(arrays, s, target)
    core = _core(s, arrays.extent, moves, target)
    fma = core.operations
    sums = any(x.reduce for x in s.loops)
    instructions = core.strip * (fma + core.loads + 2) + 2 * core.rows * core.vectors
    waits = LATENCY * np.minimum(1.0, instructions / WINDOW)
    latency = np.where(core.in_registers, waits, SPILLED) if sums else 0.0
    excess = np.maximum(0.0, core.registers - target.vector_registers)
    cycles: dict[str, Floats] = {
        "arithmetic": fma / 2,
        "loads": core.loads / 2,
        "issue": (fma + core.loads + 2) / ISSUE,
        "latency": np.broadcast_to(latency, arrays.extent.shape[1]),
        "spills": np.where(
            core.in_registers, np.where(excess > 0, fma / 2 + excess, 0.0), THROUGH_MEMORY * fma
        ),
        "tile": (core.rows * core.vectors / 2 + 1) / core.strip,
    }
    share = _share(s, target)
    return {n: c * core.times * share for n, c in cycles.items()} | {
        n: c * share for n, c in traffic.items()
    }, core


def _core(s: Statement, extent: Floats, moves: Floats, target: Target) -> Core:
    """Describe the register tile of a statement; `moves` is the first result of _transfers."""
    count = extent.shape[1]
    vector = np.array([x.kind == "vectorize" for x in s.loops])
    tile_loops, copies = {n: m for n, m in tile(s).items() if not vector[n]}, unrolled(s)
    wide = registers_per_store(s, target) * np.ones(count)
    rows, in_registers = np.ones(count), np.ones(count, np.bool_)
    for n, is_inside in tile_loops.items():
        rows *= np.where(is_inside, extent[n], 1.0)
        in_registers &= ~is_inside | (copies[n] == s.loops[n].extent)
    in_registers |= target.unroll & (rows <= LLVM_UNROLLS)
    registers = rows * wide + wide + 1
    loads = np.zeros(count)
    for b, a in enumerate(s.accesses):
        if a.read and not a.write:
            per_copy = np.ones(count)
            for n, is_inside in tile_loops.items():
                per_copy *= np.where(is_inside & (moves[n, b] >= 0), extent[n], 1.0)
            loads += per_copy * _per_vector(moves[:, b], extent, vector, wide, target, a.bytes)
    kinds = dict(zip(OPERATIONS, s.operations, strict=True))
    operations = sum(s.operations) + (MATH - 1) * (kinds["math"] + kinds["div"])
    fma = np.maximum(operations, 0.5) * rows * wide
    loads = np.where(in_registers, loads, np.maximum(loads, 2 * rows * wide))
    strip, open_ = np.ones(count), np.ones(count, np.bool_)
    for n, x in reversed(list(enumerate(s.loops))):
        if x.reduce:
            strip *= np.where(open_, extent[n], 1.0)
        elif not vector[n]:
            open_ = open_ & (tile_loops.get(n, False) | (extent[n] == 1))
    lanes = np.where(vector[:, None], extent, 1.0).prod(axis=0)
    times = extent.prod(axis=0) / (rows * lanes)
    return Core(rows, lanes, wide, registers, in_registers, loads, fma, strip, times)


def _per_vector(
    step: Floats, extent: Floats, vector: Mask, wide: Floats, target: Target, size: int
) -> Floats:
    """Return how many loads one row of the tile takes: of vectors, of one scalar, or per lane."""
    loads = np.ones_like(wide)
    for n in np.flatnonzero(vector):
        long = extent[n] > 1
        loads_across = np.where(step[n] * size > size, extent[n], wide)
        loads = np.where(long & (step[n] >= 0), loads_across, loads)
    return loads


def _transfers(arrays: Packed, s: Statement, target: Target) -> tuple[Floats, dict[str, Floats]]:
    """Return how far each loop moves each access, [L, B, N], and the transfer cycles per cache."""
    loops, count = arrays.extent.shape
    sizes = np.repeat([a.bytes for a in s.accesses], np.diff(arrays.dim_of))[:, None]
    strides = [n for a in s.accesses for n in a.strides]
    is_contiguous = np.array([isinstance(n, int) and n == 1 for n in strides])
    unit = np.where(is_contiguous, LINE / sizes[:, 0], 1.0)
    moves, lines = np.empty((loops, len(s.accesses), count)), np.empty((len(BANDWIDTH), count))
    capacity = np.array([getattr(target, name) for name in BANDWIDTH])
    sets = capacity // LINE // np.array([*WAYS.values()])
    sets = 1 << np.log2(np.maximum(1, sets)).astype(np.int64)  # as a power of two
    period = np.concatenate([arrays.stride[None], _periods(arrays.stride, sizes, sets)])
    units = np.tile(unit, (len(period), 1))  # row 0 counts lines; row 1 + c, lines in cache c
    for f in footprint_chunks(arrays, units, period, np.array([0.0, *sets])):
        moves[:, :, f.begin : f.begin + f.run.shape[1]] = f.step
        most = capacity * USABLE / LINE
        cachesim.compiled(transfers)(arrays.extent, f.begin, f.touched, most, lines)
    lines_per_cache = zip(BANDWIDTH.items(), lines, strict=True)
    return moves, {
        name: lines_fetched * LINE / rate for (name, rate), lines_fetched in lines_per_cache
    }


def _periods(stride: Floats, sizes: Floats, sets: Ints) -> Floats:
    """Return after how many steps along a dimension the sets of a cache repeat, [C, D, N]."""
    step, whole = (stride * sizes).astype(np.int64), (sets * LINE)[:, None, None]
    common = np.minimum(step & -step, whole)  # the greatest common divisor with a power of two
    return np.where(stride == 1, sets[:, None, None], whole / common)


def _share(s: Statement, target: Target) -> float | Floats:
    """Return the share of the iterations that the busiest core runs."""
    threads: Num = 1
    for x in s.loops:
        if x.kind == "parallel":
            threads = threads * x.extent
    return -(-threads // target.num_cores) / threads
