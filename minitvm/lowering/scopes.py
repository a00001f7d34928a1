"""Which threads share which memory, and what that means for the part a stage computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from minitvm.base import LoweringError
from minitvm.schedule import (
    Stage,
    State,
    is_shared_by,
    is_virtual,
    path,
    readers,
    scope_rank,
    thread_rank,
)
from minitvm.tensor import Axis
from minitvm.tir import Var


def around(state: State, name: str) -> Iterator[tuple[Stage, Axis]]:
    """The loops around the stage `name` that are not its own, outermost first."""
    for place in path(state, name):
        host = state.stage(place.stage)
        for a in host.leaves[: place.depth + 1]:
            yield host, a


def memory_scope(state: State, stage: Stage) -> str:
    """The memory of the stage's result: its own choice, or what its threads call for.

    Unless chosen, it is "local" inside a loop bound to threads (virtual ones too), "shared" inside
    one bound to blocks only, "global" elsewhere.
    """
    if stage.scope != "global":
        return stage.scope
    ranks = [thread_rank(t) for h, a in around(state, stage.name) if (t := h.note(a).thread)]
    return "global" if not ranks else ("shared", "local")[max(ranks)]


def shared_loops(
    state: State, stage: Stage, loops: Mapping[str, Mapping[Axis, Var]]
) -> Iterator[Var]:
    """The thread loops around the stage whose threads share its memory: computed for all of them.

    Memory "shared" inside a loop over threadIdx holds what all threads need, "local" memory what
    one does. loops: those of each stage.
    """
    scope = memory_scope(state, stage)
    for host, a in around(state, stage.name):
        tag = host.note(a).thread
        if tag and is_shared_by(scope, tag) and a in loops[host.name]:
            yield loops[host.name][a]


def check_scope(state: State, stage: Stage, loops: Mapping[Axis, Var]) -> None:
    """Raise LoweringError if the stage is computed by or for threads that do not see its memory.

    loops: those of its own that have more than one iteration; the others share no work.
    """
    scope, mine = memory_scope(state, stage), {a for _, a in around(state, stage.name)}
    if scope_rank(scope) == 0:  # all see it
        return
    for a in stage.leaves:
        tag = stage.note(a).thread
        if a in loops and tag and not is_virtual(tag) and not is_shared_by(scope, tag):
            raise LoweringError(
                f"loop {a.name!r} of {stage.name} bound to {tag!r}",
                f"{stage.name} lives in {scope!r} memory, of which each {tag} has its own",
                "set_scope('shared' or 'global'), or do not bind it",
            )
    for name in readers(state)[stage.name]:
        reader = state.stage(name)
        for host, a in (*around(state, name), *((reader, a) for a in reader.leaves)):
            tag = host.note(a).thread
            if a in mine or not tag or is_virtual(tag) or is_shared_by(scope, tag):
                continue
            raise LoweringError(
                f"{stage.name} in {scope!r} memory",
                f"{name} reads it inside loop {a.name!r} bound to {tag!r}, of which each has "
                "memory of its own",
                f"{stage.name}.compute_at(..., {a.name}), or set_scope('global')",
            )
