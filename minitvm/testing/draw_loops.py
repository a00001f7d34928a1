"""Draw random steps that change loops or how they run; a function returns [] if no loop suits."""

from __future__ import annotations

from minitvm import schedule, tensor

from .draw import FACTORS, Draw, is_plain, is_plain_data, named, numbered
from .values import chance, pick

THREADS = 4  # per block; all stages of a block must have the same number
BLOCK_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREAD_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


def split(d: Draw) -> list[schedule.Step]:
    at = d.place(is_plain)
    if at is None:
        return []
    stage, a = at
    if chance(d.rng, 0.15):
        return _split_without_guard(d, stage, a)
    size = pick(d.rng, FACTORS)
    if chance(d.rng, 0.3):
        return [schedule.Split(stage.name, a.name, nparts=size)]
    return [schedule.Split(stage.name, a.name, factor=size)]


def _split_without_guard(d: Draw, stage: schedule.Stage, a: tensor.Axis) -> list[schedule.Step]:
    """Draw a split by a factor that divides the extent; if wild, draw any factor."""
    n = a.extent
    sizes = [q for q in FACTORS if d.wild or (isinstance(n, int) and n % q == 0)]
    if not sizes:
        return []
    size = pick(d.rng, sizes)
    if chance(d.rng, 0.3):
        return [schedule.Split(stage.name, a.name, nparts=size, disable_predication=True)]
    return [schedule.Split(stage.name, a.name, factor=size, disable_predication=True)]


def fuse(d: Draw) -> list[schedule.Step]:
    count = 3 if chance(d.rng, 0.25) else 2
    stage = d.stage(lambda s: bool(_neighbours(d, s, count)))
    runs = _neighbours(d, stage, count) if stage else []
    if not stage or not runs:
        return []
    return [schedule.Fuse(stage.name, tuple(a.name for a in pick(d.rng, runs)))]


def _neighbours(d: Draw, stage: schedule.Stage, count: int) -> list[tuple[tensor.Axis, ...]]:
    """Return runs of `count` adjacent serial loops; only the last one may have stages attached."""
    taken = {
        id(s.attach.axis)
        for s in d.state.stages
        if isinstance(s.attach, schedule.At) and s.attach.stage == stage.name
    }
    loops = d.loops(stage)
    runs = [loops[n : n + count] for n in range(len(loops) - count + 1)]
    return [
        run
        for run in runs
        if d.wild
        or (all(is_plain(stage, a) for a in run) and not any(id(a) in taken for a in run[:-1]))
    ]


def reorder(d: Draw) -> list[schedule.Step]:
    stage = d.stage(lambda s: len(d.loops(s)) > 1)
    loops = d.loops(stage) if stage else ()
    if not stage or not loops:
        return []
    order = d.rng.permutation(len(loops))
    chosen = order[: int(d.rng.integers(min(2, len(order)), len(order) + 1))]
    return [schedule.Reorder(stage.name, tuple(loops[int(n)].name for n in chosen))]


def tile(d: Draw) -> list[schedule.Step]:
    """Draw the steps of s[C].tile(y, x, fy, fx), or of a tile with three axes."""
    stage = d.stage(lambda s: sum(is_plain(s, a) for a in d.loops(s)) > 1)
    axes = [a for a in d.loops(stage) if is_plain(stage, a)] if stage else []
    if not stage or len(axes) < 2:
        return []
    axes = axes[: 3 if chance(d.rng, 0.4) else 2]
    steps: list[schedule.Step] = []
    for a in axes:
        steps.append(schedule.Split(stage.name, a.name, factor=pick(d.rng, FACTORS)))
    names = named(stage)
    parts = [[numbered(f"{a.name}.{part}", names) for a in axes] for part in ("outer", "inner")]
    return [*steps, schedule.Reorder(stage.name, (*parts[0], *parts[1]))]


def annotate(d: Draw) -> list[schedule.Step]:
    kind = pick(d.rng, ("vectorize", "vectorize", "unroll", "parallel"))

    def fits(stage: schedule.Stage, a: tensor.Axis) -> bool:
        lone = all(stage.note(b).kind != "vectorize" for b in stage.leaves)
        return (
            is_plain(stage, a)
            and (kind == "unroll" or a.kind == "data")
            and (kind == "parallel" or isinstance(a.extent, int))
            and (kind != "vectorize" or lone)
        )

    stage = d.stage(lambda s: any(fits(s, a) for a in d.loops(s)))
    if not stage:
        return []
    found = [a for a in d.loops(stage) if d.wild or fits(stage, a)]
    if not found:
        return []
    inner = found[0] if kind == "parallel" else found[-1]
    a = inner if chance(d.rng, 0.6) else pick(d.rng, found)
    return [schedule.Annotate(stage.name, a.name, kind)]


def pragma(d: Draw) -> list[schedule.Step]:
    at = d.place(lambda stage, a: True)
    if at is None:
        return []
    stage, a = at
    if chance(d.rng, 0.3):
        return [schedule.Pragma(stage.name, a.name, "unroll_explicit", int(d.rng.integers(0, 2)))]
    return [
        schedule.Pragma(
            stage.name, a.name, "auto_unroll_max_step", int(pick(d.rng, (0, 4, 16, 64)))
        )
    ]


def prefetch(d: Draw) -> list[schedule.Step]:
    at = d.place(lambda stage, a: True)
    if at is None:
        return []
    stage, a = at
    read = stage.op.input_tensors if isinstance(stage.op, tensor.ComputeOp) else ()
    names = [s.name for s in d.state.stages if any(t.op is s.op for t in read)]
    return [schedule.Prefetch(stage.name, pick(d.rng, names), a.name, 2)] if names else []


def bind(d: Draw) -> list[schedule.Step]:
    """Draw steps that bind a loop to a virtual thread, perhaps after splitting it."""
    at = d.place(is_plain_data)
    if at is None:
        return []
    stage, a = at
    tag = pick(d.rng, ("vthread", "cthread"))
    if chance(d.rng, 0.4):
        return [schedule.Bind(stage.name, a.name, tag)]
    outer = numbered(f"{a.name}.outer", named(stage))
    n = pick(d.rng, (2, 2, 3, 4))
    return [schedule.Split(stage.name, a.name, nparts=n), schedule.Bind(stage.name, outer, tag)]


def hardware(d: Draw) -> list[schedule.Step]:
    """Draw steps that bind loops to blocks and threads, mostly with THREADS threads."""
    at = d.place(lambda stage, a: is_plain(stage, a) and (a.kind == "data" or chance(d.rng, 0.2)))
    if at is None:
        return []
    stage, a = at
    taken = {stage.note(b).thread for b in stage.leaves}
    blocks, threads = (
        [t for t in tags if d.wild or t not in taken] for tags in (BLOCK_TAGS, THREAD_TAGS)
    )
    if not blocks or not threads:
        return []
    block, thread, me, roll = blocks[0], threads[0], stage.name, d.rng.random()
    if roll < 0.2:
        return [schedule.Bind(me, a.name, pick(d.rng, (block, thread)))]
    outer, inner = (numbered(f"{a.name}.{part}", named(stage)) for part in ("outer", "inner"))
    count = THREADS if chance(d.rng, 0.3) else None  # an explicit extent, which is checked
    if roll < 0.6 and a.kind == "data":
        cut = schedule.Split(me, a.name, factor=THREADS)
        return [cut, schedule.Bind(me, outer, block), schedule.Bind(me, inner, thread, count)]
    return [schedule.Split(me, a.name, nparts=THREADS), schedule.Bind(me, outer, thread, count)]
