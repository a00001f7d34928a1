"""Find the elementwise stage that is computed in the loops of the stage that it reads."""

from __future__ import annotations

from minitvm import schedule, te, tir

from .kinds import is_elementwise


def fused(s: te.Schedule, stage: te.StageView, done: set[str]) -> te.StageView:
    """Return the stage whose loops compute `stage` tile by tile: its only reader, or itself.

    The reader must be elementwise, of the same shape, and not scheduled yet. A stage that is
    computed from constants, before the calls, is not moved into a call.
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
