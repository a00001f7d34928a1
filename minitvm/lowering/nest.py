"""Build loop nests from a schedule state, with each stage in the loop it is attached to."""

from __future__ import annotations

from collections.abc import Sequence

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError, raise_first

from .checks import about_double_buffer, about_extent, has_mixed_loops
from .double_buffer import DOUBLE
from .operands import OperandView, instantiate
from .regions import Domain, LoweringContext, enclosing_loops, init_domain, loop_variable
from .tensorize import region, tensorized


def nest(context: LoweringContext, stages: Sequence[schedule.Stage]) -> tir.Stmt:
    """Return the loop nests of the root stages among `stages`, with attached stages inside them."""
    body: tir.Stmt | None = None
    for stage in reversed(stages):
        if not isinstance(stage.op, tensor.PlaceholderOp) and not isinstance(
            stage.attach, schedule.At
        ):
            body = _realize(context, stage, stage.op, body)
    assert body is not None
    ops = [s.op for s in stages if isinstance(s.op, tensor.ComputeOp)]
    if any(True for op in ops for _ in tensor.extent_loads(op)):
        body = tir.rewrite(body, expr=context.redirect)
    return body


def _realize(
    context: LoweringContext,
    stage: schedule.Stage,
    op: tensor.ComputeOp | tensor.ExternOp | tensor.ScanOp,
    rest: tir.Stmt | None,
) -> tir.Stmt:
    """Return the stage's loops and then `rest`, inside the allocation of the stage's results."""
    match op:
        case tensor.ExternOp():
            loops = _extern(context, op)
        case tensor.ScanOp():
            loops = _scan(context, stage, op)
        case tensor.ComputeOp():
            loops = _stage(context, stage, op)
    if stage.double_buffer:
        loops = _ahead(context, stage, loops)
    body = tir.seq(loops, rest)
    return body if stage.store is not None else _memory(context, op, body)


def _memory(
    context: LoweringContext, op: tensor.ComputeOp | tensor.ExternOp | tensor.ScanOp, body: tir.Stmt
) -> tir.Stmt:
    """Return `body` inside allocations of the results of `op` that are not arguments."""
    for i in reversed(range(len(op.dtypes))):
        t = tensor.tensor_of(op, i)
        if t not in context.not_allocated:
            body = tir.Allocate(context.buffers[t], body)
    return body


def _ahead(context: LoweringContext, stage: schedule.Stage, loops: tir.Stmt) -> tir.Stmt:
    """Mark `made`, the loops of a double-buffered stage; raise if the stage cannot run ahead."""
    reasons = about_double_buffer(context.state, stage)
    raise_first(LoweringError, f"double_buffer of {stage.name}", reasons)
    return tir.Pragma(DOUBLE, 1, loops)


def _extern(context: LoweringContext, op: tensor.ExternOp) -> tir.Stmt:
    """Return the statement of an extern operation, with its declared buffers replaced."""
    outputs = [tensor.tensor_of(op, i) for i in range(len(op.dtypes))]

    def window(t: tensor.Tensor) -> OperandView:
        return OperandView(context.buffers[t], lambda at: context.place(t, at))

    named = zip((*op.in_buffers, *op.out_buffers), (*op.inputs, *outputs), strict=True)
    return instantiate(op.body, {b: window(t) for b, t in named}, f"extern {op.name}")


def _scan(context: LoweringContext, stage: schedule.Stage, op: tensor.ScanOp) -> tir.Stmt:
    """Return loops that copy the initial rows, then the loop over time with the stages inside it.

    for i: for j: S[i, j] = first[i, j]
    for t: <- the stages attached to this loop
    """
    copies: list[tir.Stmt] = []
    for i, t in enumerate(op.inits):
        target = context.buffers[tensor.tensor_of(op, i)]
        counters = tuple(loop_variable(f"i{d}", n) for d, n in enumerate(t.shape))
        copy = tir.Store(target, counters, context.read(tir.Load(t, counters, t.dtype), {}))
        # the time axis may be shorter than the initial rows
        body = _guarded([tir.compare("<", counters[0], target.shape[0])], copy)
        for v, n in reversed(list(zip(counters, t.shape, strict=True))):
            body = tir.For(v, n, body)
        copies.append(body)
    return tir.seq(*copies, _loops(context, stage, (), stage.leaves, tir.NOTHING))


