"""Packing: inputs that many tiles read are stored as panels, which are as wide as a tile."""

from __future__ import annotations

from collections.abc import Container

from minitvm import schedule, tensor

from . import analysis
from .state import LEVELS, State


def packed(state: State, *, constants: bool) -> State:
    """Store inputs as panels as wide as a tile, for each iteration of the outermost loop.

                                        for j.0:
    for i.0, j.0, ...:                    for k, j: B.global[j // w, k, j % w] = B[k, j]
      C[i, j] += A[i, k] * B[k, j]   ->   for i.0, ...:
                                            C[i, j] += A[i, k] * B.global[j // w, k, j % w]

    A constant is packed once, before all calls. Ansor changes only the layouts of constants.

    constants   whether to pack stages whose packable inputs are all constant, or the other stages
    """
    known, new = schedule.constants(state.s.state), state.copy()
    for stage in state.tiles:
        reused_tensors = _reused(new, stage)
        if reused_tensors and all(t.op in known for t, _ in reused_tensors) == constants:
            _pack(new, stage, reused_tensors, known)
    return new


def can_pack(state: State) -> bool:
    """Return whether a stage has inputs to be packed, not all of them constant."""
    known = schedule.constants(state.s.state)
    return any(t.op not in known for stage in state.tiles for t, _ in _reused(state, stage))


def _reused(state: State, stage: str) -> list[tuple[tensor.Tensor, int]]:
    """Return the inputs of a tiled stage that can be stored as panels; see analysis.packable."""
    if state.tiles[stage].spatial[-1] is None:
        return []
    inputs = analysis.packable(state.op(stage))
    return [(t, d) for t, d in inputs if state.s.state.owner(t).layout is None]


def _pack(
    state: State,
    stage: str,
    reused: list[tuple[tensor.Tensor, int]],
    known: Container[tensor.Operation],
) -> None:
    """Pack inputs of a tiled stage; `known` has the constants."""
    tiles = state.tiles[stage]
    (*others, panel), knob = tiles.levels[0], tiles.spatial[-1]
    assert knob is not None
    if any(t.op not in known for t, _ in reused):
        state.s[tiles.host].reorder(panel, *others)
        state.tiles[stage] = tiles._replace(levels=((panel, *others), *tiles.levels[1:]))
        if tiles.level == 1 and others:
            state.s[stage].compute_at(state.s[tiles.host], others[-1])
    for t, dimension in reused:
        name = state.s.cache_read(t, "global", [state.s[stage]]).op.name
        if t.op not in known:
            state.s[name].compute_at(state.s[tiles.host], panel)
        state.store_panels(name, dimension, (knob, LEVELS - 1))
        axes = state.op(name).axis
        if dimension == len(axes) - 1:
            state.s[name].vectorize(state.split_inner(name, axes[-1], (knob, LEVELS - 1)))
