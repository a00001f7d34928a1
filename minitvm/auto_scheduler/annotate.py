"""Annotation: the decisions, besides tile sizes, that change the steps of a sketch.

    pack_inputs   whether inputs that many tiles read are packed, although they are no constants
    location      where stages that are neither tiled nor inlined are computed
    unroll_rows   whether the rows of a register tile are unrolled
    parallel      how many of the outermost loops run in parallel, on several cores

Each decision is a knob, as each size is. (Ansor also draws them for each program.) The innermost
data loop of each stage is always vectorized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from minitvm import schedule, tensor, tune
from minitvm.base import Target

from . import analysis
from .packing import can_pack, packed
from .state import State

UNROLLS = (0, 16, 64, 512)
FEW_STAGES = 2  # up to this many stages without tiles get locations independently
SHORTEST = 4  # iterations of the shortest loop that is worth vectorizing
VECTORS = (1, 2, 4)  # registers of a vectorized loop of stages without tiles
KEPT = 256  # states of other decisions that are kept, so that they are not derived again


def annotated(state: State, target: Target) -> State:
    """Return the state with knobs for all decisions; its steps are those of the first options."""
    if state.decide is not None:
        return state
    base = packed(state, constants=True)
    _open_sizes(base, target)
    knobs = tuple(_decisions(base, target))
    first = len(base.knobs)
    base.knobs = (*base.knobs, *knobs)
    base.shaping |= {*range(first, len(base.knobs))}

    @lru_cache(KEPT)
    def decide(options: tuple[int, ...]) -> State:
        chosen = {g.name: g.options[n] for g, n in zip(knobs, options, strict=True)}
        new = _decided(base, target, chosen)
        new.decide = decide
        return new

    return decide((0,) * len(knobs))


def _decisions(state: State, target: Target) -> Iterator[tune.Knob]:
    """Yield a knob for each decision that there is to make, the simplest option first."""
    if can_pack(state):
        yield _choice("pack_inputs", ("no", "yes"))
    locations = tuple(_locations(state))
    if len(locations) > 1:
        yield _choice("location", locations)
    if state.tiles:
        yield _choice("unroll_rows", ("no", "yes"))
    if target.num_cores > 1:
        yield _choice("parallel", ("fine", "coarse"))


@cache
def _choice(name: str, options: tuple[str, ...]) -> tune.Knob:
    """Return the knob of a decision; sketches with the same decisions share it."""
    return tune.choice_knob(name, options)


def _decided(state: State, target: Target, chosen: dict[str, str]) -> State:
    """Return a copy with the steps of decisions, given as the option of each by its name."""
    new = packed(state, constants=False) if chosen.get("pack_inputs") == "yes" else state.copy()
    _locate(new, chosen.get("location", ROOT).split(", "))
    _vectorize(new, target)
    if chosen.get("unroll_rows") == "yes":
        _unroll_rows(new)
    if "parallel" in chosen:
        _parallelize(new, chosen["parallel"])
    _limit_unrolling(new)  # fusing loops drops their pragmas
    return new


def _open_sizes(state: State, target: Target) -> None:
    """Add the knobs of sizes that annotation splits loops by."""
    if any(analysis.terms(state.op(s)) > 1 for s in _computed(state)):
        state.knob(tune.number_knob("auto_unroll", UNROLLS))
    for name in _untiled(state):
        if analysis.is_ragged(state.op(name)):
            continue
        lanes = target.lanes(state.op(name).dtypes[0])
        if _is_partial(name) or analysis.extent(state.op(name).axis[-1]) > lanes:
            sizes = [lanes * n for n in VECTORS]
            state.knob(tune.number_knob(f"vector_{name}", sizes))


def _computed(state: State) -> list[str]:
    """Return the stages that are computed and not inlined, producers first."""
    return [
        s.name
        for s in state.s.state.stages
        if isinstance(s.op, tensor.ComputeOp) and not isinstance(s.attach, schedule.Inline)
    ]


def _is_partial(name: str) -> bool:
    """Return whether rfactor made the stage; then a knob decides the number of partial results."""
    return name.endswith(".rf")


def _hosts(state: State) -> list[str]:
    return [t.host for t in state.tiles.values()]


def _untiled(state: State) -> list[str]:
    """Return the stages without tiles, whose loops no rule has changed."""
    tiled_stages = {*state.tiles, *_hosts(state)}
    return [
        name
        for name in _computed(state)
        if name not in tiled_stages
        and state.s.state.stage(name).layout is None
        and not state.s.state.stage(name).relations
    ]


def _split_by_user(state: State) -> list[str]:
    """Return the stages whose loops were split by a sketch rule of the user."""
    tiled_stages = {*state.tiles, *_hosts(state)}
    stages = [state.s.state.stage(name) for name in _computed(state) if name not in tiled_stages]
    return [s.name for s in stages if s.relations and s.layout is None]


# --- locations -----------------------------------------------------------------------------------


ROOT = "root"
KINDS = ("outer", "inline")  # locations that are offered to many stages together


def _movable(state: State) -> list[str]:
    """Return the stages that need a location, consumers before the stages that they read."""
    names = [n for n in _untiled(state) if not state.s.state.stage(n).is_output]
    return names[::-1]


def _locations(state: State) -> Iterator[str]:
    """Yield the locations of all movable stages: "root", "X in C outer, W inline".

    If there are many stages, all get the same kind of location where this is legal: "outer".
    """
    names = _movable(state)
    if len(names) > FEW_STAGES:
        yield from (ROOT, *KINDS)
        return
    choices: list[tuple[tuple[str, ...], State]] = [((), state)]
    for name in names:
        for locations, old in tuple(choices):
            steps = _places(old, name)
            choices += [((*locations, location), _placed(old, step)) for location, step in steps]
    for locations, _ in choices:
        yield ", ".join(locations) or ROOT


def _locate(state: State, destinations: Sequence[str]) -> None:
    """Move stages to the locations `destinations`, or all to locations of one kind: ["outer"]."""
    for name in _movable(state) if destinations != [ROOT] else ():
        for location, step in _places(state, name):
            if location in destinations or location.split()[-1:] == destinations:
                state.s.apply(step)
                break


def _places(state: State, name: str) -> Iterator[tuple[str, schedule.Step]]:
    """Yield the places of a stage apart from root, as texts, and the steps that move it there.

    It is inlined, or computed at a loop of its readers: the last one of the outer two levels of
    tiles, or the outermost loop of a stage without tiles.
    """
    if state.op(name).reduction is None:
        yield f"{name} inline", schedule.ComputeInline(name)
    for target, loop in schedule.legal_loops(state.s.state, name):
        kind = _kind_of_loop(state, target, loop)
        if kind:
            yield f"{name} in {target} {kind}", schedule.ComputeAt(name, target, loop)


def _placed(state: State, step: schedule.Step) -> State:
    new = state.copy()
    new.s.apply(step)
    return new


def _kind_of_loop(state: State, stage: str, loop: str) -> str:
    """Return "outer" or "tile" if stages may be computed in this loop; "" for other loops."""
    current_stage = state.s.state.stage(stage)
    tiles = next((t for t in state.tiles.values() if t.host == stage), None)
    if tiles is None:
        if stage in _untiled(state) and current_stage.names[current_stage.leaves[0]] == loop:
            return "outer"
        return ""
    ends = [levels[-1] for levels in tiles.levels[:-1] if levels]
    for kind, a in zip(("outer", "tile"), ends, strict=False):
        if current_stage.names.get(a) == loop:
            return kind
    return ""


# --- parallel ------------------------------------------------------------------------------------


def _parallelize(state: State, grain: str) -> None:
    """Run the stages at root in parallel; `grain` is the size of the tasks, "fine" or "coarse"."""
    for name in _computed(state):
        if isinstance(state.s.state.stage(name).attach, schedule.AtRoot):
            _parallel(state, name, grain)


def _parallel(state: State, name: str, grain: str) -> None:
    """Run the outermost data loops of a stage in parallel: all loops of the first level, or one."""
    stage = state.s[name]
    current_stage = state.s.state.stage(name)
    tiles = next((t for t in state.tiles.values() if t.host == name), None)
    outer = tiles.levels[0] if tiles else current_stage.leaves
    used = [s.attach.axis for s in state.s.state.stages if isinstance(s.attach, schedule.At)]
    chosen = list[tensor.Axis]()
    for a in current_stage.leaves:
        if (
            a.kind == "reduce"
            or current_stage.note(a).kind != "serial"
            or not any(a is b for b in outer)
        ):
            break
        chosen.append(a)
        if any(a is b for b in used) or (grain == "coarse" and a.extent != 1):
            break
    if chosen:
        stage.parallel(stage.fuse(*chosen) if len(chosen) > 1 else chosen[0])


# --- vectors, unrolling --------------------------------------------------------------------------


def _vectorize(state: State, target: Target) -> None:
    """Vectorize the innermost data loop of each stage."""
    for name, t in state.tiles.items():
        state.s[name].vectorize(t.inner[-1])
        if t.host != name:
            state.s[t.host].vectorize(t.copied[-1])
    for name in _split_by_user(state):
        *_, innermost = state.s.state.stage(name).leaves
        if innermost.kind == "data" and state.s.state.stage(name).note(innermost).kind == "serial":
            state.s[name].vectorize(innermost)
    for name in _untiled(state):
        _vectorize_untiled(state, name, target)


def _vectorize_untiled(state: State, name: str, target: Target) -> None:
    """Split the last data axis of a stage without tiles, and vectorize the inner loop."""
    stage, op = state.s[name], state.op(name)
    last = op.axis[-1]
    knob = next((n for n, g in enumerate(state.knobs) if g.name == f"vector_{name}"), None)
    if not any(a is last for a in stage.leaf_iter_vars) or analysis.is_ragged(op):
        return
    if knob is not None:
        last = state.split_inner(name, last, (knob, 0))
    elif analysis.extent(last) < SHORTEST:
        return
    if op.reduce_axis:
        stage.reorder(*op.reduce_axis, last)
    stage.vectorize(last)


def _unroll_rows(state: State) -> None:
    """Unroll the rows of register tiles."""
    for name, t in state.tiles.items():
        for a in t.inner[:-1]:
            state.s[name].unroll(a)
        for a in t.copied[:-1] if t.level == 2 else ():  # otherwise the tile stays in memory
            state.s[t.host].unroll(a)


def _limit_unrolling(state: State) -> None:
    """Add a knob that decides how far the loops of each reduction are unrolled."""
    for name in _computed(state):
        if analysis.terms(state.op(name)) > 1:
            knob = state.knob(tune.number_knob("auto_unroll", UNROLLS))
            state.s[name].pragma(state.s[name].leaf_iter_vars[0], "auto_unroll_max_step", 16)
            state.open("value", (knob, 0))
