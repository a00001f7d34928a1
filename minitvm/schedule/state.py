"""Immutable schedule states: the stages of a program, their loops and where they run.

    State      the stages, producers before consumers, and the steps taken so far
    Stage      one operation with its loops and where they run
    Relation   how loops were made from others: Split | Fuse
    Attach     where a stage is computed: at root, inlined, or inside another stage's loop

A loop is identified by its `Axis`. Extents in a State cover the whole tensor; `lowering`
shrinks them where a stage is computed inside another stage's loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from minitvm import tensor, tir
from minitvm.base import ScheduleError, brief, node


@node
class SplitRelation:
    """A split of the loop `parent` in two: parent = outer * extent(inner) + inner.

    Either `factor`, the extent of `inner`, or `nparts`, the extent of `outer`, is given.
    exact: the user asserts that the size divides the extent of `parent`; this is checked.
    """

    parent: tensor.Axis
    outer: tensor.Axis
    inner: tensor.Axis
    factor: tir.Index | None
    nparts: tir.Index | None
    exact: bool = False

    @property
    def size(self) -> tir.Index:
        """Return the extent that is given: `factor` or `nparts`."""
        size = self.nparts if self.factor is None else self.factor
        assert size is not None
        return size


@node
class FuseRelation:
    """A fusion of two loops into the loop `fused`: fused = outer * extent(inner) + inner."""

    outer: tensor.Axis
    inner: tensor.Axis
    fused: tensor.Axis


Relation: TypeAlias = SplitRelation | FuseRelation


def parts(r: Relation) -> tuple[tensor.Axis, ...]:
    """Return the axes that a split or a fuse made."""
    return (r.outer, r.inner) if isinstance(r, SplitRelation) else (r.fused,)


@dataclass(frozen=True, slots=True)
class AtRoot:
    """An attachment: the whole stage is computed before its consumers."""


@dataclass(frozen=True, slots=True)
class Inline:
    """An attachment: the stage is not stored; its formula is substituted into its consumers."""


@dataclass(frozen=True, slots=True, eq=False)
class At:
    """An attachment: each iteration of the loop `axis` of `stage` computes the part that it reads.

    line: the line of the user's code that made the attachment, for error messages.
    """

    stage: str
    axis: tensor.Axis
    line: str = ""


Attach: TypeAlias = AtRoot | Inline | At


class LoopNote(NamedTuple):
    """The way in which one loop runs: its kind, its thread if it is bound, its pragmas."""

    kind: tir.LoopKind = "serial"
    thread: str = ""
    threads: int | None = None  # the number of threads, if the user gave one
    pragmas: tuple[tuple[str, Any], ...] = ()
    intrin: tensor.TensorIntrin | None = None  # replaces this loop and all inside it


PLAIN = LoopNote()


class Stage(NamedTuple):
    """One operation, its loops, and where and how it is computed and stored.

    origin: the op that the user wrote; steps may replace `op`.
    leaves: the current loops, outermost first.
    notes: how loops run; a loop without a note runs serially.
    names: the names by which steps refer to axes, for all axes that the stage has or had: the axes
        of the op, then those of splits and fuses.
    layout: (axis names, the index of an element in memory over these axes) as strings, or None for
        row-major order.
    store: the loop in which the result is allocated; None for the loop of the attachment.
    aligns: (dimension, factor, offset): the stride is offset more than a multiple of factor.
    predicate: conditions on the axes; a result is stored only if all of them are true.
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

    __repr__ = brief

    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__  # by identity

    def note(self, axis: tensor.Axis) -> LoopNote:
        """Return how the loop `axis` runs."""
        return self.notes.get(axis, PLAIN)

    @property
    def loops(self) -> dict[str, tensor.Axis]:
        """Return the current loops by name, outermost first."""
        return {self.names[a]: a for a in self.leaves}

    def change(self, **fields: Any) -> Stage:
        """Return a copy with some fields replaced."""
        return self._replace(**fields)


