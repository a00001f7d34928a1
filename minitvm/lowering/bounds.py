"""Bound inference: which part of each stage must be computed where it is attached.

Stages are visited consumers first. The loops around a stage's attach point are fixed; all other
loops of its consumers sweep their whole range, and the region of the stage is what they touch:

    for io in range(4):                     for io in range(4):
      <- compute B here                       for x in range(6):       region of B: io*4 .. io*4 + 5
      for ii in range(4):             ->        B[x] = ... io*4 + x
        C[io*4 + ii] = B[io*4 + ii]           for ii in range(4):
                     + B[io*4 + ii + 2]         C[io*4 + ii] = B[ii] + B[ii + 2]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError

from .conditions import required
from .interval import Interval, most, sweep
from .rows import row_axes
from .scopes import around as around_loops
from .scopes import check_scope, shared_loops
from .sliding import Kept, kept, may_fold, slide


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """What a stage computes at its attach point.

    start, extent: of each root axis; starts may mention the variables of the loops around.
    extents: of every axis. values: of every axis, in terms of the loop variables.
    loops: the stage's own loop variables by leaf axis; a loop of one iteration has none.
    around: the loop variables the stage is nested in, outermost first.
    guards: conditions under which a point is to be computed, each needed.
    kept: how each dimension is stored, where that is for an outer loop (store_at).
    """

    start: dict[tensor.Axis, tir.Index]
    extents: dict[tensor.Axis, tir.Index]
    values: dict[tensor.Axis, tir.Index]
    loops: dict[tensor.Axis, tir.Var]
    around: tuple[tir.Var, ...]
    guards: tuple[tir.Expr, ...]
    kept: dict[tensor.Axis, Kept] = field(default_factory=dict[tensor.Axis, Kept])


def infer(state: schedule.State) -> dict[str, Domain]:
    """stage name -> its Domain, for every stage that computes something."""
    found: dict[str, Domain] = {}
    rows = row_axes(state)
    for stage in reversed(state.stages):
        if isinstance(stage.op, tensor.ComputeOp):
            found[stage.name] = _domain(state, stage, stage.op, found, rows.get(stage.name))
        elif isinstance(stage.op, tensor.ExternOp):  # it has no axes, and computes all it has
            found[stage.name] = Domain({}, {}, {}, {}, _around(state, stage, found), ())
        elif isinstance(stage.op, tensor.ScanOp):
            found[stage.name] = _times(state, stage, stage.op.scan_axis, found)
    return found


def _times(
    state: schedule.State, stage: schedule.Stage, time: tensor.Axis, done: dict[str, Domain]
) -> Domain:
    """The loops of a scan: over all times, whatever is read of it."""
    extents: dict[tensor.Axis, tir.Index] = {time: time.extent}
    _extend_extents(stage, extents)
    loops = {a: loop_variable(a.name, extents[a]) for a in stage.leaves if not _is_one(extents[a])}
    values = _values(stage, extents, loops)
    values[time] = tir.add(time.start, values[time])
    around = _around(state, stage, done)
    return Domain({time: time.start}, extents, values, loops, around, ())


def _now(state: schedule.State, scan: str, done: dict[str, Domain]) -> tir.Index:
    """The time in the loop of a scan."""
    op = state.stage(scan).op
    assert isinstance(op, tensor.ScanOp)
    return done[scan].values[op.scan_axis]


def _domain(
    state: schedule.State,
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    done: dict[str, Domain],
    row: tuple[str, tensor.Axis] | None,
) -> Domain:
    """What the stage computes; `row`: the scan it is inside of, and the axis of it that is time."""
    around = _around(state, stage, done)
    fixed = set(around) - set(shared_loops(state, stage, {s: d.loops for s, d in done.items()}))
    start: dict[tensor.Axis, tir.Index] = {a: a.start for a in op.reduce_axis}
    extents: dict[tensor.Axis, tir.Index] = {a: a.extent for a in op.reduce_axis}
    region = _region(state, stage, op, fixed, done)
    for a, (lo, hi) in zip(op.axis, region, strict=True):
        start[a], extents[a] = lo, tir.add(tir.sub(hi, lo), 1)
    if row is not None:
        scan, time = row
        start[time], extents[time] = _now(state, scan, done), 1
    stored, moved = _keep(state, stage, op, start, extents, fixed, done)
    _extend_extents(stage, extents)
    loops = {a: loop_variable(a.name, extents[a]) for a in stage.leaves if not _is_one(extents[a])}
    check_scope(state, stage, loops)
    values = _values(stage, extents, loops)
    if tensor.limits(op):
        _limit(stage, op, start, extents, loops, values)
        values = _values(stage, extents, loops)
    for a in (*op.axis, *op.reduce_axis):
        values[a] = tir.add(start[a], values[a])
    guards = required(stage, op, start, extents, values)
    if moved is not None:  # what is new lies in the window
        guards = tuple(g for g in guards if tir.free_of(g, (loops[moved],)))
    return Domain(start, extents, values, loops, around, guards, stored)


def _limit(
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    start: dict[tensor.Axis, tir.Index],
    extents: dict[tensor.Axis, tir.Index],
    loops: dict[tensor.Axis, tir.Var],
    values: dict[tensor.Axis, tir.Index],
) -> None:
    """Puts the values of data axes into the ranges of reduce axes: 0 .. i  ->  0 .. io*4 + ii."""
    here = {a: tir.add(start[a], values[a]) for a in op.axis}
    for k in op.reduce_axis:
        start[k], extents[k] = (tir.substitute(n, here) for n in (start[k], extents[k]))
    _extend_extents(stage, extents)
    for a in stage.leaves:
        if a.kind == "reduce" and a in loops:  # passes may rename the loops that `top` would name
            loops[a] = tir.Var(a.name, 0, tir.high(tir.sub(extents[a], 1)))


def _keep(
    state: schedule.State,
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    start: dict[tensor.Axis, tir.Index],
    extents: dict[tensor.Axis, tir.Index],
    fixed: set[tir.Var],
    done: dict[str, Domain],
) -> tuple[dict[tensor.Axis, Kept], tensor.Axis | None]:
    """How the region is stored for an outer loop; start and extents shrink to what is new.

    Also the axis of which that is, if the whole window is certain to lie inside the tensor.
    """
    if stage.store is None:
        return {}, None
    if not isinstance(stage.attach, schedule.At):
        raise LoweringError(
            f"store_at of {stage.name}",
            "it is not yet computed inside that loop",
            "compute_at that loop or one inside it; or compute_root, which forgets store_at",
        )
    outer = _around(state, stage, done, stage.store)
    still = fixed & set(outer)
    loose = {v for d in done.values() for v in d.loops.values()} - still
    windows = {a: (start[a], extents[a]) for a in op.axis}
    found: dict[tensor.Axis, Kept] = {}
    for a, n in zip(op.axis, op.shape, strict=True):
        ends = start[a], tir.add(start[a], tir.sub(extents[a], 1))
        swept = sweep(ends[0], still)[0], sweep(ends[1], still)[1]
        lo, hi = _usable(swept, (0, tir.sub(n, 1)), still, loose)
        found[a] = kept(windows[a], (lo, tir.add(tir.sub(hi, lo), 1)), may_fold(state))
    inner = inner_loops(state, stage, done)
    new = slide(stage, windows, inner[-1]) if inner else ""
    if isinstance(new, str):
        return found, None
    a = new[0]
    start[a], extents[a] = new[1:]
    lo, n = windows[a]
    last = tir.add(lo, tir.sub(n, 1))
    safe = tir.compare("<=", 0, lo) is tir.TRUE and tir.compare("<", last, a.extent) is tir.TRUE
    return found, a if safe else None


def inner_loops(
    state: schedule.State, stage: schedule.Stage, done: dict[str, Domain]
) -> list[tir.Var]:
    """The loop variables around the stage inside of the loop for which it is stored."""
    outer = set(_around(state, stage, done, stage.store))
    return [v for v in _around(state, stage, done) if v not in outer]


def _around(
    state: schedule.State,
    stage: schedule.Stage,
    done: dict[str, Domain],
    until: schedule.At | None = None,
) -> tuple[tir.Var, ...]:
    """The loop variables around the stage's attach point, or only those down to `until`."""
    found: list[tir.Var] = []
    for host, a in around_loops(state, stage.name):
        found += [done[host.name].loops[a]] if a in done[host.name].loops else []
        if until is not None and a is until.axis:
            break
    return tuple(found)


