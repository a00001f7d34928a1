"""Random schedules: steps of every kind, most of them legal, some not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minitvm.base import ScheduleError
from minitvm.schedule import (
    NAMES,
    Annotate,
    At,
    Bind,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    DoubleBuffer,
    Fuse,
    Inline,
    Pragma,
    Prefetch,
    Reorder,
    RFactor,
    SetScope,
    SetStorePredicate,
    Split,
    SplitRelation,
    Stage,
    State,
    Step,
    StorageAlign,
    StoreAt,
    TransformLayout,
    legal_places,
    readers,
)
from minitvm.te import Schedule, create_schedule
from minitvm.tensor import Axis, ComputeOp, PlaceholderOp, tensor_of

from .values import Rng, chance, pick

FACTORS = (1, 2, 2, 3, 4, 4, 5, 8, 16, 32, 100)
SCOPES = ("local", "shared", "global")
MOST_STEPS = 10


@dataclass(slots=True)
class Tally:
    """How often each kind of step was drawn and taken, and why not.

    schedules, whole   schedules drawn, and those of them of which every step was legal
    """

    drawn: Counter[str] = field(default_factory=Counter[str])
    taken: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    schedules: int = 0
    whole: int = 0

    def add(self, other: Tally) -> None:
        """Count what `other` counted, too."""
        self.drawn += other.drawn
        self.taken += other.taken
        self.reasons += other.reasons
        self.schedules += other.schedules
        self.whole += other.whole


def random_schedule(ops: Any, rng: Rng, tally: Tally | None = None) -> Schedule:
    """A schedule of one operation or a list of them after up to ten random steps.

    Most steps are drawn among those likely to be legal; in one schedule of eight, all are drawn
    blindly. An illegal step is refused by the schedule, counted in `tally`, and left out.
    """
    count = tally if tally is not None else Tally()
    s = create_schedule(ops)
    wild, refused = chance(rng, 0.125), 0
    for _ in range(int(rng.integers(1, MOST_STEPS + 1))):
        steps = pick(rng, DRAWS)(_Draw(s.state, rng, wild))
        for step in steps:
            if not take(s, step, count):
                refused += 1
                break
    count.schedules += 1
    count.whole += refused == 0
    return s


def take(s: Schedule, step: Step, count: Tally) -> bool:
    """Take `step` if it is legal, and count it."""
    name, before = NAMES[type(step)], s.state
    count.drawn[name] += 1
    try:
        s.apply(step)
    except ScheduleError as e:
        assert s.state is before, "an illegal step changes nothing"
        count.reasons[name, str(e.args[1])] += 1
        return False
    count.taken[name] += 1
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """Where a step is drawn: the state it will be applied to."""

    state: State
    rng: Rng
    wild: bool

    def stage(self, fits: Callable[[Stage], bool] = lambda s: True) -> Stage | None:
        """A stage that has loops and fits; any stage if wild."""
        found = [s for s in self.state.stages if self.wild or (_has_loops(s) and fits(s))]
        return pick(self.rng, found) if found else None

    def inner(self, fits: Callable[[Stage], bool] = lambda s: True) -> Stage | None:
        """A stage that is neither input nor output."""
        return self.stage(lambda s: not s.is_output and fits(s))

    def axis(self, stage: Stage, fits: Callable[[Axis], bool] = lambda a: True) -> Axis | None:
        """A loop of the stage that fits; any if wild."""
        found = [a for a in stage.leaves if self.wild or fits(a)]
        return pick(self.rng, found) if found else None

    def plain(self, stage: Stage) -> Callable[[Axis], bool]:
        return lambda a: stage.note(a).kind == "serial"


def _has_loops(s: Stage) -> bool:
    return isinstance(s.op, ComputeOp) and not isinstance(s.attach, Inline)


# --- one function for each kind of step; no steps if there is no place for one -------------------


def _split(d: _Draw) -> list[Step]:
    stage = d.stage(lambda s: any(map(d.plain(s), s.leaves)))
    a = d.axis(stage, d.plain(stage)) if stage else None
    if stage is None or a is None:
        return []
    size = pick(d.rng, FACTORS)
    if chance(d.rng, 0.3):
        return [Split(stage.name, a.name, nparts=size)]
    return [Split(stage.name, a.name, factor=size)]


def _neighbours(d: _Draw, stage: Stage, count: int) -> list[tuple[Axis, ...]]:
    """Runs of `count` plain loops at none of which, but the last, a stage is attached."""
    taken = {
        id(s.attach.axis)
        for s in d.state.stages
        if isinstance(s.attach, At) and s.attach.stage == stage.name
    }
    runs = [stage.leaves[n : n + count] for n in range(len(stage.leaves) - count + 1)]
    return [
        run
        for run in runs
        if d.wild or (all(map(d.plain(stage), run)) and not any(id(a) in taken for a in run[:-1]))
    ]


def _fuse(d: _Draw) -> list[Step]:
    count = 3 if chance(d.rng, 0.25) else 2
    stage = d.stage(lambda s: bool(_neighbours(d, s, count)))
    runs = _neighbours(d, stage, count) if stage else []
    if not stage or not runs:
        return []
    return [Fuse(stage.name, tuple(a.name for a in pick(d.rng, runs)))]


def _reorder(d: _Draw) -> list[Step]:
    stage = d.stage(lambda s: len(s.leaves) > 1)
    if not stage or not stage.leaves:
        return []
    order = d.rng.permutation(len(stage.leaves))
    chosen = order[: int(d.rng.integers(min(2, len(order)), len(order) + 1))]
    return [Reorder(stage.name, tuple(stage.leaves[int(n)].name for n in chosen))]


def _tile(d: _Draw) -> list[Step]:
    stage = d.stage(lambda s: sum(map(d.plain(s), s.leaves)) > 1)
    axes = [a for a in stage.leaves if d.plain(stage)(a)] if stage else []
    if not stage or len(axes) < 2:
        return []
    axes = axes[: 3 if chance(d.rng, 0.4) else 2]
    steps: list[Step] = []
    for a in axes:
        steps.append(Split(stage.name, a.name, factor=pick(d.rng, FACTORS)))
    names = {a.name for a in stage.axes()}
    parts = [[_numbered(f"{a.name}.{part}", names) for a in axes] for part in ("outer", "inner")]
    return [*steps, Reorder(stage.name, (*parts[0], *parts[1]))]


def _numbered(name: str, taken: set[str]) -> str:
    """The name a new axis will get."""
    n, found = 1, name
    while found in taken:
        found, n = f"{name}_{n}", n + 1
    return found


def _annotate(d: _Draw) -> list[Step]:
    kind = pick(d.rng, ("vectorize", "vectorize", "unroll", "parallel"))

    def fits(stage: Stage, a: Axis) -> bool:
        lone = all(stage.note(b).kind != "vectorize" for b in stage.leaves)
        return (
            d.plain(stage)(a)
            and (kind == "unroll" or a.kind == "data")
            and (kind == "parallel" or isinstance(a.extent, int))
            and (kind != "vectorize" or lone)
        )

    stage = d.stage(lambda s: any(fits(s, a) for a in s.leaves))
    if not stage:
        return []
    found = [a for a in stage.leaves if d.wild or fits(stage, a)]
    if not found:
        return []
    inner = found[0] if kind == "parallel" else found[-1]
    a = inner if chance(d.rng, 0.6) else pick(d.rng, found)
    return [Annotate(stage.name, a.name, kind)]


def _pragma(d: _Draw) -> list[Step]:
    stage = d.stage(lambda s: bool(s.leaves))
    a = d.axis(stage) if stage else None
    if stage is None or a is None:
        return []
    if chance(d.rng, 0.3):
        return [Pragma(stage.name, a.name, "unroll_explicit", int(d.rng.integers(0, 2)))]
    return [Pragma(stage.name, a.name, "auto_unroll_max_step", int(pick(d.rng, (0, 4, 16, 64))))]


def _compute_at(d: _Draw) -> list[Step]:
    stage = d.inner()
    if not stage:
        return []
    if d.wild:
        target = d.stage()
        a = d.axis(target) if target else None
        if target is None or a is None:
            return []
        return [ComputeAt(stage.name, target.name, a.name)]
    places = legal_places(d.state, stage.name)
    if not places:
        return []
    place = pick(d.rng, places)
    target = next(
        s
        for s in d.state.stages
        if place.startswith(f"{s.name}.")
        and any(a.name == place.removeprefix(f"{s.name}.") for a in s.leaves)
    )
    return [ComputeAt(stage.name, target.name, place.removeprefix(f"{target.name}."))]


def _compute_inline(d: _Draw) -> list[Step]:
    hosts = {s.attach.stage for s in d.state.stages if isinstance(s.attach, At)}
    stage = d.inner(
        lambda s: isinstance(s.op, ComputeOp) and s.op.reduction is None and s.name not in hosts
    )
    return [ComputeInline(stage.name)] if stage else []


def _compute_root(d: _Draw) -> list[Step]:
    found = [
        s for s in d.state.stages if d.wild or (isinstance(s.op, ComputeOp) and not s.is_output)
    ]
    return [ComputeRoot(pick(d.rng, found).name)] if found else []


def _set_scope(d: _Draw) -> list[Step]:
    stage = d.inner()
    return [SetScope(stage.name, pick(d.rng, SCOPES))] if stage else []


def _cache_read(d: _Draw) -> list[Step]:
    who = readers(d.state)
    found = [
        s for s in d.state.stages if d.wild or (who[s.name] and not isinstance(s.attach, Inline))
    ]
    if not found:
        return []
    stage = pick(d.rng, found)
    output = int(d.rng.integers(len(stage.op.dtypes)))
    t = tensor_of(stage.op, output)
    reading = [
        s.name
        for s in d.state.stages
        if not isinstance(s.op, PlaceholderOp) and (d.wild or t in s.op.input_tensors)
    ]
    chosen = tuple(n for n in reading if chance(d.rng, 0.7)) or tuple(reading[:1])
    return [CacheRead(stage.name, output, pick(d.rng, SCOPES), chosen)] if chosen else []


def _cache_write(d: _Draw) -> list[Step]:
    hosts = {s.attach.stage for s in d.state.stages if isinstance(s.attach, At)}

    def fits(s: Stage) -> bool:
        plain = not s.relations and not s.notes and s.name not in hosts
        op = s.op
        assert isinstance(op, ComputeOp)
        axes = (*op.axis, *op.reduce_axis)
        return plain and all(a is b for a, b in zip(s.leaves, axes, strict=True))

    stage = d.stage(fits)
    return [CacheWrite(stage.name, pick(d.rng, SCOPES))] if stage else []


def _rfactor(d: _Draw) -> list[Step]:
    hosts = {s.attach.stage for s in d.state.stages if isinstance(s.attach, At)}

    def fits(s: Stage) -> bool:
        op = s.op
        assert isinstance(op, ComputeOp)
        whole = all(any(a is b for b in s.leaves) for a in op.axis)
        return op.reduction is not None and whole and s.name not in hosts

    stage = d.stage(fits)
    a = d.axis(stage, lambda a: a.kind == "reduce") if stage else None
    if stage is None or a is None:
        return []
    place = int(d.rng.integers(-1, len(stage.op.shape) + 1))
    if not d.plain(stage)(a) or chance(d.rng, 0.4):
        return [RFactor(stage.name, a.name, place)]
    parts = (f"{a.name}.outer", f"{a.name}.inner")
    name = _numbered(pick(d.rng, parts), {b.name for b in stage.axes()})
    split = Split(stage.name, a.name, factor=pick(d.rng, FACTORS))
    return [split, RFactor(stage.name, name, place)]


def _transform_layout(d: _Draw) -> list[Step]:
    stage = d.inner(lambda s: bool(s.op.shape))
    if not stage:
        return []
    names = tuple("ijkl"[: len(stage.op.shape)])
    at = list(names)
    d.rng.shuffle(at)
    n, q = int(d.rng.integers(0, len(at) or 1)), int(pick(d.rng, (2, 3, 4, 16)))
    roll = d.rng.random()
    if at and roll < 0.5:  # packed: i, j -> i // 4, j, i % 4
        at = [*at[:n], f"{at[n]} // {q}", *at[n + 1 :], f"{at[n]} % {q}"]
    elif at and roll < 0.7:  # with gaps
        at[n] = f"{at[n]}*{q} + 1" if chance(d.rng, 0.5) else f"{at[n]}*{q}"
    elif len(at) > 1 and roll < 0.85:  # two dimensions in one, with room for 32 of the second
        at = [*at[2:], f"{at[0]}*32 + {at[1]}"]
    return [TransformLayout(stage.name, names, tuple(at))]


def _bind(d: _Draw) -> list[Step]:
    """Virtual threads: hardware ones are for other targets."""

    def fits(stage: Stage, a: Axis) -> bool:
        return d.plain(stage)(a) and a.kind == "data" and isinstance(a.extent, int)

    stage = d.stage(lambda s: any(fits(s, a) for a in s.leaves))
    a = d.axis(stage, lambda a: fits(stage, a)) if stage else None
    if stage is None or a is None:
        return []
    tag = pick(d.rng, ("vthread", "cthread"))
    if chance(d.rng, 0.4):
        return [Bind(stage.name, a.name, tag)]
    outer = _numbered(f"{a.name}.outer", {b.name for b in stage.axes()})
    n = pick(d.rng, (2, 2, 3, 4))
    return [Split(stage.name, a.name, nparts=n), Bind(stage.name, outer, tag)]


def _double_buffer(d: _Draw) -> list[Step]:
    stage = d.inner(lambda s: isinstance(s.attach, At) and s.store is None)
    return [DoubleBuffer(stage.name)] if stage else []


def _storage_align(d: _Draw) -> list[Step]:
    stage = d.inner(lambda s: bool(s.op.shape) and s.layout is None)
    if not stage or not isinstance(stage.op, ComputeOp) or not stage.op.axis:
        return []
    factor = int(pick(d.rng, (1, 2, 8, 32)))
    a = pick(d.rng, stage.op.axis)
    return [StorageAlign(stage.name, a.name, factor, int(d.rng.integers(0, factor)))]


def _prefetch(d: _Draw) -> list[Step]:
    stage = d.stage(lambda s: bool(s.leaves) and isinstance(s.op, ComputeOp))
    a = d.axis(stage) if stage else None
    if stage is None or a is None or not isinstance(stage.op, ComputeOp):
        return []
    names = [s.name for s in d.state.stages if any(t.op is s.op for t in stage.op.input_tensors)]
    return [Prefetch(stage.name, pick(d.rng, names), a.name, 2)] if names else []


def _set_store_predicate(d: _Draw) -> list[Step]:
    """A condition that holds for all elements there are, but not for what a split overruns."""
    cuts = [
        (s, r)
        for s in d.state.stages
        for r in s.relations
        if isinstance(r, SplitRelation)
        and r.factor is not None
        and isinstance(r.parent.extent, int)
    ]
    if not cuts:
        return []
    stage, r = pick(d.rng, cuts)
    names = (stage.named()[r.outer], stage.named()[r.inner])
    outer, inner = (n.replace(".", "_") for n in names)
    cond = f"{outer}*{r.factor} + {inner} < {r.parent.extent}"
    return [SetStorePredicate(stage.name, names, (cond,))]


def _store_at(d: _Draw) -> list[Step]:
    """Storage at a loop around the one that the stage is computed at, most of the time."""
    stage = d.inner(lambda s: isinstance(s.attach, At) and not s.double_buffer)
    if not stage or not isinstance(stage.attach, At):
        return []
    target = d.state.stage(stage.attach.stage)
    if not d.wild and chance(d.rng, 0.2) and isinstance(target.attach, At):
        target = d.state.stage(target.attach.stage)
    return [StoreAt(stage.name, target.name, pick(d.rng, target.leaves).name)]


DRAWS: tuple[Callable[[_Draw], list[Step]], ...] = (
    *(_split,) * 4, *(_fuse,) * 2, *(_reorder,) * 2, *(_tile,) * 2, *(_annotate,) * 4, _pragma,
    *(_compute_at,) * 5, *(_compute_inline,) * 2, _compute_root, _set_scope,
    *(_cache_read,) * 2, *(_cache_write,) * 2, *(_rfactor,) * 2, _transform_layout,
    *(_bind,) * 2, *(_double_buffer,) * 2, _storage_align, _prefetch, _set_store_predicate,
    *(_store_at,) * 3,
)  # fmt: skip
