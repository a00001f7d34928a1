"""Draw random steps that attach or add stages, or choose memory; return [] if no stage suits."""

from __future__ import annotations

from minitvm import schedule, tensor

from .draw import FACTORS, SCOPES, Draw, is_fresh, is_plain, is_plain_data, named, numbered
from .intrinsics import tile_intrinsic
from .values import Rng, chance, pick


def compute_at(d: Draw) -> list[schedule.Step]:
    stage = d.inner()
    if not stage:
        return []
    if d.wild:
        at = d.place(lambda target, a: True)
        return [schedule.ComputeAt(stage.name, at[0].name, at[1].name)] if at else []
    legal = set(schedule.legal_places(d.state, stage.name))
    places = [
        (host.name, host.names[a])
        for host in d.state.stages
        for a in d.loops(host)
        if f"{host.name}.{host.names[a]}" in legal
    ]
    return [schedule.ComputeAt(stage.name, *pick(d.rng, places))] if places else []


def compute_inline(d: Draw) -> list[schedule.Step]:
    hosts = d.hosts()
    stage = d.inner(
        lambda s: (
            isinstance(s.op, tensor.ComputeOp) and s.op.reduction is None and s.name not in hosts
        )
    )
    return [schedule.ComputeInline(stage.name)] if stage else []


def compute_root(d: Draw) -> list[schedule.Step]:
    found = [
        s
        for s in d.state.stages
        if d.wild or (isinstance(s.op, tensor.ComputeOp) and not s.is_output)
    ]
    return [schedule.ComputeRoot(pick(d.rng, found).name)] if found else []


def store_at(d: Draw) -> list[schedule.Step]:
    """Draw a store_at step, usually at a loop outside the loop where the stage is computed."""
    stage = d.inner(lambda s: isinstance(s.attach, schedule.At) and not s.double_buffer)
    if not stage or not isinstance(stage.attach, schedule.At):
        return [more for step in compute_at(d) for more in (step, _store_around(d, step))]
    target = d.state.stage(stage.attach.stage)
    if not d.wild and chance(d.rng, 0.2) and isinstance(target.attach, schedule.At):
        target = d.state.stage(target.attach.stage)
    return [schedule.StoreAt(stage.name, target.name, pick(d.rng, target.leaves).name)]


def _store_around(d: Draw, step: schedule.Step) -> schedule.StoreAt:
    """Draw a store_at step at the loop of `step`, a compute_at, or at a loop around it."""
    assert isinstance(step, schedule.ComputeAt)
    target = d.state.stage(step.target)
    names = [target.names[a] for a in target.leaves]
    return schedule.StoreAt(
        step.stage, target.name, pick(d.rng, names[: names.index(step.axis) + 1])
    )


# --- new stages ----------------------------------------------------------------------------------


def cache_read(d: Draw) -> list[schedule.Step]:
    who = schedule.readers(d.state)
    found = [
        s
        for s in d.state.stages
        if d.wild or (who[s.name] and not isinstance(s.attach, schedule.Inline))
    ]
    if not found:
        return []
    stage = pick(d.rng, found)
    output = int(d.rng.integers(len(stage.op.dtypes)))
    t = tensor.tensor_of(stage.op, output)
    reading = [
        s.name
        for s in d.state.stages
        if not isinstance(s.op, tensor.PlaceholderOp) and (d.wild or t in s.op.input_tensors)
    ]
    chosen = tuple(n for n in reading if chance(d.rng, 0.7)) or tuple(reading[:1])
    return [schedule.CacheRead(stage.name, output, pick(d.rng, SCOPES), chosen)] if chosen else []


def cache_write(d: Draw) -> list[schedule.Step]:
    hosts = d.hosts()
    stage = d.stage(lambda s: is_fresh(s) and s.name not in hosts)
    return [schedule.CacheWrite(stage.name, pick(d.rng, SCOPES))] if stage else []


def rfactor(d: Draw) -> list[schedule.Step]:
    hosts = d.hosts()

    def fits(s: schedule.Stage) -> bool:
        op = s.op
        assert isinstance(op, tensor.ComputeOp)
        whole = all(any(a is b for b in d.loops(s)) for a in op.axis)
        return op.reduction is not None and whole and s.name not in hosts

    stage = d.stage(fits)
    a = d.axis(stage, lambda a: a.kind == "reduce") if stage else None
    if stage is None or a is None:
        return []
    place = int(d.rng.integers(-1, len(stage.op.shape) + 1))
    if not is_plain(stage, a) or chance(d.rng, 0.4):
        return [schedule.RFactor(stage.name, a.name, place)]
    part = pick(d.rng, (f"{a.name}.outer", f"{a.name}.inner"))
    split = schedule.Split(stage.name, a.name, factor=pick(d.rng, FACTORS))
    return [split, schedule.RFactor(stage.name, numbered(part, named(stage)), place)]


# --- tensor intrinsics ---------------------------------------------------------------------------