def _is_one(extent: tir.Index) -> bool:
    return isinstance(extent, int) and extent == 1


def loop_variable(name: str, extent: tir.Index) -> tir.Var:
    """A variable that runs from 0 to extent - 1."""
    last = tir.sub(extent, 1)
    if tensor.is_from_data(last):  # what is read there has no place in bounds of other things
        return tir.Var(name, 0, tir.high(last))
    return tir.Var(name, 0, tir.high(last), None if isinstance(last, int) else last)


# --- regions -------------------------------------------------------------------------------------


def _region(
    state: schedule.State,
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    fixed: set[tir.Var],
    done: dict[str, Domain],
) -> list[Interval]:
    """The part of the stage's tensor that its readers touch while the `fixed` loops stand still."""
    whole: list[Interval] = [(0, tir.sub(n, 1)) for n in op.shape]
    if stage.is_output or any(reads_all(s, op) for s in state.stages):
        return whole
    touched: list[Interval | None] = [None] * len(whole)
    for _, _, spans in touches(state, op, fixed, done):
        for d, span in enumerate(spans):
            old = touched[d]
            touched[d] = span if old is None else _hull(old, span)
    loose = {v for d in done.values() for v in d.loops.values()} - fixed
    return [_usable(t, w, fixed, loose) for t, w in zip(touched, whole, strict=True)]


