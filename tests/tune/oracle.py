"""Compute the features of one candidate slowly, from the loops that lowering makes.

This defines the columns in `features.NAMES`, one function for each group. `features` computes the
same numbers for thousands of candidates without making their loops, and the tests compare both.

    oracle(sketch, row)["0.access0.lines"]      log2(1 + cache lines of the busiest access)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from minitvm import lowering, schedule, tensor, tir
from minitvm.tune.features import (
    ACCESS,
    ACCESSES,
    CURVE,
    MARKS,
    NAMES,
    OPERATIONS,
    POSITIONS,
    PROGRAM,
    SLOTS,
    THREADS,
)
from minitvm.tune.kernel import LINE
from minitvm.tune.operations import operations_of
from minitvm.tune.sketch import Sketch

Columns = dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A store of the program, with the loops around it (outermost first) and its unroll pragma.

    outside   the loops around the allocation of the buffer; None if the caller allocates it
    """

    store: tir.Store
    loops: tuple[tir.For, ...]
    outside: tuple[tir.For, ...] | None
    auto_unroll: int

    @property
    def times(self) -> int:
        """Return how often the store runs, including iterations that guards skip."""
        return math.prod(map(_extent, self.loops))

    @property
    def operations(self) -> tuple[int, ...]:
        """Return the arithmetic operations of one execution, by kind."""
        return operations_of(self.store.value)

    @property
    def loads(self) -> list[tir.Load]:
        """Return the loads of the stored value."""
        return [n for n in tir.walk(self.store.value) if isinstance(n, tir.Load)]


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """The accesses of a store to one buffer whose indices differ only by constants."""

    buffer: tir.Buffer
    indices: tuple[tuple[tir.Index, ...], ...]
    write: bool
    read: bool

    def touched(self, inner: Iterable[tir.For], around: Iterable[tir.For]) -> list[int]:
        """Return the size of the range that the loops `inner` touch, in each dimension."""
        fixed = [loop.var for loop in around]
        swept = [[lowering.sweep(e, fixed) for e in at] for at in zip(*self.indices, strict=True)]
        return [
            max(_number(tir.sub(hi, ends[0][0])) for _, hi in ends)
            - min(_number(tir.sub(lo, ends[0][0])) for lo, _ in ends)
            + 1
            for ends in swept
        ]

    def step(self, loop: tir.For) -> int | None:
        """Return how many elements an iteration of a loop moves the access; None if it does not."""
        index = self.indices[0]
        if all(tir.free_of(e, [loop.var]) for e in index):
            return None
        begin = {v: 0 for e in index for v in tir.variables(e)}
        strides = tir.row_strides(self.buffer)
        first, second = (
            sum(
                _number(tir.mul(tir.substitute(e, begin | {loop.var: n}), s))
                for e, s in zip(index, strides, strict=True)
            )
            for n in (0, 1)
        )
        return abs(second - first)


def oracle(sketch: Sketch, row: tuple[int, ...]) -> Columns:
    """Return the features of one candidate by name, in log2(1 + x)."""
    state = lowering.normalize(sketch.state(row))
    runs, reduce = _program(state)
    order = {tensor.tensor_of(s.op, i).name: n for n, s in enumerate(state.stages) for i in (0,)}
    ranked = sorted(
        runs,
        key=lambda r: (
            -r.times * (sum(r.operations) + len(accesses_of(r))),
            order.get(r.store.buffer.name, -1),
        ),
    )
    features: Columns = dict.fromkeys(NAMES, 0.0)
    for n, run in enumerate(ranked[:SLOTS]):
        columns = (
            _operations(run),
            _marks(run, reduce),
            _threads(run),
            _accesses(run, runs),
            _curve(run),
            _allocation(run),
            _sizes(run),
        )
        for name, value in ((k, v) for part in columns for k, v in part.items()):
            features[f"{n}.{name}"] = value
    features |= _whole(runs)
    return {name: math.log2(1 + value) for name, value in features.items()}


def _program(state: schedule.State) -> tuple[list[Run], set[tir.Var]]:
    """Return the stores of the program of a state, and the variables of loops that reduce."""
    context = lowering.allocate(state)
    body = lowering.nest(context, lowering.prepack_stages(context)[1])
    domains = context.domains.values()
    reduce = {v for d in domains for a, v in d.loops.items() if a.kind == "reduce"}
    runs = [_placed(store) for store in lowering.runs(body)]
    updated_buffers = {
        r.store.buffer for r in runs if any(n.buffer is r.store.buffer for n in r.loads)
    }
    return [r for r in runs if r.store.buffer not in updated_buffers or _updates(r)], reduce


def _updates(r: Run) -> bool:
    """Return whether a store also reads its own buffer, unlike the init of a reduction."""
    return any(n.buffer is r.store.buffer for n in r.loads)


