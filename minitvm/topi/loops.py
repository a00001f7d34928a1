"""Good loops for stages that are neither products nor convolutions nor transposes.

elementwise         vectorized along the last dimension, parallel over the others
few columns         x[c, y, x] moved to out[y, x, c] with 2 or 3 channels: vectorized along x
column reductions   reduce a dimension other than the last: vectorized along the last dimension,
                    a strip of rows at a time
row reductions      reduce the last dimension: first to vectors of partial results, then these to
                    one number
rows                a softmax or normalisation is computed row by row, with all stages that it
                    needs, while the row is in the cache
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from minitvm import schedule, te, tensor, tir
from minitvm.base import Target

from .options import Choose, options_of
from .stages import axes_of, is_elementwise, reduce_axes_of, worth_threads
from .tile import vector_length

WORTH_THREADS = 1 << 15  # elements; with fewer, starting threads takes longer than the work
FEW = (1, 2, 4, 8)  # vectors in which a search may reduce a row, or compute one
STRIP = 8  # rows that a column reduction adds before it updates the result


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a schedule for rows, as numbers of elements.

    partials   the partial results to which a row is reduced first
    vector     the results of an elementwise stage that are computed at a time
    """

    partials: int
    vector: int


def _plan_of(
    stage: te.StageView, row: tir.Index, target: Target, choose: Choose | None, *fields: str
) -> Plan:
    """Return the plan for rows of length `row`; `choose` may choose these fields of it."""
    lanes = target.lanes(stage.op.output(0).dtype)
    default = Plan(_width(row, lanes), _width(row, lanes))
    if choose is None:
        return default
    widths = [n * lanes for n in FEW if isinstance(row, int) and n * lanes <= row]
    return choose(options_of(stage.name, default, **dict.fromkeys(fields, widths)))


def schedule_plain(
    s: te.Schedule,
    stage: te.StageView,
    op: te.ComputeOp,
    target: Target,
    choose: Choose | None = None,
) -> None:
    """Schedule a stage that is computed at root and is neither a product nor a convolution.

    choose: returns the plan of a row reduction.
    """
    reduced_row = _reduced_row(op)
    if reduced_row is not None and len(op.body) == 1:
        p = _plan_of(stage, reduced_row.extent, target, choose, "partials")
        _attach_partials(s, stage, _reduce_in_vectors(s, stage, op, reduced_row, target, p))
        outer = _data_loops(stage)
    elif op.axis and (op.reduction is None or _reads_along(op, op.axis[-1])):
        outer = _vectorize(stage, op, target)
    else:
        outer = list(op.axis)
    if outer and worth_threads(op, target, WORTH_THREADS):
        stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])


def _data_loops(stage: te.StageView) -> list[te.Axis]:
    """Return the loops of `stage` that are not over reduce axes, outermost first."""
    return [a for a in stage.leaf_iter_vars if a.kind == "data"]


def _vectorize(stage: te.StageView, op: te.ComputeOp, target: Target) -> list[te.Axis]:
    """Vectorize the last data axis, inside the reduce loops; return the data loops outside."""
    *outer, last = op.axis
    if isinstance(last.extent, int) and last.extent < 2:
        return list(op.axis)
    row = _source_row(op)
    if row is not None:
        return _interleave(stage, row, target.lanes(op.dtypes[0]))
    rest, inner = stage.split(last, factor=_width(last.extent, target.lanes(op.dtypes[0])))
    stage.vectorize(inner)
    if not op.reduce_axis:
        return [*outer, rest]
    *others, k = op.reduce_axis
    ko, ki = stage.split(k, factor=STRIP)
    stage.reorder(*outer, *others, ko, rest, ki, inner)
    stage.unroll(ki)
    return outer


def _source_row(op: te.ComputeOp) -> te.Axis | None:
    """Return the axis along the rows of a tensor that `op` transposes to rows of two or three."""
    *outer, last = op.axis
    rows = [e.indices[-1] for e in tensor.loads(op) if e.indices]
    is_short = isinstance(last.extent, int) and last.extent in (2, 3)
    if op.reduce_axis or not is_short or not rows:
        return None
    return next((a for a in outer if all(row is a for row in rows)), None)


def _interleave(stage: te.StageView, row: te.Axis, lanes: int) -> list[te.Axis]:
    """Compute a vector along `row` for each element of the last axis; return the loops outside.

    The code generator interleaves these vectors.
    """
    *outer, last = axes_of(stage)
    width = vector_length(row.extent, lanes) if isinstance(row.extent, int) else lanes
    rest, inner = stage.split(row, factor=width)
    outer = [rest if a is row else a for a in outer]
    stage.reorder(*outer, last, inner)
    stage.unroll(last)
    stage.vectorize(inner)
    return outer


def _width(extent: tir.Index, lanes: int) -> int:
    """Return how many iterations of a loop to vectorize: four vectors, or fewer if it is short."""
    if not isinstance(extent, int):
        return lanes
    fits = [n * lanes for n in (4, 2, 1) if extent >= n * lanes]
    return fits[0] if fits else vector_length(extent, lanes)


