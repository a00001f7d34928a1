"""rfactor: a reduction becomes two, so that its parts can run side by side."""

from __future__ import annotations

import operator

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .dataflow import insert, retarget
from .state import At, SplitRelation, Stage, State, names_of, new_stage, root_axes, unique
from .steps import RFactor


def rfactor(state: State, step: RFactor) -> State:
    """A new stage `name.rf` sums over all reduce loops but one; the old one sums over that one."""
    stage = state.stage(step.stage)
    op, reduction, factored = _checked(state, stage, step)
    leaves = [a for a in stage.leaves if a.kind == "reduce"]
    names = {s.name for s in state.stages}
    partial = _partial(stage, op, reduction, leaves, factored, step, unique(f"{op.name}.rf", names))
    total = _total(op, reduction, partial, factored, step.factor_axis % (len(op.axis) + 1))
    n = len(op.body)
    state = state.with_stage(
        stage.change(
            op=total, leaves=root_axes(total), names=names_of(total), relations=(), notes={}
        )
    )
    state = retarget(state, {tensor.tensor_of(op, i): tensor.tensor_of(total, i) for i in range(n)})
    return insert(state, stage.name, new_stage(partial.name, partial), after=False)


def _checked(
    state: State, stage: Stage, step: RFactor
) -> tuple[tensor.ComputeOp, tensor.Reduce, tensor.Axis]:
    op, what = stage.op, f"rfactor of {step.axis!r} in {stage.name}"
    if not isinstance(op, tensor.ComputeOp) or op.reduction is None:
        raise ScheduleError(what, "it is not a reduction")
    names = stage.names
    found = [a for a in stage.leaves if names[a] == step.axis]
    if not found or found[0].kind != "reduce":
        reduce = ", ".join(names[a] for a in stage.leaves if a.kind == "reduce")
        raise ScheduleError(what, "not a reduce loop of the stage", f"one of {reduce}")
    for e in tensor.limits(op):
        if tensor.is_from_data(e) or any(isinstance(v, tensor.Axis) for v in tir.variables(e)):
            raise ScheduleError(
                what,
                f"the range of a reduce axis depends on other axes or on data: {tir.text(e)}",
                "a range that is the same for all elements, and where=... for what counts",
            )
    data = [a for a in stage.leaves if a.kind == "data"]
    untouched = len(data) == len(op.axis) and all(map(operator.is_, data, op.axis))
    if not untouched or stage.notes:
        raise ScheduleError(
            what,
            "its loops have been changed in other ways, which would be lost",
            "split the reduce axis, rfactor, and only then change other loops",
        )
    if not -len(op.axis) - 1 <= step.factor_axis <= len(op.axis):
        raise ScheduleError(what, f"factor_axis={step.factor_axis} is no place among the axes")
    for s in state.stages:
        if isinstance(s.attach, At) and s.attach.stage == stage.name:
            raise ScheduleError(what, f"{s.name} is attached to its loops", "rfactor first")
    return op, op.reduction, found[0]


def _partial(
    stage: Stage,
    op: tensor.ComputeOp,
    reduction: tensor.Reduce,
    leaves: list[tensor.Axis],
    factored: tensor.Axis,
    step: RFactor,
    name: str,
) -> tensor.ComputeOp:
    """name[..., f, ...] = the reduction over all reduce loops but `factored`; f stands for it."""
    data = [tensor.axis(a.name, 0, a.extent, "data") for a in op.axis]
    place = tensor.axis(factored.name, 0, factored.extent, "data")
    folded = [tensor.axis(a.name, 0, a.extent, "reduce") for a in leaves if a is not factored]
    others = iter(folded)
    renamed: dict[tensor.Axis, tir.Index] = {
        a: place if a is factored else next(others) for a in leaves
    }
    values, guards = _values(stage, op, renamed)
    values |= dict(zip(op.axis, data, strict=True))
    inside, where = tir.all_of(*guards), tir.substitute(reduction.where, values)
    reads = any(
        isinstance(n, tir.Load) for n in tir.walk(where)
    )  # it must not, where a guard fails
    where = tir.if_then_else(inside, where, tir.FALSE) if reads else tir.all_of(inside, where)
    sources = tuple(tir.substitute(e, values) for e in reduction.sources)
    axes = list(data)
    axes.insert(step.factor_axis % (len(data) + 1), place)
    if not folded:
        folded = [tensor.axis("one", 0, 1, "reduce")]
    reduce_axes = tuple(folded)
    body = tuple(
        tensor.Reduce(reduction.reducer, sources, reduce_axes, where, (), i, e.dtype)
        for i, e in enumerate(sources)
    )
    return tensor.ComputeOp(name, tuple(axes), reduce_axes, body)


def _values(
    stage: Stage, op: tensor.ComputeOp, leaves: dict[tensor.Axis, tir.Index]
) -> tuple[dict[tensor.Axis, tir.Index], list[tir.Expr]]:
    """The op's reduce axes in terms of its loops, and what keeps ragged splits in range."""
    values = dict(leaves)
    guards: list[tir.Expr] = []
    for r in reversed(stage.relations):
        if isinstance(r, SplitRelation):
            values[r.parent] = tir.add(tir.mul(values[r.outer], r.inner.extent), values[r.inner])
            if not tir.same(tir.mul(r.outer.extent, r.inner.extent), r.parent.extent):
                guards.append(tir.compare("<", values[r.parent], r.parent.extent))
        else:
            values[r.outer] = tir.floordiv(values[r.fused], r.inner.extent)
            values[r.inner] = tir.floormod(values[r.fused], r.inner.extent)
    return {a: tir.add(a.start, values[a]) for a in op.reduce_axis}, guards


def _total(
    op: tensor.ComputeOp,
    reduction: tensor.Reduce,
    partial: tensor.ComputeOp,
    factored: tensor.Axis,
    place: int,
) -> tensor.ComputeOp:
    """The old op, now over the partial results."""
    over = tensor.axis(f"{factored.name}.v", 0, factored.extent, "reduce")
    at: list[tensor.Axis] = list(op.axis)
    at.insert(place, over)
    parts: list[tensor.Tensor] = [tensor.tensor_of(partial, i) for i in range(len(op.body))]
    sources = tuple(tir.load(t, *at) for t in parts)
    body = tuple(
        tensor.Reduce(reduction.reducer, sources, (over,), tir.all_of(), reduction.init, i, e.dtype)
        for i, e in enumerate(op.body)
    )
    return tensor.ComputeOp(op.name, op.axis, (over,), body, op.tag, attrs=op.attrs)
