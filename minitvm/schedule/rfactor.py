"""Split a reduction into two stages, so that partial results can be computed in parallel."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import ClassVar

from minitvm import tensor, tir

from .dataflow import insert, recompute
from .state import (
    At,
    FuseRelation,
    SplitRelation,
    Stage,
    State,
    names_of,
    new_stage,
    root_axes,
    unique,
)
from .step import Changes, Checks, LoopName, Step


@dataclass(frozen=True, slots=True)
class RFactor(Step):
    """Split a reduction into partial results, one per iteration of the loop `axis`, and their sum.

        for k in range(n):            for f in range(4):
          B += A[k]              ->     for k in range(n // 4): B_rf[f] += A[k*4 + f]
                                      for f in range(4):
                                        B += B_rf[f]

    The new stage `name.rf` reduces over all reduce loops but `axis`, and the old stage reduces over
    `axis`. `factor_axis` is the position of `axis` among the dimensions of the new stage.
    """

    axis: LoopName
    factor_axis: int = 0
    changes: ClassVar[Changes] = "places"
    samples: ClassVar = {"factor_axis": (-1, 0, 1, 2)}

    def checks(self, state: State) -> Checks:
        stage = state.stage(self.stage)
        op = stage.op
        if not isinstance(op, tensor.ComputeOp) or op.reduction is None:
            yield "it is not a reduction", ""
        assert isinstance(op, tensor.ComputeOp)
        names = stage.names
        reduce_names = [names[a] for a in stage.leaves if a.kind == "reduce"]
        if self.axis not in reduce_names:
            yield "it is not a reduce loop of the stage", f"one of {', '.join(reduce_names)}"
        for e in tensor.variable_reduce_ranges(op):
            if tensor.is_from_data(e) or any(isinstance(v, tensor.Axis) for v in tir.variables(e)):
                why = f"the range of a reduce axis depends on other axes or on data: {tir.text(e)}"
                yield why, "one range for all elements, and te.sum(..., where=...) to skip terms"
        for r in stage.relations:
            if isinstance(r, FuseRelation) and tir.prove_equal(r.inner.extent, 0):
                why = f"it is fused with {r.inner.name!r}, which has no iterations"
                yield why, "fuse only loops that have iterations"
        data = [a for a in stage.leaves if a.kind == "data"]
        is_unchanged = len(data) == len(op.axis) and all(map(operator.is_, data, op.axis))
        if not is_unchanged or stage.notes:
            why = "its loops have been changed in other ways, which would be lost"
            yield why, "split the reduce axis, rfactor, and only then change other loops"
        if not -len(op.axis) - 1 <= self.factor_axis <= len(op.axis):
            yield f"factor_axis={self.factor_axis} is not a position among the axes", ""
        for s in state.stages:
            if isinstance(s.attach, At) and s.attach.stage == stage.name:
                yield f"{s.name} is attached to its loops", "call rfactor before compute_at"

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        op, factored = stage.op, stage.loops[self.axis]
        assert isinstance(op, tensor.ComputeOp)
        assert op.reduction is not None
        position = self.factor_axis % (len(op.axis) + 1)
        name = unique(f"{op.name}.rf", {s.name for s in state.stages})
        partial = _partial(stage, op, op.reduction, factored, position, name)
        total = _total(op, op.reduction, partial, factored, position)
        changed = stage.change(
            op=total, leaves=root_axes(total), names=names_of(total), relations=(), notes={}
        )
        state = recompute(state, changed, op)
        return insert(state, stage.name, new_stage(partial.name, partial), after=False)


def _partial(
    stage: Stage,
    op: tensor.ComputeOp,
    reduction: tensor.Reduce,
    factored: tensor.Axis,
    position: int,
    name: str,
) -> tensor.ComputeOp:
    """Return the op `name` that computes the partial results.

    It reduces over all reduce loops but `factored`, which becomes its data axis at `position`.
    """
    leaves = [a for a in stage.leaves if a.kind == "reduce"]
    data = [tensor.axis(a.name, 0, a.extent, "data") for a in op.axis]
    new_axis = tensor.axis(factored.name, 0, factored.extent, "data")
    folded = [tensor.axis(a.name, 0, a.extent, "reduce") for a in leaves if a is not factored]
    others = iter(folded)
    renamed: dict[tensor.Axis, tir.Index] = {
        a: new_axis if a is factored else next(others) for a in leaves
    }
    values, guards = _values(stage, op, renamed)
    values |= dict(zip(op.axis, data, strict=True))
    guard, where = tir.all_of(*guards), tir.substitute(reduction.where, values)
    reads = any(isinstance(n, tir.Load) for n in tir.walk(where))  # safe only if guarded
    where = tir.if_then_else(guard, where, tir.FALSE) if reads else tir.all_of(guard, where)
    sources = tuple(tir.substitute(e, values) for e in reduction.sources)
    axes = list(data)
    axes.insert(position, new_axis)
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
    """Return the values of the op's reduce axes, given the values of the stage's loops in `leaves`.

    Also return the guards of the splits whose size does not divide the extent.
    """
    values = dict(leaves)
    guards: list[tir.Expr] = []
    for r in reversed(stage.relations):
        if isinstance(r, SplitRelation):
            values[r.parent] = tir.add(tir.mul(values[r.outer], r.inner.extent), values[r.inner])
            if not tir.prove_equal(tir.mul(r.outer.extent, r.inner.extent), r.parent.extent):
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
    """Return the op that reduces the results of `partial` along the axis `factored`.

    `place` is the position of that axis among the dimensions of `partial`.
    """
    reduce_axis = tensor.axis(f"{factored.name}.v", 0, factored.extent, "reduce")
    at: list[tensor.Axis] = list(op.axis)
    at.insert(place, reduce_axis)
    parts: list[tensor.Tensor] = [tensor.tensor_of(partial, i) for i in range(len(op.body))]
    sources = tuple(tir.load(t, *at) for t in parts)
    body = tuple(
        tensor.Reduce(
            reduction.reducer, sources, (reduce_axis,), tir.all_of(), reduction.init, i, e.dtype
        )
        for i, e in enumerate(op.body)
    )
    return tensor.ComputeOp(op.name, op.axis, (reduce_axis,), body, op.tag, attrs=op.attrs)
