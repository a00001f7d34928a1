"""Steps that choose where a stage is computed, and how long its results are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minitvm import tensor
from minitvm.base import ScheduleError, users_line

from .attach import legal_places, path, position
from .state import At, AtRoot, Inline, State, readers
from .step import Changes, Checks, LoopName, StageName, Step, has_loops, is_inner, is_loop

_WITHOUT_FORMULA: dict[type[tensor.Operation], str] = {
    tensor.ExternOp: "an extern operation",
    tensor.ScanOp: "a scan",
}


@dataclass(frozen=True, slots=True)
class ComputeAt(Step):
    """Compute a stage inside a loop of its reader; each iteration computes only what it reads.

        for i in range(n):            for i in range(n):
          B[i] = f(i)            ->     B[0] = f(i)
        for i in range(n):              C[i] = g(B[0])
          C[i] = g(B[i])

    Every reader must run inside that loop. If a reader does not, but a later step could move it
    into the loop or inline it, the step is pending (`State.pending`), and lowering refuses the
    schedule. A later step that would keep a pending step from becoming legal is refused.
    """

    target: StageName
    axis: LoopName
    changes: ClassVar[Changes] = "places"

    def checks(self, state: State) -> Checks:
        yield from is_inner(state, self.stage)
        if self.target == self.stage:
            legal = ", ".join(legal_places(state, self.stage))
            yield "a stage cannot run inside itself", f"one of {legal}"
        yield from has_loops(state, self.target)
        yield from is_loop(state.stage(self.target), self.axis)

    def apply(self, state: State) -> State:
        at = At(self.target, state.stage(self.target).loops[self.axis], users_line())
        return state.with_stage(state.stage(self.stage).change(attach=at))


@dataclass(frozen=True, slots=True)
class ComputeInline(Step):
    """Substitute a stage's formula into its readers, so that it is not stored.

    for i in range(n):
      B[i] = f(i)            ->   for i in range(n):
    for i in range(n):              C[i] = g(f(i))
      C[i] = g(B[i])
    """

    changes: ClassVar[Changes] = "places"

    def checks(self, state: State) -> Checks:
        yield from is_inner(state, self.stage)
        op = state.stage(self.stage).op
        if isinstance(op, tensor.ComputeOp) and op.reduction is not None:
            yield "it is a reduction, which cannot stand inside another formula", "compute_at"
        for name in readers(state)[self.stage]:
            kind = _WITHOUT_FORMULA.get(type(state.stage(name).op))
            if kind is not None:
                yield f"{name} is {kind}, which reads it from memory", "leave it at root"
        if kind := _WITHOUT_FORMULA.get(type(op)):
            yield f"it is {kind}: it has no formula to put into its readers", "leave it at root"

    def apply(self, state: State) -> State:
        return state.with_stage(state.stage(self.stage).change(attach=Inline(), store=None))


@dataclass(frozen=True, slots=True)
class ComputeRoot(Step):
    """Compute the whole stage at root: undo compute_at, compute_inline, store_at, double_buffer."""

    changes: ClassVar[Changes] = "places"

    def checks(self, state: State) -> Checks:
        yield from ()

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        return state.with_stage(stage.change(attach=AtRoot(), store=None, double_buffer=False))


@dataclass(frozen=True, slots=True)
class StoreAt(Step):
    """Keep a stage's results from one iteration of a loop to the next; compute only new elements.

        for i in range(n):            B = allocate((4,))
          B = allocate((3,))          for i in range(n):
          for x in range(3):     ->     for x in range(1 if i > 0 else 3):
            B[x] = f(i + x)               B[(...) % 4] = f(...)
          C[i] = B[0] + B[2]            C[i] = B[i % 4] + B[(i + 2) % 4]

    Elements are reused only from one iteration to the next of the innermost loop around the stage,
    and only along a dimension whose loop is serial and neither split nor fused; otherwise
    everything is computed again. Along that dimension, the number of elements that one iteration
    reads is rounded up to a power of two, and this many are allocated if that is less memory.
    `check_store` raises ScheduleError if the step is illegal.
    """

    target: StageName
    axis: LoopName

    def checks(self, state: State) -> Checks:
        yield from is_inner(state, self.stage)
        yield from has_loops(state, self.target)
        yield from is_loop(state.stage(self.target), self.axis)
        if state.stage(self.stage).double_buffer:
            why = "it is double-buffered already"
            yield why, "use only one of store_at and double_buffer"
        if self.target == self.stage:
            yield "a stage cannot be stored inside its own loop", "a loop of a stage that reads it"

    def apply(self, state: State) -> State:
        at = At(self.target, state.stage(self.target).loops[self.axis])
        return state.with_stage(state.stage(self.stage).change(store=at))


PLACES = (ComputeAt, ComputeInline, ComputeRoot, StoreAt)


def check_store(state: State) -> None:
    """Raise ScheduleError unless each stage with a store_at is computed inside the store_at's loop.

    The loops between the two must be serial or unrolled. A stage at root is not checked, since a
    later step may still compute it inside the loop.
    """
    for s in state.stages:
        if s.store is None or isinstance(s.attach, AtRoot):
            continue
        what = f"store_at of {s.name} at {s.store.stage}, loop {s.store.axis.name!r}"
        positions = path(state, s.name)
        depth = position(state.stage(s.store.stage), s.store.axis)
        stages = [p.stage for p in positions]
        if s.store.stage not in stages or positions[stages.index(s.store.stage)].depth < depth:
            why = f"{s.name} is not computed inside that loop"
            raise ScheduleError(what, why, "compute_at a loop inside it")
        for p in positions[stages.index(s.store.stage) :]:
            host = state.stage(p.stage)
            first = depth + 1 if p.stage == s.store.stage else 0
            for a in host.leaves[first : p.depth + 1]:
                kind = host.note(a).kind
                if kind not in ("serial", "unroll"):
                    raise ScheduleError(
                        what,
                        f"loop {a.name!r} of {host.name} in between is marked {kind}: its "
                        "iterations would share the memory",
                        "a serial loop, or store it inside that loop",
                    )
