"""Reduce axes whose range depends on data axes: their loops stand inside those of the data axes."""

from __future__ import annotations

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .state import SplitRelation, Stage, State


def check_limits(state: State, name: str) -> None:
    """Every loop of a reduce axis of the stage is inside the loops that decide its range; or
    ScheduleError."""
    stage = next((s for s in state.stages if s.name == name), None)
    if stage is None or not isinstance(stage.op, tensor.ComputeOp):
        return
    depth = {a: d for d, a in enumerate(stage.leaves)}
    for k in stage.op.reduce_axis:
        needed = [a for a in stage.op.axis if _depends(k, a)]
        own = _loops(stage, k) if needed else set[tensor.Axis]()
        for a in needed:
            others = _loops(stage, a)
            if mixed := own & others:
                raise ScheduleError(
                    f"fuse into {mixed.pop().name!r} in {name}",
                    f"the range of {k.name} depends on {a.name}: its loop has no fixed length",
                    "fuse data axes, or split them",
                )
            first, last = min(own, key=depth.__getitem__), max(others, key=depth.__getitem__)
            if depth[first] < depth[last]:
                raise ScheduleError(
                    f"order of loops in {name}: {first.name!r} is outside of {last.name!r}",
                    f"the range of {k.name} depends on {a.name}",
                    f"loops of {a.name} outside of those of {k.name}",
                )


def _depends(k: tensor.Axis, a: tensor.Axis) -> bool:
    ends: tuple[tir.Index, ...] = (k.start, k.extent)
    return any(v is a for n in ends if not isinstance(n, int) for v in tir.variables(n))


def _loops(stage: Stage, a: tensor.Axis) -> set[tensor.Axis]:
    """The loops that the axis has become."""
    found = {a}
    for r in stage.relations:
        if isinstance(r, SplitRelation):
            found |= {r.outer, r.inner} if r.parent in found else set[tensor.Axis]()
        elif r.outer in found or r.inner in found:
            found.add(r.fused)
    return found & set(stage.leaves)
