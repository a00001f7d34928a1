"""Explain guards: why they are needed, where they are always true, and how passes change them."""

from __future__ import annotations

from minitvm import lowering, schedule, tensor, tir
from minitvm.base import ScheduleError

from .derive import Derivation, PrintedLoops, axis_called, loops_of, origin, plain

WATCHED = ("partition", "tighten", "vectorize")  # the passes that act on guards


def cause_of(loops: PrintedLoops, stage: schedule.Stage, guard: lowering.Guard) -> str:
    """Return in words the step or the axis that makes the guard necessary."""
    domain, why = loops.domain(stage.name), guard.cause
    if why is None:
        return "set_store_predicate asks for it"
    if isinstance(why, schedule.SplitRelation):
        n, step = loops.show(domain.extents[why.parent]), origin(loops.state, stage, why)
        known, part = isinstance(domain.extents[why.parent], int), loops.show(why.size)
        if known and isinstance(why.size, int):
            return f"{n} % {part} != 0 from {step}"
        return f"{n} % {part} may not be 0, from {step}"
    value, size = domain.values[why], domain.extents[why]
    qualifier = "" if tir.prove_equal(size, why.extent) else f", {loops.show(size)} at a time"
    uneven = [
        origin(loops.state, stage, r)
        for r in stage.relations
        if isinstance(r, schedule.SplitRelation) and any(r.parent is a for a in _parts(stage, why))
        if not tir.prove_equal(
            tir.mul(domain.extents[r.outer], domain.extents[r.inner]), domain.extents[r.parent]
        )
    ]
    qualifier += f", after {' and '.join(uneven)}" if uneven else ""
    last = loops.show(tir.sub(why.extent, 1))
    reach = f"{tir.lower_bound(value)} .. {tir.upper_bound(value)}{qualifier}"
    return f"the loops take {plain(why.name)} through {reach}, and {stage.name} ends at {last}"


# --- one loop -------------------------------------------------------------------------------------


@lowering.within_stack
def explain_guard(state: schedule.State, name: str, axis: str) -> Derivation:
    """Explain every guard that depends on the loop or axis `axis` of the stage `name`.

    i_inner of C: 1 guard
      i_outer*4 + i_inner < 10
        because 10 % 4 != 0 from split(i, factor=4), step 1
        certain for i_outer in 0..1 of 0..2
        after partition: ...
    """
    loops = loops_of(state)
    names = {s.name for s in loops.context.state.stages}
    if name not in names or not isinstance(loops.stage(name).op, tensor.ComputeOp):
        raise ScheduleError(f"guards of {name}", "the schedule makes no loops for it")
    stage = loops.stage(name)
    a, domain = axis_called(stage, axis), loops.domain(name)
    variables = [domain.loops[part] for part in _parts(stage, a) if part in domain.loops]
    guards = [g for g in domain.guards if not tir.free_of(g.condition, variables)]
    what = f"{plain(axis)} of {name}: {len(guards)} guard{'' if len(guards) == 1 else 's'}"
    if not guards:
        return Derivation(what, (Derivation(_none(loops, stage, a)),))
    after = _stages(loops)
    return Derivation(what, tuple(_guard(loops, stage, g, after) for g in guards))


def _parts(stage: schedule.Stage, a: tensor.Axis) -> list[tensor.Axis]:
    """Return `a` itself, or the loops that splits and fuses made from it."""
    axes = [a]
    for r in stage.relations:
        if isinstance(r, schedule.SplitRelation) and any(r.parent is b for b in axes):
            axes += [r.outer, r.inner]
        elif isinstance(r, schedule.FuseRelation) and any(
            r.outer is b or r.inner is b for b in axes
        ):
            axes.append(r.fused)
    return axes


def _none(loops: PrintedLoops, stage: schedule.Stage, a: tensor.Axis) -> str:
    """Explain why no guard on the axis `a` is needed."""
    domain = loops.domain(stage.name)
    for r in stage.relations:
        if isinstance(r, schedule.SplitRelation) and any(
            a is b for b in (r.parent, r.outer, r.inner)
        ):
            size = loops.show(domain.extents[r.inner])
            whole = loops.show(domain.extents[r.parent])
            step = origin(loops.state, stage, r)
            return f"because {step} cuts {whole} into whole parts of {size}, and stays in bounds"
    return "because it takes only values that are computed"


def _guard(
    loops: PrintedLoops, stage: schedule.Stage, g: lowering.Guard, after: list[tuple[str, tir.Stmt]]
) -> Derivation:
    """Derive why a guard is needed, and which iterations pass it certainly."""
    domain, names = loops.domain(stage.name), tir.variables(g.condition)
    reasons = [Derivation(f"because {cause_of(loops, stage, g)}")]
    for v in names:
        if isinstance(v.high, int):
            first, stop = lowering.certain_iterations(g.condition, v, v.high + 1) or (0, 0)
            sure = f"certain for {loops.show(v)} in {first}..{stop - 1} of 0..{v.high}"
            never = f"never certain from {loops.show(v)} alone"
            reasons.append(Derivation(sure if first < stop else never))
    var_names = {v.name for v in names}
    has_lanes = any(
        stage.note(a).kind == "vectorize" and v.name in var_names for a, v in domain.loops.items()
    )
    for name, body in after:
        reasons.append(Derivation(f"after {name}: {_left(stage, body, var_names, has_lanes)}"))
    return Derivation(loops.show(g.condition), tuple(reasons))


def _stages(loops: PrintedLoops) -> list[tuple[str, tir.Stmt]]:
    """Return (pass name, program after it) for each pass that acts on guards."""
    body, stages = loops.body, list[tuple[str, tir.Stmt]]()
    for run in lowering.PASSES["llvm"]:
        body = run(body)
        if run.__name__ in WATCHED:
            stages.append((run.__name__, body))
        if run.__name__ == WATCHED[-1]:
            break
    return stages


def _left(stage: schedule.Stage, body: tir.Stmt, called: set[str], lanes_too: bool) -> str:
    """Describe which guards remain in `body`, and around how many of the stage's stores.

    called: the names of the variables of the guard. lanes_too: masks of vectors are included.
    """
    printer = tir.Printer()
    for _ in printer.lines(body):
        pass
    copies = stores_of(stage, body)
    texts: dict[str, None] = {}
    guarded_count = 0
    for run in copies:
        stage_stores = [
            c
            for c in run.guards
            if any(v.name in called for v in tir.variables(c)) or (lanes_too and tir.lanes(c) > 1)
        ]
        guarded_count += bool(stage_stores)
        for c in stage_stores:
            mask = " (a mask)" if any(isinstance(n, tir.Lane) for n in tir.walk(c)) else ""
            texts[f"{printer.expr(c)}{mask}"] = None
    if not texts:
        return "nothing is left"
    share = (
        "" if guarded_count == len(copies) else f", around {guarded_count} of {len(copies)} stores"
    )
    return "; ".join(texts) + share


def stores_of(stage: schedule.Stage, body: tir.Stmt) -> list[lowering.GuardedStore]:
    """Return the stores in `body` that compute the stage, including copies that passes made."""
    op = stage.op
    assert isinstance(op, tensor.ComputeOp)
    names = {tensor.tensor_of(op, i).name for i in range(len(op.body))}
    return [r for r in lowering.runs(body) if r.store.buffer.name in names]
