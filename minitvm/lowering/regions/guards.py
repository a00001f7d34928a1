"""Guards: the conditions under which a point of a stage's loops is computed."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError

from .domain import Guard


def guards_of(
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    start: dict[tensor.Axis, tir.Index],
    extents: dict[tensor.Axis, tir.Index],
    values: dict[tensor.Axis, tir.Index],
) -> tuple[Guard, ...]:
    """Return the guards that no other guard implies, then the conditions that the user added.

    An axis has a guard if a split does not divide its extent, even if a step made the axis.
    A data axis that may leave its tensor has guards for the ends of the tensor.
    """
    candidates = _candidates(stage, op, start, extents, values)
    uncertain = [g for g in candidates if g.condition is not tir.TRUE]
    requested_guards = (Guard(c, None) for c in schedule.store_conditions(stage, values))
    return (*_needed(uncertain), *requested_guards)


def _candidates(
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    start: dict[tensor.Axis, tir.Index],
    extents: dict[tensor.Axis, tir.Index],
    values: dict[tensor.Axis, tir.Index],
) -> Iterator[Guard]:
    """Yield a guard for each split with a remainder, and one for each end of the tensor."""
    roots = {*op.axis, *op.reduce_axis}
    for r in stage.relations:
        if isinstance(r, schedule.SplitRelation):
            iterations, n = tir.mul(extents[r.outer], extents[r.inner]), extents[r.parent]
            if not tir.prove_equal(iterations, n):
                if r.exact:
                    _refuse_inexact(stage, r, iterations, n)
                value = values[r.parent]
                if r.parent in roots:
                    value = tir.sub(value, start[r.parent])
                yield Guard(_below(value, n), r)
    for a in op.axis:
        if not tir.nonneg(start[a]):  # values are never below the start
            yield Guard(tir.compare("<=", 0, values[a]), a)
        yield Guard(_below(values[a], a.extent), a)


def _refuse_inexact(
    stage: schedule.Stage, r: schedule.SplitRelation, iterations: tir.Index, n: tir.Index
) -> None:
    raise LoweringError(
        f"split of {r.parent.name!r} in {stage.name}, disable_predication=True",
        f"it makes {tir.text(iterations)} iterations of {tir.text(n)}: without a guard, "
        "the extra iterations would write elsewhere",
        "a size that divides, or leave the guard in",
    )


def _below(e: tir.Index, n: tir.Index) -> tir.Expr:
    """Return e < n, in affine form if possible: i // 3 < 5  ->  i < 15."""
    for a, c in tir.split_terms(e)[0]:
        if isinstance(a, tir.FloorDiv) and isinstance(a.b, int) and c == 1:
            return _below(a.a, tir.mul(tir.sub(n, tir.sub(e, a)), a.b))
    return tir.compare("<", e, n)


def _needed(guards: list[Guard]) -> Iterator[Guard]:
    """Yield the guards that no other single guard implies.

    If a split and an axis cause equal guards, the later guard stays, with the split as its cause.
    """
    accepted_conds: list[tir.Expr] = []
    for n, g in enumerate(guards):
        others = [*accepted_conds, *(later.condition for later in guards[n + 1 :])]
        if isinstance(g.condition, tir.Compare) and any(_implies(o, g.condition) for o in others):
            continue
        accepted_conds.append(g.condition)
        equal_guards = (
            split
            for split in guards[:n]
            if isinstance(split.cause, schedule.SplitRelation)
            if _implies(g.condition, split.condition) and _implies(split.condition, g.condition)
        )
        yield Guard(g.condition, next(equal_guards, g).cause)


def _implies(a: tir.Expr, b: tir.Expr) -> bool:
    """Return whether the condition `b` certainly holds where `a` does."""
    (goal,) = tensor.facts_of(b) or (-1,)  # an index that is >= 0 where b holds; -1 never is
    return tir.nonneg(goal, tensor.facts_of(a))