def reads_all(reader: schedule.Stage, op: tensor.ComputeOp) -> bool:
    """Does `reader` read all of a result of `op`, as an extern operation or to begin a scan?"""
    match reader.op:
        case tensor.ExternOp(inputs=read) | tensor.ScanOp(inits=read):
            return any(t.op is op for t in read)
        case _:
            return False


def _misses(reader: tensor.ComputeOp, op: tensor.ComputeOp) -> bool:
    """Does `reader` read no result of `op`?"""
    return all(t.op is not op for t in reader.input_tensors)


def touches(
    state: schedule.State, op: tensor.ComputeOp, fixed: set[tir.Var], done: dict[str, Domain]
) -> Iterator[tuple[schedule.Stage, tir.Load, list[Interval]]]:
    """Every load of a result of `op`: its reader, and the part it touches of each dimension."""
    for reader in state.stages:
        if isinstance(reader.op, tensor.ScanOp):
            yield from _rows(reader, reader.op, op, fixed, done)
        if not isinstance(reader.op, tensor.ComputeOp) or _misses(reader.op, op):
            continue
        values = done[reader.name].values if reader.name in done else {}
        for e in tensor.parts(reader.op):
            for n in tir.walk(e):
                if (
                    isinstance(n, tir.Load)
                    and isinstance(n.buffer, tensor.Tensor)
                    and n.buffer.op is op
                ):
                    yield (
                        reader,
                        n,
                        [
                            (0, tir.sub(size, 1))
                            if any(isinstance(a, tir.AsIndex) for a in tir.walk(i))
                            else sweep(tir.substitute(i, values), fixed)
                            for i, size in zip(n.indices, op.shape, strict=True)
                        ],
                    )


def _rows(
    reader: schedule.Stage,
    scan: tensor.ScanOp,
    op: tensor.ComputeOp,
    fixed: set[tir.Var],
    done: dict[str, Domain],
) -> Iterator[tuple[schedule.Stage, tir.Load, list[Interval]]]:
    """A scan takes the row of this time from each of its updates."""
    for t in scan.updates:
        if t.op is op:
            now = sweep(done[reader.name].values[scan.scan_axis], fixed)
            row = tir.Load(t, (scan.scan_axis, *op.axis[1:]), t.dtype)
            yield reader, row, [now, *((0, tir.sub(n, 1)) for n in op.shape[1:])]


def _hull(a: Interval, b: Interval) -> Interval:
    return tir.minimum(a[0], b[0]), tir.maximum(a[1], b[1])


def _usable(
    touched: Interval | None, whole: Interval, fixed: set[tir.Var], loose: set[tir.Var]
) -> Interval:
    """`touched` cut to the tensor; its extent made independent of the loops around.

    The whole dimension where an end still mentions one of the `loose` loops, those not around.
    """
    if touched is None or any(_unknown(n, loose) for e in touched for n in tir.walk(e)):
        return whole
    lo, hi = touched
    if isinstance(lo, int) and isinstance(hi, int) and isinstance(whole[1], int):
        first = max(lo, 0)
        return first, max(first - 1, min(hi, whole[1]))  # nothing, if an empty loop is what reads
    size = tir.add(tir.sub(hi, lo), 1)
    moves = any(v in fixed for v in tir.walk(size) if isinstance(v, tir.Var))
    widest = most(size, fixed) if moves else size
    if widest is None or tir.certain(tir.sub(widest, tir.add(whole[1], 1))):
        return whole  # not smaller than the whole dimension
    if moves:
        if not isinstance(widest, int) and tir.low(lo) >= 0:
            widest = tir.minimum(widest, tir.add(whole[1], 1))
        size, hi = widest, tir.add(lo, tir.sub(widest, 1))
    return lo, hi if tir.low(size) >= 0 else tir.add(lo, tir.sub(tir.maximum(0, size), 1))