def _placed(guarded: lowering.GuardedStore) -> Run:
    """Return a store of the program with what the columns need of its surroundings."""
    outer_loops, buffer = guarded.around, guarded.store.buffer
    depths = (
        n for n, s in enumerate(outer_loops) if isinstance(s, tir.Allocate) and s.buffer is buffer
    )
    at = next(depths, None)
    pragmas = (s for s in reversed(outer_loops) if isinstance(s, tir.Pragma))
    unroll = next((int(s.value) for s in pragmas if s.key == "auto_unroll_max_step"), 0)
    outside = None if at is None else tuple(s for s in outer_loops[:at] if isinstance(s, tir.For))
    return Run(guarded.store, guarded.loops, outside, unroll)


def accesses_of(run: Run) -> list[Access]:
    """Return the accesses of a store, the write first, merged if they differ only by constants."""
    store = run.store
    groups: dict[tuple[object, ...], list[tuple[bool, tir.Buffer, tuple[tir.Index, ...]]]] = {}
    loads = [(False, n.buffer, n.indices) for n in run.loads]
    for write, buffer, indices in ((True, store.buffer, store.indices), *loads):
        terms = (frozenset((id(a), c) for a, c in tir.split_terms(e)[0]) for e in indices)
        groups.setdefault((buffer, *terms), []).append((write, buffer, indices))
    merged = list[Access]()
    for group in groups.values():
        writes = [write for write, _, _ in group]
        indices = tuple(at for _, _, at in group)
        merged.append(Access(group[0][1], indices, any(writes), not all(writes)))
    return merged


# --- the groups of columns -----------------------------------------------------------------------


def _operations(run: Run) -> Columns:
    counts = zip(OPERATIONS, run.operations, strict=True)
    return {f"op.{name}": n * run.times for name, n in counts}


def _marks(run: Run, reduce: set[tir.Var]) -> Columns:
    """Describe the loops of each kind: how many, how long, and where among the other loops."""
    columns: Columns = {}
    for kind in MARKS:
        marked_loops = [n for n, loop in enumerate(run.loops) if loop.kind == kind]
        positions = {_place(run, n, reduce) for n in marked_loops}
        position = "none" if not positions else positions.pop() if len(positions) == 1 else "mixed"
        extents = [_extent(run.loops[n]) for n in marked_loops]
        columns[f"{kind}.loops"] = len(marked_loops)
        columns[f"{kind}.product"] = math.prod(extents) if extents else 0
        columns[f"{kind}.extent"] = extents[-1] if extents else 0
        columns |= {f"{kind}.{p}": float(p == position) for p in POSITIONS}
    return columns


def _place(run: Run, n: int, reduce: set[tir.Var]) -> str:
    """Return the position of loop `n` among the loops over the same kind of axes, as a name."""
    is_reduce = run.loops[n].var in reduce
    same_kind = [m for m, loop in enumerate(run.loops) if (loop.var in reduce) == is_reduce]
    position = "inner" if n == same_kind[-1] else "outer" if n == same_kind[0] else "middle"
    return f"{position}_{'reduce' if is_reduce else 'spatial'}"


def _threads(run: Run) -> Columns:
    columns: Columns = {}
    for name, tags in THREADS.items():
        extents = [_extent(loop) for loop in run.loops if loop.thread.startswith(tags)]
        columns |= {name: math.prod(extents), "gpu": 1.0} if extents else {}
    return columns


def _accesses(run: Run, runs: list[Run]) -> Columns:
    """Describe the accesses, sorted by the cache lines and then by the bytes that they fetch."""
    records = [_access(run, access, runs) for access in accesses_of(run)]
    ranked = sorted(records, key=lambda a: (-a["lines"], -a["bytes"]))
    return {f"access{n}.{f}": a[f] for n, a in enumerate(ranked[:ACCESSES]) for f in ACCESS}


def _access(run: Run, access: Access, runs: list[Run]) -> Columns:
    size, steps = access.buffer.dtype.bytes, [access.step(loop) for loop in run.loops]
    fixed_extents = [
        _extent(x) for x, _ in takewhile(lambda p: p[1] is None, _inside_out(run, steps))
    ]
    stride = next((step for step in reversed(steps) if step is not None), 0)
    widths = access.touched(run.loops, ())
    columns: Columns = dict.fromkeys(ACCESS, 0.0)
    columns["update" if access.read and access.write else "read" if access.read else "write"] = 1.0
    columns["bytes"] = run.times * size
    columns["unique_bytes"] = math.prod(widths) * size
    columns["lines"] = max(
        1.0, run.times / math.prod(fixed_extents) * min(1.0, stride * size / LINE)
    )
    columns["unique_lines"] = max(
        1.0, columns["unique_bytes"] / min(_run(access, widths) * size, LINE)
    )
    kind, columns["reuse_iterations"], columns["reuse_bytes"], uses = _reuse(
        run, access, steps, runs
    )
    columns[kind], columns["reuse_count"] = 1.0, uses
    for name in ("bytes", "unique_bytes", "lines", "unique_lines"):
        columns[f"{name}_per_use"] = columns[name] / (uses or 0.5)
    columns["stride"] = (steps[-1] or 0) if steps else 0
    return columns


