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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from minitvm.base import LoweringError
from minitvm.schedule import (
    At,
    FuseRelation,
    SplitRelation,
    Stage,
    State,
    ceildiv,
    store_conditions,
)
from minitvm.tensor import Axis, ComputeOp, ExternOp, Tensor, facts_of, parts
from minitvm.tir import (
    INF,
    TRUE,
    AsIndex,
    Compare,
    Expr,
    Extremum,
    FloorDiv,
    FloorMod,
    Index,
    Lane,
    Load,
    Product,
    Var,
    add,
    compare,
    floordiv,
    floormod,
    free_of,
    high,
    low,
    maximum,
    minimum,
    mul,
    nonneg,
    same,
    split_terms,
    sub,
    substitute,
    text,
    walk,
)

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

    start: dict[Axis, Index]
    extents: dict[Axis, Index]
    values: dict[Axis, Index]
    loops: dict[Axis, Var]
    around: tuple[Var, ...]
    guards: tuple[Expr, ...]
    kept: dict[Axis, Kept] = field(default_factory=dict[Axis, Kept])


Interval = tuple[Index, Index]


def infer(state: State) -> dict[str, Domain]:
    """stage name -> its Domain, for every stage that computes something."""
    found: dict[str, Domain] = {}
    for stage in reversed(state.stages):
        if isinstance(stage.op, ComputeOp):
            found[stage.name] = _domain(state, stage, stage.op, found)
        elif isinstance(stage.op, ExternOp):  # it has no axes, and computes all it has
            found[stage.name] = Domain({}, {}, {}, {}, _around(state, stage, found), ())
    return found


def _domain(state: State, stage: Stage, op: ComputeOp, done: dict[str, Domain]) -> Domain:
    check_scope(state, stage)
    around = _around(state, stage, done)
    fixed = set(around) - set(shared_loops(state, stage, {s: d.loops for s, d in done.items()}))
    start: dict[Axis, Index] = {a: a.start for a in op.reduce_axis}
    extents: dict[Axis, Index] = {a: a.extent for a in op.reduce_axis}
    region = _region(state, stage, op, fixed, done)
    for a, (lo, hi) in zip(op.axis, region, strict=True):
        start[a], extents[a] = lo, add(sub(hi, lo), 1)
    stored, moved = _keep(state, stage, op, start, extents, fixed, done)
    _extend_extents(stage, extents)
    loops = {a: _loop_variable(a, extents[a]) for a in stage.leaves if not _is_one(extents[a])}
    values = _values(stage, extents, loops)
    for a in (*op.axis, *op.reduce_axis):
        values[a] = add(start[a], values[a])
    guards = _guards(stage, op, start, extents, values)
    if moved is not None:  # what is new lies in the window
        guards = tuple(g for g in guards if free_of(g, (loops[moved],)))
    return Domain(start, extents, values, loops, around, guards, stored)


def _keep(
    state: State,
    stage: Stage,
    op: ComputeOp,
    start: dict[Axis, Index],
    extents: dict[Axis, Index],
    fixed: set[Var],
    done: dict[str, Domain],
) -> tuple[dict[Axis, Kept], Axis | None]:
    """How the region is stored for an outer loop; start and extents shrink to what is new.

    Also the axis of which that is, if the whole window is certain to lie inside the tensor.
    """
    if stage.store is None:
        return {}, None
    outer = _around(state, stage, done, stage.store)
    still = fixed & set(outer)
    loose = {v for d in done.values() for v in d.loops.values()} - still
    windows = {a: (start[a], extents[a]) for a in op.axis}
    found: dict[Axis, Kept] = {}
    for a, n in zip(op.axis, op.shape, strict=True):
        ends = start[a], add(start[a], sub(extents[a], 1))
        swept = sweep(ends[0], still)[0], sweep(ends[1], still)[1]
        lo, hi = _usable(swept, (0, sub(n, 1)), still, loose)
        found[a] = kept(windows[a], (lo, add(sub(hi, lo), 1)), may_fold(state))
    inner = [v for v in _around(state, stage, done) if v not in set(outer)]
    new = slide(stage, windows, inner[-1]) if inner else None
    if new is None:
        return found, None
    a = new[0]
    start[a], extents[a] = new[1:]
    lo, n = windows[a]
    last = add(lo, sub(n, 1))
    safe = compare("<=", 0, lo) is TRUE and compare("<", last, a.extent) is TRUE
    return found, a if safe else None


