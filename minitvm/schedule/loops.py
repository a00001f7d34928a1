"""Steps that change the number and the order of one stage's loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from minitvm import tensor, tir

from .sizes import is_size, part_size
from .state import At, FuseRelation, Relation, SplitRelation, Stage, State, unique
from .step import Changes, Checks, LoopName, Step, has_loops, is_loop

FACTORS = (1, 2, 2, 3, 4, 4, 5, 8, 16, 32, 100)  # sizes of random splits


@dataclass(frozen=True, slots=True)
class Split(Step):
    """Split a loop in two: the inner loop has `factor` iterations, or the outer loop has `nparts`.

        for i in range(n):            for i_outer in range(ceildiv(n, factor)):
          body(i)                ->     for i_inner in range(factor):
                                          if i_outer*factor + i_inner < n:
                                            body(i_outer*factor + i_inner)

    `factor` and `nparts` are integers, or formulas over the program's sizes: "n", "n // 4".
    With disable_predication the `if` is left out; lowering raises an error if it is needed.
    """

    axis: LoopName
    factor: int | str | None = None
    nparts: int | str | None = None
    disable_predication: bool = False
    changes: ClassVar[Changes] = "loops"
    samples: ClassVar = {"factor": FACTORS, "nparts": FACTORS, "disable_predication": (True,)}

    def checks(self, state: State) -> Checks:
        stage = state.stage(self.stage)
        yield from has_loops(state, self.stage)
        yield from is_loop(stage, self.axis)
        yield from _is_plain(stage, (self.axis,))
        if (self.factor is None) == (self.nparts is None):
            yield "exactly one of factor and nparts is needed", ""
        size = self.factor if self.nparts is None else self.nparts
        if isinstance(size, str):
            yield from is_size(state, size)
        elif type(size) is not int or size < 1:  # a step may come from JSON
            yield f"the size of a part is an integer >= 1, not {size!r}", ""
        if self.disable_predication and stage.is_output:  # lowering checks stages that shrink
            a = stage.loops[self.axis]
            outer, inner = self.extents(state, a)
            if not tir.prove_equal(tir.mul(outer, inner), a.extent):
                yield (
                    f"{tir.text(outer)} * {tir.text(inner)} iterations are not "
                    f"{tir.text(a.extent)}: without a guard, "
                    "the extra iterations would write out of bounds",
                    "a size that divides the extent, or keep the guard",
                )

    def extents(self, state: State, a: tensor.Axis) -> tuple[tir.Index, tir.Index]:
        """Return the extents of the outer and the inner loop that `a` becomes."""
        factor, nparts = part_size(state, self.factor), part_size(state, self.nparts)
        if factor is not None:
            return tir.ceildiv(a.extent, factor), factor
        assert nparts is not None
        return nparts, tir.ceildiv(a.extent, nparts)

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        a = stage.loops[self.axis]
        sizes = self.extents(state, a)
        outer = _new_axis(stage, f"{self.axis}.outer", sizes[0], a.kind)
        inner = _new_axis(stage, f"{self.axis}.inner", sizes[1], a.kind)
        exact = self.disable_predication
        factors = part_size(state, self.factor), part_size(state, self.nparts)
        relation = SplitRelation(a, outer, inner, *factors, exact)
        return _replaced(state, stage, (a,), (outer, inner), relation)


@dataclass(frozen=True, slots=True)
class Fuse(Step):
    """Fuse neighbouring loops, given outermost first, into one.

    for i in range(n):            for i_j_fused in range(n*m):
      for j in range(m):     ->     body(i_j_fused // m, i_j_fused % m)
        body(i, j)

    Without axes, a loop of one iteration becomes the outermost one: a scalar has a loop then, too.
    """

    axes: tuple[LoopName, ...]
    changes: ClassVar[Changes] = "loops"

    def checks(self, state: State) -> Checks:
        stage = state.stage(self.stage)
        yield from has_loops(state, self.stage)
        if len(self.axes) == 1:
            yield "it takes two or more neighbouring loops, or none", ""
        yield from is_loop(stage, *self.axes)
        order = list(stage.loops)
        for outer, inner in zip(self.axes, self.axes[1:], strict=False):
            if order[order.index(outer) + 1 :][:1] != [inner]:
                yield (
                    f"{outer!r} and {inner!r} are not neighbours, outer before inner "
                    f"(loops: {', '.join(order)})",
                    f"reorder first, so that {inner} comes right after {outer}",
                )
        yield from _is_plain(stage, self.axes)

    def apply(self, state: State) -> State:
        if not self.axes:
            stage = state.stage(self.stage)
            a = _new_axis(stage, "singleton", 1, "data")
            leaves, names = (a, *stage.leaves), stage.names | {a: a.name}
            return state.with_stage(stage.change(leaves=leaves, names=names))
        outer = state.stage(self.stage).loops[self.axes[0]]
        for name in self.axes[1:]:
            stage = state.stage(self.stage)
            inner = stage.loops[name]
            kind: tensor.AxisKind = "reduce" if "reduce" in (outer.kind, inner.kind) else outer.kind
            extent = tir.mul(outer.extent, inner.extent)
            fused = _new_axis(stage, f"{outer.name}.{inner.name}.fused", extent, kind)
            relation = FuseRelation(outer, inner, fused)
            state, outer = _replaced(state, stage, (outer, inner), (fused,), relation), fused
        return state


@dataclass(frozen=True, slots=True)
class Reorder(Step):
    """Put the loops `axes` in this order, outermost first; all other loops keep their positions.

    for i in range(n):            for j in range(m):
      for j in range(m):     ->     for i in range(n):
        body(i, j)                    body(i, j)
    """

    axes: tuple[LoopName, ...]
    changes: ClassVar[Changes] = "loops"

    def checks(self, state: State) -> Checks:
        stage = state.stage(self.stage)
        yield from has_loops(state, self.stage)
        yield from is_loop(stage, *self.axes)
        if len(set(self.axes)) < len(self.axes):
            yield "the same axis is given twice", ""
        if isinstance(stage.op, tensor.ScanOp):
            yield "a scan computes its time steps in order", "reorder the loops of its update stage"

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        loops, order = stage.loops, iter(self.axes)
        leaves = tuple([loops[next(order) if n in self.axes else n] for n in loops])
        return state.with_stage(stage.change(leaves=leaves))


LOOPS = (Split, Fuse, Reorder)


def part_sizes(state: State) -> list[tir.Index]:
    """Return the split sizes that were given as formulas.

    Their values are known when the compiled function is called, and must then be >= 1.
    """
    steps = [s for s in state.steps if isinstance(s, Split)]
    formulas = [n for s in steps for n in (s.factor, s.nparts) if isinstance(n, str)]
    return [size for n in formulas if (size := part_size(state, n)) is not None]


def _is_plain(stage: Stage, names: Iterable[str]) -> Checks:
    """Check that the loops `names` are serial and not tensorized, since they will be replaced."""
    loops = stage.loops
    for name in names if stage.notes else ():
        note = stage.note(loops[name])
        if note.intrin is not None:
            why = f"{name!r} is tensorized"
            yield why, "split and fuse first, then tensorize the loop that remains"
        if note.kind != "serial":
            why = f"{name!r} is marked {note.kind}"
            yield why, "split and fuse first, then say how the new loops run"


def _new_axis(stage: Stage, name: str, extent: tir.Index, kind: tensor.AxisKind) -> tensor.Axis:
    return tensor.axis(unique(name, set(stage.names.values())), 0, extent, kind)


def _replaced(
    state: State,
    stage: Stage,
    gone: tuple[tensor.Axis, ...],
    new_loops: tuple[tensor.Axis, ...],
    relation: Relation,
) -> State:
    """Replace the neighbouring loops `gone` of `stage` by `new_loops`, and add `relation`.

    Stages attached at the innermost loop of `gone` move to the innermost loop of `new_loops`.
    """
    at = next(d for d, a in enumerate(stage.leaves) if a is gone[0])
    new_stage = stage.change(
        leaves=(*stage.leaves[:at], *new_loops, *stage.leaves[at + len(gone) :]),
        names=stage.names | {a: a.name for a in new_loops},
        relations=(*stage.relations, relation),
        notes={a: n for a, n in stage.notes.items() if not any(a is g for g in gone)},
    )
    return state.with_stages(
        [_moved(new_stage if s is stage else s, gone[-1], new_loops[-1]) for s in state.stages]
    )


def _moved(s: Stage, old: tensor.Axis, new: tensor.Axis) -> Stage:
    """Move `s` to the loop `new` if it is computed or stored at the loop `old`."""
    if isinstance(s.attach, At) and s.attach.axis is old:
        s = s.change(attach=replace(s.attach, axis=new))
    if s.store is not None and s.store.axis is old:
        s = s.change(store=replace(s.store, axis=new))
    return s
