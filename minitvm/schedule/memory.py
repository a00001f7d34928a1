"""Steps about threads and memory: which loops are threads, where and when results are stored."""

from __future__ import annotations

import ast
from typing import Any

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .attach import may_be_constant, path, position
from .dataflow import arithmetic, parsed
from .memory_steps import Bind, Prefetch, SetStorePredicate, StorageAlign
from .state import At, AtRoot, Stage, State
from .threads import check_tag, is_virtual

SCOPES = ("global", "shared", "local", "warp")
BUFFERS = ("inp_buffer", "wgt_buffer", "acc_buffer")  # of an accelerator
PREFIXES = ("", "local", "vdla", "vta")  # as they are spelled here, in TVM and on slides


def bind(state: State, step: Bind, stage: Stage, a: tensor.Axis) -> State:
    """The loop `a` becomes the index of a thread."""
    tag, what = check_tag(step.thread), f"bind of {a.name!r} in {stage.name} to {step.thread!r}"
    if a.kind == "reduce" and not tag.startswith("threadIdx"):
        raise ScheduleError(
            what,
            "it is a reduce axis: its iterations all write the same element",
            "a data axis; or rfactor the reduction first; or threadIdx, whose threads can combine",
        )
    if a.kind == "scan":
        raise ScheduleError(
            what,
            "it is the time of a scan: each of its iterations needs the one before",
            "bind a loop of the update",
        )
    for b in stage.leaves:
        if b is not a and stage.note(b).thread == tag and not is_virtual(tag):
            raise ScheduleError(
                what,
                f"{b.name!r} is bound to it already: only equal indices would be computed",
                "fuse the two, or bind one to another thread",
            )
    if is_virtual(tag) and not may_be_constant(stage, a):
        raise ScheduleError(
            what, f"its extent {tir.text(a.extent)} is not a constant", "split it by nparts first"
        )
    n = step.extent
    if n is not None and (type(n) is not int or n < 1):
        raise ScheduleError(what, f"the number of threads is {n!r}, not an integer >= 1")
    if n is not None and stage.is_output and isinstance(a.extent, int) and a.extent != n:
        raise ScheduleError(
            what,
            f"{n} threads for {a.extent} iterations",
            f"split(..., nparts={n}) and bind the outer loop",
        )
    note = stage.note(a).change(kind="bind", thread=tag, threads=n)
    return state.with_stage(stage.change(notes={**stage.notes, a: note}))


def known_scope(scope: str) -> str:
    """The memory called `scope`; those of an accelerator by TVM's name.

    "acc_buffer", "vdla.acc_buffer" -> "local.acc_buffer"
    """
    if scope in SCOPES:
        return scope
    prefix, _, name = str(scope).rpartition(".")
    if name in BUFFERS and prefix in PREFIXES:
        return f"local.{name}"
    raise ScheduleError(
        f"scope {scope!r}",
        "no such memory",
        f"one of {', '.join(SCOPES)}; of an accelerator: {', '.join(BUFFERS)}",
    )


def storage_align(state: State, step: StorageAlign, stage: Stage) -> State:
    """The stride of one dimension becomes `offset` more than a multiple of `factor`."""
    what = f"storage_align of {stage.name}"
    names = [a.name for a in stage.op.axis] if isinstance(stage.op, tensor.ComputeOp) else []
    if step.axis not in names:
        raise ScheduleError(
            f"{what}, axis {step.axis!r}",
            "it is not a dimension of the result",
            f"one of {', '.join(names) or 'none'}",
        )
    if not (type(step.factor) is int and type(step.offset) is int and step.factor >= 1):
        raise ScheduleError(
            what, f"factor {step.factor!r}, offset {step.offset!r}: not integers >= 1, >= 0"
        )
    if not 0 <= step.offset < step.factor:
        raise ScheduleError(
            what,
            f"offset {step.offset} is not in 0 .. {step.factor - 1}",
            "strides are offset, offset + factor, offset + 2*factor, ...",
        )
    if step.factor * stage.op.dtypes[0].bytes > tir.ADDRESSABLE:
        raise ScheduleError(
            f"{what} by {step.factor}",
            f"its rows would lie further apart than the {tir.ADDRESSABLE} bytes that can be "
            "addressed",
            "a factor of a few cache lines",
        )
    if stage.layout is not None:
        raise ScheduleError(what, "it has a layout of its own", "pad in transform_layout")
    d = names.index(step.axis)
    others = tuple(a for a in stage.aligns if a[0] != d)
    return state.with_stage(stage.change(aligns=(*others, (d, step.factor, step.offset))))


