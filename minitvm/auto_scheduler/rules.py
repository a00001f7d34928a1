"""The sketch rules of Ansor: a list of (condition, effect) pairs.

A state is derived stage by stage, from the output to the inputs. At each stage every rule whose
condition holds gives new states. If such a rule is exclusive, the rules after it are skipped.
A rule returns each new state with the number of the stage to visit next.

To add a rule, write the two functions and put a Rule into RULES, or pass it to a search. Rules of
the user come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from minitvm import tensor
from minitvm.base import Target

from . import analysis, winograd
from .state import LEVELS, State, Tiles, data_knob, sum_knob

Branch: TypeAlias = tuple[State, int]  # a new state, and the number of the stage to visit next
CACHE = ".local"  # the end of the name of a stage that cache_write makes


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to derive states from a state at one of its stages.

    meets      meets(state, stage, target) returns whether the rule applies
    apply      apply(state, stage, target) returns the new states
    exclusive  whether to skip the rules after this rule if it applies
    """

    name: str
    meets: Callable[[State, str, Target], bool]
    apply: Callable[[State, str, Target], Iterator[Branch]]
    exclusive: bool = False


def _index(state: State, stage: str) -> int:
    return state.stages.index(stage)


def _is_computed(state: State, stage: str) -> bool:
    return isinstance(state.s.state.stage(stage).op, tensor.ComputeOp)


# --- always inline -------------------------------------------------------------------------------


def can_inline(state: State, stage: str, target: Target) -> bool:
    """Return whether a stage is not an output and inlining it costs nothing."""
    current_stage = state.s.state.stage(stage)
    return (
        not current_stage.is_output
        and current_stage.layout is None
        and analysis.is_strictly_inlineable(current_stage.op)
    )


def inline(state: State, stage: str, target: Target) -> Iterator[Branch]:
    """Inline a stage.

    for i: B[i] = A[i] + 1
    for i: C[i] = B[i] * 2   ->   for i: C[i] = (A[i] + 1) * 2
    """
    new = state.copy()
    new.s[stage].compute_inline()
    yield new, _index(new, stage) - 1


# --- multi-level tiling --------------------------------------------------------------------------


def can_tile(state: State, stage: str, target: Target) -> bool:
    """Return whether a stage reuses elements of its inputs."""
    return _is_computed(state, stage) and analysis.has_data_reuse(state.op(stage))


def tile(state: State, stage: str, target: Target) -> Iterator[Branch]:
    """Split the loops into the structure S S R S R S.

    for i, j:                       for i.0, j.0: for i.1, j.1: for k.0: for i.2, j.2: for k.1:
      for k:                   ->     for i.3, j.3:
        C[i, j] += ...                  C[i, j] += ...
    """
    new = state.copy()
    _tile(new, stage, target)
    yield new, _index(new, stage) - 1


def can_fuse(state: State, stage: str, target: Target) -> bool:
    """Return whether a stage can be tiled and only one stage reads it, elementwise."""
    consumer = analysis.elementwise_consumer(state.s.state, stage)
    return can_tile(state, stage, target) and consumer is not None and consumer not in state.tiles


def can_fuse_copy(state: State, stage: str, target: Target) -> bool:
    """Return whether a stage can be fused, and its consumer is the copy that cache_write made."""
    consumer = analysis.elementwise_consumer(state.s.state, stage)
    return can_fuse(state, stage, target) and stage == f"{consumer}{CACHE}"


def tile_and_fuse(state: State, stage: str, target: Target) -> Iterator[Branch]:
    """Tile a stage, and compute each tile inside the tiles of its elementwise consumer.

                                    for i.0, j.0: for i.1, j.1:
    for i, j: C[i, j] += ...   ->     for k.0: for i.2, j.2: for k.1: for i.3, j.3: C[i, j] += ...
    for i, j: D[i, j] = f(C)          for i.4, j.4: D[i, j] = f(C[i, j])

    There are two states: C is computed in the loops of level 1 or, as here, of level 2.
    """
    consumer = analysis.elementwise_consumer(state.s.state, stage)
    assert consumer is not None
    for level in (1, 2):
        new = state.copy()
        _tile(new, stage, target, consumer, level)
        new.choices = (*new.choices, f"level {level}")
        yield new, _index(new, stage) - 1


