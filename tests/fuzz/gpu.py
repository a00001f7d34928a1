"""Random schedules for a GPU.

The threads of a block are drawn once for a program, because all stages of a kernel must agree on
them. Output stages are bound first; then other stages move into their loops, to fast memory, and
are fetched by the threads together; then any other steps follow.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from minitvm import schedule, te, tensor, testing
from minitvm.base import ScheduleError
from minitvm.testing import Recipe, pick

from .schedules import CountedSchedule, Tally, draw_loop, primitive, split_and_bind
from .values import Rng, chance

BLOCKS = ((32,), (4,), (8, 4), (16, 2), (5, 3), (33,), (4, 2, 2), (64,), (2,), (1,), (7,), (3, 16))
HARDWARE = (*schedule.BLOCKS, *schedule.THREADS)
SCOPES = ("shared", "shared", "shared", "local", "local", "warp", "global")
PLACED = 0.85  # share of stages that get what a GPU needs; the others show what lowering refuses


def random_gpu_schedule(ops: Any, rng: Rng, tally: Tally | None = None) -> te.Schedule:
    """Make a random schedule whose stages run on the blocks and threads of a GPU."""
    tally = Tally() if tally is None else tally
    s = CountedSchedule(te.create_schedule(ops).state, tally.reasons)
    block: tuple[int, ...] = pick(rng, BLOCKS)
    for name in [stage.name for stage in s.state.stages if stage.is_output]:
        if chance(rng, PLACED):
            _try(partial(bind_stage, name=name, block=block), s, rng)
    drawn: tuple[Recipe, ...] = (
        *(fetch, move) * 10,
        *(partial(reduce_together, block=block), partial(rfactor_together, block=block)) * 4,
        *(split_and_bind, vectorize_part, unroll_part) * 3,
    )
    testing.take_steps(s, rng, (*testing.RECIPES, *(partial(_whole, recipe) for recipe in drawn)))
    for stage in reversed(s.state.stages):
        if chance(rng, 1 - (1 - PLACED) / 3):
            _try(partial(finish, name=stage.name, block=block), s, rng)
    tally.taken.update(map(primitive, s.steps))
    return s


def _whole(recipe: Recipe, s: te.Schedule, rng: Rng) -> None:
    """Follow a recipe; if one of its steps is illegal, undo those before it."""
    steps = len(s.steps)
    try:
        recipe(s, rng)
    except ScheduleError:
        while len(s.steps) > steps:
            s.undo()
        raise


def _try(recipe: Recipe, s: te.Schedule, rng: Rng) -> None:
    """Follow a recipe, or leave the schedule as it is."""
    with suppress(ScheduleError):
        _whole(recipe, s, rng)


# --- threads -------------------------------------------------------------------------------------


def finish(s: te.Schedule, rng: Rng, name: str, block: tuple[int, ...]) -> None:
    """Bind a stage at root to blocks and threads; fetch one in shared memory with all threads."""
    stage = s.state.stage(name)
    if not stage.leaves or isinstance(stage.attach, schedule.Inline):
        return
    scopes = fitting_scopes(s.state, stage)
    if stage.scope not in scopes:
        s[name].set_scope(pick(rng, scopes))
    if any(stage.note(a).thread in HARDWARE for a in stage.leaves):
        return
    root = isinstance(stage.attach, schedule.AtRoot)
    if root or s.state.stage(name).scope != "local":
        bind_stage(s, rng, name, block, blocks=root)


def fitting_scopes(state: schedule.State, stage: schedule.Stage) -> tuple[str, ...]:
    """Return the memories that all threads see which compute or read the results of a stage."""
    if not isinstance(stage.attach, schedule.At):
        return ("global",)
    used = {stage.note(a).thread for a in stage.leaves}
    for name in schedule.readers(state)[stage.name]:
        reader = state.stage(name)
        outside = [a is stage.attach.axis for a in reader.leaves]
        below = outside.index(True) + 1 if True in outside else 0
        used |= {reader.note(a).thread for a in reader.leaves[below:]}
    if used & {*schedule.BLOCKS}:
        return ("global",)
    return (
        ("shared",) * 3 + ("warp",) if used & {*schedule.THREADS} else ("local",) * 3 + ("shared",)
    )


def bind_stage(
    s: te.Schedule, rng: Rng, name: str, block: tuple[int, ...], *, blocks: bool = True
) -> None:
    """Bind the data loops of a stage to blocks and threads: fused, or one loop for each index."""
    view = s[name]
    loops = [a for a in testing.free_loops(s.state.stage(name)) if a.kind == "data"]
    loops = [a for a in loops if s.state.stage(name).note(a).kind in ("serial", "parallel")]
    if not loops:
        loops = [view.fuse()]
        view.reorder(loops[0], *view.leaf_iter_vars[:-1])
    sizes, tags = block, schedule.THREADS[: len(block)]
    if len(loops) < len(block) or chance(rng, 0.5):  # all loops as one, all threads in a row
        while len(loops) > 1:
            loops = [view.fuse(loops[0], loops[1]), *loops[2:]]
        rest = loops[0]
        inner: list[te.Axis] = []
        for tag, size in zip(tags, sizes, strict=True):
            rest, part = view.split(rest, factor=size)
            view.bind(part, te.thread_axis((0, size) if chance(rng, 0.2) else None, tag))
            inner.append(part)
        outer = [rest]
    else:
        outer = []
        for tag, size, loop in zip(tags, sizes, loops[::-1], strict=False):
            by = {"factor" if chance(rng, 0.6) else "nparts": size}
            parts = view.split(loop, **by)
            thread, rest = parts[::-1] if "factor" in by else parts
            view.bind(thread, te.thread_axis(tag))
            outer.append(rest)
        view.reorder(*outer[::-1], *(b for b in view.leaf_iter_vars if b.kind == "reduce"))
    if chance(rng, 0.15) and outer:
        a = pick(rng, outer)
        virtual, rest = view.split(a, nparts=pick(rng, (2, 2, 3)))
        view.bind(virtual, te.thread_axis("vthread"))
        outer = [rest if b is a else b for b in outer]
    if blocks:
        for tag, a in zip(schedule.BLOCKS, outer, strict=False):
            if chance(rng, PLACED):
                view.bind(a, te.thread_axis(tag))


def reduce_together(s: te.Schedule, rng: Rng, block: tuple[int, ...]) -> None:
    """Let the threads of a block reduce together: bind a part of a reduce axis to them."""
    view = pick(rng, s.stages)
    loops = [a for a in view.leaf_iter_vars if a.kind == "reduce"]
    number = int(pick(rng, range(len(block))))
    inner = view.split(pick(rng, loops), factor=block[number])[1]
    view.bind(inner, te.thread_axis(schedule.THREADS[number]))


def rfactor_together(s: te.Schedule, rng: Rng, block: tuple[int, ...]) -> None:
    """Let each thread compute a partial result, and the threads combine them."""
    view = pick(rng, s.stages)
    loops = [a for a in view.leaf_iter_vars if a.kind == "reduce"]
    inner = view.split(pick(rng, loops), factor=block[0])[1]
    s.rfactor(view.op.output(0), inner)
    made = s[view.name]
    axis = pick(rng, [a for a in made.leaf_iter_vars if a.kind == "reduce"])
    made.bind(axis, te.thread_axis("threadIdx.x"))
    part = next(v for v in s.stages if v.name.startswith(f"{view.name}.rf"))
    if chance(rng, 0.6):
        s[part.name].compute_at(made, axis)


# --- fast memory ---------------------------------------------------------------------------------


def fetch(s: te.Schedule, rng: Rng) -> None:
    """Copy what a stage reads, or computes, to fast memory inside one of its loops."""
    view = pick(rng, s.stages)
    scope = pick(rng, SCOPES)
    if chance(rng, 0.3):
        old = {v.name for v in s.stages}
        s.cache_write([view.op.output(n) for n in range(len(view.op.dtypes))], scope)
        copy = next(v for v in s.stages if v.name not in old).name
    else:
        t: tensor.Tensor = pick(rng, schedule.inputs(s.state.stage(view.name)))
        copy = s.cache_read(t, scope, [view.name]).op.name
    place(s, rng, copy)


def move(s: te.Schedule, rng: Rng) -> None:
    """Compute a stage inside a loop of one that reads it, in fast memory."""
    view = pick(
        rng, [v for v in s.stages if not v.is_output and schedule.inputs(s.state.stage(v.name))]
    )
    view.set_scope(pick(rng, SCOPES))
    place(s, rng, view.name)


def place(s: te.Schedule, rng: Rng, name: str) -> None:
    """Attach a stage to a loop of one of its readers; perhaps with a double buffer or gaps."""
    reader = s[pick(rng, schedule.readers(s.state)[name])]
    loops = list(reader.leaf_iter_vars)
    n = int(rng.integers(len(loops))) if loops else 0
    view = s[name]
    view.compute_at(reader, pick(rng, loops[n:]))
    if chance(rng, 0.3):
        _try(lambda s, rng: view.double_buffer(), s, rng)
    if chance(rng, 0.2):
        _try(lambda s, rng: view.store_at(reader, pick(rng, loops[: n + 1])), s, rng)
    if chance(rng, 0.3) and view.op.axis:
        axis = pick(rng, view.op.axis)
        _try(
            lambda s, rng: view.storage_align(axis, pick(rng, (4, 32)), pick(rng, (0, 1, 4))),
            s,
            rng,
        )


# --- loops ---------------------------------------------------------------------------------------


def vectorize_part(s: te.Schedule, rng: Rng) -> None:
    """Vectorize two or four iterations of a loop."""
    view, a = draw_loop(s, rng)
    view.vectorize(view.split(a, factor=pick(rng, (4, 4, 2)))[1])


def unroll_part(s: te.Schedule, rng: Rng) -> None:
    """Unroll a loop, or a part of it."""
    view, a = draw_loop(s, rng)
    view.unroll(view.split(a, factor=pick(rng, (2, 3, 4)))[1] if chance(rng, 0.5) else a)
