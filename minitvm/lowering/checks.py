"""Check that loops can run as they are marked, now that their final extents are known."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, tensor, tir
from minitvm.base import Reason


def about_double_buffer(state: schedule.State, stage: schedule.Stage) -> Iterator[Reason]:
    """Yield a reason if a double-buffered stage is in no loop, or in a parallel or vector loop."""
    if not isinstance(stage.attach, schedule.At):
        yield "it is computed once, outside all loops", f"s[{stage.name}].compute_at(...)"
        return
    a = stage.attach.axis
    kind = state.stage(stage.attach.stage).note(a).kind
    if kind in ("parallel", "vectorize"):
        yield (
            f"the loop {a.name!r} around it is marked {kind}, "
            "so its iterations do not run in order",
            "split that loop, and compute the stage at its inner part",
        )


def about_extent(
    stage: schedule.Stage, a: tensor.Axis, extent: tir.Index, alone: bool
) -> Iterator[Reason]:
    """Yield a reason if the loop `a` cannot run with its final extent.

    A loop bound to threads must have one iteration per thread, and a vectorized or unrolled loop a
    constant extent. With `alone`, the number of threads is not checked, because an enclosing stage
    binds the same threads, and each thread computes its own part of this stage.
    """
    note = stage.note(a)
    if note.threads is not None and not alone and not tir.prove_equal(note.threads, extent):
        why = f"{note.threads} threads for {tir.text(extent)} iterations; each runs one"
        yield why, f"split(..., nparts={note.threads}) and bind the outer loop"
    constant = isinstance(a.extent, int) or isinstance(extent, int)
    if note.kind in ("vectorize", "unroll") and not constant:
        why = f"its extent {tir.text(extent)} is not a constant where {stage.name} is computed"
        yield why, f"split it by a constant and {note.kind} the inner part"


def has_mixed_loops(stage: schedule.Stage) -> bool:
    """Return whether a step fused a data loop with a reduce loop of `stage`."""
    fused = (r for r in stage.relations if isinstance(r, schedule.FuseRelation))
    return any(r.outer.kind != r.inner.kind for r in fused)
