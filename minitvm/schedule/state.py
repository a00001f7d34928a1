"""What a schedule has made of a program so far: immutable, shared between versions.

    State      the stages, producers before consumers, and the steps that led here
    Stage      one operation with its loops and where they run
    Relation   how loops were made from others: Split | Fuse
    Attach     where a stage's loops stand: at root, inlined, or inside another stage's loop

A loop is named by its `Axis`. Extents in a State are those of the whole tensor; `lowering` shrinks
them where a stage is computed inside another one's loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from minitvm import tensor, tir
from minitvm.base import ScheduleError, node


@node
class SplitRelation:
    """parent = outer * extent(inner) + inner. Either factor = extent(inner) or nparts is given.

    exact: the user says that it divides; it must.
    """

    parent: tensor.Axis
    outer: tensor.Axis
    inner: tensor.Axis
    factor: tir.Index | None
    nparts: tir.Index | None
    exact: bool = False


@node
class FuseRelation:
    """fused = outer * extent(inner) + inner."""

    outer: tensor.Axis
    inner: tensor.Axis
    fused: tensor.Axis


Relation: TypeAlias = SplitRelation | FuseRelation


@dataclass(frozen=True, slots=True)
class AtRoot:
    """Computed as a whole before its consumers."""


@dataclass(frozen=True, slots=True)
class Inline:
    """Never stored: its formula is put into its consumers."""


@dataclass(frozen=True, slots=True, eq=False)
class At:
    """Computed inside the loop `axis` of the stage called `stage`, as much as is needed there.

    line: the line of the user's that placed it here, for error messages.
    """

    stage: str
    axis: tensor.Axis
    line: str = ""


Attach: TypeAlias = AtRoot | Inline | At


class LoopNote(NamedTuple):
    """How one loop runs."""

    kind: tir.LoopKind = "serial"
    thread: str = ""
    threads: int | None = None  # how many, where that was said
    pragmas: tuple[tuple[str, Any], ...] = ()
    intrin: tensor.TensorIntrin | None = None  # does this loop and all inside it

    def change(self, **fields: Any) -> LoopNote:
        """A copy with some fields replaced."""
        return self._replace(**fields)


PLAIN = LoopNote()


class Stage(NamedTuple):
    """One operation and its loops. `origin` is the op by which users know the stage.

    leaves: the current loops, outermost first. notes: how they run, where not plainly.
    names: every axis the stage has or had, the op's own first, and what steps call it.
    layout: the physical index of an element as text over its logical index, or None: row-major.
    store: the loop for which its memory exists, or None: the one it is computed at.
    aligns: (dimension, factor, offset), where the stride is offset more than a multiple of factor.
    predicate: conditions on the axes; only where all hold, results are stored.
    """

    name: str
    op: tensor.Operation
    origin: tensor.Operation
    leaves: tuple[tensor.Axis, ...]
    names: dict[tensor.Axis, str]
    notes: dict[tensor.Axis, LoopNote]
    relations: tuple[Relation, ...] = ()
    attach: Attach = AtRoot()
    scope: str = "global"
    layout: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    store: At | None = None
    double_buffer: bool = False
    aligns: tuple[tuple[int, int, int], ...] = ()
    predicate: tuple[tir.Expr, ...] = ()
    is_output: bool = False

    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__  # equal only to itself

    def note(self, axis: tensor.Axis) -> LoopNote:
        """How the loop `axis` runs."""
        return self.notes.get(axis, PLAIN)

    def axes(self) -> list[tensor.Axis]:
        """Every axis the stage has or had: the op's own, then those made by splits and fuses."""
        return list(self.names)

    def change(self, **fields: Any) -> Stage:
        """A copy with some fields replaced."""
        return self._replace(**fields)


class Pending(NamedTuple):
    """A compute_at that is legal only once other stages are placed: "B in D.i waits for C".

    waits_for: the stages to compute at the same loop or deeper, or to inline.
    """

    stage: str
    target: str
    axis: str
    waits_for: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.stage} in {self.target}.{self.axis} waits for {', '.join(self.waits_for)}"


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All stages of a program, producers first, and the steps that made them.

    pending: the attachments that wait for other stages; lowering refuses a state that has any.
    """

    stages: tuple[Stage, ...]
    steps: tuple[Any, ...] = ()
    intrins: tuple[tensor.TensorIntrin, ...] = ()  # those that steps may name
    pending: tuple[Pending, ...] = ()

    def stage(self, name: str) -> Stage:
        """The stage called `name`."""
        for s in self.stages:
            if s.name == name:
                return s
        names = ", ".join(s.name for s in self.stages)
        raise ScheduleError(f"no stage called {name!r}", "", f"one of {names}")

    def with_stage(self, new: Stage) -> State:
        """A state in which `new` stands for the stage of the same name."""
        return self.with_stages([new if s.name == new.name else s for s in self.stages])

    def with_stages(self, stages: Iterable[Stage]) -> State:
        """A state after the same steps with other stages."""
        return replace(self, stages=tuple(stages))

    def owner(self, t: tensor.Tensor) -> Stage:
        """The stage whose operation computes `t`."""
        return next(s for s in self.stages if s.op is t.op)


def root_axes(op: tensor.Operation) -> tuple[tensor.Axis, ...]:
    """The axes an operation's loops start from: data axes, then reduce axes."""
    return () if isinstance(op, tensor.PlaceholderOp) else (*op.axis, *op.reduce_axis)


def names_of(op: tensor.Operation) -> dict[tensor.Axis, str]:
    """What steps call the op's axes: their names, numbered if an earlier axis has that too."""
    taken: set[str] = set()
    return {a: unique(a.name, taken) for a in root_axes(op)}


def new_stage(name: str, op: tensor.Operation, **fields: Any) -> Stage:
    """The stage of `op`, its loops in the order of its axes."""
    return Stage(name, op, op, root_axes(op), names_of(op), {}, **fields)


def inputs(stage: Stage) -> tuple[tensor.Tensor, ...]:
    """Return the tensors that the stage reads, each once."""
    return () if isinstance(stage.op, tensor.PlaceholderOp) else stage.op.input_tensors


def readers(state: State) -> dict[str, list[str]]:
    """stage name -> names of the stages that read it, each once."""
    by_op = {s.op: s.name for s in state.stages}
    found: dict[str, list[str]] = {s.name: [] for s in state.stages}
    for s in state.stages:
        for name in {by_op[t.op]: None for t in inputs(s)}:
            found[name].append(s.name)
    return found


def unique(name: str, taken: set[str]) -> str:
    """`name`, numbered if it is taken; takes it."""
    found, n = name, 1
    while found in taken:
        found, n = f"{name}_{n}", n + 1
    taken.add(found)
    return found
