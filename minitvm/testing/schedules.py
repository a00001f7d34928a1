"""Random schedules: steps of every kind, most of them legal."""

from __future__ import annotations

from typing import Any

from minitvm import schedule, te
from minitvm.base import ScheduleError

from .draw import Draw, Drawing
from .draw_loops import annotate, bind, fuse, hardware, pragma, prefetch, reorder, split, tile
from .draw_stages import (
    cache_read,
    cache_write,
    compute_at,
    compute_inline,
    compute_root,
    double_buffer,
    rfactor,
    set_scope,
    set_store_predicate,
    storage_align,
    store_at,
    tensorize,
    transform_layout,
)
from .tally import Tally, primitive
from .values import Rng, chance, pick

MOST_STEPS = 10
DRAWS: tuple[Drawing, ...] = (
    *(split,) * 5, *(fuse,) * 2, *(reorder,) * 2, *(tile,) * 2, *(annotate,) * 5, pragma,
    *(compute_at,) * 5, *(compute_inline,) * 2, compute_root, set_scope,
    *(cache_read,) * 2, *(cache_write,) * 2, *(rfactor,) * 2, transform_layout,
    *(bind,) * 2, *(double_buffer,) * 2, storage_align, prefetch, set_store_predicate,
    *(store_at,) * 3, *(tensorize,) * 3,
)  # fmt: skip
THREADED = (*DRAWS, *(hardware,) * 12)


def random_schedule(
    ops: Any, rng: Rng, tally: Tally | None = None, *, threads: bool = False
) -> te.Schedule:
    """Make a schedule of an operation, or of a list of them, with up to ten random steps.

    In seven of eight schedules, the steps are drawn to be probably legal; in the others, at random.
    An illegal step is counted in `tally` and left out. A stage whose attachment is still pending
    after the last step moves back to root.
    threads   whether to bind loops to hardware threads, too; CPU targets refuse such loops
    """
    count = tally if tally is not None else Tally()
    s = te.create_schedule(ops)
    wild, whole = chance(rng, 0.125), True
    for _ in range(int(rng.integers(1, MOST_STEPS + 1))):
        draw = pick(rng, THREADED if threads else DRAWS)
        at = Draw(s.state, rng, wild)
        steps = draw(at)
        for intrin in at.intrins:
            s.state = schedule.know(s.state, intrin)
        legal = all(take(s, step, count) for step in steps)
        whole = whole and legal
        if draw is tile and steps:
            count.count("tile", "" if legal else "one of its steps was refused")
    while s.state.pending:
        s.apply(schedule.ComputeRoot(s.state.pending[0].stage))
    count.schedules += 1
    count.whole += whole
    return s


def take(s: te.Schedule, step: schedule.Step, count: Tally) -> bool:
    """Apply `step` and return True if it is legal; add it to `count` in any case."""
    name, before = primitive(step), s.state
    try:
        s.apply(step)
    except ScheduleError as e:
        assert s.state is before, "an illegal step changes nothing"
        count.count(name, str(e.args[1]) or "no reason given")
        return False
    count.count(name)
    return True
