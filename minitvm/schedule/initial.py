"""The state of a program before the first step."""

from __future__ import annotations

from minitvm import tensor
from minitvm.base import ScheduleError

from .scans import check_bodies, within_scans
from .state import Stage, State, new_stage, unique


def initial(outputs: tuple[tensor.Operation, ...]) -> State:
    """Return the state before the first step: every stage at root, with its loops in axis order.

    Stages inside a scan are attached to the scan's loop over time.
    """
    for op in outputs:
        if isinstance(op, tensor.PlaceholderOp):
            why = "it is an input: nothing is computed"
            raise ScheduleError(f"a schedule of {op.name}", why, "pass C.op")
    order = tensor.producers_first(outputs)
    _own_reduce_axes(order)
    tensor.check_past(order)
    check_bodies(order, outputs)
    used_names: set[str] = set()
    stages: list[Stage] = []
    for op in order:
        is_output = any(op is o for o in outputs)
        stages.append(new_stage(unique(op.name, used_names), op, is_output=is_output))
    return within_scans(State(tuple(stages)))


def _own_reduce_axes(order: list[tensor.Operation]) -> None:
    owner: dict[tensor.Axis, tensor.Operation] = {}
    for op in order:
        for a in op.reduce_axis if isinstance(op, tensor.ComputeOp) else ():
            if owner.setdefault(a, op) is not op:
                what = f"reduce axis {a.name!r} is used by {owner[a].name} and {op.name}"
                why = "an axis belongs to one compute"
                raise ScheduleError(what, why, "one te.reduce_axis for each")
