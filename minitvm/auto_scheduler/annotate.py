"""Annotation: the decisions, besides tile sizes, that change the steps of a sketch.

    unroll      whether the rows of a register tile are unrolled
    location    where stages that are neither tiled nor inlined are computed
    grain       how many of the outermost loops run in parallel
    vectorize   the innermost data loop of each stage

Each combination of decisions is a separate sketch with the same genes, so a row of one sketch is
also a row of its siblings. (Ansor draws these decisions for each program.)
"""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, tensor, tune
from minitvm.base import Target

from . import analysis
from .state import State

UNROLLS = (0, 16, 64, 512)
FEW_STAGES = 2  # up to this many stages without tiles get locations independently
SHORTEST = 4  # iterations of the shortest loop that is worth vectorizing
VECTORS = (1, 2, 4)  # registers of a vectorized loop of stages without tiles


def annotated(state: State, target: Target) -> list[State]:
    """Return the states of all legal combinations of decisions."""
    if state.annotated:
        return [state]
    state = state.copy()
    _open_sizes(state, target)
    found = list[State]()
    for located in _locations(state):
        for rows in (False, True) if state.tiles else (False,):
            new = located.copy()
            _vectorize(new, target)
            if rows:
                _unroll_rows(new)
            for ready in _grains(new, target):  # fusing loops drops their pragmas
                _limit_unrolling(ready)
                found.append(ready)
    return found


def _open_sizes(state: State, target: Target) -> None:
    """Add the genes that all sketches made from this state have."""
    if any(analysis.terms(state.op(s)) > 1 for s in _computed(state)):
        state.gene(tune.number_gene("auto_unroll", UNROLLS))
    for name in _untiled(state):
        if analysis.is_ragged(state.op(name)):
            continue
        lanes = target.lanes(state.op(name).dtypes[0])
        if _is_partial(name) or analysis.extent(state.op(name).axis[-1]) > lanes:
            sizes = [lanes * n for n in VECTORS]
            state.gene(tune.number_gene(f"vector_{name}", sizes))


def _computed(state: State) -> list[str]:
    """Return the stages that are computed and not inlined, producers first."""
    return [
        s.name
        for s in state.s.state.stages
        if isinstance(s.op, tensor.ComputeOp) and not isinstance(s.attach, schedule.Inline)
    ]


def _is_partial(name: str) -> bool:
    """Return whether rfactor made the stage; then a gene decides the number of partial results."""
    return name.endswith(".rf")


def _hosts(state: State) -> list[str]:
    return [t.host for t in state.tiles.values()]


def _untiled(state: State) -> list[str]:
    """Return the stages without tiles, whose loops no rule has changed."""
    tiled = {*state.tiles, *_hosts(state)}
    return [
        name
        for name in _computed(state)
        if name not in tiled
        and state.s.state.stage(name).layout is None
        and not state.s.state.stage(name).relations
    ]


def _split_by_user(state: State) -> list[str]:
    """Return the stages whose loops were split by a sketch rule of the user."""
    tiled = {*state.tiles, *_hosts(state)}
    stages = [state.s.state.stage(name) for name in _computed(state) if name not in tiled]
    return [s.name for s in stages if s.relations and s.layout is None]


# --- locations -----------------------------------------------------------------------------------


def _locations(state: State) -> list[State]:
    """Return states in which each stage of _untiled has a location, except for the outputs.

    Consumers are placed before the stages that they read. If there are many stages, all get the
    same kind of location where this is legal.
    """
    inner = [n for n in _untiled(state) if not state.s.state.stage(n).is_output]
    if len(inner) <= FEW_STAGES:
        found = [state]
        for name in reversed(inner):
            found = [new for old in found for new in _placed(old, name)]
        return found
    found = list[State]()
    for kind in ("", "outer", "inline"):
        new = state
        for name in reversed(inner):
            new = next((s for s in _placed(new, name) if _last_choice(s, new) == kind), new)
        found.append(new)
    return [*{new.choices: new for new in found}.values()]


def _last_choice(new: State, old: State) -> str:
    """Return the kind of location that was chosen for the last stage; "" for root."""
    return "" if new is old else new.choices[-1].split()[-1]


def _placed(state: State, name: str) -> Iterator[State]:
    """Yield the states in which a stage is at root, at a loop of its readers, or inlined.

    The loops are the last ones of the outer two levels of tiles, and the outermost loop of a stage
    without tiles.
    """
    yield state
    for target, loop in schedule.legal_loops(state.s.state, name):
        kind = _kind_of_loop(state, target, loop)
        if kind:
            new = state.chose(f"{name} in {target} {kind}")
            new.s.apply(schedule.ComputeAt(name, target, loop))
            yield new
    if state.op(name).reduction is None:
        new = state.chose(f"{name} inline")
        new.s[name].compute_inline()
        yield new


def _kind_of_loop(state: State, stage: str, loop: str) -> str:
    """Return "outer" or "tile" if stages may be computed in this loop; "" for other loops."""
    now = state.s.state.stage(stage)
    tiles = next((t for t in state.tiles.values() if t.host == stage), None)
    if tiles is None:
        return "outer" if stage in _untiled(state) and now.names[now.leaves[0]] == loop else ""
    ends = [levels[-1] for levels in tiles.levels[:-1] if levels]
    for kind, a in zip(("outer", "tile"), ends, strict=False):
        if now.names.get(a) == loop:
            return kind
    return ""


# --- parallel ------------------------------------------------------------------------------------


def _grains(state: State, target: Target) -> Iterator[State]:
    """Yield states in which stages at root run in parallel, each with another size of tasks."""
    if target.num_cores == 1:
        yield state
        return
    for grain in ("fine", "coarse"):
        new = state.chose(grain)
        for name in _computed(new):
            if isinstance(new.s.state.stage(name).attach, schedule.AtRoot):
                _parallel(new, name, grain)
        yield new


def _parallel(state: State, name: str, grain: str) -> None:
    """Run the outermost data loops of a stage in parallel: all loops of the first level, or one."""
    stage = state.s[name]
    now = state.s.state.stage(name)
    tiles = next((t for t in state.tiles.values() if t.host == name), None)
    outer = tiles.levels[0] if tiles else now.leaves
    used = [s.attach.axis for s in state.s.state.stages if isinstance(s.attach, schedule.At)]
    chosen = list[tensor.Axis]()
    for a in now.leaves:
        if a.kind == "reduce" or now.note(a).kind != "serial" or not any(a is b for b in outer):
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
    gene = next((n for n, g in enumerate(state.genes) if g.name == f"vector_{name}"), None)
    if not any(a is last for a in stage.leaf_iter_vars) or analysis.is_ragged(op):
        return
    if gene is not None:
        last = state.split_inner(name, last, (gene, 0))
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
    state.choices = (*state.choices, "rows")


def _limit_unrolling(state: State) -> None:
    """Add a gene that decides how far the loops of each reduction are unrolled."""
    for name in _computed(state):
        if analysis.terms(state.op(name)) > 1:
            gene = state.gene(tune.number_gene("auto_unroll", UNROLLS))
            state.s[name].pragma(state.s[name].leaf_iter_vars[0], "auto_unroll_max_step", 16)
            state.open("value", (gene, 0))
