"""Memory scopes: which threads share a stage's memory and compute it together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError


def enclosing_loops(
    state: schedule.State, name: str
) -> Iterator[tuple[schedule.Stage, tensor.Axis]]:
    """Yield the loops of other stages around the stage `name`, outermost first."""
    for position in schedule.path(state, name):
        host = state.stage(position.stage)
        for a in host.leaves[: position.depth + 1]:
            yield host, a


def memory_scope(state: schedule.State, stage: schedule.Stage) -> str:
    """Return the memory scope of the stage: the scope set by the user, unless that is "global".

    Otherwise it is "local" inside a loop bound to threads (virtual ones too), "shared" inside loops
    bound to blocks only, and "global" elsewhere.
    """
    if stage.scope != "global":
        return stage.scope
    ranks = [
        schedule.thread_rank(t)
        for h, a in enclosing_loops(state, stage.name)
        if (t := h.note(a).thread)
    ]
    return "global" if not ranks else ("shared", "local")[max(ranks)]  # rank 0: block, 1: thread


def shared_loops(
    state: schedule.State, stage: schedule.Stage, loops: Mapping[str, Mapping[tensor.Axis, tir.Var]]
) -> tuple[tir.Var, ...]:
    """Return the thread loops around the stage whose threads share its memory.

    The stage is computed at once for all their iterations: "shared" memory inside a loop over
    threadIdx holds what all threads need, "local" memory what one thread needs. loops: the loops
    of each stage.
    """
    scope = memory_scope(state, stage)
    tags = (
        (h, a, h.note(a).thread)
        for h, a in enclosing_loops(state, stage.name)
        if a in loops[h.name]
    )
    return tuple(
        loops[h.name][a] for h, a, tag in tags if tag and schedule.is_shared_by(scope, tag)
    )


def check_scope(
    state: schedule.State, stage: schedule.Stage, loops: Mapping[tensor.Axis, tir.Var]
) -> None:
    """Raise LoweringError if a thread that computes or reads the stage cannot access its memory.

    Inside a loop bound to threads, each thread runs the stage's own loops, and has all elements
    that the loops inside read. loops: the stage's loops with more than one iteration; only these
    distribute its work.
    """
    scope, outer_loops = memory_scope(state, stage), list(enclosing_loops(state, stage.name))
    if schedule.scope_rank(scope) == 0:  # visible to all threads
        return
    for a in stage.leaves:
        tag = stage.note(a).thread
        if a in loops and _is_private(scope, tag):
            what = f"loop {a.name!r} of {stage.name} bound to {tag!r}"
            why = f"{stage.name} is in {scope!r} memory, and each {tag} has memory of its own"
            raise LoweringError(what, why, "set_scope('shared' or 'global'), or do not bind it")
    if any(schedule.is_hardware(host.note(a).thread) for host, a in outer_loops):
        return
    for name in schedule.readers(state)[stage.name]:
        reader = state.stage(name)
        for host, a in (*enclosing_loops(state, name), *((reader, a) for a in reader.leaves)):
            tag = host.note(a).thread
            if _is_private(scope, tag):
                raise LoweringError(
                    f"{stage.name} in {scope!r} memory",
                    f"{name} reads it in loop {a.name!r} bound to {tag!r}, and each {tag} has "
                    "memory of its own",
                    f"s[{stage.name}].compute_at(..., {a.name}), or set_scope('global')",
                )


def _is_private(scope: str, tag: str) -> bool:
    """Return whether each hardware thread `tag` has its own memory of this scope."""
    return schedule.is_hardware(tag) and not schedule.is_shared_by(scope, tag)
