"""apply(state, step) -> state: what each primitive does. Pure; an illegal step raises and that is
all that happens. Steps that rewrite formulas are in dataflow.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from minitvm import tensor, tir
from minitvm.base import ScheduleError, users_line

from .attach import check_attach, legal_places, may_be_constant
from .dataflow import cache_read, cache_write, transform_layout
from .limits import check_limits
from .memory import (
    bind,
    check_store,
    double_buffer,
    known_scope,
    prefetch,
    set_store_predicate,
    storage_align,
    store_at,
)
from .memory_steps import Bind, DoubleBuffer, Prefetch, SetStorePredicate, StorageAlign, StoreAt
from .rfactor import rfactor
from .scans import check_ahead, update_of, within_scans
from .state import (
    At,
    AtRoot,
    FuseRelation,
    Inline,
    Relation,
    SplitRelation,
    Stage,
    State,
    readers,
    unique,
)
from .steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    Fuse,
    Pragma,
    Reorder,
    RFactor,
    SetScope,
    Split,
    Step,
    Tensorize,
    TransformLayout,
)
from .tensorize import tensorize

_WITHOUT_FORMULA: dict[type[Any], str] = {
    tensor.ExternOp: "an extern operation",
    tensor.ScanOp: "a scan",
}
KINDS = ("vectorize", "unroll", "parallel")
PRAGMAS = (  # those on which passes act, by a limit, or 0 and 1
    *("auto_unroll_max_step", "unroll_explicit"),
    *("dma_copy", "alu", "coproc_sync", "trim_loop", "skip_dma_copy", "skip_alu"),
)
STEPS_OF = ("double_buffer", "prefetch", *KINDS)  # pragmas that steps of their own make


def apply(state: State, step: Step) -> State:
    """The state after `step`. Raises ScheduleError, and changes nothing, if it is illegal."""
    new = _EFFECTS[type(step)](state, step)
    if isinstance(step, Split | Fuse | Reorder):
        check_limits(new, step.stage)
        host = "" if new.pending else step.stage  # others hang on loops that are as they were
        new = replace(new, pending=check_attach(new, host))
    elif type(step) not in _IN_PLACE:
        new = within_scans(new)
        check_limits(new, step.stage)
        new = replace(new, pending=check_attach(new))
    check_ahead(new)
    check_store(new)
    return replace(new, steps=(*state.steps, step))


def replay(state: State, steps: tuple[Step, ...]) -> State:
    """The state after all `steps`."""
    for step in steps:
        state = apply(state, step)
    return state


# --- finding loops ------------------------------------------------------------------------------


def loop(stage: Stage, name: str, verb: str) -> tuple[int, tensor.Axis]:
    """Depth and axis of the loop called `name`; if it is gone, the error says what became of it."""
    names = stage.names
    for d, a in enumerate(stage.leaves):
        if names[a] == name:
            return d, a
    have = ", ".join(names[a] for a in stage.leaves) or "none"
    for r in stage.relations:
        if isinstance(r, SplitRelation) and names[r.parent] == name:
            why = f"it was split into {r.outer.name} and {r.inner.name}"
            break
        if isinstance(r, FuseRelation) and name in (names[r.outer], names[r.inner]):
            why = f"it was fused into {r.fused.name}"
            break
    else:
        why = f"{stage.name} has no such axis"
    raise ScheduleError(f"{verb} of {name!r} in {stage.name}", why, f"one of its loops now: {have}")


def _scheduled(state: State, name: str, verb: str) -> Stage:
    """The stage `name`, if it has loops to schedule."""
    stage = state.stage(name)
    if isinstance(stage.op, tensor.PlaceholderOp):
        raise ScheduleError(f"{verb} of {name}", "it is an input, nothing is computed there")
    if isinstance(stage.attach, Inline):
        raise ScheduleError(
            f"{verb} of {name}", "it is inlined, it has no loops", "compute_root it first"
        )
    if isinstance(stage.op, tensor.ScanOp) and verb in (
        "tensorize",
        "set_store_predicate",
        "prefetch",
    ):
        raise ScheduleError(
            f"{verb} of {name}",
            "it is a scan: it has a loop over time, in which its updates are computed",
            f"{verb} of {stage.op.updates[0].op.name}",
        )
    if isinstance(stage.op, tensor.ExternOp):
        raise ScheduleError(
            f"{verb} of {name}",
            "it is an extern operation: its loops are in its statement",
            "write them as they should run: ib.for_range(..., kind='parallel')",
        )
    return stage


def _new_axis(stage: Stage, name: str, extent: tir.Index, kind: tensor.AxisKind) -> tensor.Axis:
    return tensor.axis(unique(name, set(stage.names.values())), 0, extent, kind)


def ceildiv(a: tir.Index, b: int) -> tir.Index:
    """a / b rounded up. ceildiv(10, 4) = 3"""
    return tir.floordiv(tir.add(a, b - 1), b)


# --- loops ---------------------------------------------------------------------------------------


def _split(state: State, step: Split) -> State:
    stage = _scheduled(state, step.stage, "split")
    at, old = loop(stage, step.axis, "split")
    size = step.factor if step.factor is not None else step.nparts
    if (step.factor is None) == (step.nparts is None) or size is None:
        raise ScheduleError(f"split of {old.name!r}", "exactly one of factor and nparts is needed")
    if type(size) is not int or size < 1:  # a step may come from JSON
        raise ScheduleError(
            f"split of {old.name!r} by {size!r}", "the size of a part is an integer >= 1"
        )
    extents = (ceildiv(old.extent, size), size)
    if step.factor is None:
        extents = (size, ceildiv(old.extent, size))
    outer = _new_axis(stage, f"{step.axis}.outer", extents[0], old.kind)
    inner = _new_axis(stage, f"{step.axis}.inner", extents[1], old.kind)
    exact = step.disable_predication
    if exact and stage.is_output:
        _divides(stage, old, extents)
    relation = SplitRelation(old, outer, inner, step.factor, step.nparts, exact)
    return _made(state, stage, at, (old,), (outer, inner), relation)


def _divides(stage: Stage, a: tensor.Axis, parts: tuple[tir.Index, tir.Index]) -> None:
    """A split without a guard divides; where a stage is attached, lowering knows."""
    if not tir.same(tir.mul(*parts), a.extent):
        raise ScheduleError(
            f"split of {a.name!r} in {stage.name}, disable_predication=True",
            f"{tir.text(parts[0])} * {tir.text(parts[1])} iterations are not {tir.text(a.extent)}: "
            "without a guard, those too many would write elsewhere",
            "a size that divides the extent, or leave the guard in",
        )


def _fuse(state: State, step: Fuse) -> State:
    stage = _scheduled(state, step.stage, "fuse")
    if len(step.axes) < 2:
        raise ScheduleError(f"fuse in {stage.name}", "it takes two or more neighbouring loops")
    fused = loop(stage, step.axes[0], "fuse")[1]
    for name in step.axes[1:]:
        state, fused = _fuse_two(state, stage, fused, loop(stage, name, "fuse")[1])
        stage = state.stage(step.stage)
    return state


def _fuse_two(
    state: State, stage: Stage, outer: tensor.Axis, inner: tensor.Axis
) -> tuple[State, tensor.Axis]:
    at = next(d for d, a in enumerate(stage.leaves) if a is outer)
    if at + 1 == len(stage.leaves) or stage.leaves[at + 1] is not inner:
        loops = ", ".join(a.name for a in stage.leaves)
        raise ScheduleError(
            f"fuse of {outer.name!r} and {inner.name!r} in {stage.name}",
            f"they are not neighbours, outer before inner (loops: {loops})",
            f"reorder first, so that {inner.name} comes right after {outer.name}",
        )
    kind: tensor.AxisKind = "reduce" if "reduce" in (outer.kind, inner.kind) else outer.kind
    fused = _new_axis(
        stage, f"{outer.name}.{inner.name}.fused", tir.mul(outer.extent, inner.extent), kind
    )
    relation = FuseRelation(outer, inner, fused)
    return _made(state, stage, at, (outer, inner), (fused,), relation), fused


def _made(
    state: State,
    stage: Stage,
    at: int,
    gone: tuple[tensor.Axis, ...],
    made: tuple[tensor.Axis, ...],
    relation: Relation,
) -> State:
    """`state` in which the loops `gone` of `stage`, the first at depth `at`, became those `made`.

    What was attached at the innermost of the old loops is now at the innermost of the new ones.
    """
    for a in gone:
        note = stage.note(a)
        if note.intrin is not None:
            raise ScheduleError(
                f"split or fuse of {a.name!r} in {stage.name}",
                "it is tensorized",
                "split and fuse first, then tensorize the loop that remains",
            )
        if note.kind != "serial":
            raise ScheduleError(
                f"split or fuse of {a.name!r} in {stage.name}",
                f"it is marked {note.kind}",
                "split and fuse first, then say how the new loops run",
            )
    new = stage.change(
        leaves=(*stage.leaves[:at], *made, *stage.leaves[at + len(gone) :]),
        names=stage.names | {a: a.name for a in made},
        relations=(*stage.relations, relation),
        notes={a: n for a, n in stage.notes.items() if not any(a is g for g in gone)},
    )
    return state.with_stages(
        [_along(new if s is stage else s, gone[-1], made[-1]) for s in state.stages]
    )


def _along(s: Stage, old: tensor.Axis, new: tensor.Axis) -> Stage:
    """Move `s` to the loop `new` if it is computed or stored at the loop `old`."""
    if isinstance(s.attach, At) and s.attach.axis is old:
        s = s.change(attach=replace(s.attach, axis=new))
    if s.store is not None and s.store.axis is old:
        s = s.change(store=replace(s.store, axis=new))
    return s


def _reorder(state: State, step: Reorder) -> State:
    stage = _scheduled(state, step.stage, "reorder")
    wanted = [loop(stage, name, "reorder")[1] for name in step.axes]
    if len(set(step.axes)) < len(step.axes):
        raise ScheduleError(f"reorder in {stage.name}", "the same axis is given twice")
    if isinstance(stage.op, tensor.ScanOp):
        raise ScheduleError(f"reorder in {stage.name}", "time runs in order", "leave its loops")
    places = iter(wanted)
    listed = {id(a) for a in wanted}
    leaves = tuple(next(places) if id(a) in listed else a for a in stage.leaves)
    return state.with_stage(stage.change(leaves=leaves))


def _annotate(state: State, step: Annotate) -> State:
    if step.kind not in KINDS:  # a step may come from JSON
        raise ScheduleError(
            f"annotate as {step.kind!r}", "no such way to run", f"one of {', '.join(KINDS)}"
        )
    stage = _scheduled(state, step.stage, step.kind)
    _, a = loop(stage, step.axis, step.kind)
    what = f"{step.kind} of {a.name!r} in {stage.name}"
    if step.kind != "unroll" and a.kind == "reduce":
        raise ScheduleError(
            what,
            "it is a reduce axis: its iterations all write the same element",
            "a data axis; or rfactor the reduction first",
        )
    if step.kind != "unroll" and a.kind == "scan":
        raise ScheduleError(
            what,
            "it is the time of a scan: each of its iterations needs the one before",
            f"{step.kind} a loop of the update",
        )
    if step.kind != "parallel" and not may_be_constant(stage, a):
        raise ScheduleError(
            what,
            f"its extent {tir.text(a.extent)} is not a constant",
            f"split it by a constant and {step.kind} the inner part",
        )
    now = stage.note(a).kind
    if now in KINDS and now != step.kind:
        done = {"vectorize": "vectorized", "unroll": "unrolled"}.get(now, now)
        raise ScheduleError(
            what, f"it is {done} already", f"one of the two; undo() takes back the {now}"
        )
    if step.kind == "vectorize":
        others = [b.name for b in stage.leaves if b is not a and stage.note(b).kind == "vectorize"]
        if others:
            raise ScheduleError(what, f"{others[0]!r} is vectorized already", "fuse the two")
    return _note(state, stage, a, kind=step.kind, thread="", threads=None)


def _note(state: State, stage: Stage, a: tensor.Axis, **fields: Any) -> State:
    return state.with_stage(stage.change(notes=stage.notes | {a: stage.note(a).change(**fields)}))


def _pragma(state: State, step: Pragma) -> State:
    stage = _scheduled(state, step.stage, "pragma")
    _, a = loop(stage, step.axis, "pragma")
    what = f"pragma {step.key!r}"
    if step.key in STEPS_OF:
        raise ScheduleError(what, "a step of its own makes it", f"s[C].{step.key}(...)")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", step.key):
        raise ScheduleError(what, "it is no name", f"a word, such as {', '.join(PRAGMAS)}")
    if step.key in PRAGMAS and (not isinstance(step.value, int) or step.value < 0):
        raise ScheduleError(f"pragma {step.key} = {step.value!r}", "its value is an int >= 0")
    return _note(state, stage, a, pragmas=(*stage.note(a).pragmas, (step.key, step.value)))


# --- stages --------------------------------------------------------------------------------------


def _inner_stage(state: State, name: str, verb: str) -> Stage:
    """The stage `name`, if it is neither an input nor an output."""
    stage = state.stage(name)
    if isinstance(stage.op, tensor.PlaceholderOp):
        raise ScheduleError(
            f"{verb} of {name}", "it is an input", f"cache_read({name}, ...) makes a copy to place"
        )
    if stage.is_output:
        raise ScheduleError(
            f"{verb} of {name}", "it is an output: it must be stored as a whole, at root"
        )
    if scan := update_of(state, stage):
        raise ScheduleError(
            f"{verb} of {name}",
            f"it is an update of {scan}: its rows are computed in the loop over time, and stored "
            f"in the result of {scan}",
            f"cache_write({name}, ...) makes a stage to place",
        )
    return stage


def _compute_at(state: State, step: ComputeAt) -> State:
    stage = _inner_stage(state, step.stage, "compute_at")
    target = state.stage(step.target)
    if target.name == stage.name:
        legal = ", ".join(legal_places(state, stage.name))
        raise ScheduleError(
            f"compute_at of {stage.name}", "a stage cannot run inside itself", f"one of {legal}"
        )
    _, a = loop(_scheduled(state, step.target, "compute_at"), step.axis, "compute_at")
    return state.with_stage(stage.change(attach=At(target.name, a, users_line())))


def _compute_inline(state: State, step: ComputeInline) -> State:
    stage = _inner_stage(state, step.stage, "compute_inline")
    if isinstance(stage.op, tensor.ComputeOp) and stage.op.reduction is not None:
        raise ScheduleError(
            f"compute_inline of {stage.name}",
            "it is a reduction, which cannot stand inside another formula",
            "compute_at",
        )
    for name in readers(state)[stage.name]:
        kind = _WITHOUT_FORMULA.get(type(state.stage(name).op))
        if kind is not None:
            raise ScheduleError(
                f"compute_inline of {stage.name}",
                f"{name} is {kind}, which reads it from memory",
                "leave it at root",
            )
    if type(stage.op) in _WITHOUT_FORMULA:
        raise ScheduleError(
            f"compute_inline of {stage.name}",
            f"it is {_WITHOUT_FORMULA[type(stage.op)]}: it has no formula to put into its readers",
            "leave it at root",
        )
    return state.with_stage(stage.change(attach=Inline(), store=None))


def _compute_root(state: State, step: ComputeRoot) -> State:
    return state.with_stage(
        state.stage(step.stage).change(attach=AtRoot(), store=None, double_buffer=False)
    )


def _set_scope(state: State, step: SetScope) -> State:
    stage = _inner_stage(state, step.stage, "set_scope")
    return state.with_stage(stage.change(scope=known_scope(step.scope)))


def _cache_read(state: State, step: CacheRead) -> State:
    return cache_read(state, step, known_scope(step.scope))


def _cache_write(state: State, step: CacheWrite) -> State:
    return cache_write(state, step, known_scope(step.scope))


def _is_extern(state: State, name: str) -> bool:
    return isinstance(state.stage(name).op, tensor.ExternOp)


def _tensorize(state: State, step: Tensorize) -> State:
    stage = _scheduled(state, step.stage, "tensorize")
    return tensorize(state, step, stage, loop(stage, step.axis, "tensorize")[1])


def _transform_layout(state: State, step: TransformLayout) -> State:
    stage = state.stage(step.stage)
    users = [n for n in (step.stage, *readers(state)[step.stage]) if _is_extern(state, n)]
    if users:
        raise ScheduleError(
            f"transform_layout of {stage.name}",
            f"{users[0]} is an extern operation, which knows it row by row",
            "another layout for the copy that cache_read makes",
        )
    stage = _inner_stage(state, step.stage, "transform_layout")
    if stage.aligns:
        raise ScheduleError(
            f"transform_layout of {stage.name}",
            "its strides are aligned already",
            "pad in the layout: lambda i, j: (i*33 + j,)",
        )
    return transform_layout(state, step, stage)


def _bind(state: State, step: Bind) -> State:
    stage = _scheduled(state, step.stage, "bind")
    return bind(state, step, stage, loop(stage, step.axis, "bind")[1])


def _prefetch(state: State, step: Prefetch) -> State:
    stage = _scheduled(state, step.stage, "prefetch")
    return prefetch(state, step, stage, loop(stage, step.axis, "prefetch")[1])


def _store_at(state: State, step: StoreAt) -> State:
    stage = _inner_stage(state, step.stage, "store_at")
    target = _scheduled(state, step.target, "store_at")
    return store_at(state, stage, target, loop(target, step.axis, "store_at")[1])


# steps that leave all formulas, loops and places as they were: attachments stay legal
_IN_PLACE = (
    *(Annotate, Pragma, Tensorize, Bind, Prefetch, SetStorePredicate),
    *(SetScope, TransformLayout, DoubleBuffer, StorageAlign, StoreAt),
)
_EFFECTS: dict[type[Any], Callable[[State, Any], State]] = {
    Split: _split,
    Fuse: _fuse,
    Reorder: _reorder,
    Annotate: _annotate,
    Pragma: _pragma,
    ComputeAt: _compute_at,
    ComputeInline: _compute_inline,
    ComputeRoot: _compute_root,
    SetScope: _set_scope,
    CacheRead: _cache_read,
    CacheWrite: _cache_write,
    RFactor: rfactor,
    Tensorize: _tensorize,
    TransformLayout: _transform_layout,
    Bind: _bind,
    DoubleBuffer: lambda state, step: double_buffer(
        state, _inner_stage(state, step.stage, "double_buffer")
    ),
    StorageAlign: lambda state, step: storage_align(
        state, step, _inner_stage(state, step.stage, "storage_align")
    ),
    SetStorePredicate: lambda state, step: set_store_predicate(
        state, step, _scheduled(state, step.stage, "set_store_predicate")
    ),
    Prefetch: _prefetch,
    StoreAt: _store_at,
}