def tensorize(d: Draw) -> list[schedule.Step]:
    """Draw steps that split the last axes of a formula evenly and tensorize the inner loops."""
    hosts = d.hosts()
    stage = d.stage(lambda s: is_fresh(s) and s.name not in hosts and bool(_tileable(s)))
    tile = _random_tile(d.rng, stage) if stage else {}
    if stage is None or not tile or not isinstance(stage.op, tensor.ComputeOp):
        return []
    intrin = tile_intrinsic(stage.op, tile, f"tile{len(d.state.intrins)}", d.rng)
    if intrin is None:
        return []
    d.intrins.append(intrin)
    steps: list[schedule.Step] = []
    outer: list[str] = []
    inner: list[str] = []
    names = stage.names
    for a in (*stage.op.axis, *stage.op.reduce_axis):
        if a not in tile:
            outer.append(names[a])
        elif tile[a] == a.extent:
            inner.append(names[a])
        else:
            steps.append(schedule.Split(stage.name, names[a], factor=tile[a]))
            parts = (numbered(f"{names[a]}.{part}", named(stage)) for part in ("outer", "inner"))
            outer.append(next(parts))
            inner.append(next(parts))
    order = schedule.Reorder(stage.name, (*outer, *inner))
    return [*steps, order, schedule.Tensorize(stage.name, inner[0], intrin.name)]


def _tileable(stage: schedule.Stage) -> list[tensor.Axis]:
    """Return the last data axes and reduce axes, as far as their extents are constant."""
    op = stage.op
    found: list[tensor.Axis] = []
    for axes in (op.axis, op.reduce_axis) if isinstance(op, tensor.ComputeOp) else ():
        for a in reversed(axes):
            if not isinstance(a.extent, int) or a.extent < 1:
                break
            found.append(a)
    return found


def _random_tile(rng: Rng, stage: schedule.Stage) -> dict[tensor.Axis, int]:
    """Draw the tile of an intrinsic: its extent along some of the last axes of the stage."""
    tile: dict[tensor.Axis, int] = {}
    axes = _tileable(stage)
    for kind in ("data", "reduce"):
        mine = [a for a in axes if a.kind == kind]
        fewest = min(1, len(mine))
        for a in mine[: int(rng.integers(fewest, len(mine) + 1))]:
            assert isinstance(a.extent, int)
            tile[a] = int(pick(rng, [q for q in range(1, a.extent + 1) if a.extent % q == 0]))
    return tile


# --- memory --------------------------------------------------------------------------------------


def set_scope(d: Draw) -> list[schedule.Step]:
    stage = d.inner()
    return [schedule.SetScope(stage.name, pick(d.rng, SCOPES))] if stage else []


def transform_layout(d: Draw) -> list[schedule.Step]:
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
    elif len(at) > 1 and roll < 0.85:  # two dimensions in one, 32 elements per row
        at = [*at[2:], f"{at[0]}*32 + {at[1]}"]
    return [schedule.TransformLayout(stage.name, names, tuple(at))]


def double_buffer(d: Draw) -> list[schedule.Step]:
    """Draw steps that double-buffer a stage, after attaching a stage to a loop if needed."""
    stage = d.inner(lambda s: isinstance(s.attach, schedule.At) and s.store is None)
    if stage:
        return [schedule.DoubleBuffer(stage.name)]
    return [more for step in compute_at(d) for more in (step, schedule.DoubleBuffer(step.stage))]


def storage_align(d: Draw) -> list[schedule.Step]:
    stage = d.inner(lambda s: bool(s.op.shape) and s.layout is None)
    if not stage or not isinstance(stage.op, tensor.ComputeOp) or not stage.op.axis:
        return []
    factor = int(pick(d.rng, (1, 2, 8, 32)))
    a = pick(d.rng, stage.op.axis)
    return [schedule.StorageAlign(stage.name, a.name, factor, int(d.rng.integers(0, factor)))]


def set_store_predicate(d: Draw) -> list[schedule.Step]:
    """Draw a condition that excludes only the extra iterations of an uneven split."""
    stage = d.stage(lambda s: bool(_overruns(s)))
    if stage is not None and _overruns(stage):
        a, factor, outer, inner = pick(d.rng, _overruns(stage))
        return [_inside(stage, a, factor, outer, inner)]
    at = d.place(lambda stage, a: is_plain_data(stage, a) and bool(_misfits(a)))
    if at is None or not _misfits(at[1]):
        return []
    stage, a = at
    factor = pick(d.rng, _misfits(a))
    outer, inner = (numbered(f"{a.name}.{part}", named(stage)) for part in ("outer", "inner"))
    cut = schedule.Split(stage.name, a.name, factor=factor)
    return [cut, _inside(stage, a, factor, outer, inner)]


def _overruns(stage: schedule.Stage) -> list[tuple[tensor.Axis, int, str, str]]:
    """Return the uneven splits of data axes as (axis, factor, outer loop, inner loop)."""
    names = stage.names
    return [
        (r.parent, r.factor, names[r.outer], names[r.inner])
        for r in stage.relations
        if isinstance(r, schedule.SplitRelation)
        and isinstance(r.factor, int)
        and r.parent.kind == "data"
        and r.factor in _misfits(r.parent)
    ]


def _misfits(a: tensor.Axis) -> list[int]:
    """Return the FACTORS that do not divide the constant extent of the axis."""
    n = a.extent
    return [q for q in FACTORS if isinstance(n, int) and n % q]


def _inside(
    stage: schedule.Stage, a: tensor.Axis, factor: int, outer: str, inner: str
) -> schedule.SetStorePredicate:
    words = [name.replace(".", "_") for name in (outer, inner)]
    cond = f"{words[0]}*{factor} + {words[1]} < {a.extent}"
    return schedule.SetStorePredicate(stage.name, (outer, inner), (cond,))
