"""Find the stages that depend on constants alone; they are computed once, before the calls."""

from __future__ import annotations

from collections.abc import Container

from minitvm import schedule, tensor, tir

from .regions import Context, Domain, memory_scope


def beforehand(context: Context) -> tuple[schedule.Stage, ...]:
    """Return the stages that `PrimFunc.prepack` computes.

    These stages read only constants and are not outputs. A stage stays in the main program if it is
    computed in a loop there, is stored in a special memory, depends on a symbolic size, or reads
    such a stage.
    """
    state = context.state
    names = schedule.from_constants(state)
    found = {s.name: s for s in state.stages if s.name in names}
    while late := [name for name, s in found.items() if _is_late(context, s, names, found)]:
        for name in late:
            del found[name]
    return tuple(found.values())


def _is_late(
    context: Context,
    stage: schedule.Stage,
    names: Container[str],
    found: Container[str],
) -> bool:
    """Return whether `stage` needs loops, sizes or results of the main program."""
    state = context.state
    if _is_symbolic(stage, context.domains[stage.name]):
        return True
    if isinstance(stage.attach, schedule.At):
        return stage.attach.stage not in found
    producers = {state.owner(t).name for t in schedule.inputs(stage)}
    missing = any(name in names and name not in found for name in producers)
    return missing or memory_scope(state, stage) != "global"


def _is_symbolic(stage: schedule.Stage, domain: Domain) -> bool:
    """Return whether the formula or the region of a te.compute stage depends on a symbolic size."""
    op = stage.op
    assert isinstance(op, tensor.ComputeOp)
    bounds = (*domain.start.values(), *domain.extents.values(), *domain.conditions)
    used = {v for e in (*op.body, *bounds) for v in tir.variables(e)}
    return not used <= {*op.axis, *op.reduce_axis, *domain.around, *domain.loops.values()}