def _around(
    state: State, stage: Stage, done: dict[str, Domain], until: At | None = None
) -> tuple[Var, ...]:
    """The loop variables around the stage's attach point, or only those down to `until`."""
    found: list[Var] = []
    for host, a in around_loops(state, stage.name):
        found += [done[host.name].loops[a]] if a in done[host.name].loops else []
        if until is not None and a is until.axis:
            break
    return tuple(found)


def _is_one(extent: Index) -> bool:
    return isinstance(extent, int) and extent == 1


def _loop_variable(a: Axis, extent: Index) -> Var:
    last = sub(extent, 1)
    return Var(a.name, 0, high(last), None if isinstance(last, int) else last)


# --- regions -------------------------------------------------------------------------------------


def _region(
    state: State, stage: Stage, op: ComputeOp, fixed: set[Var], done: dict[str, Domain]
) -> list[Interval]:
    """The part of the stage's tensor that its readers touch while the `fixed` loops stand still."""
    whole: list[Interval] = [(0, sub(n, 1)) for n in op.shape]
    if stage.is_output or any(_reads_all(s, op) for s in state.stages):
        return whole
    touched: list[Interval | None] = [None] * len(whole)
    for _, _, spans in touches(state, op, fixed, done):
        for d, span in enumerate(spans):
            old = touched[d]
            touched[d] = span if old is None else _hull(old, span)
    loose = {v for d in done.values() for v in d.loops.values()} - fixed
    return [_usable(t, w, fixed, loose) for t, w in zip(touched, whole, strict=True)]


def _reads_all(reader: Stage, op: ComputeOp) -> bool:
    """Is `reader` an extern operation that reads a result of `op`?"""
    return isinstance(reader.op, ExternOp) and any(t.op is op for t in reader.op.inputs)


def touches(
    state: State, op: ComputeOp, fixed: set[Var], done: dict[str, Domain]
) -> Iterator[tuple[Stage, Load, list[Interval]]]:
    """Every load of a result of `op`: its reader, and the part it touches of each dimension."""
    for reader in state.stages:
        if not isinstance(reader.op, ComputeOp):
            continue
        values = done[reader.name].values if reader.name in done else {}
        for e in parts(reader.op):
            for n in walk(e):
                if isinstance(n, Load) and isinstance(n.buffer, Tensor) and n.buffer.op is op:
                    yield (
                        reader,
                        n,
                        [
                            (0, sub(size, 1))
                            if any(isinstance(a, AsIndex) for a in walk(i))
                            else sweep(substitute(i, values), fixed)
                            for i, size in zip(n.indices, op.shape, strict=True)
                        ],
                    )


def _hull(a: Interval, b: Interval) -> Interval:
    return minimum(a[0], b[0]), maximum(a[1], b[1])


def _usable(
    touched: Interval | None, whole: Interval, fixed: set[Var], loose: set[Var]
) -> Interval:
    """`touched` cut to the tensor; its extent made independent of the loops around.

    The whole dimension where an end still mentions one of the `loose` loops, those not around.
    """
    if touched is None or any(_unknown(n, loose) for e in touched for n in walk(e)):
        return whole
    lo, hi = touched
    if isinstance(lo, int) and isinstance(hi, int) and isinstance(whole[1], int):
        first = max(lo, 0)
        return first, max(first - 1, min(hi, whole[1]))  # nothing, if an empty loop is what reads
    size = add(sub(hi, lo), 1)
    if any(v in fixed for v in walk(size) if isinstance(v, Var)):
        most = high(size)
        if isinstance(most, float):
            return whole
        size, hi = most, add(lo, most - 1)
    if nonneg(sub(size, add(whole[1], 1))):
        return whole  # not smaller than the whole dimension
    return lo, hi if low(size) >= 0 else add(lo, sub(maximum(0, size), 1))


def _unknown(n: object, loose: set[Var]) -> bool:
    """Has `n` no value outside the loops: one of their variables, or a division by a size of 0?"""
    if isinstance(n, Var):
        return n in loose
    return isinstance(n, FloorDiv | FloorMod) and not isinstance(n.b, int)


def sweep(e: Index, fixed: Iterable[Var]) -> Interval:
    """The least and greatest value of `e` while every variable but the fixed ones runs its range.

    i*4 + j with j in 0..3, i fixed -> (i*4, i*4 + 3). Symbolic sizes count as fixed.
    """
    kept = {id(v) for v in fixed}
    return _sweep(e, kept)


