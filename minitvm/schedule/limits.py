"""Check the loops of a reduce axis whose range depends on data axes.

The loops of the reduce axis must be inside the loops of those data axes.
"""

from __future__ import annotations

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .state import SplitRelation, Stage, State


def check_limits(state: State, name: str) -> None:
    """Raise ScheduleError if the stage `name` loops over a range before that range is known.

    If that range depends on data axes, their loops must be outside the loops of the reduce axis.
    """
    stage = next((s for s in state.stages if s.name == name), None)
    if stage is None or not isinstance(stage.op, tensor.ComputeOp):
        return
    for k in stage.op.reduce_axis:
        for a in _needed(k, stage.op):
            depth = {a: d for d, a in enumerate(stage.leaves)}
            own, others = _loops(stage, k), _loops(stage, a)
            if mixed := own & others:
                raise ScheduleError(
                    f"fuse into {mixed.pop().name!r} in {name}",
                    f"the range of {k.name} depends on {a.name}: the fused loop would have no "
                    "fixed length",
                    "fuse data axes, or split them",
                )
            first, last = min(own, key=depth.__getitem__), max(others, key=depth.__getitem__)
            if depth[first] < depth[last]:
                raise ScheduleError(
                    f"order of loops in {name}: {first.name!r} is outside of {last.name!r}",
                    f"the range of {k.name} depends on {a.name}",
                    f"put the loops of {a.name} outside the loops of {k.name}",
                )


def _needed(k: tensor.Axis, op: tensor.ComputeOp) -> list[tensor.Axis]:
    """Return the data axes on which the range of `k` depends."""
    ends = [n for n in (k.start, k.extent) if not isinstance(n, int)]
    used = {v for n in ends for v in tir.variables(n)}
    return [a for a in op.axis if a in used] if used else []


def _loops(stage: Stage, a: tensor.Axis) -> set[tensor.Axis]:
    """Return the current loops of `stage` that splits and fuses made from the axis `a`."""
    found = {a}
    for r in stage.relations:
        if isinstance(r, SplitRelation):
            found |= {r.outer, r.inner} if r.parent in found else set[tensor.Axis]()
        elif r.outer in found or r.inner in found:
            found.add(r.fused)
    return found & set(stage.leaves)
