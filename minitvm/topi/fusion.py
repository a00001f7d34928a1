"""Find the epilogue of a stage: the elementwise stage that is computed with it, tile by tile."""

from __future__ import annotations

from minitvm import schedule, te, tir

from .kinds import is_elementwise


def epilogue_or_self(s: te.Schedule, stage: te.StageView, done: set[str]) -> te.StageView:
    """Return the epilogue of `stage`, in whose loops `stage` is computed; `stage` if it has none.

    An epilogue is the only reader of `stage`. It is elementwise, of the same shape, and not in
    `done`, the names of the scheduled stages. A stage that is computed from constants, once before
    the calls, has no epilogue that is computed in each call.
    """
    names = schedule.effective_readers(s.state)[stage.name]
    if stage.is_output or len(names) != 1 or names[0] in done:
        return stage
    reader, early = s[names[0]], schedule.from_constants(s.state)
    fits = same_shape(stage, reader) and is_elementwise(reader.op)
    return reader if fits and (stage.name in early) == (reader.name in early) else stage


def same_shape(a: te.StageView, b: te.StageView) -> bool:
    """Return whether the results of two stages have the same shape."""
    mine, theirs = a.op.output(0), b.op.output(0)
    return mine.ndim == theirs.ndim and all(map(tir.prove_equal, mine.shape, theirs.shape))
