"""States with TVM's methods, for sketch rules that users write.

s0 = auto_scheduler.loop_state.State(state, task.compute_dag)     a copy
i0, i1 = s0.split(C, s0[C].iters[0], [None])                      the search chooses the length
s0.compute_at(C, D, s0[D].iters[1])
s0.state_object                                                   what a rule returns
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from minitvm import te, tensor, tune
from minitvm.base import ArgumentError, Reason, as_tuple, check_kind, check_text, raise_first

from .checks import listed
from .state import LONGEST
from .state import State as SketchState

StageKey: TypeAlias = "Stage | tensor.Operation | te.Tensor | str | int"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a state: its operation, and its loops, outermost first."""

    name: str
    op: tensor.Operation
    iters: tuple[tensor.Axis, ...]


@dataclass(frozen=True, slots=True)
class SplitStep:
    """A split into several loops, with the lengths of all loops but the outermost.

    knob   the number of the knob that decides the lengths; None if the lengths are fixed
    """

    lengths: tuple[int, ...]
    knob: int | None = None


@dataclass(slots=True, init=False)
class LoopState:
    """A copy of a state, with TVM's methods to change it.

    state_object      the copy
    transform_steps   the splits; follow_split refers to a split by its number in this list
    """

    state_object: SketchState
    transform_steps: list[SplitStep] = field(default_factory=list[SplitStep])

    def __init__(self, state_object: SketchState | LoopState, compute_dag: object = None) -> None:
        """Copy a state. `compute_dag` is accepted as in TVM, but not used."""
        del compute_dag
        original = (
            state_object.state_object if isinstance(state_object, LoopState) else state_object
        )
        fix = "the state that a rule is given"
        copy = check_kind("state", original, SketchState, fix=fix).copy()
        self.state_object, self.transform_steps = copy, []

    @property
    def stages(self) -> list[Stage]:
        """Return all stages, producers first."""
        return [Stage(s.name, s.op, s.leaves) for s in self.state_object.s.state.stages]

    @property
    def stage_ops(self) -> list[tensor.Operation]:
        """Return the operations of all stages."""
        return [s.op for s in self.stages]

    def __getitem__(self, key: StageKey) -> Stage:
        """Return the stage with this number, name, tensor or (possibly earlier) operation."""
        for n, s in enumerate(self.state_object.s.state.stages):
            match key:
                case int() | str():
                    matches = key in (n, s.name)
                case Stage():
                    matches = key.name == s.name
                case te.Tensor():
                    matches = key.op is s.op or key.op is s.origin
                case _:
                    matches = key is s.op or key is s.origin
            if matches:
                return self.stages[n]
        names = ", ".join(self.state_object.stages)
        raise ArgumentError(f"stage {key!r}", "the state has no such stage", names)

    def _view(self, key: StageKey) -> te.StageView:
        return self.state_object.s[self[key].name]

    # --- loops ---

    def split(
        self, stage_id: StageKey, iterator: tensor.Axis, lengths: Sequence[int | None]
    ) -> list[tensor.Axis]:
        """Split a loop, and return all parts, outermost first.

        lengths   the lengths of all parts but the outermost; if all are None, the search chooses
        """
        name = self[stage_id].name
        raise_first(ArgumentError, f"split of {name}", _about_lengths(iterator, lengths))
        known = [n for n in lengths if n is not None]
        if known:
            step = SplitStep(tuple(known))
        else:
            knob = f"split{len(self.state_object.knobs)}_{_label(self.state_object, iterator)}"
            new_knob = tune.split_knob(
                knob, int(iterator.extent), len(lengths) + 1, innermost=LONGEST
            )  # pyright: ignore[reportArgumentType]
            step = SplitStep((1,) * len(lengths), self.state_object.knob(new_knob))
        return self._split(name, iterator, step, len(lengths))

    def follow_split(
        self, stage_id: StageKey, iterator: tensor.Axis, src_step_id: int, n_split: int
    ) -> list[tensor.Axis]:
        """Split a loop into n_split + 1 parts, with the sizes of an earlier split."""
        steps = self.transform_steps
        known = src_step_id in range(-len(steps), len(steps))
        if not known or n_split not in range(1, len(steps[src_step_id].lengths) + 1):
            why = f"step {src_step_id} is not a split into more than {n_split} parts"
            raise ArgumentError(f"follow_split of {self[stage_id].name}", why)
        return self._split(self[stage_id].name, iterator, steps[src_step_id], n_split)

    def _split(
        self, name: str, axis: tensor.Axis, step: SplitStep, parts: int
    ) -> list[tensor.Axis]:
        self.transform_steps.append(step)
        state, last = self.state_object, len(step.lengths)
        label = _label(state, axis)
        if step.knob is not None:
            groups = [(n,) for n in range(parts)] + [tuple(range(parts, last + 1))]
            loops = state.split(name, axis, step.knob, groups)
            sizes = [" * ".join(f"TILE_{label.upper()}{n}" for n in g) for g in groups]
            for n, (a, size) in enumerate(zip(loops, sizes, strict=True)):
                state.names[a] = (f"{label}.{n}", size)
            return loops
        loops = list[tensor.Axis]()
        for n in range(parts):
            outer, axis = state.s[name].split(axis, factor=math.prod(step.lengths[n:]))
            loops.append(outer)
        return [*loops, axis]

    def reorder(self, stage_id: StageKey, order: Sequence[tensor.Axis]) -> None:
        """Nest loops in the given order, outermost first."""
        self._view(stage_id).reorder(*listed("order", order, "a list of loops"))

    def fuse(self, stage_id: StageKey, iters: Sequence[tensor.Axis]) -> tensor.Axis:
        """Fuse neighbouring loops, given outermost first; return the fused loop."""
        return self._view(stage_id).fuse(*listed("iters", iters, "a list of loops"))

    def parallel(self, stage_id: StageKey, iterator: tensor.Axis) -> tensor.Axis:
        """Run a loop on several cores, and return it."""
        self._view(stage_id).parallel(iterator)
        return iterator

    def vectorize(self, stage_id: StageKey, iterator: tensor.Axis) -> tensor.Axis:
        """Run a loop in the lanes of vectors."""
        self._view(stage_id).vectorize(iterator)
        return iterator

    def unroll(self, stage_id: StageKey, iterator: tensor.Axis) -> tensor.Axis:
        """Unroll a loop."""
        self._view(stage_id).unroll(iterator)
        return iterator

    def pragma(self, stage_id: StageKey, iterator: tensor.Axis, pragma: str) -> None:
        """Set a pragma, such as "auto_unroll_max_step$64"."""
        key, _, value = check_text("pragma", pragma, "auto_unroll_max_step$16").partition("$")
        self._view(stage_id).pragma(iterator, key, int(value) if value.isdigit() else value)

    # --- places ---

    def compute_at(
        self, stage_id: StageKey, target_stage_id: StageKey, target_iter: tensor.Axis
    ) -> None:
        """Compute a stage inside a loop of another stage."""
        self._view(stage_id).compute_at(self._view(target_stage_id), target_iter)

    def compute_inline(self, stage_id: StageKey) -> None:
        """Inline a stage into the stages that read it."""
        self._view(stage_id).compute_inline()

    def compute_root(self, stage_id: StageKey) -> None:
        """Compute a stage completely, before all stages that read it."""
        self._view(stage_id).compute_root()

    # --- new stages ---

    def cache_write(self, stage_id: StageKey, scope_name: str) -> tensor.Operation:
        """Compute a stage in a separate buffer; return the operation that computes this buffer."""
        return self.state_object.s.cache_write(self[stage_id].op.output(0), scope_name).op

    def cache_read(
        self, stage_id: StageKey, scope_name: str, reader_stage_ids: Sequence[StageKey]
    ) -> tensor.Operation:
        """Copy a stage to a buffer that the readers read instead; return the copying operation."""
        readers = [self._view(r) for r in listed("readers", reader_stage_ids, "a list of stages")]
        return self.state_object.s.cache_read(self[stage_id].op.output(0), scope_name, readers).op

    def rfactor(
        self, stage_id: StageKey, iterator: tensor.Axis, factor_iter_id: int
    ) -> tensor.Operation:
        """Compute a partial sum for each iteration of a loop first; return this operation."""
        partial = self.state_object.s.rfactor(self[stage_id].op.output(0), iterator, factor_iter_id)
        return as_tuple(partial)[0].op

    def __str__(self) -> str:
        return str(self.state_object)


def _label(state: SketchState, axis: tensor.Axis) -> str:
    """Return the name of a loop without the numbers of its parts, to name knobs in sketches."""
    return state.names[axis][0] if axis in state.names else axis.name


def _about_lengths(axis: tensor.Axis, lengths: Sequence[int | None]) -> Iterator[Reason]:
    if not isinstance(axis, tensor.Axis):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"{axis!r} is no loop", "s0[C].iters[0]"
        return
    if not isinstance(lengths, list | tuple) or not lengths:  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"lengths are {lengths!r}", "[None, None] for three parts, or [4, 8]"
        return
    openings = sum(n is None for n in lengths)
    if openings not in (0, len(lengths)):
        yield "some lengths are None and some are not", "all None, or all numbers"
    if openings and not isinstance(axis.extent, int):
        yield f"the length of {axis!r} is not constant", "numbers as lengths"


State = LoopState  # TVM's name
