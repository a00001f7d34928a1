"""Inline every stage of a certain form: TVM's AutoInlineElemWise, Broadcast and Injective."""

from __future__ import annotations

from collections.abc import Callable

from minitvm import schedule, tensor

from .stage import Recorder


def auto_inline_elementwise(s: Recorder) -> None:
    """Inline every unscheduled stage whose element [i, j] reads only elements [i, j] of tensors."""
    _inline(s, lambda op: all(axes == list(range(len(op.axis))) for axes in _places(op)))


def auto_inline_broadcast(s: Recorder) -> None:
    """Inline unscheduled stages whose element [i, j] reads only elements [i, j], [i] or [j]."""
    _inline(s, lambda op: all(-1 not in p and p == sorted(set(p)) for p in _places(op)))


def auto_inline_injective(s: Recorder) -> None:
    """Inline every unscheduled stage that is not a reduction."""
    _inline(s, lambda op: True)


def _places(op: tensor.ComputeOp) -> list[list[int]]:
    """Return, for each load, the axis number of every index; -1 if it is not an axis."""
    number = {id(a): n for n, a in enumerate(op.axis)}
    return [[number.get(id(i), -1) for i in e.indices] for e in tensor.loads(op)]


def _inline(s: Recorder, fits: Callable[[tensor.ComputeOp], bool]) -> None:
    """Inline every unscheduled stage that can be inlined and whose operation satisfies `fits`."""
    for stage in s.state.stages:
        op = stage.op
        if (
            isinstance(op, tensor.ComputeOp)
            and _is_free(stage, op)
            and _is_inner(s, stage)
            and fits(op)
        ):
            s.apply(schedule.ComputeInline(stage.name))


def _is_free(stage: schedule.Stage, op: tensor.ComputeOp) -> bool:
    """Return whether the stage is unscheduled and has a single formula that is not a reduction."""
    untouched = (
        isinstance(stage.attach, schedule.AtRoot) and stage.leaves == op.axis and not stage.notes
    )
    return untouched and op.reduction is None and len(op.body) == 1


def _is_inner(s: Recorder, stage: schedule.Stage) -> bool:
    """Return whether the stage is not an output, and no te.extern reads it."""
    readers = (s.state.stage(name) for name in schedule.readers(s.state)[stage.name])
    return not stage.is_output and not any(isinstance(r.op, tensor.ExternOp) for r in readers)
