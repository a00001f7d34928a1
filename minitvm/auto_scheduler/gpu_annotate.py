"""Annotation for a GPU: the decisions besides tile sizes, and threads for the other stages.

    unroll   whether the innermost sums of a tile are unrolled, so that addresses are constants

Stages that no rule has bound get a thread for each element; a knob decides the size of a block.
"""

from __future__ import annotations

from functools import lru_cache

from minitvm import schedule, te, tensor, tune

from .state import State

BLOCKS = (32, 64, 128, 256, 512)  # threads


def annotated(state: State) -> State:
    """Return the state with knobs for all decisions; its steps are those of the first options."""
    if state.decide is not None:
        return state
    base = state.copy()
    _bind_elements(base)
    if not base.tiles:
        base.decide = lambda _: base
        return base
    base.shaping |= {base.knob(tune.choice_knob("unroll", ("no", "yes")))}

    @lru_cache
    def decide(options: tuple[int, ...]) -> State:
        new = base.copy()
        if options[-1]:
            _unroll(new)
        new.decide = decide
        return new

    return decide((0,))


def _bind_elements(state: State) -> None:
    """Bind the loops of stages at root that no rule has bound, a thread for each element."""
    for stage in state.s.state.stages:
        at_root = isinstance(stage.attach, schedule.AtRoot)
        if not isinstance(stage.op, tensor.ComputeOp) or not at_root or _is_bound(stage):
            continue
        view = state.s[stage.name]
        if not stage.op.axis:  # one result: the threads of a warp share its sum
            _, inner = view.split(view.fuse(*stage.op.reduce_axis), factor=schedule.WARP)
            view.bind(inner, te.thread_axis("threadIdx.x"))
            continue
        elements = view.fuse(*(a for a in stage.leaves if a.kind == "data"))
        knob = state.knob(tune.number_knob(f"block_{stage.name}", BLOCKS))
        block, thread = view.split(elements, factor=BLOCKS[0])
        state.open("factor", (knob, 0))
        view.bind(block, te.thread_axis("blockIdx.x"))
        view.bind(thread, te.thread_axis("threadIdx.x"))


def _is_bound(stage: schedule.Stage) -> bool:
    return any(stage.note(a).kind == "bind" for a in stage.leaves)


def _unroll(state: State) -> None:
    """Unroll the innermost sums of tiled stages."""
    for name in state.tiles:
        sums = [a for a in state.s.state.stage(name).leaves if a.kind == "reduce"]
        for a in sums[-len(state.op(name).reduce_axis) :] if len(sums) > 1 else ():
            state.s[name].unroll(a)
