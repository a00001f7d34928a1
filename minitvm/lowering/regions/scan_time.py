"""The time axes of stages inside a scan, which compute one row per time step."""

from __future__ import annotations

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError


def time_axes(state: schedule.State) -> dict[str, tuple[str, tensor.Axis]]:
    """Map each stage inside a scan to the scan's name and the stage's time axis.

    A stage uses its time axis to index earlier rows, state[t - 1], or the current one, hw[t].
    A copy of a state, copy[t] = state[t] as cache_read makes it, has no time axis, because more
    than one of its rows may be needed. Stages come producers first.
    """
    axes: dict[str, tuple[str, tensor.Axis]] = {}
    for scan in state.stages:
        if isinstance(scan.op, tensor.ScanOp):
            times = _time_axes_of_one(state, scan.op)
            axes |= {name: (scan.name, a) for name, a in times.items()}
    return axes


def _time_axes_of_one(state: schedule.State, scan: tensor.ScanOp) -> dict[str, tensor.Axis]:
    """Return the time axis of each stage inside one scan, by stage name."""
    rows: dict[tensor.Tensor, int] = dict.fromkeys(scan.states, 0)  # which dimension is time
    copies = set(scan.states)
    updates = {t.op for t in scan.updates}
    axes: dict[str, tensor.Axis] = {}
    for s in state.stages:
        if not isinstance(s.op, tensor.ComputeOp):
            continue
        time = s.op.axis[0] if s.op in updates else None
        has_copy = False
        for e in tensor.loads(s.op):
            if isinstance(e.buffer, tensor.Tensor) and e.buffer in rows:
                time = _axis(s.op, e.indices[rows[e.buffer]], scan.states[0].shape[0])
                has_copy |= e.buffer in copies and _is_now(time, e.indices[rows[e.buffer]])
        if time is None:
            continue
        results = [s.op.output(i) for i in range(len(s.op.body))]
        rows |= dict.fromkeys(results, next(d for d, a in enumerate(s.op.axis) if a is time))
        copies |= set(results) if has_copy else set()
        if not has_copy:
            axes[s.name] = time
    return axes


def _axis(op: tensor.ComputeOp, i: tir.Index, steps: tir.Index) -> tensor.Axis:
    """Return the data axis in a row index that spans all time steps; raise if there are several."""
    index_vars = tir.variables(i)
    axes = [
        a for a in op.axis if any(a is v for v in index_vars) and tir.prove_equal(a.extent, steps)
    ]
    if len(axes) != 1:
        what = f"the row {tir.text(i)} in {op.name}"
        why = f"it is not clear which of its {len(op.axis)} axes is the time of the scan"
        raise LoweringError(what, why, "a row index with the time axis alone: state[t - 1, ...]")
    return axes[0]


def _is_now(time: tensor.Axis, i: tir.Index) -> bool:
    return tir.prove_equal(tir.sub(time, i), 0)