def double_buffer(state: State, stage: Stage) -> State:
    """The stage is computed one iteration ahead of its readers, into the other half of a buffer."""
    if stage.store is not None:
        raise ScheduleError(
            f"double_buffer of {stage.name}",
            "store_at keeps its elements from one iteration to the next",
            "one of the two",
        )
    return state.with_stage(stage.change(double_buffer=True))


def prefetch(state: State, step: Prefetch, stage: Stage, a: tensor.Axis) -> State:
    """A remark that elements of a tensor will be read `offset` iterations later."""
    what = f"prefetch of {step.tensor} in {stage.name}"
    source = state.stage(step.tensor)
    inputs = stage.op.input_tensors if isinstance(stage.op, tensor.ComputeOp) else ()
    if not any(tensor.tensor_of(source.op, i) in inputs for i in range(len(source.op.dtypes))):
        names = ", ".join(dict.fromkeys(t.op.name for t in inputs)) or "nothing"
        raise ScheduleError(what, f"{stage.name} does not read it", f"it reads {names}")
    if type(step.offset) is not int or step.offset < 0:
        raise ScheduleError(what, f"{step.offset!r} iterations ahead", "an integer >= 0")
    note = stage.note(a)
    note = note.change(pragmas=(*note.pragmas, ("prefetch", (step.tensor, step.offset))))
    return state.with_stage(stage.change(notes={**stage.notes, a: note}))


# --- store_at ------------------------------------------------------------------------------------


def store_at(state: State, stage: Stage, target: Stage, a: tensor.Axis) -> State:
    """The stage's memory exists for the whole loop `a`; see `check_store`."""
    if stage.double_buffer:
        raise ScheduleError(
            f"store_at of {stage.name}", "it is double-buffered already", "one of the two"
        )
    if target.name == stage.name:
        raise ScheduleError(
            f"store_at of {stage.name}", "a stage is not kept inside itself", "a loop of a reader"
        )
    return state.with_stage(stage.change(store=At(target.name, a)))


def check_store(state: State) -> None:
    """Every stage that is stored further out is computed inside, in order; or ScheduleError.

    One that is at root still waits for its compute_at.
    """
    for s in state.stages:
        if s.store is None or isinstance(s.attach, AtRoot):
            continue
        what = f"store_at of {s.name} at {s.store.stage}, loop {s.store.axis.name!r}"
        around = path(state, s.name)
        depth = position(state.stage(s.store.stage), s.store.axis)
        stages = [p.stage for p in around]
        if s.store.stage not in stages or around[stages.index(s.store.stage)].depth < depth:
            raise ScheduleError(
                what,
                f"{s.name} is not computed inside that loop",
                "compute_at an inner loop; what is stored is then kept for the outer one",
            )
        for p in around[stages.index(s.store.stage) :]:
            host = state.stage(p.stage)
            first = depth + 1 if p.stage == s.store.stage else 0
            for a in host.leaves[first : p.depth + 1]:
                kind = host.note(a).kind
                if kind not in ("serial", "unroll"):
                    raise ScheduleError(
                        what,
                        f"loop {a.name!r} of {host.name} in between is marked {kind}: its "
                        "iterations would share the memory",
                        "a serial loop, or store it inside that loop",
                    )