def _reads_along(op: te.ComputeOp, axis: te.Axis) -> bool:
    """Return whether the loads of `op` use `axis` only in their last index."""
    return all(tir.free_of(i, (axis,)) for e in tensor.loads(op) for i in e.indices[:-1])


# --- row reductions ------------------------------------------------------------------------------


def _reduced_row(op: te.ComputeOp) -> te.Axis | None:
    """Return the reduce axis that appears only in the last index of the loads, or None."""
    for a in op.reduce_axis:
        last = [e.indices[-1] for e in tensor.loads(op) if e.indices]
        if _reads_along(op, a) and any(not tir.free_of(i, (a,)) for i in last):
            return a
    return None


def _reduce_in_vectors(
    s: te.Schedule,
    stage: te.StageView,
    op: te.ComputeOp,
    k: te.Axis,
    target: Target,
    p: Plan,
) -> list[te.Tensor]:
    """Reduce a row to several vectors, these to one vector, and then its lanes to one number.

    k: the reduce axis along the row. Returns the new stages, or [] if a row is shorter than two
    vectors.

    for ko: wide[0 : 64] += row[ko*64 : ko*64 + 64]      four independent vectors
    for w: narrow[0 : 16] += wide[w*16 : w*16 + 16]
    for l: out += narrow[l]
    """
    lanes = target.lanes(op.dtypes[0])
    if isinstance(k.extent, int) and k.extent < 2 * lanes:
        return []
    partials: list[te.Tensor] = []
    vector_axis = k
    for part in sorted({p.partials, lanes}, reverse=True):
        _, inner = stage.split(vector_axis, factor=part)
        partial = s.rfactor(stage.op.output(0), inner, factor_axis=len(op.axis))
        view = s[partial]
        view.reorder(*reduce_axes_of(view), axes_of(view)[-1])
        view.vectorize(axes_of(view)[-1])
        partials.append(partial)
        (vector_axis,) = reduce_axes_of(stage)
    return partials


def _attach_partials(s: te.Schedule, stage: te.StageView, partials: list[te.Tensor]) -> None:
    """Attach the stages `partials` to the innermost data loop of `stage`."""
    data = _data_loops(stage)
    for partial in reversed(partials) if data else ():
        s[partial].set_scope("local")
        s[partial].compute_at(stage, data[-1])


# --- rows ----------------------------------------------------------------------------------------


def schedule_row_by_row(
    s: te.Schedule,
    out: te.StageView,
    op: te.ComputeOp,
    target: Target,
    done: Collection[str],
    choose: Choose | None = None,
) -> set[str]:
    """Schedule `out` row by row, with the stages that it needs inside its loop over rows.

    done: the names of stages that have a schedule already, such as matrix products. Returns the
    names of all stages that this function has scheduled. choose: returns the plan.
    """
    *outer, last = op.axis
    if not outer:
        return set()
    members = row_members(s, out, op, done)
    row = out.fuse(*outer) if len(outer) > 1 else outer[0]
    p = _plan_of(out, last.extent, target, choose, "partials", "vector")
    partials = {m.name: _reduce_member(s, m, target, p) for m in members}
    for stage in members:  # readers first
        stage.compute_at(out, row)
        _attach_partials(s, stage, partials[stage.name])
    for stage in (*members, out):
        axes = axes_of(stage)
        if len(axes) == len(op.axis) and not reduce_axes_of(stage):
            stage.vectorize(stage.split(axes[-1], factor=p.vector)[1])
    if worth_threads(op, target, WORTH_THREADS):
        out.parallel(row)
    return {v.name for v in s.stages if v.is_attached} | {out.name}


def _reduce_member(s: te.Schedule, stage: te.StageView, target: Target, p: Plan) -> list[te.Tensor]:
    """Call `_reduce_in_vectors` if `stage` reduces rows; return the new stages."""
    assert isinstance(stage.op, te.ComputeOp)
    reduced_row = _reduced_row(stage.op)
    return (
        []
        if reduced_row is None
        else _reduce_in_vectors(s, stage, stage.op, reduced_row, target, p)
    )


def row_members(
    s: te.Schedule, out: te.StageView, op: te.ComputeOp, done: Collection[str]
) -> list[te.StageView]:
    """Return the stages to compute in the loop over rows of `out`, readers first.

    These are reductions and elementwise stages that only `out` or other such stages read, without
    the stages in `done`.
    """
    readers = schedule.effective_readers(s.state)
    group, members = {out.name}, list[te.StageView]()
    for stage in reversed(s.stages):
        inner = stage.op
        if not isinstance(inner, te.ComputeOp) or stage.is_inlined or stage.is_output:
            continue
        kind_fits = is_elementwise(inner) or inner.reduction is not None
        free = stage.name not in done and inner.tag != op.tag
        fits = free and kind_fits and len(inner.axis) >= len(op.axis) - 1
        if fits and readers[stage.name] and set(readers[stage.name]) <= group:
            group.add(stage.name)
            members.append(stage)
    return members
