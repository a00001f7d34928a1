"""Steps that make copies of tensors in other memories and rewrite formulas to use the copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from minitvm import tensor, tir

from .state import (
    At,
    FuseRelation,
    Stage,
    State,
    inputs,
    names_of,
    new_stage,
    root_axes,
    singletons,
    unique,
)
from .step import Changes, Checks, StageName, Step
from .storage import SCOPES, known_scope


@dataclass(frozen=True, slots=True)
class CacheRead(Step):
    """Copy a tensor into another memory in a new stage `name.scope`; `readers` read that copy.

    `output` is the number of the tensor among the stage's outputs.

                                  for i in range(n):
    for i in range(n):       ->     A_local[i] = A[i]
      C[i] = A[i] + 1             for i in range(n):
                                    C[i] = A_local[i] + 1
    """

    output: int
    scope: str
    readers: tuple[StageName, ...]
    changes: ClassVar[Changes] = "places"
    samples: ClassVar = {"output": (0, 0, 0, 1), "scope": SCOPES[:3]}

    def checks(self, state: State) -> Checks:
        source = state.stage(self.stage)
        if not 0 <= self.output < len(source.op.dtypes):  # a step may come from JSON
            yield f"it has no output {self.output}", ""
        t = tensor.tensor_of(source.op, self.output)
        readers = [s.name for s in state.stages if t in inputs(s)]
        if not self.readers:
            yield "no reader is named" if readers else "no stage reads it", ""
        for name in self.readers:
            op = state.stage(name).op
            if isinstance(op, tensor.ComputeOp) and any(
                e.buffer == t for e in tensor.extent_loads(op)
            ):
                why = f"the range of a reduce axis of {name} is read from it, once for each element"
                yield why, "cache another input"
            if name not in readers:
                why = f"{name} does not read {t.name}"
                yield why, f"its readers: {', '.join(readers) or 'none'}"

    def apply(self, state: State) -> State:
        source = state.stage(self.stage)
        t, scope = tensor.tensor_of(source.op, self.output), known_scope(self.scope)
        name = unique(f"{source.name}.{scope}", {s.name for s in state.stages})
        axes = tuple(tensor.axis(f"ax{d}", 0, n, "data") for d, n in enumerate(t.shape))
        copy = tensor.ComputeOp(name, axes, (), (tir.load(t, *axes),))
        state = retarget(state, {t: tensor.tensor_of(copy, 0)}, set(self.readers))
        return insert(state, source.name, new_stage(name, copy, scope=scope), after=True)


@dataclass(frozen=True, slots=True)
class CacheWrite(Step):
    """Add a stage that computes a result in another memory; the old stage then only copies it.

        for i in range(n):            for i_c in range(n):
          C[i] = f(i)            ->     C_local[i_c] = f(i_c)
                                      for i in range(n):
                                        C[i] = C_local[i]

    The new stage has axes i.c, j.c, ... and the reduce axes of the old one. If data loops were
    fused before, it has an axis for each fused loop, as in TVM; those of the old stage are plain.
    """

    scope: str
    changes: ClassVar[Changes] = "places"
    samples: ClassVar = {"scope": SCOPES[:3]}

    def checks(self, state: State) -> Checks:
        stage = state.stage(self.stage)
        op = stage.op
        if isinstance(op, tensor.PlaceholderOp):
            yield "it is an input, nothing is computed", ""
        if isinstance(op, tensor.ScanOp):
            why = "it is a scan, which reads the rows that it has written"
            yield why, f"cache_write of {op.updates[0].op.name}, or cache_read of {stage.name}"
        if isinstance(op, tensor.ExternOp):
            why = "it is an extern operation: only its own statement knows where it writes"
            yield why, "cache_read of its result"
        assert isinstance(op, tensor.ComputeOp)
        if any(
            v is a
            for e in tensor.variable_reduce_ranges(op)
            for v in tir.variables(e)
            for a in op.axis
        ):
            why = "the range of its reduce axis depends on its data axes, which this step replaces"
            yield why, "write a te.compute that copies its result"
        if stage.notes or stage.predicate or not (_is_plain(stage) or _is_fused(stage)):
            why = "its loops have been changed already, and they would be lost"
            yield why, "call cache_write before split, fuse, reorder, vectorize, ..."
        for s in state.stages:
            if isinstance(s.attach, At) and s.attach.stage == stage.name:
                yield f"{s.name} is attached to it", "call cache_write before compute_at"

    def apply(self, state: State) -> State:
        stage, scope = state.stage(self.stage), known_scope(self.scope)
        op = stage.op
        assert isinstance(op, tensor.ComputeOp)
        name = unique(f"{stage.name}.{scope}", {s.name for s in state.stages})
        loops = stage.leaves[: len(stage.leaves) - len(op.reduce_axis)]
        axes = tuple(tensor.axis(f"{a.name}.c", 0, a.extent, "data") for a in loops)
        index: dict[tensor.Axis, tir.Index] = {a: a for a in op.axis}
        values: dict[tensor.Axis, tir.Index] = dict(zip(loops, axes, strict=True))
        fuses = [r for r in stage.relations if isinstance(r, FuseRelation)]
        for r in fuses:
            index[r.fused] = tir.add(tir.mul(index[r.outer], r.inner.extent), index[r.inner])
        for r in reversed(fuses):
            values[r.outer] = tir.floordiv(values[r.fused], r.inner.extent)
            values[r.inner] = tir.floormod(values[r.fused], r.inner.extent)
        renamed = {a: values[a] for a in op.axis}
        inner = map_bodies(op, lambda e: tir.substitute(e, renamed))
        inner = tensor.ComputeOp(name, axes, op.reduce_axis, inner.body, attrs=op.attrs)
        n = len(op.body)
        at = [index[a] for a in loops]
        copies = tuple(tir.load(tensor.tensor_of(inner, i), *at) for i in range(n))
        outer = tensor.ComputeOp(op.name, op.axis, (), copies, op.tag, attrs=op.attrs)
        changed = stage.change(op=outer, leaves=outer.axis, names=names_of(outer), relations=())
        state = recompute(state, changed, op)
        return insert(state, stage.name, new_stage(name, inner, scope=scope), after=False)


DATAFLOW = (CacheRead, CacheWrite)


def _is_plain(stage: Stage) -> bool:
    """Return whether the loops of `stage` are the axes of its formula, in order."""
    axes = root_axes(stage.op)
    has_all_axes = len(axes) == len(stage.leaves)
    return has_all_axes and all(a is b for a, b in zip(stage.leaves, axes, strict=True))


def _is_fused(stage: Stage) -> bool:
    """Return whether steps only fused data loops of `stage`, with inner extents above 0."""
    fused = [r for r in stage.relations if isinstance(r, FuseRelation)]
    reduce = [a for a in stage.leaves if a.kind == "reduce"]
    last = [*stage.op.reduce_axis] if isinstance(stage.op, tensor.ComputeOp) else []
    return (
        len(fused) == len(stage.relations) > 0
        and not singletons(stage)
        and all(r.fused.kind == "data" and _is_positive(r.inner.extent) for r in fused)
        and [id(a) for a in stage.leaves[len(stage.leaves) - len(last) :]] == [*map(id, last)]
        and len(reduce) == len(last)
    )


def _is_positive(extent: tir.Index) -> bool:
    return isinstance(extent, int) and extent > 0


def map_bodies(op: tensor.ComputeOp, f: Callable[[Any], Any]) -> tensor.ComputeOp:
    """Return `op` with `f` applied to every expression of its bodies.

    In a reduction, `f` is applied to the sources, the condition and the initial values.
    """

    def body(e: tir.Expr) -> tir.Expr:
        if not isinstance(e, tensor.Reduce):
            return f(e)
        sources, init = tuple(f(s) for s in e.sources), tuple(f(s) for s in e.init)
        return tensor.Reduce(e.reducer, sources, e.axes, f(e.where), init, e.value_index, e.dtype)

    bodies = tuple(body(e) for e in op.body)
    return tensor.ComputeOp(op.name, op.axis, op.reduce_axis, bodies, op.tag, attrs=op.attrs)


def reread(
    op: tensor.ComputeOp | tensor.ExternOp | tensor.ScanOp,
    tensors: dict[tensor.Tensor, tensor.Tensor],
) -> tensor.ComputeOp | tensor.ExternOp | tensor.ScanOp:
    """Return a copy of `op` that reads `tensors[t]` instead of `t`, for each key `t` of `tensors`.

    Return `op` itself if it reads none of the keys.
    """
    if not any(t in tensors for t in op.input_tensors):
        return op
    if isinstance(op, tensor.ScanOp):
        return tensor.rescan(op, tensors)
    if isinstance(op, tensor.ExternOp):
        return tensor.bound_to(op, tensors)
    return map_bodies(op, lambda e: tir.rebuffer(e, tensors))  # type: ignore[arg-type]


def retarget(
    state: State, tensors: dict[tensor.Tensor, tensor.Tensor], only: set[str] | None = None
) -> State:
    """Make readers read `tensors[t]` in place of each tensor `t`, and rebuild all ops downstream.

    Change all readers or, if `only` is given, just the stages with these names.
    """
    new_tensors = dict(tensors)
    stages: list[Stage] = []
    for s in state.stages:
        if not isinstance(s.op, tensor.PlaceholderOp):
            table = new_tensors
            if only is not None and s.name not in only:
                table = {old: new for old, new in new_tensors.items() if old not in tensors}
            new = reread(s.op, table)
            if new is not s.op:
                for i in range(len(new.dtypes)):
                    new_tensors[tensor.tensor_of(s.op, i)] = tensor.tensor_of(new, i)
                s = s.change(op=new)  # noqa: PLW2901  the stage, brought up to date
        stages.append(s)
    return state.with_stages(stages)


def insert(state: State, at: str, new: Stage, after: bool) -> State:
    """Insert the stage `new` right before the stage called `at`, or right after it if `after`."""
    index = next(n for n, s in enumerate(state.stages) if s.name == at) + after
    return state.with_stages((*state.stages[:index], new, *state.stages[index:]))


def recompute(state: State, changed: Stage, old: tensor.ComputeOp) -> State:
    """Replace the stage named like `changed` by it; make the readers of `old` read `changed`."""
    n = len(old.body)
    outputs = {tensor.tensor_of(old, i): tensor.tensor_of(changed.op, i) for i in range(n)}
    return retarget(state.with_stage(changed), outputs)
