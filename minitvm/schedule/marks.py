"""Steps that choose how one stage's loops run."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .state import At, Stage, State
from .step import Checks, LoopName, Step, has_body, has_loops, is_loop
from .threads import TAGS, VIRTUAL, is_virtual

Kind: TypeAlias = Literal["vectorize", "unroll", "parallel"]
KINDS: tuple[Kind, ...] = ("vectorize", "unroll", "parallel")
SET_BY_STEPS = ("double_buffer", "prefetch", *KINDS)  # keys that steps of their own set
PRAGMAS = (  # the keys that passes act on; their values are integers >= 0
    *("auto_unroll_max_step", "unroll_explicit"),
    "async_copy",
    *("dma_copy", "alu", "coproc_sync", "trim_loop", "skip_dma_copy", "skip_alu"),
)
REDUCES = "it is a reduce axis: its iterations all write the same element"
TIME = "it is the time of a scan: each of its iterations needs the one before"


@dataclass(frozen=True, slots=True)
class Annotate(Step):
    """Mark a loop to be vectorized, unrolled or run in parallel.

    for i in range(8):            for i in vectorize(8):
      C[i] = A[i]            ->     C[i] = A[i]
    """

    axis: LoopName
    kind: Kind
    samples: ClassVar = {"kind": ("vectorize", *KINDS)}  # vectorize is drawn twice as often

    @property
    def verb(self) -> str:
        return self.kind

    def checks(self, state: State) -> Checks:
        if self.kind not in KINDS:  # a step may come from JSON
            yield f"{self.kind!r} is not a way to run a loop", f"one of {', '.join(KINDS)}"
        stage = state.stage(self.stage)
        yield from has_loops(state, self.stage)
        yield from is_loop(stage, self.axis)
        a = stage.loops[self.axis]
        if self.kind != "unroll" and a.kind == "reduce":
            yield REDUCES, "a data axis; or rfactor the reduction first"
        if self.kind != "unroll" and a.kind == "scan":
            yield TIME, f"{self.kind} a loop of the update"
        if self.kind != "parallel" and not _may_be_constant(stage, a):
            why = f"its extent {tir.text(a.extent)} is not a constant"
            yield why, f"split it by a constant and {self.kind} the inner part"
        kind = stage.note(a).kind
        if kind in KINDS and kind != self.kind:
            marked_as = {"vectorize": "vectorized", "unroll": "unrolled"}.get(kind, kind)
            yield f"it is {marked_as} already", f"use one of the two; undo() removes the {kind}"
        if self.kind == "vectorize":
            for b in stage.leaves:
                if b is not a and stage.note(b).kind == "vectorize":
                    yield f"{b.name!r} is vectorized already", "fuse the two"

    def apply(self, state: State) -> State:
        return _noted(state, self.stage, self.axis, kind=self.kind, thread="", threads=None)


@dataclass(frozen=True, slots=True)
class Bind(Step):
    """Bind the iterations of a loop to threads, either a GPU's threads or virtual threads.

        for i in range(8):            for i in bind(8, 'threadIdx.x'):
          C[i] = A[i]            ->     C[i] = A[i]

    blockIdx, threadIdx   hardware threads; they compute a stage together if they share its memory
    vthread, cthread      virtual threads: one thread does the work of all, statement by statement

    `extent` is the number of threads. If the loop's extent is not known yet, lowering checks that
    the two agree.
    """

    axis: LoopName
    thread: str
    extent: int | None = None
    samples: ClassVar = {"thread": VIRTUAL}

    def checks(self, state: State) -> Checks:
        stage = state.stage(self.stage)
        yield from has_loops(state, self.stage)
        yield from is_loop(stage, self.axis)
        a, tag, n = stage.loops[self.axis], self.thread, self.extent
        if tag not in TAGS:
            yield f"there is no thread {tag!r}", f"one of {', '.join(TAGS)}"
        if a.kind == "reduce" and not tag.startswith("threadIdx"):
            yield (
                REDUCES,
                "a data axis; or rfactor the reduction first; or threadIdx, whose threads can "
                "combine",
            )
        if a.kind == "scan":
            yield TIME, "bind a loop of the update"
        for b in stage.leaves:
            if b is not a and stage.note(b).thread == tag and not is_virtual(tag):
                why = f"{b.name!r} is bound to {tag} already: both would have the same index"
                yield why, "fuse the two, or bind one to another thread"
        if is_virtual(tag) and not _may_be_constant(stage, a):
            yield f"its extent {tir.text(a.extent)} is not a constant", "split it by nparts first"
        if n is not None and n < 1:
            yield f"the number of threads is {n!r}, not an integer >= 1", ""
        if n is not None and stage.is_output and isinstance(a.extent, int) and a.extent != n:
            why = f"{n} threads for {a.extent} iterations; each runs one"
            yield why, f"split(..., nparts={n}) and bind the outer loop"

    def apply(self, state: State) -> State:
        fields = {"kind": "bind", "thread": self.thread, "threads": self.extent}
        return _noted(state, self.stage, self.axis, **fields)


@dataclass(frozen=True, slots=True)
class Pragma(Step):
    """Attach a pragma to a loop. Passes that know the key act on it; others ignore it.

    for i in range(4):            # pragma auto_unroll_max_step = 16
      body(i)                ->   for i in range(4):
                                    body(i)
    """

    axis: LoopName
    key: str
    value: int | str
    samples: ClassVar = {"key": PRAGMAS[:2], "value": (0, 1, 4, 16, 64)}

    def checks(self, state: State) -> Checks:
        yield from has_loops(state, self.stage)
        yield from is_loop(state.stage(self.stage), self.axis)
        if self.key in SET_BY_STEPS:
            yield f"another method sets {self.key!r}", f"s[C].{self.key}(...)"
        if not re.fullmatch(r"[A-Za-z_][\w.]*", self.key):
            why = f"{self.key!r} is not made of letters, digits and underscores"
            yield why, f"a name, such as {', '.join(PRAGMAS)}"
        if self.key in PRAGMAS and (not isinstance(self.value, int) or self.value < 0):
            yield f"the value of {self.key!r} is {self.value!r}, not an int >= 0", ""

    def apply(self, state: State) -> State:
        return with_pragma(state, self.stage, self.axis, self.key, self.value)


@dataclass(frozen=True, slots=True)
class Tensorize(Step):
    """Replace a loop and all loops inside it by a call of the tensor intrinsic `intrin`.

        for io in range(n // 8):      for io in range(n // 8):
          for ii in range(8):    ->     gemm_8x8(C[io*8, ...], A[io*8, ...], B[...])
            ...

    Lowering checks that the loops compute the intrinsic's formula.
    """

    axis: LoopName
    intrin: str

    def checks(self, state: State) -> Checks:
        yield from has_body(self, state)
        stage = state.stage(self.stage)
        yield from is_loop(stage, self.axis)
        a = stage.loops[self.axis]
        if all(i.name != self.intrin for i in state.intrins):  # a step may come from JSON
            why = f"no intrinsic {self.intrin!r} is known here"
            yield why, "Schedule.from_json(text, ops, intrins=[...])"
        for b, note in stage.notes.items():
            if note.intrin is not None and b is not a:
                yield f"{b.name!r} is tensorized already", "one intrinsic covers all inner loops"
        at = next(d for d, b in enumerate(stage.leaves) if b is a)
        for b in stage.leaves[at:]:
            if stage.note(b).kind != "serial":
                why = f"{b.name!r} inside it is marked {stage.note(b).kind}"
                yield why, "the intrinsic replaces those loops: mark loops outside of it"

    def apply(self, state: State) -> State:
        intrin = next(i for i in state.intrins if i.name == self.intrin)
        return _noted(state, self.stage, self.axis, intrin=intrin)


MARKS = (Annotate, Bind, Pragma, Tensorize)


def know(state: State, intrin: tensor.TensorIntrin) -> State:
    """Return `state` with `intrin` added, so that a Tensorize step can name it."""
    if not isinstance(intrin, tensor.TensorIntrin):  # pyright: ignore[reportUnnecessaryIsInstance]
        fix = "te.decl_tensor_intrin(y.op, fcompute)"
        raise ScheduleError(f"tensorize with {intrin!r}", "not a tensor intrinsic", fix)
    if any(other is intrin for other in state.intrins):
        return state
    if any(other.name == intrin.name for other in state.intrins):
        what = f"tensorize with {intrin.name}"
        why = "another intrinsic of that name is in use"
        raise ScheduleError(what, why, "choose another name: te.decl_tensor_intrin(..., name=...)")
    return replace(state, intrins=(*state.intrins, intrin))


def _may_be_constant(stage: Stage, a: tensor.Axis) -> bool:
    """Return whether the extent of `a` is constant, or could become constant during lowering.

    Lowering shrinks the loops of an attached stage, and checks their final extents.
    """
    return isinstance(a.extent, int) or isinstance(stage.attach, At)


def _noted(state: State, name: str, axis: str, **fields: Any) -> State:
    """Return `state` with `fields` replaced in the note of the loop `axis` of the stage `name`."""
    stage = state.stage(name)
    a = stage.loops[axis]
    return state.with_stage(stage.change(notes=stage.notes | {a: stage.note(a)._replace(**fields)}))


def with_pragma(state: State, name: str, axis: str, key: str, value: Any) -> State:
    """Return `state` with the pragma `key = value` added to the loop `axis` of the stage `name`."""
    stage = state.stage(name)
    pragmas = stage.note(stage.loops[axis]).pragmas
    return _noted(state, name, axis, pragmas=(*pragmas, (key, value)))
