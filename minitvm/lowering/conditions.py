"""Guards: the conditions under which a point of a stage's loops is to be computed."""

from __future__ import annotations

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError


def required(
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    start: dict[tensor.Axis, tir.Index],
    extents: dict[tensor.Axis, tir.Index],
    values: dict[tensor.Axis, tir.Index],
) -> tuple[tir.Expr, ...]:
    """The conditions that keep every loop inside its axis; each one is needed.

    A split that does not divide guards the axis it splits, intermediate ones too; a data axis
    that may leave its tensor is guarded against the tensor's size.
    """
    wanted = conditions(stage, op, start, extents, values)
    return (
        *_needed([c for c, _ in wanted if c is not tir.TRUE]),
        *schedule.store_conditions(stage, values),
    )


def conditions(
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    start: dict[tensor.Axis, tir.Index],
    extents: dict[tensor.Axis, tir.Index],
    values: dict[tensor.Axis, tir.Index],
) -> list[tuple[tir.Expr, schedule.SplitRelation | tensor.Axis]]:
    """What must hold, and why: a split that does not divide, or an axis that ends somewhere."""
    wanted: list[tuple[tir.Expr, schedule.SplitRelation | tensor.Axis]] = []
    roots = {*op.axis, *op.reduce_axis}
    for r in stage.relations:
        if isinstance(r, schedule.SplitRelation):
            done, n = tir.mul(extents[r.outer], extents[r.inner]), extents[r.parent]
            if not tir.same(done, n):
                if r.exact:
                    _not_exact(stage, r, done, n)
                value = values[r.parent]
                if r.parent in roots:
                    value = tir.sub(value, start[r.parent])
                wanted.append((_below(value, n), r))
    for a in op.axis:
        wanted.append((tir.compare("<=", 0, values[a]), a))
        wanted.append((_below(values[a], a.extent), a))
    return wanted


def _not_exact(
    stage: schedule.Stage, r: schedule.SplitRelation, done: tir.Index, n: tir.Index
) -> None:
    raise LoweringError(
        f"split of {r.parent.name!r} in {stage.name}, disable_predication=True",
        f"it makes {tir.text(done)} iterations of {tir.text(n)}: without a guard, "
        "those too many would write elsewhere",
        "a size that divides, or leave the guard in",
    )


def _below(e: tir.Index, n: tir.Index) -> tir.Expr:
    """e < n, affine where it can be: i // 3 < 5  ->  i < 15."""
    for a, c in tir.split_terms(e)[0]:
        if isinstance(a, tir.FloorDiv) and isinstance(a.b, int) and c == 1:
            return _below(a.a, tir.mul(tir.sub(n, tir.sub(e, a)), a.b))
    return tir.compare("<", e, n)


def _needed(conds: list[tir.Expr]) -> tuple[tir.Expr, ...]:
    """The conditions that no single other one implies."""
    kept: list[tir.Expr] = []
    for n, c in enumerate(conds):
        others = [*kept, *conds[n + 1 :]]
        if not (isinstance(c, tir.Compare) and any(_implies(o, c) for o in others)):
            kept.append(c)
    return tuple(kept)


def _implies(a: tir.Expr, b: tir.Expr) -> bool:
    (goal,) = tensor.facts_of(b) or (-1,)
    return tir.nonneg(goal, tensor.facts_of(a))
