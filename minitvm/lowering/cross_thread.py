"""The mark of a reduction whose terms are spread over hardware threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minitvm import schedule, tensor

CROSS_THREAD = "cross_thread"  # the key of the pragma around its init and its update


@dataclass(frozen=True, slots=True, eq=False)
class CrossThread:
    """What a pass must know to let threads combine their parts of a reduction.

    results   how many values it computes: 2 for an argmax
    threads   the hardware indices that its reduce loops are bound to, outermost first
    starts    whether it starts from values of the user, not from the identity of the reducer
    """

    reducer: tensor.Reducer
    results: int
    threads: tuple[str, ...]
    starts: bool

    def __repr__(self) -> str:
        return f"{self.reducer.name} over {' and '.join(self.threads)}"


def cross_thread(stage: schedule.Stage, reduction: tensor.Reduce) -> CrossThread | None:
    """Return the mark of a stage; None if each thread computes its reduction alone."""
    threads = tuple(_threads(stage))
    if not threads:
        return None
    return CrossThread(reduction.reducer, len(reduction.sources), threads, bool(reduction.init))


def _threads(stage: schedule.Stage) -> Iterator[str]:
    for a in stage.leaves:
        thread = stage.note(a).thread
        if a.kind == "reduce" and thread in schedule.THREADS:
            yield thread