def _stage(context: LoweringContext, stage: schedule.Stage, op: tensor.ComputeOp) -> tir.Stmt:
    """Return the loop nest of one stage.

    A reduction is split at its first reduce loop:

        for i: for k: for j: C += ...    ->    for i:
                                                 for j: C = identity
                                                 for k: for j: C += ...
    """
    domain, leaves = context.domains[stage.name], stage.leaves
    if (depth := tensorized(stage)) is not None:
        return _tensorized(context, stage, op, depth)
    if op.reduction is None:
        return _loops(
            context, stage, domain.conditions, leaves, _stores(context, op, op.body, domain.values)
        )
    first = next((d for d, a in enumerate(leaves) if a.kind == "reduce"), len(leaves))
    outer, inner = leaves[:first], leaves[first:]
    common = _common(context, stage, inner)
    own = tuple(g for g in domain.conditions if not any(g is c for c in common))
    update = _loops(context, stage, own, inner, _update(context, op, domain))
    body = tir.seq(_init(context, stage, op, own, inner), update)
    return _loops(context, stage, common, outer, body)


def _common(
    context: LoweringContext, stage: schedule.Stage, inner: tuple[tensor.Axis, ...]
) -> tuple[tir.Expr, ...]:
    """Return the guards that can enclose both the init and the `inner` loops of a reduction."""
    domain = context.domains[stage.name]
    if any(_attached(context, stage, a) for a in inner):
        return ()
    loops = [domain.loops[a] for a in inner if a in domain.loops]
    return tuple(g for g in domain.conditions if tir.free_of(g, loops))


def _loops(
    context: LoweringContext,
    stage: schedule.Stage,
    guards: tuple[tir.Expr, ...],
    leaves: tuple[tensor.Axis, ...],
    body: tir.Stmt,
) -> tir.Stmt:
    """Build loops for `leaves` around `body`, with the stages that are attached to these loops.

    Each guard is placed as far out as its variables allow, but never around an attached stage:
    attached stages have their own guards, and on a GPU their barriers must not be conditional.
    """
    domain = context.domains[stage.name]
    waiting = list(guards)
    for a in reversed(leaves):
        var, attached = domain.loops.get(a), _attached(context, stage, a)
        own = () if var is None else (var,)
        ready = [g for g in waiting if attached or not tir.free_of(g, own)]
        body = _guarded(ready, body)
        waiting = [g for g in waiting if not any(g is r for r in ready)]
        for producer in reversed(attached):
            assert not isinstance(producer.op, tensor.PlaceholderOp)
            body = _realize(context, producer, producer.op, body)
        for host in reversed(_stored(context, stage, a)):
            assert not isinstance(host.op, tensor.PlaceholderOp)
            body = _memory(context, host.op, body)
        body = _for(context, stage, a, var, body)
    return _guarded(waiting, body)


def _stored(
    context: LoweringContext, stage: schedule.Stage, a: tensor.Axis
) -> list[schedule.Stage]:
    """Return the stages that are allocated in the loop `a` but computed in a loop inside it."""
    return [
        s
        for s in context.state.stages
        if s.store is not None and s.store.stage == stage.name and s.store.axis is a
    ]


def _guarded(conds: list[tir.Expr], body: tir.Stmt) -> tir.Stmt:
    cond = tir.all_of(*conds)
    return body if cond is tir.TRUE else tir.If(cond, body, likely=cond is not tir.FALSE)