def _inside_out(run: Run, steps: list[int | None]) -> Iterator[tuple[tir.For, int | None]]:
    return zip(reversed(run.loops), reversed(steps), strict=True)


def _run(access: Access, widths: list[int]) -> int:
    """Return how many contiguous elements an access touches in a row."""
    length = 1
    for width, stride in zip(
        reversed(widths), reversed(tir.row_strides(access.buffer)), strict=True
    ):
        if stride != length:
            break
        length *= width
    return length


def _reuse(
    run: Run, access: Access, steps: list[int | None], runs: list[Run]
) -> tuple[str, float, float, float]:
    """Return how elements are reused: (kind, iterations in between, bytes in between, uses).

    The innermost loop that does not move the access reuses its elements in each iteration. Without
    such a loop, another statement may reuse them, in the innermost loop that contains both.
    """
    for n in reversed(range(len(run.loops))):
        if steps[n] is None:
            between = math.prod(map(_extent, run.loops[n + 1 :]))
            return "loop_reuse", between, _bytes(run, n + 1), _extent(run.loops[n])
    others = [r for r in runs if r is not run and _uses(r, access.buffer)]
    if not others:
        return "no_reuse", 0.0, 0.0, 0.0
    depth = max(_common(run, r) for r in others)
    between = math.prod(map(_extent, run.loops[depth:]))
    return "serial_reuse", between, _bytes(run, depth), len(others)


def _uses(run: Run, buffer: tir.Buffer) -> bool:
    return any(access.buffer is buffer for access in accesses_of(run))


def _common(a: Run, b: Run) -> int:
    """Return the number of loops around both statements."""
    loop_pairs = zip(a.loops, b.loops, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], loop_pairs))


def _bytes(run: Run, depth: int) -> float:
    """Return the bytes that the loops `depth`, `depth` + 1, ... touch."""
    inner, outer_loops = run.loops[depth:], run.loops[:depth]
    return sum(
        s.buffer.dtype.bytes * math.prod(s.touched(inner, outer_loops)) for s in accesses_of(run)
    )


def _curve(run: Run) -> Columns:
    """Sample the operations per byte of the inner loops, evenly spaced in log2(operations)."""
    operations = sum(run.operations)
    if operations == 0:
        return {}
    levels = range(len(run.loops), -1, -1)
    work = [math.log2(operations * math.prod(map(_extent, run.loops[n:]))) for n in levels]
    ratio = [2**w / _bytes(run, n) for n, w in zip(levels, work, strict=True)]
    columns: Columns = {}
    for k in range(CURVE):
        want = work[-1] * (k + 1) / CURVE
        n = next((n for n, w in enumerate(work) if w >= want - 1e-9), len(work) - 1)
        part = (want - work[n - 1]) / (work[n] - work[n - 1]) if n else 1.0
        low = ratio[n - 1] if n else 0.0
        columns[f"intensity{k + 1}"] = low + (ratio[n] - low) * max(0.0, part)
    return columns


def _allocation(run: Run) -> Columns:
    if run.outside is None:
        return {}
    elements = _number(tir.elements(run.store.buffer))
    outer = math.prod(map(_extent, run.outside))
    return {
        "alloc.bytes": elements * run.store.buffer.dtype.bytes,
        "alloc.total": elements * outer,
        "alloc.outer": outer,
        "alloc.inner": run.times / outer,
    }


def _sizes(run: Run) -> Columns:
    return {
        "iterations": run.times,
        "loops": len(run.loops),
        "auto_unroll": run.auto_unroll,
    }


def _whole(runs: list[Run]) -> Columns:
    """Describe the whole program: sums over its statements."""
    sizes = [[s.buffer.dtype.bytes for s in accesses_of(r)] for r in runs]
    values = (
        len(runs),
        sum(sum(r.operations) * r.times for r in runs),
        sum(r.times for r in runs),
        sum(sum(n) * r.times for n, r in zip(sizes, runs, strict=True)),
        sum(_allocation(r).get("alloc.bytes", 0) for r in runs),
    )
    return {f"program.{name}": v for name, v in zip(PROGRAM, values, strict=True)}


def _extent(loop: tir.For) -> int:
    return _number(loop.extent)


def _number(n: tir.Index) -> int:
    """Return a constant index as an int, or the upper bound of an index that depends on loops."""
    return n if isinstance(n, int) else int(tir.upper_bound(n))
