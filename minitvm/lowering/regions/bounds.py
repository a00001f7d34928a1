"""Infer bounds: which region of each stage must be computed at its attach point.

Stages are visited consumers first. The loops around a stage's attach point are fixed. All other
loops of its consumers run over their whole range; the stage's region is what they then read:

    for io in range(4):                     for io in range(4):
      <- compute B here                       for x in range(6):       region of B: io*4 .. io*4 + 5
      for ii in range(4):             ->        B[x] = f(io*4 + x)
        C[io*4 + ii] = B[io*4 + ii]           for ii in range(4):
                     + B[io*4 + ii + 2]         C[io*4 + ii] = B[ii] + B[ii + 2]

B's buffer holds only the region, so its indices count from the start of the region.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from minitvm import schedule, tensor, tir

from .axes import axis_values, extend_extents, loop_variable, made_axis
from .domain import Domain, RequiredRegion
from .guards import guards_of
from .interval import Interval, sweep, upper_bound_over
from .reads import needs_whole, reads_of
from .scan_time import time_axes
from .scopes import check_scope, enclosing_loops, shared_loops
from .sliding import StoredDimension, check_attached, may_fold, slide, storage_for

Values = dict[tensor.Axis, tir.Index]


def infer(state: schedule.State) -> dict[str, Domain]:
    """Return the domain of every stage that computes something, by stage name."""
    inference = _Inference(state, time_axes(state), {})
    for stage in reversed(state.stages):
        check_attached(stage)
        if isinstance(stage.op, tensor.ComputeOp):
            inference.domains[stage.name] = inference.compute(stage, stage.op)
        elif isinstance(stage.op, tensor.ExternOp):  # without axes, always computed as a whole
            inference.domains[stage.name] = Domain({}, {}, {}, {}, inference.around(stage))
        elif isinstance(stage.op, tensor.ScanOp):
            inference.domains[stage.name] = inference.scan(stage, stage.op.scan_axis)
    return inference.domains


@dataclass(frozen=True, slots=True, eq=False)
class _Inference:
    """The domains that are known so far; consumers come first.

    times   the time axis of each stage inside a scan, and the name of the scan
    """

    state: schedule.State
    times: dict[str, tuple[str, tensor.Axis]]
    domains: dict[str, Domain]

    def scan(self, stage: schedule.Stage, time: tensor.Axis) -> Domain:
        """Return the domain of a scan, which always covers all time steps."""
        extents: Values = {time: time.extent}
        extend_extents(stage, extents)
        loops = _loops(stage.leaves, extents)
        values = axis_values(stage, extents, loops)
        values[time] = tir.add(time.start, values[time])
        return Domain({time: time.start}, extents, values, loops, self.around(stage))

    def compute(self, stage: schedule.Stage, op: tensor.ComputeOp) -> Domain:
        """Return the domain of a stage that computes formulas."""
        shared = shared_loops(self.state, stage, {s: d.loops for s, d in self.domains.items()})
        outer_vars = self.around(stage)
        fixed = set(outer_vars) - set(shared)
        start: Values = {a: a.start for a in op.reduce_axis}
        extents: Values = {a: a.extent for a in op.reduce_axis}
        required = self.required(stage, op, shared, fixed)
        for a, (lo, hi) in zip(op.axis, self.region(op, required, fixed), strict=True):
            start[a], extents[a] = lo, tir.add(tir.sub(hi, lo), 1)
            if stage.layout is not None and not isinstance(extents[a], int):  # it needs a constant
                start[a], extents[a] = a.start, a.extent
        if stage.name in self.times:  # inside a scan, a stage computes the current time step
            name, time = self.times[stage.name]
            scan = self.state.stage(name).op
            assert isinstance(scan, tensor.ScanOp)
            start[time], extents[time] = self.domains[name].values[scan.scan_axis], 1
        stored, window_axis, no_reuse = self.stored(stage, op, start, extents, fixed)
        extend_extents(stage, extents)
        loops = _loops(stage.leaves, extents)
        check_scope(self.state, stage, loops)
        values = axis_values(stage, extents, loops)
        if tensor.variable_reduce_ranges(op):
            _resolve_reduce_ranges(stage, op, start, extents, loops, values)
            values = axis_values(stage, extents, loops)
        for a in (*op.axis, *op.reduce_axis):
            values[a] = tir.add(start[a], values[a])
        guards = guards_of(stage, op, start, extents, values)
        if window_axis is not None:  # the whole window is in the tensor, so its axis needs no guard
            window_vars = (loops[window_axis],)
            guards = tuple(
                g for g in guards if g.cause is None or tir.free_of(g.condition, window_vars)
            )
        return Domain(start, extents, values, loops, outer_vars, guards, required, stored, no_reuse)

    def around(
        self, stage: schedule.Stage, until: schedule.At | None = None
    ) -> tuple[tir.Var, ...]:
        """Return the loop variables around the stage, or only those down to the loop `until`."""
        variables: list[tir.Var] = []
        for host, a in enclosing_loops(self.state, stage.name):
            loops = self.domains[host.name].loops
            variables += [loops[a]] if a in loops else []
            if until is not None and a is until.axis:
                break
        return tuple(variables)

    def varying(self, fixed: set[tir.Var]) -> set[tir.Var]:
        """Return the variables of all loops that are not fixed."""
        return {v for d in self.domains.values() for v in d.loops.values()} - fixed

    def required(
        self,
        stage: schedule.Stage,
        op: tensor.ComputeOp,
        shared: tuple[tir.Var, ...],
        fixed: set[tir.Var],
    ) -> RequiredRegion:
        """Return what the readers of the stage need for fixed values of the `fixed` loops."""
        if stage.is_output:  # computed as a whole, even if other stages read it
            return RequiredRegion(shared=shared)
        reads = tuple(reads_of(self.state, op, fixed, self.domains))
        spans: list[Interval | None] = [None] * len(op.shape)
        for read in reads:
            for d, (lo, hi) in enumerate(read.spans):
                old = spans[d]
                if old is not None:
                    lo, hi = tir.minimum(old[0], lo), tir.maximum(old[1], hi)  # noqa: PLW2901
                spans[d] = lo, hi
        whole_readers = tuple(s.name for s in self.state.stages if needs_whole(s, op))
        return RequiredRegion(reads, whole_readers, tuple(spans), shared)

    def region(
        self, op: tensor.ComputeOp, required: RequiredRegion, fixed: set[tir.Var]
    ) -> list[Interval]:
        """Return the part of a tensor to compute: what its readers need, or all of it."""
        whole: list[Interval] = [(0, tir.sub(n, 1)) for n in op.shape]
        if not required.touched or required.whole_readers:
            return whole
        varying_vars = self.varying(fixed)
        ends = zip(required.touched, whole, strict=True)
        return [_computable(t, w, fixed, varying_vars) for t, w in ends]

    def stored(
        self,
        stage: schedule.Stage,
        op: tensor.ComputeOp,
        start: Values,
        extents: Values,
        fixed: set[tir.Var],
    ) -> tuple[dict[tensor.Axis, StoredDimension], tensor.Axis | None, str]:
        """Return how a stage with store_at is stored; shrink start and extents to the new elements.

        Also return the axis along which the window moves, if the whole window is certain to be in
        bounds, and the reason if each iteration computes its whole window again.
        """
        if stage.store is None:
            return {}, None, ""
        outer = self.around(stage, stage.store)
        outside = fixed & set(outer)
        varying_vars = self.varying(outside)
        windows = {a: (start[a], extents[a]) for a in op.axis}
        stored: dict[tensor.Axis, StoredDimension] = {}
        for a, n in zip(op.axis, op.shape, strict=True):
            ends = start[a], tir.add(start[a], tir.sub(extents[a], 1))
            swept = sweep(ends[0], outside)[0], sweep(ends[1], outside)[1]
            lo, hi = _computable(swept, (0, tir.sub(n, 1)), outside, varying_vars)
            hull = lo, tir.add(tir.sub(hi, lo), 1)
            stored[a] = storage_for(windows[a], hull, may_fold(self.state))
        inner = self.around(stage)[len(outer) :]  # the loops between storing and computing
        new = slide(stage, windows, inner[-1]) if inner else ""
        if isinstance(new, str):
            return stored, None, new
        a = new[0]
        start[a], extents[a] = new[1:]
        lo, n = windows[a]
        last = tir.add(lo, tir.sub(n, 1))
        is_inside = (
            tir.compare("<=", 0, lo) is tir.TRUE and tir.compare("<", last, a.extent) is tir.TRUE
        )
        return stored, a if is_inside else None, ""


def _loops(axes: tuple[tensor.Axis, ...], extents: Values) -> dict[tensor.Axis, tir.Var]:
    """Return a loop variable for each axis with more than one iteration."""
    return {
        a: loop_variable(a.name, extents[a]) for a in axes if not tir.prove_equal(extents[a], 1)
    }


def _resolve_reduce_ranges(
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    start: Values,
    extents: Values,
    loops: dict[tensor.Axis, tir.Var],
    values: Values,
) -> None:
    """Express the ranges of reduce axes in loop variables: 0 .. i  ->  0 .. io*4 + ii.

    The reduce loops get new variables without a symbolic upper bound `top`. A bound would mention
    variables of data loops, and passes may replace those variables.
    """
    indices = {a: tir.add(start[a], values[a]) for a in op.axis}
    for k in op.reduce_axis:
        start[k], extents[k] = (tir.substitute(n, indices) for n in (start[k], extents[k]))
    extend_extents(stage, extents)
    for a in stage.leaves:
        if a.kind == "reduce" and a in loops:
            loops[a] = tir.Var(a.name, 0, tir.upper_bound(tir.sub(extents[a], 1)))


def _computable(
    touched: Interval | None, whole: Interval, fixed: set[tir.Var], varying: set[tir.Var]
) -> Interval:
    """Return an interval that contains `touched` and whose extent depends on no enclosing loop.

    Constant ends are clipped to the tensor; symbolic ends may leave it, and guards then skip the
    points outside. The result is the whole dimension if nothing reads it, or if an end depends on
    one of the `varying` loops, which have no single value while the stage is computed.
    """
    if touched is None or any(n in varying for e in touched for n in tir.variables(e)):
        return whole
    lo, hi = touched
    if isinstance(lo, int) and isinstance(hi, int) and isinstance(whole[1], int):
        first = max(lo, 0)
        return first, max(first - 1, min(hi, whole[1]))  # empty if the reading loop is empty
    size = tir.add(tir.sub(hi, lo), 1)
    moves = any(v in fixed for v in tir.variables(size))
    widest = upper_bound_over(size, fixed) if moves else size
    if widest is None or tir.prove_nonnegative(tir.sub(widest, tir.add(whole[1], 1))):
        return whole  # not smaller than the whole dimension
    if moves:
        if not isinstance(widest, int) and tir.lower_bound(lo) >= 0:
            widest = tir.minimum(widest, tir.add(whole[1], 1))
        size, hi = widest, tir.add(lo, tir.sub(widest, 1))
    if tir.lower_bound(size) < 0:  # a size is never negative
        hi = tir.add(lo, tir.sub(tir.maximum(0, size), 1))
    return lo, hi


def init_domain(
    stage: schedule.Stage, op: tensor.ComputeOp, domain: Domain, inner: tuple[tensor.Axis, ...]
) -> tuple[Domain, tuple[tensor.Axis, ...]]:
    """Return the domain of a reduction's init, and the loops over data that it runs in.

    inner: the leaf loops from the outermost reduce loop on. The init runs before them, so it gets
    data loops of its own in their place. A loop that fuses data and reduce axes is replaced by its
    data part, because an empty reduction makes the fused loop empty although each element must
    still be initialised.
    """
    parts = list(inner)
    for r in reversed(stage.relations):
        if isinstance(r, schedule.SplitRelation) and r.parent.kind == "reduce":
            parts = [r.parent if a is r.outer else a for a in parts if a is not r.inner]
        elif isinstance(r, schedule.FuseRelation) and r.fused.kind == "reduce":
            parts = [b for a in parts for b in ((r.outer, r.inner) if a is r.fused else (a,))]
    data, inner_axes = tuple(a for a in parts if a.kind == "data"), set(inner)
    outer = {a: v for a, v in domain.loops.items() if a not in inner_axes}
    loops = {**outer, **_loops(data, domain.extents)}
    outer_leaves = tuple(a for a in stage.leaves if a not in inner_axes)
    relations = tuple(r for r in stage.relations if made_axis(r).kind == "data")
    begin = stage.change(leaves=(*outer_leaves, *data), relations=relations)
    values = axis_values(begin, domain.extents, loops)
    for a in op.axis:
        values[a] = tir.add(domain.start[a], values[a])
    guards = guards_of(begin, op, domain.start, domain.extents, values)
    return replace(domain, values=values, loops=loops, guards=guards), data
