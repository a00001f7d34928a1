"""Inlining every stage of a kind: what TVM calls AutoInlineElemWise, Broadcast and Injective."""

from __future__ import annotations

from collections.abc import Callable

from minitvm import schedule, tensor

from .stage import Recorder


def auto_inline_elementwise(s: Recorder) -> None:
    """Inline every untouched stage that reads tensors at its own place only: A[i, j] at (i, j)."""
    _inline(s, lambda op: all(place == list(range(len(op.axis))) for place in _places(op)))


def auto_inline_broadcast(s: Recorder) -> None:
    """Inline every untouched stage that reads at its own place, some axes left out: A[j]."""
    _inline(s, lambda op: all(-1 not in p and p == sorted(set(p)) for p in _places(op)))


def auto_inline_injective(s: Recorder) -> None:
    """Inline every untouched stage that is no reduction, wherever it reads."""
    _inline(s, lambda op: True)


def _places(op: tensor.ComputeOp) -> list[list[int]]:
    """For every load in the formula, the number of the axis that each index is; -1: none."""
    number = {id(a): n for n, a in enumerate(op.axis)}
    return [[number.get(id(i), -1) for i in e.indices] for e in tensor.loads(op)]


def _inline(s: Recorder, fits: Callable[[tensor.ComputeOp], bool]) -> None:
    """Inline the stages that may be, on which no step was taken, and whose formula `fits`."""
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
    """Is it one formula without a reduction, its loops as they were at first?"""
    untouched = (
        isinstance(stage.attach, schedule.AtRoot) and stage.leaves == op.axis and not stage.notes
    )
    return untouched and op.reduction is None and len(op.body) == 1


def _is_inner(s: Recorder, stage: schedule.Stage) -> bool:
    """Is it no output, and read by formulas only?"""
    who = (s.state.stage(name) for name in schedule.readers(s.state)[stage.name])
    return not stage.is_output and not any(isinstance(r.op, tensor.ExternOp) for r in who)