def _label(a: tensor.Axis) -> str:
    """Return the name of an axis in the formula, without the ".c" that cache_write appends."""
    return a.name.removesuffix(".c")


def knob_name(state: State, stage: str, a: tensor.Axis) -> str:
    """Return a new name for the knob that splits an axis."""
    name = f"tile_{_label(a)}"
    return f"tile_{stage}_{_label(a)}" if any(g.name == name for g in state.knobs) else name


def _knob(state: State, stage: str, a: tensor.Axis, lanes: int = 1) -> int | None:
    """Return the number of the knob that splits an axis; None if the axis has one iteration."""
    length, name = analysis.extent(a), knob_name(state, stage, a)
    if length == 1:
        return None
    new_knob = sum_knob(name, length) if a.kind == "reduce" else data_knob(name, length, lanes)
    return state.knob(new_knob)


def _tile(
    state: State, stage: str, target: Target, consumer: str | None = None, level: int = 0
) -> None:
    """Tile a stage in the structure S S R S R S; with a consumer, compute it inside the tiles."""
    op, host = state.op(stage), consumer or stage
    lanes = target.lanes(op.dtypes[0])
    *others, last = op.axis
    knobs = [*(_knob(state, stage, a) for a in others), _knob(state, stage, last, lanes)]
    sums = [_knob(state, stage, a) for a in op.reduce_axis]
    outer = list[list[tensor.Axis]]()
    if consumer is not None:
        axes, parts = state.op(consumer).axis, [(n,) for n in range(level)]
        rest = tuple(range(level, LEVELS))
        outer = levels_of(state, consumer, axes, knobs, [*parts, rest], LEVELS)
        state.s[consumer].reorder(*chain(*outer))
        loop = next(x[-1] for x in reversed(outer[:-1]) if x)
        state.s[stage].compute_at(state.s[consumer], loop)
    spatial = levels_of(state, stage, op.axis, knobs, [(n,) for n in range(level, LEVELS)])
    reduce = levels_of(state, stage, op.reduce_axis, sums, [(0,), (1,)])
    order = [*spatial[:-2], reduce[0], spatial[-2], reduce[1], spatial[-1]]
    state.s[stage].reorder(*chain(*order))
    tile_levels = tuple(map(tuple, (*outer[:-1], *spatial)))
    first_tile = tuple(outer[-1]) if outer else ()
    state.tiles[stage] = Tiles(
        tuple(knobs), tile_levels, host, level, tuple(spatial[-1]), first_tile
    )


def levels_of(
    state: State,
    stage: str,
    axes: Sequence[tensor.Axis],
    knobs: Sequence[int | None],
    parts: Sequence[Sequence[int]],
    number: int | None = None,
) -> list[list[tensor.Axis]]:
    """Split axes by knobs; return the loops of each level. Axes of one iteration are in the first.

    number   how sketches number the loops of the last level, if it has several parts: "i.4"
    """
    levels: list[list[tensor.Axis]] = [[] for _ in parts]
    for a, knob in zip(axes, knobs, strict=True):
        if knob is None:
            levels[0].append(a)
            state.names[a] = (_label(a), "1")
            continue
        loops = state.split(stage, a, knob, parts)
        for n, (loop, several) in enumerate(zip(loops, parts, strict=True)):
            shown = number if len(several) > 1 and number is not None else several[0]
            size = " * ".join(f"TILE_{_label(a).upper()}{p}" for p in several)
            state.names[loop] = (f"{_label(a)}.{shown}", size)
            levels[n].append(loop)
    return levels


