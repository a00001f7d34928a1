"""Check the loops of a reduce axis whose range depends on data axes."""

from __future__ import annotations

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .state import SplitRelation, Stage, State, parts


def check_limits(state: State, name: str) -> None:
    """Raise ScheduleError if the stage `name` loops over a range before that range is known.

    If that range depends on data axes, their loops must be outside the loops of the reduce axis.
    """
    stage = next((s for s in state.stages if s.name == name), None)
    if stage is None or not isinstance(stage.op, tensor.ComputeOp):
        return
    for k in stage.op.reduce_axis:
        ends = (n for n in (k.start, k.extent) if not isinstance(n, int))
        variables = {v for n in ends for v in tir.variables(n)}
        for a in (a for a in stage.op.axis if a in variables):
            depth = {a: d for d, a in enumerate(stage.leaves)}
            reduce_loops, data_loops = _loops(stage, k), _loops(stage, a)
            if loops_in_both := reduce_loops & data_loops:
                raise ScheduleError(
                    f"fuse into {loops_in_both.pop().name!r} in {name}",
                    f"the range of {k.name} depends on {a.name}: the fused loop would have no "
                    "fixed length",
                    "fuse data axes, or split them",
                )
            first = min(reduce_loops, key=depth.__getitem__)
            last = max(data_loops, key=depth.__getitem__)
            if depth[first] < depth[last]:
                what = f"order of loops in {name}: {first.name!r} is outside of {last.name!r}"
                fix = f"put the loops of {a.name} outside the loops of {k.name}"
                raise ScheduleError(what, f"the range of {k.name} depends on {a.name}", fix)


def _loops(stage: Stage, a: tensor.Axis) -> set[tensor.Axis]:
    """Return the current loops of `stage` that splits and fuses made from the axis `a`."""
    axes = {a}
    for r in stage.relations:
        sources = {r.parent} if isinstance(r, SplitRelation) else {r.outer, r.inner}
        if sources & axes:
            axes |= {*parts(r)}
    return axes & set(stage.leaves)
