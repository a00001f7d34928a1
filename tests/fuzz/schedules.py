"""Random schedules with every primitive, and counts of what was drawn, accepted and run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from minitvm import schedule, te, tensor, testing
from minitvm.base import ScheduleError
from minitvm.testing import pick

from .intrinsics import tile_intrinsic
from .values import Rng, chance

VARIANTS: dict[str, tuple[str, ...]] = {  # the names under which steps of some kinds are counted
    "split": ("split", "split by nparts", "split without guard"),
    "annotate": ("vectorize", "unroll", "parallel"),
    "bind": ("bind to virtual threads", "bind to hardware threads"),
    "pragma": ("pragma auto_unroll_max_step", "pragma unroll_explicit"),
}
PRIMITIVES = tuple(name for kind in schedule.STEPS for name in VARIANTS.get(kind, (kind,)))
THREADS = 4  # per block; all stages of a block must have the same number


def primitive(step: schedule.Step) -> str:
    """Return the name under which `step` is counted."""
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
    """How often each primitive was accepted and run, and the reasons of refusals.

    taken     how often each primitive was accepted
    ran       how often each primitive was accepted in programs with right results
    reasons   (primitive, reason) -> number of refusals
    """

    taken: Counter[str] = field(default_factory=Counter[str])
    ran: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def refused(self, name: str) -> int:
        return sum(n for (kind, _), n in self.reasons.items() if kind == name)

    def add(self, other: Tally) -> None:
        """Add the counts of `other`."""
        self.taken.update(other.taken)
        self.ran.update(other.ran)
        self.reasons.update(other.reasons)


class CountedSchedule(te.Schedule):
    """A schedule that counts the reasons of refusals, and checks that they change nothing."""

    def __init__(self, state: schedule.State, reasons: Counter[tuple[str, str]]) -> None:
        super().__init__(state)
        self.reasons = reasons

    def apply(self, step: schedule.Step) -> None:
        before = self.state
        try:
            super().apply(step)
        except ScheduleError as e:
            assert self.state is before, "an illegal step changes nothing"
            self.reasons[primitive(step), str(e.args[1]) or "no reason given"] += 1
            raise


def random_schedule(
    ops: Any, rng: Rng, tally: Tally | None = None, *, threads: bool = False
) -> te.Schedule:
    """Make a random schedule, as testing.random_schedule does, but with all primitives.

    threads   whether to bind loops to hardware threads, too; CPU targets refuse such loops
    """
    tally = Tally() if tally is None else tally
    s = CountedSchedule(te.create_schedule(ops).state, tally.reasons)
    recipes = (*testing.RECIPES, *(tensorize,) * 3, set_store_predicate, split_and_bind)
    testing.take_steps(s, rng, (*recipes, *(bind_to_threads,) * 25) if threads else recipes)
    tally.taken.update(map(primitive, s.steps))
    return s


def draw_loop(s: te.Schedule, rng: Rng) -> tuple[te.StageView, te.Axis]:
    """Draw a stage with loops, and one of its loops."""
    stage = pick(rng, [stage for stage in s.state.stages if stage.leaves])
    return s[stage.name], pick(rng, testing.free_loops(stage))


# --- threads -------------------------------------------------------------------------------------


def split_and_bind(s: te.Schedule, rng: Rng) -> None:
    """Split a loop by a few parts, and bind the outer loop to a virtual thread."""
    view, a = draw_loop(s, rng)
    outer, _ = view.split(a, nparts=pick(rng, (2, 2, 3, 4)))
    view.bind(outer, te.thread_axis(pick(rng, ("vthread", "cthread"))))


def bind_to_threads(s: te.Schedule, rng: Rng) -> None:
    """Bind a loop, or the parts of a split of it, to blocks and threads of a GPU."""
    view, a = draw_loop(s, rng)
    used = {s.state.stage(view.name).note(b).thread for b in view.leaf_iter_vars}
    block, thread = (
        next(f"{tag}.{d}" for d in "xyz" if f"{tag}.{d}" not in used or d == "z")
        for tag in ("blockIdx", "threadIdx")
    )
    count = (0, THREADS) if chance(rng, 0.3) else None  # an explicit extent, which is checked
    form = rng.random()
    if form < 0.2:
        view.bind(a, te.thread_axis(pick(rng, (block, thread))))
    elif form < 0.6 and a.kind == "data":
        outer, inner = view.split(a, factor=THREADS)
        view.bind(outer, te.thread_axis(block))
        view.bind(inner, te.thread_axis(count, thread))
    elif a.kind == "data" or chance(rng, 0.2):
        outer, _ = view.split(a, nparts=THREADS)
        view.bind(outer, te.thread_axis(count, thread))


# --- predicates, intrinsics ----------------------------------------------------------------------


def set_store_predicate(s: te.Schedule, rng: Rng) -> None:
    """Exclude the extra iterations of an uneven split, and nothing else."""
    view, a = draw_loop(s, rng)
    if a.kind != "data" or not isinstance(a.extent, int):
        raise ScheduleError(f"split of {a.name}", "its length is not constant")
    factor = pick(rng, [n for n in schedule.FACTORS if a.extent % n] or [1])
    outer, inner = view.split(a, factor=factor)
    view.set_store_predicate(outer * factor + inner < a.extent)


def tensorize(s: te.Schedule, rng: Rng) -> None:
    """Split the last axes of a formula evenly, and replace the inner loops by an intrinsic."""
    view = pick(rng, s.stages)
    op = view.op
    tile = random_tile(rng, op) if isinstance(op, tensor.ComputeOp) else {}
    if not tile or [*map(id, view.leaf_iter_vars)] != [*map(id, (*op.axis, *op.reduce_axis))]:
        raise ScheduleError(f"tensorize of {view.name}", "its loops have been changed")
    intrin = tile_intrinsic(op, tile, f"tile{len(s.state.intrins)}", rng)
    if intrin is None:
        raise ScheduleError(f"tensorize of {view.name}", "no intrinsic computes this formula")
    outer, inner = list[te.Axis](), list[te.Axis]()
    for a in (*op.axis, *op.reduce_axis):
        if a not in tile:
            outer.append(a)
        elif tile[a] == a.extent:
            inner.append(a)
        else:
            parts = view.split(a, factor=tile[a])
            outer.append(parts[0])
            inner.append(parts[1])
    view.reorder(*outer, *inner)
    view.tensorize(inner[0], intrin)


def random_tile(rng: Rng, op: tensor.ComputeOp) -> dict[tensor.Axis, int]:
    """Draw the extents of an intrinsic's tile along some of the last axes of a formula."""
    tile: dict[tensor.Axis, int] = {}
    for axes in (op.axis, op.reduce_axis):
        for a in axes[::-1][: int(rng.integers(min(1, len(axes)), len(axes) + 1))]:
            if not isinstance(a.extent, int) or a.extent < 1:
                break
            tile[a] = int(pick(rng, [n for n in range(1, a.extent + 1) if a.extent % n == 0]))
    return tile
