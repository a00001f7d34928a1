"""The sketch rules for a GPU: loops bound to blocks and threads, tiles fetched into shared memory.

A tiled stage has the structure S S S R R S R S, in which the first three levels of data loops are
bound to blocks, virtual threads and threads:

    for blocks: for virtual threads: for threads:
      for k.0:
        fetch the tiles of all inputs into shared memory, all threads together
        for k.1: for i.3, j.3: for k.2: for i.4, j.4: C.local[i, j] += ...
      for i, j of one thread: C[i, j] = C.local[i, j]

Stages without tiles are bound when the sketch is annotated; see gpu_annotate.py.

Source: Zheng et al. 2020, Ansor, section 4.1, and the rules of TVM 0.18 for GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from minitvm import schedule, te, tensor, tune
from minitvm.base import Target

from . import analysis, rules
from .state import State, Tiles

DATA_LEVELS, SUM_LEVELS = 5, 3
LONGEST = 16  # iterations of the innermost data loop of a thread
WIDTHS = (1, 2, 4)  # elements that a thread fetches at once
MAX_RESULTS = 1024  # with more of them, a sum needs no other threads
SHARING = (16, 32, 64, 128, 256)  # threads that share a sum


# --- always inline -------------------------------------------------------------------------------


def can_inline(state: State, stage: str, target: Target) -> bool:
    """Return whether a stage is neither an output nor a reduction; a GPU inlines all such."""
    current_stage = state.s.state.stage(stage)
    if (
        current_stage.is_output
        or current_stage.layout is not None
        or not isinstance(current_stage.attach, schedule.AtRoot)
    ):
        return False
    return isinstance(current_stage.op, tensor.ComputeOp) and current_stage.op.reduction is None


# --- cross-thread reduction ----------------------------------------------------------------------


def can_share(state: State, stage: str, target: Target) -> bool:
    """Return whether a sum has many terms, but too few results to give each thread one.

    With data reuse there must also be fewer results than terms, so that tiles would be small. A
    stage whose result cache_write copies is left to the tiles.
    """
    op = state.s.state.stage(stage).op
    if not isinstance(op, tensor.ComputeOp) or op.reduction is None or analysis.is_ragged(op):
        return False
    if stage.endswith(rules.CACHE):
        return False
    results, terms = analysis.points(op), analysis.terms(op)
    if analysis.has_data_reuse(op):
        return results <= MAX_RESULTS and results < terms
    return terms > schedule.WARP


def share(state: State, stage: str, target: Target) -> Iterator[rules.Branch]:
    """Let the threads of a block compute a sum together.

    for i:                     for block in blocks:
      for k: B[i] += A[i, k]     for k.0: for k.1 in threads: B[block] += A[block, k]
    """
    new = state.copy()
    view, op = new.s[stage], new.op(stage)
    terms = view.fuse(*op.reduce_axis)
    sizes = [n for n in SHARING if n < 2 * analysis.terms(op)]
    knob = new.knob(tune.number_knob(f"threads_{stage}", sizes))
    view.bind(new.split_inner(stage, terms, (knob, 0)), te.thread_axis("threadIdx.x"))
    if op.axis:
        view.bind(view.fuse(*op.axis), te.thread_axis("blockIdx.x"))
    new.choices = (*new.choices, f"{stage} by a block")
    yield new, new.stages.index(stage) - 1


# --- multi-level tiling --------------------------------------------------------------------------


def tile(state: State, stage: str, target: Target) -> Iterator[rules.Branch]:
    """Tile a stage for blocks and threads, inside its elementwise consumer; see the file's text."""
    consumer = analysis.elementwise_consumer(state.s.state, stage)
    assert consumer is not None
    new = state.copy()
    op = new.op(stage)
    knobs = [_knob(new, stage, a, DATA_LEVELS) for a in op.axis]
    sums = [_knob(new, stage, a, SUM_LEVELS) for a in op.reduce_axis]
    parts = [(0,), (1,), (2,), (3, 4)]
    outer = rules.levels_of(new, consumer, new.op(consumer).axis, knobs, parts, DATA_LEVELS)
    new.s[consumer].reorder(*chain(*outer))
    thread = _bound(new, consumer, outer[:3])
    new.s[stage].compute_at(new.s[consumer], thread)
    new.s[stage].set_scope("local")
    inner = rules.levels_of(new, stage, op.axis, knobs, [(3,), (4,)])
    reduce = rules.levels_of(new, stage, op.reduce_axis, sums, [(0,), (1,), (2,)])
    order = [reduce[0], reduce[1], inner[0], reduce[2], inner[1]]
    new.s[stage].reorder(*chain(*order))
    levels = tuple(map(tuple, (*outer[:-1], *inner)))
    new.tiles[stage] = Tiles(tuple(knobs), levels, consumer, 3, tuple(inner[1]), tuple(outer[-1]))
    sizes = [(n, 2) for n in knobs if n is not None]
    for t in _inputs(op) if op.reduce_axis else ():
        _fetch(new, stage, t, reduce[0][-1], sizes)
    yield new, new.stages.index(stage) - 1


