"""What a schedule has made of a program so far: immutable, shared between versions.

    State      the stages, producers before consumers, and the steps that led here
    Stage      one operation with its loops and where they run
    Relation   how loops were made from others: Split | Fuse
    Attach     where a stage's loops stand: at root, inlined, or inside another stage's loop

A loop is named by its `Axis`. Extents in a State are those of the whole tensor; `lowering` shrinks
them where a stage is computed inside another one's loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from minitvm.base import ScheduleError, node
from minitvm.tensor import Axis, ComputeOp, Operation, PlaceholderOp, Tensor, TensorIntrin
from minitvm.tir import Expr, LoopKind


@node
class SplitRelation:
    """parent = outer * extent(inner) + inner. Either factor = extent(inner) or nparts is given.

    exact: the user says that it divides; it must.
    """

    parent: Axis
    outer: Axis
    inner: Axis
    factor: int | None
    nparts: int | None
    exact: bool = False


@node
class FuseRelation:
    """fused = outer * extent(inner) + inner."""

    outer: Axis
    inner: Axis
    fused: Axis


Relation: TypeAlias = SplitRelation | FuseRelation


@dataclass(frozen=True, slots=True)
class AtRoot:
    """Computed as a whole before its consumers."""


@dataclass(frozen=True, slots=True)
class Inline:
    """Never stored: its formula is put into its consumers."""


@dataclass(frozen=True, slots=True, eq=False)
class At:
    """Computed inside the loop `axis` of the stage called `stage`, as much as is needed there."""

    stage: str
    axis: Axis


Attach: TypeAlias = AtRoot | Inline | At


@dataclass(frozen=True, slots=True)
class LoopNote:
    """How one loop runs."""

    kind: LoopKind = "serial"
    thread: str = ""
    threads: int | None = None  # how many, where that was said
    pragmas: tuple[tuple[str, Any], ...] = ()
    intrin: TensorIntrin | None = None  # does this loop and all inside it


PLAIN = LoopNote()


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One operation and its loops. `origin` is the op by which users know the stage.

    leaves: the current loops, outermost first. notes: how they run, where not plainly.
    layout: the physical index of an element as text over its logical index, or None: row-major.
    store: the loop for which its memory exists, or None: the one it is computed at.
    aligns: (dimension, factor, offset), where the stride is offset more than a multiple of factor.
    predicate: conditions on the axes; only where all hold, results are stored.
    """

    name: str
    op: Operation
    origin: Operation
    leaves: tuple[Axis, ...]
    relations: tuple[Relation, ...] = ()
    notes: dict[Axis, LoopNote] = field(default_factory=dict[Axis, LoopNote])
    attach: Attach = AtRoot()
    scope: str = "global"
    layout: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    store: At | None = None
    double_buffer: bool = False
    aligns: tuple[tuple[int, int, int], ...] = ()
    predicate: tuple[Expr, ...] = ()
    is_output: bool = False

    def note(self, axis: Axis) -> LoopNote:
        """How the loop `axis` runs."""
        return self.notes.get(axis, PLAIN)

    def axes(self) -> list[Axis]:
        """Every axis the stage has or had: the op's own, then those made by splits and fuses."""
        found = list(root_axes(self.op))
        for r in self.relations:
            found += [r.outer, r.inner] if isinstance(r, SplitRelation) else [r.fused]
        return found

    def named(self) -> dict[Axis, str]:
        """Every axis and what steps call it: its name, numbered if an earlier axis has that too."""
        taken: set[str] = set()
        return {a: unique(a.name, taken) for a in self.axes()}

    def change(self, **fields: Any) -> Stage:
        """A copy with some fields replaced."""
        return replace(self, **fields)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All stages of a program, producers first, and the steps that made them."""

    stages: tuple[Stage, ...]
    steps: tuple[Any, ...] = ()
    intrins: tuple[TensorIntrin, ...] = ()  # those that steps may name

    def stage(self, name: str) -> Stage:
        """The stage called `name`."""
        for s in self.stages:
            if s.name == name:
                return s
        names = ", ".join(s.name for s in self.stages)
        raise ScheduleError(f"no stage called {name!r}", "", f"one of {names}")

    def with_stage(self, new: Stage) -> State:
        """A state in which `new` stands for the stage of the same name."""
        return replace(self, stages=tuple(new if s.name == new.name else s for s in self.stages))

    def owner(self, t: Tensor) -> Stage:
        """The stage whose operation computes `t`."""
        return next(s for s in self.stages if s.op is t.op)


def root_axes(op: Operation) -> tuple[Axis, ...]:
    """The axes an operation's loops start from: data axes, then reduce axes."""
    return () if isinstance(op, PlaceholderOp) else (*op.axis, *op.reduce_axis)


def readers(state: State) -> dict[str, list[str]]:
    """stage name -> names of the stages that read it, each once."""
    by_op = {id(s.op): s.name for s in state.stages}
    found: dict[str, list[str]] = {s.name: [] for s in state.stages}
    for s in state.stages:
        if not isinstance(s.op, PlaceholderOp):
            for t in s.op.input_tensors:
                found[by_op[id(t.op)]].append(s.name)
    return {name: list(dict.fromkeys(who)) for name, who in found.items()}


def initial(outputs: tuple[Operation, ...]) -> State:
    """The state before the first step: every stage at root, its loops in the order of its axes."""
    order: list[Operation] = []

    def visit(op: Operation) -> None:
        if any(op is o for o in order):
            return
        if not isinstance(op, PlaceholderOp):
            for t in op.input_tensors:
                visit(t.op)
        order.append(op)

    for op in outputs:
        if isinstance(op, PlaceholderOp):
            raise ScheduleError(
                f"a schedule of {op.name}", "it is an input: nothing is computed", "pass C.op"
            )
        visit(op)
    _own_reduce_axes(order)
    taken: set[str] = set()
    stages: list[Stage] = []
    for op in order:
        name = unique(op.name, taken)
        out = any(op is o for o in outputs)
        stages.append(Stage(name, op, op, root_axes(op), is_output=out))
    return State(tuple(stages))


def unique(name: str, taken: set[str]) -> str:
    """`name`, numbered if it is taken; takes it."""
    found, n = name, 1
    while found in taken:
        found, n = f"{name}_{n}", n + 1
    taken.add(found)
    return found


def _own_reduce_axes(order: list[Operation]) -> None:
    owner: dict[Axis, Operation] = {}
    for op in order:
        for a in op.reduce_axis if isinstance(op, ComputeOp) else ():
            if owner.setdefault(a, op) is not op:
                raise ScheduleError(
                    f"reduce axis {a.name!r} is used by {owner[a].name} and {op.name}",
                    "an axis belongs to one compute",
                    "one te.reduce_axis for each",
                )
