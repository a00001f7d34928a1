"""Counts of schedule primitives: drawn, accepted, run, and the reasons of refusals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from minitvm import schedule

PRIMITIVES = (
    "split", "split by nparts", "split without guard", "fuse", "reorder", "tile",
    "vectorize", "unroll", "parallel", "bind to virtual threads", "bind to hardware threads",
    "pragma auto_unroll_max_step", "pragma unroll_explicit", "prefetch",
    "compute_at", "compute_inline", "compute_root", "store_at",
    "cache_read", "cache_write", "rfactor", "tensorize",
    "set_scope", "storage_align", "double_buffer", "transform_layout", "set_store_predicate",
)  # fmt: skip


def primitive(step: schedule.Step) -> str:
    """Return the name under which `step` is counted; random_schedule counts "tile" itself."""
    match step:
        case schedule.Annotate(kind=kind):
            return kind
        case schedule.Split(disable_predication=True):
            return "split without guard"
        case schedule.Split(nparts=int()):
            return "split by nparts"
        case schedule.Bind(thread=tag):
            return f"bind to {'virtual' if schedule.is_virtual(tag) else 'hardware'} threads"
        case schedule.Pragma(key=key):
            return f"pragma {key}"
        case _:
            return step.primitive


@dataclass(slots=True)
class Tally:
    """How often each primitive was drawn, accepted and run, and the reasons of refusals.

    taken              how often each primitive was accepted
    ran                how often each primitive was accepted in programs with right results
    schedules, whole   the number of schedules drawn, and how many of them had only legal steps
    """

    drawn: Counter[str] = field(default_factory=Counter[str])
    taken: Counter[str] = field(default_factory=Counter[str])
    ran: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    schedules: int = 0
    whole: int = 0

    def count(self, name: str, why_not: str = "") -> None:
        """Count one use of the primitive `name`; `why_not` is the reason if it was refused."""
        self.drawn[name] += 1
        if why_not:
            self.reasons[name, why_not] += 1
        else:
            self.taken[name] += 1

    def add(self, other: Tally) -> None:
        """Add the counts of `other`."""
        self.drawn += other.drawn
        self.taken += other.taken
        self.ran += other.ran
        self.reasons += other.reasons
        self.schedules += other.schedules
        self.whole += other.whole
