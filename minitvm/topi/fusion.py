"""Find stages that can be computed in the loops of elementwise stages."""

from __future__ import annotations

from minitvm import schedule, te, tensor, tir

from .kinds import is_elementwise
from .reduction import REDUCTION


def epilogue_or_self(s: te.Schedule, stage: te.StageView, done: set[str]) -> te.StageView:
    """Return the epilogue of `stage`, or `stage` itself if it has none.

    An epilogue is the only reader of `stage`; it is elementwise, has the same shape, and is not in
    `done`, the names of the scheduled stages. `stage` can be computed in its loops. A stage that is
    computed from constants, before the calls, has no epilogue that is computed in each call.
    """
    names = schedule.effective_readers(s.state)[stage.name]
    if stage.is_output or len(names) != 1 or names[0] in done:
        return stage
    reader, early = s[names[0]], schedule.from_constants(s.state)
    fits = same_shape(stage, reader) and is_elementwise(reader.op)
    return reader if fits and (stage.name in early) == (reader.name in early) else stage


def cropped(s: te.Schedule, flat: te.StageView, done: set[str]) -> te.StageView:
    """Inline the crop that reads `flat` into its epilogue, if any; return the remaining stage."""
    (name,) = schedule.readers(s.state)[flat.name]
    out = epilogue_or_self(s, s[name], done)
    if out.name != name:
        s[name].compute_inline()
    return out


def reads_once(op: tensor.Operation, source: tensor.Operation) -> bool:
    """Return whether `op` is a reduction that reads each element of `source` once."""
    if not isinstance(op, te.ComputeOp) or op.tag != REDUCTION:
        return False
    loads = [e for e in tensor.loads(op) if getattr(e.buffer, "op", None) is source]
    return len(loads) == 1 and {*op.axis, *op.reduce_axis} <= {*loads[0].indices}


def same_shape(a: te.StageView, b: te.StageView) -> bool:
    """Return whether the results of two stages have the same shape."""
    mine, theirs = a.op.output(0), b.op.output(0)
    return mine.ndim == theirs.ndim and all(map(tir.prove_equal, mine.shape, theirs.shape))