def _knob(state: State, stage: str, a: tensor.Axis, levels: int) -> int | None:
    """Return the number of the knob that splits an axis; None if the axis has one iteration."""
    length = analysis.extent(a)
    if length == 1:
        return None
    most = LONGEST if a.kind == "data" else length
    return state.knob(
        tune.split_knob(rules.knob_name(state, stage, a), length, levels, innermost=most)
    )


def _bound(state: State, stage: str, levels: Sequence[Sequence[tensor.Axis]]) -> tensor.Axis:
    """Bind each level to a hardware index; return the loop over threads."""
    view = state.s[stage]
    blocks, virtual, threads = (view.fuse(*loops) for loops in levels)
    view.bind(blocks, te.thread_axis("blockIdx.x"))
    view.bind(virtual, te.thread_axis("vthread"))
    view.bind(threads, te.thread_axis("threadIdx.x"))
    return threads


def _inputs(op: tensor.ComputeOp) -> list[tensor.Tensor]:
    """Return the tensors that a stage reads, each once."""
    buffers = [load.buffer for load in tensor.loads(op)]
    return list(dict.fromkeys(b for b in buffers if isinstance(b, tensor.Tensor)))


def _fetch(
    state: State,
    stage: str,
    t: tensor.Tensor,
    loop: tensor.Axis,
    sizes: Sequence[tuple[int, int]],
) -> None:
    """Let all threads of a block copy a tile of `t` to shared memory, in each iteration of `loop`.

    sizes   the parts of knobs whose product is the number of threads
    """
    name = state.s.cache_read(t, "shared", [state.op(stage)]).op.name
    view = state.s[name]
    view.compute_at(state.s[stage], loop)
    tile = view.fuse(*state.op(name).axis)
    knob = state.knob(tune.number_knob(f"fetch_{name.removesuffix('.shared')}", WIDTHS))
    rest, vector = view.split(tile, factor=WIDTHS[0])
    state.open("factor", (knob, 0))
    examples = [int(state.knobs[n].values[0][part]) for n, part in sizes]
    _, thread = view.split(rest, factor=math.prod(examples))
    state.open("factor", *sizes)
    view.vectorize(vector)
    view.bind(thread, te.thread_axis("threadIdx.x"))


GPU_RULES: tuple[rules.Rule, ...] = (
    rules.Rule("always inline", can_inline, rules.inline, exclusive=True),
    rules.Rule("cross-thread reduction", can_share, share),
    rules.Rule("cache write", rules.can_cache_write, rules.cache_write, exclusive=True),
    rules.Rule("tile, bind and fetch", rules.can_fuse, tile, exclusive=True),
    rules.Rule("skip", rules.is_any, rules.skip, exclusive=True),
)
