"""Random schedules. A step draws its arguments from what its class declares, until it is legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np

from minitvm import schedule, te
from minitvm.base import ScheduleError

MAX_STEPS = 10
TRIES = 20  # until a drawn step is legal
WAITING = 0.1  # share of steps that stay although they need later steps to be complete

Rng: TypeAlias = np.random.Generator
Recipe: TypeAlias = Callable[[te.Schedule, Rng], None]  # takes steps; ScheduleError if illegal


def random_schedule(ops: Any, rng: Rng) -> te.Schedule:
    """Make a schedule of an operation, or of a list of them, with up to ten random steps."""
    s = te.create_schedule(ops)
    take_steps(s, rng)
    return s


def take_steps(s: te.Schedule, rng: Rng, recipes: Sequence[Recipe] | None = None) -> None:
    """Follow up to ten random recipes, by default RECIPES; each may take several steps.

    A stage that still waits for other steps after the last one moves back to root.
    """
    left = int(rng.integers(1, MAX_STEPS + 1))
    for _ in range(2 * left):  # for some recipes no step is legal
        left -= _follow(pick(rng, RECIPES if recipes is None else recipes), s, rng)
        if not left:
            break
    while pending := _waiting(s.state):
        s.apply(schedule.ComputeRoot(pending[0]))


def _follow(recipe: Recipe, s: te.Schedule, rng: Rng) -> bool:
    """Try a recipe until its steps are legal; return False if they never are."""
    for _ in range(TRIES):
        try:
            recipe(s, rng)
        except ScheduleError:
            continue
        if not _waiting(s.state) or rng.random() < WAITING:
            return True
        s.undo()
    return False


def _waiting(state: schedule.State) -> list[str]:
    """Return the stages that lowering refuses unless later steps move them or their readers."""
    loose = [s for s in state.stages if not isinstance(s.attach, schedule.At)]
    names = [s.name for s in loose if s.store is not None or s.double_buffer]
    return [p.stage for p in state.pending] + names


def pick(rng: Rng, items: Sequence[Any]) -> Any:
    """Draw one of `items`; raise ScheduleError if there are none."""
    if not items:
        raise ScheduleError("a random step", "nothing to choose from")
    return items[int(rng.integers(len(items)))]


# --- single steps --------------------------------------------------------------------------------

NAMES = ("StageName", "LoopName", "tuple[StageName, ...]", "tuple[LoopName, ...]")


def is_drawable(kind: type[schedule.Step]) -> bool:
    """Return whether random_step can draw all fields of steps of this kind."""
    return all(
        f.type in NAMES or f.name in kind.samples or f.default is not MISSING for f in fields(kind)
    )


def random_step(kind: type[schedule.Step], state: schedule.State, rng: Rng) -> schedule.Step:
    """Draw a step with random stages and loops, and values from `kind.samples`.

    The step may be illegal. Raises ScheduleError if there is no stage or loop to choose.
    """
    values: dict[str, Any] = {}
    for f in fields(kind):
        values[f.name] = _value(f, kind, state, values, rng)
    return kind(**values)


def _value(
    f: Field[Any],
    kind: type[schedule.Step],
    state: schedule.State,
    values: dict[str, Any],
    rng: Rng,
) -> Any:
    """Draw the field `f`; `values` has the fields before it."""
    host, loops = values.get("target", values.get("stage")), list[str]()
    if host is not None:  # the stage whose loops are meant
        stage = state.stage(host)
        loops = [stage.names[a] for a in free_loops(stage)]
    match f.type:
        case "StageName":
            inner = [s for s in state.stages if schedule.inputs(s) and not s.is_output]
            return pick(rng, inner if inner and rng.random() < 0.5 else state.stages).name
        case "tuple[StageName, ...]":
            return tuple(
                name for name in schedule.readers(state)[values["stage"]] if rng.random() < 0.7
            )
        case "LoopName":
            return pick(rng, loops)
        case "tuple[LoopName, ...]":
            return _some(rng, loops)
        case _ if f.default is MISSING or (f.name in kind.samples and rng.random() < 0.5):
            return pick(rng, kind.samples[f.name])
        case _:
            return f.default


def free_loops(stage: schedule.Stage) -> list[te.Axis]:
    """Return the loops of a stage that no tensor intrinsic replaces, outermost first."""
    return [*takewhile(lambda a: stage.note(a).intrin is None, stage.leaves)]


def _some(rng: Rng, names: list[str]) -> tuple[str, ...]:
    """Draw several of `names`: neighbours, or any of them in any order."""
    if rng.random() < 0.5:
        names = [names[n] for n in rng.permutation(len(names)).tolist()]
    count: int = pick(rng, range(2, len(names) + 1))
    first = int(rng.integers(len(names) - count + 1))
    return tuple(names[first : first + count])


def _one_step(kind: type[schedule.Step]) -> Recipe:
    return lambda s, rng: s.apply(random_step(kind, s.state, rng))


# --- recipes -------------------------------------------------------------------------------------


def tile(s: te.Schedule, rng: Rng) -> None:
    """Tile two or three neighbouring loops of a stage."""
    stage: schedule.Stage = pick(rng, s.state.stages)
    axes = free_loops(stage)[: pick(rng, (2, 2, 3))]
    s[stage.name].tile(*axes, *(pick(rng, schedule.FACTORS) for _ in axes))


def transform_layout(s: te.Schedule, rng: Rng) -> None:
    """Permute the dimensions of a stage; also split one, fuse two, or leave gaps."""
    stage: schedule.Stage = pick(rng, s.state.stages)
    axes = tuple("ijklmn"[: len(stage.op.shape)])
    new_indices: list[str] = [axes[n] for n in rng.permutation(len(axes)).tolist()]
    a, size, form = pick(rng, axes), pick(rng, (2, 3, 4, 16)), rng.random()
    n = new_indices.index(a)
    if form < 0.5:  # panels: i, j -> i // 4, j, i % 4
        new_indices = [*new_indices[:n], f"{a} // {size}", *new_indices[n + 1 :], f"{a} % {size}"]
    elif form < 0.7:
        new_indices[n] = f"{a}*{size} + 1"
    elif form < 0.85 and len(axes) > 1:  # two dimensions in one, 32 elements in each row
        new_indices = [*new_indices[2:], f"{new_indices[0]}*32 + {new_indices[1]}"]
    s.apply(schedule.TransformLayout(stage.name, axes, tuple(new_indices)))


FREQUENT = {
    "split": 5,
    "annotate": 5,
    "compute_at": 10,
    "store_at": 6,
    "double_buffer": 4,
    "rfactor": 4,
}
RECIPES: tuple[Recipe, ...] = (
    *(
        _one_step(kind)
        for name, kind in schedule.STEPS.items()
        if is_drawable(kind)
        for _ in range(FREQUENT.get(name, 2))
    ),
    *(tile,) * 2,
    transform_layout,
)