# --- cache write ---------------------------------------------------------------------------------


def can_cache_write(state: State, stage: str, target: Target) -> bool:
    """Return whether a stage can be tiled and no stage can be fused with it."""
    return can_tile(state, stage, target) and not can_fuse(state, stage, target)


def cache_write(state: State, stage: str, target: Target) -> Iterator[Branch]:
    """Sum in a local buffer, so that the copy to the result can be fused with the tiles.

    for i, j: C[i, j] += ...   ->   for i, j: C.local[i, j] += ...
                                    for i, j: C[i, j] = C.local[i, j]
    """
    new = state.copy()
    local = new.s.cache_write(new.op(stage).output(0), "local")
    yield new, _index(new, local.op.name)


# --- rfactor -------------------------------------------------------------------------------------


def can_rfactor(state: State, stage: str, target: Target) -> bool:
    """Return whether a reduction has too few results to fill cores or vectors.

    A stage whose result cache_write copies is left to the tiles.
    """
    if not _is_computed(state, stage) or stage.endswith(CACHE):
        return False
    return analysis.is_small_space(state.op(stage), target.num_cores)


def rfactor(state: State, stage: str, target: Target) -> Iterator[Branch]:
    """Sum partial results first, one for each iteration of the outer or the inner part of a split.

                                 for f: for k.1: B.rf[f] += A[f, k.1]
    for k: B += A[k]        ->   for f: B += B.rf[f]
    """
    for position in (0, 1):
        new = state.copy()
        view = new.s[stage]
        whole = view.fuse(*new.op(stage).reduce_axis)
        knob = _knob_of_parts(new, stage)
        parts = new.split(stage, whole, knob, [(0,), (1,)])
        label, size = "@".join(_label(a) for a in state.op(stage).reduce_axis), new.knobs[knob].name
        shown = {a.name: (f"{label}.{n}", f"{size}{n}".upper()) for n, a in enumerate(parts)}
        partial = new.s.rfactor(new.op(stage).output(0), parts[position], len(new.op(stage).axis))
        for op in (partial.op, new.op(stage)):
            for a in (*op.axis, *op.reduce_axis):
                if a.name.removesuffix(".v") in shown:
                    new.names[a] = shown[a.name.removesuffix(".v")]
        new.choices = (*new.choices, ("outer", "inner")[position] + " parts")
        new.shaping |= {knob}
        yield new, _index(new, partial.op.name) - 1


def _knob_of_parts(state: State, stage: str) -> int:
    """Return the number of the knob that splits a sum; sums with equally many terms share one."""
    new_knob = sum_knob(f"tile_{stage}_sum", analysis.terms(state.op(stage)))
    others = {f"tile_{s.removesuffix('.rf')}_sum" for s in state.stages if s.endswith(".rf")}
    for n, knob in enumerate(state.knobs):
        if knob.name in others and knob.options == new_knob.options:
            return n
    return state.knob(new_knob)


# --- the list ------------------------------------------------------------------------------------


def is_any(state: State, stage: str, target: Target) -> bool:
    """Return True: this rule comes last."""
    return True


def skip(state: State, stage: str, target: Target) -> Iterator[Branch]:
    """Leave a stage as it is."""
    yield state, _index(state, stage) - 1


RULES: tuple[Rule, ...] = (
    Rule("winograd", winograd.can_plan, winograd.plan, exclusive=True),
    Rule("always inline", can_inline, inline, exclusive=True),
    Rule("rfactor", can_rfactor, rfactor),
    Rule("cache write", can_cache_write, cache_write),
    Rule("tile and fuse", can_fuse_copy, tile_and_fuse, exclusive=True),
    Rule("tile and fuse", can_fuse, tile_and_fuse),
    Rule("multi-level tiling", can_tile, tile, exclusive=True),
    Rule("skip", is_any, skip, exclusive=True),
)
