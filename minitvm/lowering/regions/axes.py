"""Compute extents of axes from their parents' extents, and their values from loop variables."""

from __future__ import annotations

from minitvm import schedule, tensor, tir


def loop_variable(name: str, extent: tir.Index) -> tir.Var:
    """Return a variable that runs from 0 to extent - 1; its `top` is extent - 1 if symbolic."""
    last = tir.sub(extent, 1)
    if tensor.is_from_data(last):  # an extent read from data must not appear in other bounds
        return tir.Var(name, 0, tir.upper_bound(last))
    return tir.Var(name, 0, tir.upper_bound(last), None if isinstance(last, int) else last)


def extend_extents(stage: schedule.Stage, extents: dict[tensor.Axis, tir.Index]) -> None:
    """Add the extents of axes made by splits and fuses to the extents of the root axes.

    An axis shorter than the factor becomes one part of its own length, unless the part is bound to
    threads. The number of threads stays as declared.
    """
    threads = _thread_axes(stage)
    extents |= dict.fromkeys(schedule.singletons(stage), 1)
    for r in stage.relations:
        if isinstance(r, schedule.FuseRelation):
            extents[r.fused] = tir.mul(extents[r.outer], extents[r.inner])
            continue
        n, size = extents[r.parent], r.size
        sized_axis = r.outer if r.factor is None else r.inner
        if (
            isinstance(n, int)
            and isinstance(size, int)
            and not any(sized_axis is a for a in threads)
        ):
            size = max(1, min(size, n))  # a loop shorter than the factor: one part
        extents[r.outer] = extents[r.inner] = tir.ceildiv(n, size)
        extents[sized_axis] = size


def _thread_axes(stage: schedule.Stage) -> list[tensor.Axis]:
    """Return the loops bound to threads, and the axes from which splits and fuses made them."""
    axes = [a for a in stage.leaves if stage.note(a).thread]
    for r in reversed(stage.relations):
        if isinstance(r, schedule.SplitRelation):
            parts_of = (r.outer, r.inner)
            axes += [r.parent] if any(a is p for a in axes for p in parts_of) else []
        elif any(a is r.fused for a in axes):
            axes += [r.outer, r.inner]
    return axes


def axis_values(
    stage: schedule.Stage, extents: dict[tensor.Axis, tir.Index], loops: dict[tensor.Axis, tir.Var]
) -> dict[tensor.Axis, tir.Index]:
    """Return the value of every axis, relative to its start, in terms of the loop variables."""
    values: dict[tensor.Axis, tir.Index] = {a: loops.get(a, 0) for a in stage.leaves}
    for r in reversed(stage.relations):
        if isinstance(r, schedule.SplitRelation):
            values[r.parent] = tir.add(tir.mul(values[r.outer], extents[r.inner]), values[r.inner])
        else:
            fused, n = values[r.fused], extents[r.inner]
            empty = tir.prove_equal(n, 0)
            values[r.outer] = 0 if empty else tir.floordiv(fused, n)
            values[r.inner] = 0 if empty else tir.floormod(fused, n)
    return values


def made_axis(r: schedule.Relation) -> tensor.Axis:
    """Return an axis that the relation made: the inner part of a split, or the result of a fuse."""
    return r.inner if isinstance(r, schedule.SplitRelation) else r.fused
