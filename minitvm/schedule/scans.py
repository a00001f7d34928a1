"""Find and check the stages inside a scan. Each step of its time loop computes one row of them."""

from __future__ import annotations

from collections.abc import Sequence

from minitvm import tensor
from minitvm.base import ScheduleError

from .state import At, AtRoot, Stage, State


def check_bodies(ops: Sequence[tensor.Operation], outputs: Sequence[tensor.Operation]) -> None:
    """Raise ScheduleError if an op inside a scan is an output or is read from outside the scan."""
    for scan in ops:
        if not isinstance(scan, tensor.ScanOp):
            continue
        body = {id(op) for op in tensor.body_of(scan)}
        inner = {*scan.states, *(t for op in tensor.body_of(scan) for t in [op.output(0)])}
        for op in outputs:
            if id(op) in body:
                why = f"it is a part of scan {scan.name}, which keeps only its own result"
                raise ScheduleError(f"a schedule of {op.name}", why, f"pass {scan.name}.op alone")
        for op in ops:
            if isinstance(op, tensor.PlaceholderOp) or op is scan or id(op) in body:
                continue
            for t in op.input_tensors:
                if t in inner:
                    what = f"{op.name} reads {t.name}"
                    why = f"that is a part of scan {scan.name}, which keeps only its own result"
                    raise ScheduleError(what, why, f"read {scan.name} instead")


def inside_scans(state: State) -> dict[str, str]:
    """Map each stage inside a scan (an update, or a reader of a state) to the name of the scan."""
    scan_of: dict[str, str] = {}
    for scan in state.stages:
        if not isinstance(scan.op, tensor.ScanOp):
            continue
        inner = set(scan.op.states)
        updates = {id(t.op) for t in scan.op.updates}
        for s in state.stages:
            if isinstance(s.op, tensor.PlaceholderOp | tensor.ScanOp):
                continue
            if id(s.op) in updates or any(t in inner for t in s.op.input_tensors):
                scan_of[s.name] = scan.name
                inner |= {s.op.output(i) for i in range(len(s.op.dtypes))}
    return scan_of


def within_scans(state: State) -> State:
    """Return `state` with the root stages inside scans attached to the scans' time loops."""
    for name, scan in inside_scans(state).items():
        stage = state.stage(name)
        if isinstance(stage.attach, AtRoot):
            loop = state.stage(scan).leaves[-1]
            state = state.with_stage(stage.change(attach=At(scan, loop)))
    return state


def update_of(state: State, stage: Stage) -> str:
    """Return the name of the scan that has `stage` as an update; "" if there is no such scan."""
    for s in state.stages:
        if isinstance(s.op, tensor.ScanOp) and any(t.op is stage.op for t in s.op.updates):
            return s.name
    return ""


def check_ahead(state: State) -> None:
    """Raise ScheduleError if a stage that needs the previous row is computed one step ahead."""
    for s in state.stages:
        if not s.double_buffer or not isinstance(s.attach, At):
            continue
        if inside_scans(state).get(s.name) == s.attach.stage:
            raise ScheduleError(
                f"double_buffer of {s.name}",
                f"it would be computed one step of {s.attach.stage} ahead, but it depends on the "
                "previous row",
                "double_buffer a stage that does not depend on the scan's state, such as a "
                "cache_read of an input",
            )