def _for(
    context: LoweringContext,
    stage: schedule.Stage,
    a: tensor.Axis,
    var: tir.Var | None,
    body: tir.Stmt,
) -> tir.Stmt:
    note, domain = stage.note(a), context.domains[stage.name]
    threads = {host.note(b).thread for host, b in enclosing_loops(context.state, stage.name)}
    alone = var is None and note.thread in threads  # each thread computes its own part
    reasons = about_extent(stage, a, domain.extents[a], alone)
    raise_first(LoweringError, f"{note.kind} of {a.name!r} in {stage.name}", reasons)
    if var is not None:
        body = tir.For(var, domain.extents[a], body, note.kind, note.thread)
    for key, value in reversed(note.pragmas):
        body = tir.Pragma(key, value, body)
    return body


def _attached(
    context: LoweringContext, stage: schedule.Stage, a: tensor.Axis
) -> list[schedule.Stage]:
    """Return the stages computed inside the loop `a`, producers first."""
    return [
        s
        for s in context.state.stages
        if isinstance(s.attach, schedule.At) and s.attach.stage == stage.name and s.attach.axis is a
    ]


def _tensorized(
    context: LoweringContext, stage: schedule.Stage, op: tensor.ComputeOp, depth: int
) -> tir.Stmt:
    """Return the loops of a stage; a tensor intrinsic replaces the loops from `depth` inwards.

    If there are reduce loops outside the intrinsic, the result is first reset, then updated. If the
    intrinsic has no reset, its body initialises the result in the first iteration instead:

        for i: for k: gemm(...)    ->    for i:                   for i: for k:
                                           reset(...)       or      if k == 0: body(...)
                                           for k: update(...)       else: update(...)
    """
    domain, outer = context.domains[stage.name], stage.leaves[:depth]
    for a in stage.leaves[depth:]:
        if attached := _attached(context, stage, a):
            raise LoweringError(
                f"tensorize of {stage.leaves[depth].name!r} in {stage.name}",
                f"{attached[0].name} is computed in loop {a.name!r}, which the intrinsic replaces",
                f"compute it at a loop outside of {stage.leaves[depth].name!r}",
            )
    do = region(stage, op, domain, depth, context.buffers, context.place)
    if not do.reduces:
        return _loops(context, stage, domain.conditions, outer, do.body)
    assert do.update is not None
    if do.reset is None:
        first = tir.all_of(*(tir.compare("==", v, 0) for v in do.reduces))
        return _loops(context, stage, domain.conditions, outer, tir.If(first, do.body, do.update))
    at = next(d for d, a in enumerate(outer) if a.kind == "reduce")
    common = _common(context, stage, outer[at:])
    own = tuple(g for g in domain.conditions if not any(g is c for c in common))
    update = _loops(context, stage, own, outer[at:], do.update)
    body = tir.seq(_reset(stage, domain, own, outer[at:], do.reset), update)
    return _loops(context, stage, common, outer[:at], body)


def _reset(
    stage: schedule.Stage,
    domain: Domain,
    guards: tuple[tir.Expr, ...],
    leaves: tuple[tensor.Axis, ...],
    reset: tir.Stmt,
) -> tir.Stmt:
    """Return the statement `reset` in new loops over the data axes among `leaves`."""
    fresh = _copies(domain, [a for a in leaves if a.kind == "data"])
    return _swept(stage, domain, guards, leaves, fresh, tir.substitute(reset, fresh))


def _copies(domain: Domain, axes: list[tensor.Axis]) -> dict[tir.Var, tir.Var]:
    """Map the loop variable of each axis that has a loop to a new variable: i -> i.init."""
    old = [domain.loops[a] for a in axes if a in domain.loops]
    return {v: tir.Var(f"{v.name}.init", 0, v.high, v.top) for v in old}


