"""Apply steps to states. An illegal step raises an error and changes nothing."""

from __future__ import annotations

from minitvm.base import ScheduleError

from .attach import check_attach
from .limits import check_limits
from .places import check_store
from .scans import check_ahead, within_scans
from .state import State
from .step import Step


def apply(state: State, step: Step) -> State:
    """Return the state after `step`; raise ScheduleError if it is illegal."""
    for why, fix in step.checks(state):
        raise ScheduleError(step.what, why, fix)
    new = step.apply(state)
    pending = new.pending
    if step.changes == "loops":
        check_limits(new, step.stage)
        host = "" if pending else step.stage  # other stages' loops are unchanged
        pending = check_attach(new, host)
    elif step.changes == "places":
        new = within_scans(new)
        check_limits(new, step.stage)
        pending = check_attach(new)
    check_ahead(new)
    check_store(new)
    return State(new.stages, (*state.steps, step), new.intrins, pending, new.sizes)


def replay(state: State, steps: tuple[Step, ...]) -> State:
    """Apply all `steps` in order and return the last state."""
    for step in steps:
        state = apply(state, step)
    return state