class Pending(NamedTuple):
    """A compute_at that becomes legal when other stages are moved: "B in D.i waits for C".

    waits_for: the stages that must be inlined, or computed at the same loop or deeper.
    """

    stage: str
    target: str
    axis: str
    waits_for: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.stage} in {self.target}.{self.axis} waits for {', '.join(self.waits_for)}"


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All stages of a program, producers first, and the steps that led to this state.

    intrins: the tensor intrinsics that tensorize steps may name.
    pending: attachments that are not legal yet; lowering refuses a state that has any.
    sizes: scalar arguments that splits may name; they may also name the sizes in shapes.
    """

    stages: tuple[Stage, ...]
    steps: tuple[Any, ...] = ()
    intrins: tuple[tensor.TensorIntrin, ...] = ()  # that steps may name
    pending: tuple[Pending, ...] = ()
    sizes: tuple[tir.Var, ...] = ()

    __repr__ = brief

    def stage(self, name: str) -> Stage:
        """Return the stage called `name`; raise ScheduleError if it does not exist."""
        for s in self.stages:
            if s.name == name:
                return s
        names = ", ".join(s.name for s in self.stages)
        raise ScheduleError(f"no stage called {name!r}", "", f"one of {names}")

    def with_stage(self, new: Stage) -> State:
        """Return a state in which `new` replaces the stage of the same name."""
        return self.with_stages([new if s.name == new.name else s for s in self.stages])

    def with_stages(self, stages: Iterable[Stage]) -> State:
        """Return a copy of this state with other stages; the list of steps stays the same."""
        return State(tuple(stages), self.steps, self.intrins, self.pending, self.sizes)

    def owner(self, t: tensor.Tensor) -> Stage:
        """Return the stage whose operation computes `t`."""
        return next(s for s in self.stages if s.op is t.op)


def root_axes(op: tensor.Operation) -> tuple[tensor.Axis, ...]:
    """Return the initial loops of an operation: data axes, then reduce axes."""
    return () if isinstance(op, tensor.PlaceholderOp) else (*op.axis, *op.reduce_axis)


def singletons(stage: Stage) -> list[tensor.Axis]:
    """Return the axes of one iteration that fuse() of no loops has made."""
    known = {a for r in stage.relations for a in parts(r)} | set(root_axes(stage.op))
    return [a for a in stage.names if a not in known]


def names_of(op: tensor.Operation) -> dict[tensor.Axis, str]:
    """Map each axis of the op to its name; add a number where two axes have the same name."""
    used_names: set[str] = set()
    return {a: unique(a.name, used_names) for a in root_axes(op)}


def new_stage(name: str, op: tensor.Operation, **fields: Any) -> Stage:
    """Return a stage of `op` with its loops in the order of its axes."""
    return Stage(name, op, op, root_axes(op), names_of(op), {}, **fields)


def inputs(stage: Stage) -> tuple[tensor.Tensor, ...]:
    """Return the tensors that the stage reads, each once."""
    return () if isinstance(stage.op, tensor.PlaceholderOp) else stage.op.input_tensors


def constants(state: State) -> frozenset[tensor.Operation]:
    """Return the constant inputs, whose contents are the same in every call.

    They are made with te.placeholder(..., constant=True), or a te.compute lists them in its
    attribute "layout_free_placeholders", as in TVM.
    """
    operations = set[tensor.Operation]()
    for s in state.stages:
        match s.op:
            case tensor.PlaceholderOp(constant=True):
                operations.add(s.op)
            case tensor.ComputeOp(attrs=attrs) if attrs:
                operations |= {t.op for t in attrs.get(tensor.LAYOUT_FREE, ())}
            case _:
                pass
    return frozenset(operations)


def from_constants(state: State) -> frozenset[str]:
    """Return the names of the te.compute stages whose results depend on constants alone.

    Outputs, and stages that read nothing, are left out.
    """
    known: set[tensor.Operation] = set(constants(state))
    names = set[str]()
    for s in state.stages if known else ():
        inputs_read = {t.op for t in inputs(s)}
        if (
            isinstance(s.op, tensor.ComputeOp)
            and not s.is_output
            and inputs_read
            and inputs_read <= known
        ):
            known.add(s.op)
            names.add(s.name)
    return frozenset(names)


def readers(state: State) -> dict[str, list[str]]:
    """Map each stage name to the names of the stages that read it, each once."""
    name_of = {s.op: s.name for s in state.stages}
    names: dict[str, list[str]] = {s.name: [] for s in state.stages}
    for s in state.stages:
        for name in {name_of[t.op]: None for t in inputs(s)}:
            names[name].append(s.name)
    return names


def unique(name: str, taken: set[str]) -> str:
    """Return `name`, with a number added if it is in `taken`; add the result to `taken`."""
    candidate, n = name, 1
    while candidate in taken:
        candidate, n = f"{name}_{n}", n + 1
    taken.add(candidate)
    return candidate