def _swept(
    stage: schedule.Stage,
    domain: Domain,
    guards: tuple[tir.Expr, ...],
    leaves: tuple[tensor.Axis, ...],
    fresh: dict[tir.Var, tir.Var],
    body: tir.Stmt,
) -> tir.Stmt:
    """Return `body` in loops over the variables in `fresh` instead of the old loops of `leaves`.

    for i: for k: C[i] = ...   ->   for i.init: C[i.init] = 0

    Guards that depend on other loops of `leaves` are left out.
    """
    loops = [(a, domain.loops[a]) for a in leaves if a in domain.loops]
    others = [v for _, v in loops if v not in fresh]
    conds = [tir.substitute(g, fresh) for g in guards if tir.free_of(g, others)]
    body = _guarded(conds, body)
    for a, v in reversed(loops):
        if v in fresh:
            note = stage.note(a)
            body = tir.For(fresh[v], domain.extents[a], body, note.kind, note.thread)
    return body


# --- stores ---------------------------------------------------------------------------------------


def _target(
    context: LoweringContext, op: tensor.ComputeOp, i: int, at: tuple[tir.Index, ...]
) -> tuple[tir.Buffer, tuple[tir.Index, ...]]:
    t = tensor.tensor_of(op, i)
    return context.buffers[t], context.place(t, at)


def _stores(
    context: LoweringContext,
    op: tensor.ComputeOp,
    formulas: tuple[tir.Expr, ...],
    values: dict[tensor.Axis, tir.Index],
) -> tir.Stmt:
    """Return the store out[i] = formula(i) for each output; `values` has the value of each axis."""
    at = tuple(values[a] for a in op.axis)
    stores: list[tir.Stmt] = []
    for i, e in enumerate(formulas):
        buffer, indices = _target(context, op, i, at)
        stores.append(tir.Store(buffer, indices, context.read(e, values)))
    return tir.seq(*stores)


def _init(
    context: LoweringContext,
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    guards: tuple[tir.Expr, ...],
    leaves: tuple[tensor.Axis, ...],
) -> tir.Stmt:
    """Return new loops over the data axes that store the reduction's initial value."""
    domain = context.domains[stage.name]
    r = op.reduction
    assert r is not None
    if any(a.kind == "reduce" and a in domain.loops for a in leaves) and has_mixed_loops(stage):
        domain, leaves = init_domain(stage, op, domain, leaves)
        guards = domain.conditions
    needed = {v for a in op.axis for v in tir.variables(domain.values[a])}
    fresh = _copies(domain, [a for a in leaves if domain.loops.get(a) in needed])
    here = {a: tir.substitute(v, fresh) for a, v in domain.values.items()}
    starts = r.init or r.reducer.identity(tuple(s.dtype for s in r.sources))
    return _swept(stage, domain, guards, leaves, fresh, _stores(context, op, starts, here))


def _update(context: LoweringContext, op: tensor.ComputeOp, domain: Domain) -> tir.Stmt:
    """Return out[i] = combine(out[i], source); all results are computed before one is stored."""
    r = op.reduction
    assert r is not None
    at = tuple(domain.values[a] for a in op.axis)
    targets = [_target(context, op, i, at) for i in range(len(op.body))]
    old = tuple(tir.Load(b, i, b.dtype) for b, i in targets)
    new = r.reducer.combine(old, tuple(context.read(s, domain.values) for s in r.sources))
    if len(targets) == 1:
        body: tir.Stmt = tir.Store(*targets[0], new[0])
    else:
        body = _store_together(targets, new)
    where = context.read(r.where, domain.values)
    return body if where is tir.TRUE else tir.If(where, body, likely=bool(tensor.facts_of(where)))


def _store_together(
    targets: list[tuple[tir.Buffer, tuple[tir.Index, ...]]], new: tuple[tir.Expr, ...]
) -> tir.Stmt:
    """Compute all of `new` before storing any of them, because they may read the `targets`."""
    temps = [tir.Buffer(f"{b.name}.new", (), b.dtype, "local") for b, _ in targets]
    body = tir.seq(
        *(tir.Store(t, (), e) for t, e in zip(temps, new, strict=True)),
        *(
            tir.Store(b, i, tir.Load(t, (), t.dtype))
            for (b, i), t in zip(targets, temps, strict=True)
        ),
    )
    for t in reversed(temps):
        body = tir.Allocate(t, body)
    return body