# --- set_store_predicate -------------------------------------------------------------------------


def set_store_predicate(state: State, step: SetStorePredicate, stage: Stage) -> State:
    """The stage stores only where the conditions hold."""
    what = f"set_store_predicate of {stage.name}"
    names = stage.names
    axes = {name: a for a, name in names.items()}
    missing = [n for n in step.axes if n not in axes]
    if missing:
        raise ScheduleError(
            what, f"it has no axis {missing[0]!r}", f"one of {', '.join(names.values())}"
        )
    table = {n.replace(".", "_"): axes[n] for n in step.axes}
    conds = tuple(_condition(c, table, what) for c in step.conds)
    if not conds:
        raise ScheduleError(what, "no condition is given")
    if tir.all_of(*conds) is tir.TRUE or tir.all_of(*conds) is tir.FALSE:
        raise ScheduleError(
            what, f"the condition is always {tir.all_of(*conds) is tir.TRUE}", "leave it out"
        )
    for a in {id(v): v for c in conds for v in tir.variables(c)}.values():
        bound = isinstance(a, tensor.Axis) and stage.note(a).kind == "bind"
        if isinstance(a, tensor.Axis) and a.kind == "reduce" and not bound:
            raise ScheduleError(
                what,
                f"{a.name!r} is a reduce axis: no element belongs to one of its iterations",
                "data axes; a condition on what is summed is te.sum(..., where=...)",
            )
    _check_storing_thread(what, conds)
    return state.with_stage(stage.change(predicate=conds))


def _check_storing_thread(what: str, conds: tuple[tir.Expr, ...]) -> None:
    """Conditions on a thread that folds choose, by themselves, one that stores the result."""
    folding = [c for c in conds if any(_reduces(v) for v in tir.variables(c))]
    for c in folding:
        if len(tir.variables(c)) > 1:
            raise ScheduleError(
                what,
                f"{tir.text(c)} mixes a thread that folds with other axes: all such threads hold "
                "the same result, and which one stores it does not matter",
                f"{next(v.name for v in tir.variables(c) if _reduces(v))} == 0, and a second "
                "condition on the data axes",
            )
    for a in {id(v): v for c in folding for v in tir.variables(c)}.values():
        mine = tir.all_of(*(c for c in folding if any(v is a for v in tir.variables(c))))
        count = a.extent if isinstance(a, tensor.Axis) else 1
        if isinstance(count, int) and all(
            tir.substitute(mine, {a: i}) is tir.FALSE for i in range(count)
        ):
            raise ScheduleError(
                what,
                f"{tir.text(mine)} holds for none of the threads 0 .. {count - 1}: no thread would "
                "store the result",
                f"{a.name} == 0",
            )


def _condition(source: str, axes: dict[str, tensor.Axis], what: str) -> tir.Expr:
    """The comparison `source` over the axes."""
    match parsed(source):
        case ast.Compare(left, [op], [right]) if type(op) in _SIGNS:
            a, b = (arithmetic(side, axes, source) for side in (left, right))
            return tir.compare(_SIGNS[type(op)], a, b)
        case _:
            raise ScheduleError(
                f"{what}: {source!r}", "it is not a comparison", "te.all(i < 4, j >= 1)"
            )


_SIGNS: dict[type[ast.cmpop], Any] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def store_conditions(stage: Stage, values: dict[tensor.Axis, tir.Index]) -> tuple[tir.Expr, ...]:
    """The stage's store predicate at the point `values`: conditions that must all hold.

    A condition on a reduce loop that is bound to a thread names the thread that stores the result:
    the others would store the same.
    """
    conds = [c for c in stage.predicate if not any(_reduces(v) for v in tir.variables(c))]
    return tuple(c for c in (tir.substitute(c, values) for c in conds) if c is not tir.TRUE)


def _reduces(v: Any) -> bool:
    return isinstance(v, tensor.Axis) and v.kind == "reduce"
