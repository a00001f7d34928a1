"""Properties of a stage that the sketch rules depend on, such as reuse of data.

The properties are defined by Ansor (Zheng et al., "Ansor: Generating High-Performance Tensor
Programs for Deep Learning", 2020, section 4.1). They are derived from a schedule state, in which
earlier steps, such as cache_write, may have rewritten operations.
"""

from __future__ import annotations

import math

from minitvm import schedule, tensor, tir

BRANCHES = (tir.Select, tir.IfThenElse)
CHEAP = {  # calls of a few instructions; TVM counts all calls but exp as cheap
    *("sqrt", "rsqrt", "floor", "ceil", "trunc", "round", "abs", "copysign"),
    *("isnan", "isfinite", "isinf"),
}


def extent(a: tensor.Axis) -> int:
    """Return the extent of an axis; 1 if it depends on data. ComputeDAG refuses symbolic sizes."""
    return a.extent if isinstance(a.extent, int) else 1


def points(op: tensor.ComputeOp) -> int:
    """Return the number of elements that `op` computes."""
    return math.prod(map(extent, op.axis))


def terms(op: tensor.ComputeOp) -> int:
    """Return the number of terms that `op` reduces to one element; 1 without a reduction."""
    return math.prod(map(extent, op.reduce_axis))


def is_ragged(op: tensor.ComputeOp) -> bool:
    """Return whether the number of terms that `op` reduces depends on data, which forbids tiles."""
    return any(not isinstance(a.extent, int) for a in op.reduce_axis)


def has_data_reuse(op: tensor.ComputeOp) -> bool:
    """Return whether several iterations read the same elements, so that it pays to tile `op`.

    This is so if the indices of an input lack an axis of the output, and `op` has a second such
    input or a reduction (NeedsMultiLevelTiling).
    """
    if is_ragged(op):
        return False
    axes = {a for a in op.axis if extent(a) > 1}
    variables_of = dict[tir.Buffer, set[tir.Expr]]()
    for load in tensor.loads(op):
        used = variables_of.setdefault(load.buffer, set())
        used |= {v for i in load.indices for v in tir.variables(i)}
    reused = sum(not axes <= read for read in variables_of.values())
    return reused >= 2 or (reused == 1 and bool(op.reduce_axis))


def is_strictly_inlineable(op: tensor.Operation) -> bool:
    """Return whether inlining `op` costs little: no reduction, branch or expensive call.

    All its indices are axes plus constants, in the order of the axes, each at most once.
    """
    if not isinstance(op, tensor.ComputeOp) or op.reduction is not None or len(op.dtypes) > 1:
        return False
    if any(map(_is_expensive, tir.walk(op.body[0]))):
        return False
    order = {a: n for n, a in enumerate(op.axis)}
    for load in tensor.loads(op):
        axis_numbers = list[int]()
        for index in load.indices:
            terms, _ = tir.split_terms(index)
            if not terms:
                continue
            (axis, scale), *others = terms
            if others or scale != 1 or axis not in order:
                return False
            axis_numbers.append(order[axis])  # pyright: ignore[reportArgumentType]
        if axis_numbers != sorted(set(axis_numbers)):
            return False
    return True


def _is_expensive(e: object) -> bool:
    return isinstance(e, BRANCHES) or (isinstance(e, tir.Call) and e.name not in CHEAP)


def reads_elementwise(reader: tensor.Operation, read: tensor.Operation) -> bool:
    """Return whether each element of `reader` needs the element of `read` at the same place."""
    if not isinstance(reader, tensor.ComputeOp) or reader.reduction is not None:
        return False
    if not isinstance(read, tensor.ComputeOp) or reader.shape != read.shape:
        return False
    loads = [e for e in tensor.loads(reader) if getattr(e.buffer, "op", None) is read]
    return all(
        len(e.indices) == len(reader.axis)
        and all(_is_at(i, a) for i, a in zip(e.indices, reader.axis, strict=True))
        for e in loads
    )


def _is_at(index: tir.Index, a: tensor.Axis) -> bool:
    """Return whether an index is an axis, or the only value of an axis of one iteration."""
    return index is a or (extent(a) == 1 and isinstance(index, int) and index == a.start)


def elementwise_consumer(state: schedule.State, name: str) -> str | None:
    """Return the only stage that reads the stage `name`, or None if it does not read elementwise.

    Inlined stages between the two stages must read elementwise too.
    """
    direct, at = schedule.readers(state), name
    while len(direct[at]) == 1:
        reader = direct[at][0]
        if not reads_elementwise(state.stage(reader).op, state.stage(at).op):
            return None
        if not isinstance(state.stage(reader).attach, schedule.Inline):
            return reader
        at = reader
    return None


def is_small_space(op: tensor.ComputeOp, cores: int) -> bool:
    """Return whether the output is too small for tiles or cores, so that the sum must be split.

    Ansor calls this NeedsRfactor. With data reuse: the output has no more elements than terms, and
    no more than 16 elements for each core. Without data reuse: there are more terms than cores.
    """
    if op.reduction is None or is_ragged(op):
        return False
    if has_data_reuse(op):
        return points(op) <= terms(op) and points(op) <= 16 * cores
    return terms(op) > cores


def packable(op: tensor.ComputeOp) -> list[tuple[tensor.Tensor, int]]:
    """Return the inputs that can be stored as panels as wide as a tile, and the dimension of each.

    Panels split this dimension, and the last data axis indexes it. The other dimensions are indexed
    by other axes or constants; at least one of these axes is a reduce axis. Some data axis indexes
    no dimension, so each tile along it reads the input again. Examples: the weights of a product
    and of a convolution in NHWC.
    """
    dimensions = dict[tensor.Tensor, int]()
    last, long = op.axis[-1], {a for a in op.axis if extent(a) > 1}
    for load in tensor.loads(op):
        where = [n for n, i in enumerate(load.indices) if i is last]
        index_terms = [i for i in load.indices if not isinstance(i, int)]
        used = {i for i in index_terms if isinstance(i, tensor.Axis)}
        plain = len(used) == len(index_terms)
        if where and plain and used & {*op.reduce_axis} and not long <= used:
            assert isinstance(load.buffer, tensor.Tensor)
            dimensions.setdefault(load.buffer, where[0])
    return [*dimensions.items()]
