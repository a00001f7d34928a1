"""Guards: the conditions under which a point of a stage's loops is to be computed."""

from __future__ import annotations

from minitvm.base import LoweringError
from minitvm.schedule import SplitRelation, Stage, store_conditions
from minitvm.tensor import Axis, ComputeOp, facts_of
from minitvm.tir import (
    TRUE,
    Compare,
    Expr,
    FloorDiv,
    Index,
    compare,
    mul,
    nonneg,
    same,
    split_terms,
    sub,
    text,
)


def required(
    stage: Stage,
    op: ComputeOp,
    start: dict[Axis, Index],
    extents: dict[Axis, Index],
    values: dict[Axis, Index],
) -> tuple[Expr, ...]:
    """The conditions that keep every loop inside its axis; each one is needed.

    A split that does not divide guards the axis it splits, intermediate ones too; a data axis
    that may leave its tensor is guarded against the tensor's size.
    """
    wanted = conditions(stage, op, start, extents, values)
    return (*_needed([c for c, _ in wanted if c is not TRUE]), *store_conditions(stage, values))


def conditions(
    stage: Stage,
    op: ComputeOp,
    start: dict[Axis, Index],
    extents: dict[Axis, Index],
    values: dict[Axis, Index],
) -> list[tuple[Expr, SplitRelation | Axis]]:
    """What must hold, and why: a split that does not divide, or an axis that ends somewhere."""
    wanted: list[tuple[Expr, SplitRelation | Axis]] = []
    roots = {*op.axis, *op.reduce_axis}
    for r in stage.relations:
        if isinstance(r, SplitRelation):
            done, n = mul(extents[r.outer], extents[r.inner]), extents[r.parent]
            if not same(done, n):
                if r.exact:
                    _not_exact(stage, r, done, n)
                value = values[r.parent]
                if r.parent in roots:
                    value = sub(value, start[r.parent])
                wanted.append((_below(value, n), r))
    for a in op.axis:
        wanted.append((compare("<=", 0, values[a]), a))
        wanted.append((_below(values[a], a.extent), a))
    return wanted


def _not_exact(stage: Stage, r: SplitRelation, done: Index, n: Index) -> None:
    raise LoweringError(
        f"split of {r.parent.name!r} in {stage.name}, disable_predication=True",
        f"it makes {text(done)} iterations of {text(n)}: without a guard, "
        "those too many would write elsewhere",
        "a size that divides, or leave the guard in",
    )


def _below(e: Index, n: Index) -> Expr:
    """e < n, affine where it can be: i // 3 < 5  ->  i < 15."""
    for a, c in split_terms(e)[0]:
        if isinstance(a, FloorDiv) and isinstance(a.b, int) and c == 1:
            return _below(a.a, mul(sub(n, sub(e, a)), a.b))
    return compare("<", e, n)


def _needed(conds: list[Expr]) -> tuple[Expr, ...]:
    """The conditions that no single other one implies."""
    kept: list[Expr] = []
    for n, c in enumerate(conds):
        others = [*kept, *conds[n + 1 :]]
        if not (isinstance(c, Compare) and any(_implies(o, c) for o in others)):
            kept.append(c)
    return tuple(kept)


def _implies(a: Expr, b: Expr) -> bool:
    (goal,) = facts_of(b) or (-1,)
    return nonneg(goal, facts_of(a))