def _sweep(e: Index, kept: set[int]) -> Interval:
    terms, const = split_terms(e)
    lo: Index = const
    hi: Index = const
    for a, c in terms:
        least, most = _sweep_atom(a, kept)
        if c < 0:
            least, most = most, least
        lo, hi = add(lo, mul(least, c)), add(hi, mul(most, c))
    return lo, hi


def _sweep_atom(a: Expr, kept: set[int]) -> Interval:
    match a:
        case Var(low=lo, high=hi, top=top):
            if id(a) in kept or isinstance(lo, float):
                return a, a
            if isinstance(hi, float):
                return (a, a) if top is None else (lo, _sweep(top, kept)[1])
            return lo, hi
        case Lane(lanes):
            return 0, lanes - 1
        case FloorDiv(x, b):
            least, most = _sweep(x, kept)
            return floordiv(least, b), floordiv(most, b)
        case FloorMod(x, b):
            least, most = _sweep(x, kept)
            if same(floordiv(least, b), floordiv(most, b)):
                return floormod(least, b), floormod(most, b)
            return 0, sub(b, 1)
        case Extremum(op, x, y):
            pick = minimum if op == "min" else maximum
            (xl, xh), (yl, yh) = _sweep(x, kept), _sweep(y, kept)
            return pick(xl, yl), pick(xh, yh)
        case Product(x, y):
            (xl, xh), (yl, yh) = _sweep_atom(x, kept), _sweep_atom(y, kept)
            if nonneg(xl) and nonneg(yl):
                return mul(xl, yl), mul(xh, yh)
            return a, a
        case AsIndex(low=lo, high=hi):
            return (int(lo), int(hi)) if abs(lo) + abs(hi) < INF else (a, a)
        case _:
            raise LoweringError(f"bounds of {a!r}", "not an index")


# --- extents down, values up ---------------------------------------------------------------------


def _extend_extents(stage: Stage, extents: dict[Axis, Index]) -> None:
    """Extents of the axes made by splits and fuses, from those of the root axes.

    Loops that are threads, or parts of one, stay as long as they are said to be.
    """
    threads = _threads(stage)
    for r in stage.relations:
        if isinstance(r, FuseRelation):
            extents[r.fused] = mul(extents[r.outer], extents[r.inner])
            continue
        n = extents[r.parent]
        size = r.factor if r.factor is not None else r.nparts
        assert size is not None
        given = r.inner if r.factor is not None else r.outer
        if isinstance(n, int) and not any(given is a for a in threads):
            size = max(1, min(size, n))  # a loop shorter than the factor: one part
        if r.factor is not None:
            extents[r.inner], extents[r.outer] = size, ceildiv(n, size)
        else:
            extents[r.outer], extents[r.inner] = size, ceildiv(n, size)


def _threads(stage: Stage) -> list[Axis]:
    """The loops that are bound to a thread, and the axes of which those are parts."""
    found = [a for a in stage.leaves if stage.note(a).thread]
    for r in reversed(stage.relations):
        if isinstance(r, SplitRelation):
            parts_of = (r.outer, r.inner)
            found += [r.parent] if any(a is p for a in found for p in parts_of) else []
        elif any(a is r.fused for a in found):
            found += [r.outer, r.inner]
    return found


def _values(stage: Stage, extents: dict[Axis, Index], loops: dict[Axis, Var]) -> dict[Axis, Index]:
    """Every axis' value, counted from 0, in terms of the loop variables."""
    values: dict[Axis, Index] = {a: loops.get(a, 0) for a in stage.leaves}
    for r in reversed(stage.relations):
        if isinstance(r, SplitRelation):
            values[r.parent] = add(mul(values[r.outer], extents[r.inner]), values[r.inner])
        else:
            fused, n = values[r.fused], extents[r.inner]
            values[r.outer] = floordiv(fused, n) if not _is_zero(n) else 0
            values[r.inner] = floormod(fused, n) if not _is_zero(n) else 0
    return values


