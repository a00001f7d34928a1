"""Constant prepacking: stages that depend on constants alone are computed before the calls."""

from __future__ import annotations

from collections.abc import Container

from minitvm import schedule, tensor, tir

from .regions import Domain, LoweringContext, memory_scope


def prepack_stages(
    context: LoweringContext,
) -> tuple[list[schedule.Stage], list[schedule.Stage]]:
    """Return the stages that `PrimFunc.prepack` computes, and all other stages.

    The former read only constants and are not outputs. A stage stays in the main program if it is
    computed in a loop there, is stored in a special memory, depends on a symbolic size, or reads
    such a stage.
    """
    stages = context.state.stages
    constant = schedule.from_constants(context.state)
    prepacked = {s.name: s for s in stages if s.name in constant}
    while True:
        rest = {name for name, s in prepacked.items() if _is_main(context, s, constant, prepacked)}
        if not rest:
            break
        prepacked = {name: s for name, s in prepacked.items() if name not in rest}
    return [*prepacked.values()], [s for s in stages if s.name not in prepacked]


def _is_main(
    context: LoweringContext,
    stage: schedule.Stage,
    constant: Container[str],
    prepacked: Container[str],
) -> bool:
    """Return whether `stage` needs loops, sizes or results of the main program.

    constant   the stages that depend on constants; prepacked: those not known to be in the main one
    """
    state = context.state
    if _is_symbolic(stage, context.domains[stage.name]):
        return True
    producers = {state.owner(t).name for t in schedule.inputs(stage)}
    if any(name in constant and name not in prepacked for name in producers):
        return True
    if isinstance(stage.attach, schedule.At):
        return stage.attach.stage not in prepacked
    return memory_scope(state, stage) != "global"


def _is_symbolic(stage: schedule.Stage, domain: Domain) -> bool:
    """Return whether the formula or the region of a te.compute stage depends on a symbolic size."""
    op = stage.op
    assert isinstance(op, tensor.ComputeOp)
    bounds = (*domain.start.values(), *domain.extents.values(), *domain.conditions)
    used = {v for e in (*op.body, *bounds) for v in tir.variables(e)}
    return not used <= {*op.axis, *op.reduce_axis, *domain.around, *domain.loops.values()}
