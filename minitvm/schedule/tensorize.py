"""The step that hands the inner loops of a stage to a tensor intrinsic."""

from __future__ import annotations

from dataclasses import replace

from minitvm import tensor
from minitvm.base import ScheduleError

from .state import Stage, State
from .steps import Tensorize


def know(state: State, intrin: tensor.TensorIntrin) -> State:
    """`state`, in which steps may name `intrin`."""
    for other in state.intrins:
        if other is intrin:
            return state
        if other.name == intrin.name:
            raise ScheduleError(
                f"tensorize with {intrin.name}",
                "another intrinsic of that name is in use",
                "te.decl_tensor_intrin(..., name=...) gives it a name of its own",
            )
    return replace(state, intrins=(*state.intrins, intrin))


def tensorize(state: State, step: Tensorize, stage: Stage, a: tensor.Axis) -> State:
    """`state` in which the loops of `stage` from `a` inwards are done by the intrinsic."""
    what = f"tensorize of {a.name!r} in {stage.name}"
    known = {i.name: i for i in state.intrins}
    if step.intrin not in known:  # a step may come from JSON
        raise ScheduleError(
            what,
            f"no intrinsic {step.intrin!r} is known here",
            "Schedule.from_json(text, ops, intrins=[...])",
        )
    taken = [b.name for b, note in stage.notes.items() if note.intrin is not None and b is not a]
    if taken:
        raise ScheduleError(
            what, f"{taken[0]!r} is tensorized already", "one intrinsic covers all inner loops"
        )
    inner = stage.leaves[next(d for d, b in enumerate(stage.leaves) if b is a) :]
    marked = [b for b in inner if stage.note(b).kind != "serial"]
    if marked:
        raise ScheduleError(
            what,
            f"{marked[0].name!r} inside it is marked {stage.note(marked[0]).kind}",
            "the intrinsic replaces those loops: mark loops outside of it",
        )
    note = stage.note(a).change(intrin=known[step.intrin])
    return state.with_stage(stage.change(notes={**stage.notes, a: note}))