def _unknown(n: object, loose: set[tir.Var]) -> bool:
    """Has `n` no value outside the loops, being one of their variables?"""
    return isinstance(n, tir.Var) and n in loose


# --- extents down, values up ---------------------------------------------------------------------


def _extend_extents(stage: schedule.Stage, extents: dict[tensor.Axis, tir.Index]) -> None:
    """Extents of the axes made by splits and fuses, from those of the root axes.

    Loops that are threads, or parts of one, stay as long as they are said to be.
    """
    threads = _threads(stage)
    for r in stage.relations:
        if isinstance(r, schedule.FuseRelation):
            extents[r.fused] = tir.mul(extents[r.outer], extents[r.inner])
            continue
        n = extents[r.parent]
        size = r.factor if r.factor is not None else r.nparts
        assert size is not None
        given = r.inner if r.factor is not None else r.outer
        if isinstance(n, int) and not any(given is a for a in threads):
            size = max(1, min(size, n))  # a loop shorter than the factor: one part
        if r.factor is not None:
            extents[r.inner], extents[r.outer] = size, schedule.ceildiv(n, size)
        else:
            extents[r.outer], extents[r.inner] = size, schedule.ceildiv(n, size)


def _threads(stage: schedule.Stage) -> list[tensor.Axis]:
    """The loops that are bound to a thread, and the axes of which those are parts."""
    found = [a for a in stage.leaves if stage.note(a).thread]
    for r in reversed(stage.relations):
        if isinstance(r, schedule.SplitRelation):
            parts_of = (r.outer, r.inner)
            found += [r.parent] if any(a is p for a in found for p in parts_of) else []
        elif any(a is r.fused for a in found):
            found += [r.outer, r.inner]
    return found


def _values(
    stage: schedule.Stage, extents: dict[tensor.Axis, tir.Index], loops: dict[tensor.Axis, tir.Var]
) -> dict[tensor.Axis, tir.Index]:
    """Every axis' value, counted from 0, in terms of the loop variables."""
    values: dict[tensor.Axis, tir.Index] = {a: loops.get(a, 0) for a in stage.leaves}
    for r in reversed(stage.relations):
        if isinstance(r, schedule.SplitRelation):
            values[r.parent] = tir.add(tir.mul(values[r.outer], extents[r.inner]), values[r.inner])
        else:
            fused, n = values[r.fused], extents[r.inner]
            values[r.outer] = tir.floordiv(fused, n) if not _is_zero(n) else 0
            values[r.inner] = tir.floormod(fused, n) if not _is_zero(n) else 0
    return values


def data_domain(
    stage: schedule.Stage, op: tensor.ComputeOp, domain: Domain, inner: tuple[tensor.Axis, ...]
) -> tuple[Domain, tuple[tensor.Axis, ...]]:
    """The domain in which a reduction begins, and its loops in place of the `inner` ones.

    Data loops stay; one that is fused with a reduce loop comes apart, and only its data part is
    left: where the reduction is empty, so is the fused loop, and each element still begins.
    """
    parts = list(inner)
    for r in reversed(stage.relations):
        if isinstance(r, schedule.SplitRelation) and r.parent.kind == "reduce":
            parts = [r.parent if a is r.outer else a for a in parts if a is not r.inner]
        elif isinstance(r, schedule.FuseRelation) and r.fused.kind == "reduce":
            parts = [b for a in parts for b in ((r.outer, r.inner) if a is r.fused else (a,))]
    data, gone = tuple(a for a in parts if a.kind == "data"), set(inner)
    kept = {a: v for a, v in domain.loops.items() if a not in gone}
    new = {
        a: loop_variable(a.name, domain.extents[a]) for a in data if not _is_one(domain.extents[a])
    }
    loops = {**kept, **new}
    stays = tuple(a for a in stage.leaves if a not in gone)
    relations = tuple(r for r in stage.relations if _made(r).kind == "data")
    begin = stage.change(leaves=(*stays, *data), relations=relations)
    values = _values(begin, domain.extents, loops)
    for a in op.axis:
        values[a] = tir.add(domain.start[a], values[a])
    guards = required(begin, op, domain.start, domain.extents, values)
    return replace(domain, values=values, loops=loops, guards=guards), data


def _made(r: schedule.SplitRelation | schedule.FuseRelation) -> tensor.Axis:
    return r.inner if isinstance(r, schedule.SplitRelation) else r.fused


def _is_zero(n: tir.Index) -> bool:
    return isinstance(n, int) and n == 0
