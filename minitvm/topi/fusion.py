"""Find the elementwise stage that is computed in the loops of the stage that it reads."""

from __future__ import annotations

from minitvm import schedule, te, tir

from .kinds import is_elementwise


def fused(s: te.Schedule, stage: te.StageView, done: set[str]) -> te.StageView:
    """Return the stage whose loops compute `stage` tile by tile: its only reader, or itself.

    The reader must be elementwise, of the same shape, and not scheduled yet.
    """
    names = schedule.effective_readers(s.state)[stage.name]
    if stage.is_output or len(names) != 1 or names[0] in done:
        return stage
    reader = s[names[0]]
    return reader if same_shape(stage, reader) and is_elementwise(reader.op) else stage


def same_shape(a: te.StageView, b: te.StageView) -> bool:
    """Return whether the results of two stages have the same shape."""
    mine, theirs = a.op.output(0), b.op.output(0)
    return mine.ndim == theirs.ndim and all(map(tir.prove_equal, mine.shape, theirs.shape))