def data_domain(
    stage: Stage, op: ComputeOp, domain: Domain, inner: tuple[Axis, ...]
) -> tuple[Domain, tuple[Axis, ...]]:
    """The domain in which a reduction begins, and its loops in place of the `inner` ones.

    Data loops stay; one that is fused with a reduce loop comes apart, and only its data part is
    left: where the reduction is empty, so is the fused loop, and each element still begins.
    """
    parts = list(inner)
    for r in reversed(stage.relations):
        if isinstance(r, SplitRelation) and r.parent.kind == "reduce":
            parts = [r.parent if a is r.outer else a for a in parts if a is not r.inner]
        elif isinstance(r, FuseRelation) and r.fused.kind == "reduce":
            parts = [b for a in parts for b in ((r.outer, r.inner) if a is r.fused else (a,))]
    data, gone = tuple(a for a in parts if a.kind == "data"), set(inner)
    kept = {a: v for a, v in domain.loops.items() if a not in gone}
    new = {a: _loop_variable(a, domain.extents[a]) for a in data if not _is_one(domain.extents[a])}
    loops = {**kept, **new}
    stays = tuple(a for a in stage.leaves if a not in gone)
    relations = tuple(r for r in stage.relations if _made(r).kind == "data")
    begin = stage.change(leaves=(*stays, *data), relations=relations)
    values = _values(begin, domain.extents, loops)
    for a in op.axis:
        values[a] = add(domain.start[a], values[a])
    guards = _guards(begin, op, domain.start, domain.extents, values)
    return replace(domain, values=values, loops=loops, guards=guards), data


def _made(r: SplitRelation | FuseRelation) -> Axis:
    return r.inner if isinstance(r, SplitRelation) else r.fused


def _is_zero(n: Index) -> bool:
    return isinstance(n, int) and n == 0


def _guards(
    stage: Stage,
    op: ComputeOp,
    start: dict[Axis, Index],
    extents: dict[Axis, Index],
    values: dict[Axis, Index],
) -> tuple[Expr, ...]:
    """The conditions that keep every loop inside its axis; each one is needed.

    A split that does not divide guards the axis it splits, intermediate ones too; a data axis
    that may leave its tensor is guarded against the tensor's size.
    """
    wanted = conditions(stage, op, start, extents, values)
    return (*_needed([c for c, _ in wanted if c is not TRUE]), *store_conditions(stage, values))


def conditions(
    stage: Stage,
    op: ComputeOp,
    start: dict[Axis, Index],
    extents: dict[Axis, Index],
    values: dict[Axis, Index],
) -> list[tuple[Expr, SplitRelation | Axis]]:
    """What must hold, and why: a split that does not divide, or an axis that ends somewhere."""
    wanted: list[tuple[Expr, SplitRelation | Axis]] = []
    roots = {*op.axis, *op.reduce_axis}
    for r in stage.relations:
        if isinstance(r, SplitRelation):
            done, n = mul(extents[r.outer], extents[r.inner]), extents[r.parent]
            if not same(done, n):
                if r.exact:
                    _not_exact(stage, r, done, n)
                value = values[r.parent]
                if r.parent in roots:
                    value = sub(value, start[r.parent])
                wanted.append((_below(value, n), r))
    for a in op.axis:
        wanted.append((compare("<=", 0, values[a]), a))
        wanted.append((_below(values[a], a.extent), a))
    return wanted


def _not_exact(stage: Stage, r: SplitRelation, done: Index, n: Index) -> None:
    raise LoweringError(
        f"split of {r.parent.name!r} in {stage.name}, disable_predication=True",
        f"it makes {text(done)} iterations of {text(n)}: without a guard, "
        "those too many would write elsewhere",
        "a size that divides, or leave the guard in",
    )


def _below(e: Index, n: Index) -> Expr:
    """e < n, affine where it can be: i // 3 < 5  ->  i < 15."""
    for a, c in split_terms(e)[0]:
        if isinstance(a, FloorDiv) and isinstance(a.b, int) and c == 1:
            return _below(a.a, mul(sub(n, sub(e, a)), a.b))
    return compare("<", e, n)


def _needed(conds: list[Expr]) -> tuple[Expr, ...]:
    """The conditions that no single other one implies."""
    kept: list[Expr] = []
    for n, c in enumerate(conds):
        others = [*kept, *conds[n + 1 :]]
        if not (isinstance(c, Compare) and any(_implies(o, c) for o in others)):
            kept.append(c)
    return tuple(kept)


def _implies(a: Expr, b: Expr) -> bool:
    (goal,) = facts_of(b) or (-1,)
    return nonneg(goal, facts_of(a))
