"""Build loop nests from a schedule state, with each stage in the loop it is attached to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError, raise_first

from .checks import about_double_buffer, about_extent, has_mixed_loops
from .cross_thread import CROSS_THREAD, cross_thread
from .double_buffer import DOUBLE
from .operands import OperandView, instantiate
from .regions import Domain, LoweringContext, enclosing_loops, init_domain, loop_variable
from .tensorize import region, tensorized

Guards = tuple[tir.Expr, ...]
Axes = tuple[tensor.Axis, ...]
Target = tuple[tir.Buffer, tuple[tir.Index, ...]]


def nest(context: LoweringContext, stages: Sequence[schedule.Stage]) -> tir.Stmt:
    """Return the loop nests of the root stages among `stages`, with attached stages inside them."""
    body: tir.Stmt | None = None
    for stage in reversed(stages):
        if not isinstance(stage.op, tensor.PlaceholderOp) and not isinstance(
            stage.attach, schedule.At
        ):
            body = _realize(context, stage, body)
    assert body is not None
    ops = [s.op for s in stages if isinstance(s.op, tensor.ComputeOp)]
    if any(True for op in ops for _ in tensor.extent_loads(op)):
        body = tir.rewrite(body, expr=context.redirect)
    return body


def _realize(context: LoweringContext, stage: schedule.Stage, rest: tir.Stmt | None) -> tir.Stmt:
    """Return the stage's loops and then `rest`, inside the allocation of the stage's results."""
    assert not isinstance(stage.op, tensor.PlaceholderOp)  # which has no loops
    match stage.op:
        case tensor.ExternOp() as op:
            loops = _extern(context, op)
        case tensor.ScanOp() as op:
            loops = _scan(context, stage, op)
        case tensor.ComputeOp() as op:
            loops = _ComputeNest(context, stage, op).nest()
    if stage.double_buffer:
        reasons = about_double_buffer(context.state, stage)
        raise_first(LoweringError, f"double_buffer of {stage.name}", reasons)
        loops = tir.Pragma(DOUBLE, 1, loops)
    body = tir.seq(loops, rest)
    return body if stage.store is not None else _memory(context, stage.op, body)


def _memory(context: LoweringContext, op: tensor.Operation, body: tir.Stmt) -> tir.Stmt:
    """Return `body` inside allocations of the results of `op` that are not arguments."""
    for i in reversed(range(len(op.dtypes))):
        t = tensor.tensor_of(op, i)
        if t not in context.not_allocated:
            body = tir.Allocate(context.buffers[t], body)
    return body


def _extern(context: LoweringContext, op: tensor.ExternOp) -> tir.Stmt:
    """Return the statement of an extern operation, with its declared buffers replaced."""
    outputs = [tensor.tensor_of(op, i) for i in range(len(op.dtypes))]

    def window(t: tensor.Tensor) -> OperandView:
        return OperandView(context.buffers[t], lambda at: context.place(t, at))

    pairs = zip((*op.in_buffers, *op.out_buffers), (*op.inputs, *outputs), strict=True)
    return instantiate(op.body, {b: window(t) for b, t in pairs}, f"extern {op.name}")


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
    return tir.seq(*copies, _Loops(context, stage).loops((), stage.leaves, tir.NOTHING))


def _guarded(conds: list[tir.Expr], body: tir.Stmt) -> tir.Stmt:
    cond = tir.all_of(*conds)
    return body if cond is tir.TRUE else tir.If(cond, body, likely=cond is not tir.FALSE)


@dataclass(frozen=True, slots=True, eq=False)
class _Loops:
    """The loops of one stage."""

    context: LoweringContext
    stage: schedule.Stage

    @property
    def domain(self) -> Domain:
        """Return the points that the stage computes."""
        return self.context.domains[self.stage.name]

    def loops(self, guards: Guards, leaves: Axes, body: tir.Stmt) -> tir.Stmt:
        """Build loops for `leaves` around `body`, with the stages that are attached to these loops.

        Each guard is placed as far out as its variables allow, but never around an attached stage:
        attached stages have their own guards, and on a GPU their barriers must not be conditional.
        """
        open_guards = list(guards)
        for a in reversed(leaves):
            var, producers = self.domain.loops.get(a), self.attached(a)
            variables = () if var is None else (var,)
            ready_guards = [g for g in open_guards if producers or not tir.free_of(g, variables)]
            body = _guarded(ready_guards, body)
            open_guards = [g for g in open_guards if not any(g is r for r in ready_guards)]
            for producer in reversed(producers):
                body = _realize(self.context, producer, body)
            for s in reversed(self.context.state.stages):
                # stages that are allocated in this loop, but computed in a loop inside it
                if s.store is not None and s.store.stage == self.stage.name and s.store.axis is a:
                    body = _memory(self.context, s.op, body)
            body = self.loop(a, var, body)
        return _guarded(open_guards, body)

    def loop(self, a: tensor.Axis, var: tir.Var | None, body: tir.Stmt) -> tir.Stmt:
        """Return `body` in the loop over `a`, which has no variable if it has one iteration."""
        note, extent = self.stage.note(a), self.domain.extents[a]
        outer_loops = enclosing_loops(self.context.state, self.stage.name)
        threads = {host.note(b).thread for host, b in outer_loops}
        is_private = var is None and note.thread in threads  # each thread computes its own part
        reasons = about_extent(self.stage, a, extent, is_private)
        raise_first(LoweringError, f"{note.kind} of {a.name!r} in {self.stage.name}", reasons)
        if var is not None:
            body = tir.For(var, extent, body, note.kind, note.thread)
        for key, value in reversed(note.pragmas):
            body = tir.Pragma(key, value, body)
        return body

    def attached(self, a: tensor.Axis) -> list[schedule.Stage]:
        """Return the stages computed inside the loop `a`, producers first."""
        return [
            s
            for s in self.context.state.stages
            if isinstance(s.attach, schedule.At)
            and s.attach.stage == self.stage.name
            and s.attach.axis is a
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _ComputeNest(_Loops):
    """The loop nest of a stage that computes formulas."""

    op: tensor.ComputeOp

    def nest(self) -> tir.Stmt:
        """Return the loop nest of the stage.

        A reduction is split at its first reduce loop:

            for i: for k: for j: C += ...    ->    for i:
                                                     for j: C = identity
                                                     for k: for j: C += ...
        """
        domain, leaves = self.domain, self.stage.leaves
        if (depth := tensorized(self.stage)) is not None:
            return self.tensorized(depth)
        if self.op.reduction is None:
            stores = self.stores(self.op.body, domain.values)
            return self.loops(domain.conditions, leaves, stores)
        first = next((d for d, a in enumerate(leaves) if a.kind == "reduce"), len(leaves))
        outer_guards, inner_guards = self.divided(leaves[first:])
        update = self.loops(inner_guards, leaves[first:], self.update(self.op.reduction))
        body = tir.seq(self.init(self.op.reduction, inner_guards, leaves[first:]), update)
        if (mark := cross_thread(self.stage, self.op.reduction)) is not None:
            body = tir.Pragma(CROSS_THREAD, mark, body)
        return self.loops(outer_guards, leaves[:first], body)

    def divided(self, inner: Axes) -> tuple[Guards, Guards]:
        """Divide the guards: those that can enclose both init and update, and the others.

        inner   the loops of the update; guards that depend on them must be inside
        """
        guards = self.domain.conditions
        if any(self.attached(a) for a in inner):
            return (), guards
        loops = [self.domain.loops[a] for a in inner if a in self.domain.loops]
        common = tuple(g for g in guards if tir.free_of(g, loops))
        return common, tuple(g for g in guards if not any(g is c for c in common))

    def tensorized(self, depth: int) -> tir.Stmt:
        """Return the nest with a tensor intrinsic in place of the loops from `depth` inwards.

        If there are reduce loops outside the intrinsic, or it has no body, the result is first
        reset, then updated. If it has no reset, its body initialises the result in the first
        iteration instead:

            for i: for k: gemm(...)    ->    for i:                   for i: for k:
                                               reset(...)       or      if k == 0: body(...)
                                               for k: update(...)       else: update(...)
        """
        stage, domain, outer = self.stage, self.domain, self.stage.leaves[:depth]
        for a in stage.leaves[depth:]:
            if producers := self.attached(a):
                raise LoweringError(
                    f"tensorize of {stage.leaves[depth].name!r} in {stage.name}",
                    f"{producers[0].name} is computed in loop {a.name!r}, which the intrinsic "
                    "replaces",
                    f"compute it at a loop outside of {stage.leaves[depth].name!r}",
                )
        do = region(stage, self.op, domain, depth, self.context.buffers, self.context.place)
        if not do.reduces and do.body is not None:
            return self.loops(domain.conditions, outer, do.body)
        assert do.update is not None
        if do.reset is None:
            assert do.body is not None
            first = tir.all_of(*(tir.compare("==", v, 0) for v in do.reduces))
            return self.loops(domain.conditions, outer, tir.If(first, do.body, do.update))
        at = next((d for d, a in enumerate(outer) if a.kind == "reduce"), depth)
        outer_guards, inner_guards = self.divided(outer[at:])
        fresh = _new_variables(domain, [a for a in outer[at:] if a.kind == "data"])
        reset = self.swept(domain, inner_guards, outer[at:], fresh, tir.substitute(do.reset, fresh))
        body = tir.seq(reset, self.loops(inner_guards, outer[at:], do.update))
        return self.loops(outer_guards, outer[:at], body)

    def swept(
        self,
        domain: Domain,
        guards: Guards,
        leaves: Axes,
        fresh: dict[tir.Var, tir.Var],
        body: tir.Stmt,
    ) -> tir.Stmt:
        """Return `body` in loops over the variables in `fresh` instead of the loops of `leaves`.

        for i: for k: C[i] = ...   ->   for i.init: C[i.init] = 0

        Guards that depend on other loops of `leaves` are left out.
        """
        loops = [(a, domain.loops[a]) for a in leaves if a in domain.loops]
        others = [v for _, v in loops if v not in fresh]
        conds = [tir.substitute(g, fresh) for g in guards if tir.free_of(g, others)]
        body = _guarded(conds, body)
        for a, v in reversed(loops):
            if v in fresh:
                note = self.stage.note(a)
                body = tir.For(fresh[v], domain.extents[a], body, note.kind, note.thread)
        return body

    # --- stores ---

    def target(self, i: int, at: tuple[tir.Index, ...]) -> Target:
        """Return the buffer and the indices of element `at` of output `i`."""
        t = tensor.tensor_of(self.op, i)
        return self.context.buffers[t], self.context.place(t, at)

    def stores(
        self, formulas: Iterable[tir.Expr], values: dict[tensor.Axis, tir.Index]
    ) -> tir.Stmt:
        """Return the store out[i] = formula(i) for each output; `values` has each axis's value."""
        at = tuple(values[a] for a in self.op.axis)
        return tir.seq(
            *(
                tir.Store(*self.target(i, at), self.context.read(e, values))
                for i, e in enumerate(formulas)
            )
        )

    def init(self, r: tensor.Reduce, guards: Guards, leaves: Axes) -> tir.Stmt:
        """Return new loops over the data axes that store the reduction's initial value."""
        domain = self.domain
        if any(a.kind == "reduce" and a in domain.loops for a in leaves) and has_mixed_loops(
            self.stage
        ):
            domain, leaves = init_domain(self.stage, self.op, domain, leaves)
            guards = domain.conditions
        needed_vars = {v for a in self.op.axis for v in tir.variables(domain.values[a])}
        fresh = _new_variables(domain, [a for a in leaves if domain.loops.get(a) in needed_vars])
        values = {a: tir.substitute(v, fresh) for a, v in domain.values.items()}
        starts = r.init or r.reducer.identity(tuple(s.dtype for s in r.sources))
        return self.swept(domain, guards, leaves, fresh, self.stores(starts, values))

    def update(self, r: tensor.Reduce) -> tir.Stmt:
        """Return out[i] = combine(out[i], source); all results are computed before one is stored.

        Several results are stored through temporaries, because each may be read by the others.
        """
        read_expr, values = self.context.read, self.domain.values
        at = tuple(values[a] for a in self.op.axis)
        targets = [self.target(i, at) for i in range(len(self.op.body))]
        old = tuple(tir.Load(b, i, b.dtype) for b, i in targets)
        new = r.reducer.combine(old, tuple(read_expr(s, values) for s in r.sources))
        if len(targets) == 1:
            body: tir.Stmt = tir.Store(*targets[0], new[0])
        else:
            temps = [tir.Buffer(f"{b.name}.new", (), b.dtype, "local") for b, _ in targets]
            body = tir.seq(
                *(tir.Store(t, (), e) for t, e in zip(temps, new, strict=True)),
                *(
                    tir.Store(*target, tir.Load(t, (), t.dtype))
                    for target, t in zip(targets, temps, strict=True)
                ),
            )
            for t in reversed(temps):
                body = tir.Allocate(t, body)
        where = read_expr(r.where, values)
        return (
            body if where is tir.TRUE else tir.If(where, body, likely=bool(tensor.facts_of(where)))
        )


def _new_variables(domain: Domain, axes: list[tensor.Axis]) -> dict[tir.Var, tir.Var]:
    """Map the loop variable of each axis that has a loop to a new variable: i -> i.init."""
    old = [domain.loops[a] for a in axes if a in domain.loops]
    return {v: tir.Var(f"{v.name}.init", 0, v.high, v.top) for v in old}
