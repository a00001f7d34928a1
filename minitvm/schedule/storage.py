"""Steps that choose how a stage's results are stored: in which memory, how aligned, and when."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .formula import arithmetic, parsed
from .state import Stage, State
from .step import Checks, LoopName, Step, has_body, is_inner

SCOPES = ("global", "shared", "local", "warp", "warp.mma", tir.amx.SCOPE)
BUFFERS = ("inp_buffer", "wgt_buffer", "acc_buffer")  # memories of an accelerator
PREFIXES = ("", "local", "vdla", "vta")  # of their names: in this package, in TVM and on the slides


def known_scope(scope: str) -> str:
    """Return the memory scope `scope` in TVM's spelling; raise ScheduleError if it is unknown.

    Only an accelerator's scopes change: "acc_buffer", "vdla.acc_buffer" -> "local.acc_buffer"
    """
    if scope in SCOPES:
        return scope
    prefix, _, name = str(scope).rpartition(".")
    if name in BUFFERS and prefix in PREFIXES:
        return f"local.{name}"
    fix = f"one of {', '.join(SCOPES)}; of an accelerator: {', '.join(BUFFERS)}"
    raise ScheduleError(f"scope {scope!r}", "no such memory", fix)


@dataclass(frozen=True, slots=True)
class SetScope(Step):
    """Choose the memory of a stage's result: "global", "shared", "local", ..."""

    scope: str
    samples: ClassVar = {"scope": SCOPES[:3]}

    def checks(self, state: State) -> Checks:
        yield from is_inner(state, self.stage)

    def apply(self, state: State) -> State:
        return state.with_stage(state.stage(self.stage).change(scope=known_scope(self.scope)))


@dataclass(frozen=True, slots=True)
class StorageAlign(Step):
    """Pad a stage's rows so that a stride is `offset` more than a multiple of `factor`.

    This is the stride of the dimension `axis`, in elements.

    storage_align(i, 32, 1)       B[i, j] at i*32 + j   ->   B[i, j] at i*33 + j

    The stage may have a layout that permutes its dimensions, such as lambda i, j: (j, i).
    """

    axis: LoopName
    factor: int
    offset: int = 0
    samples: ClassVar = {"factor": (1, 2, 8, 32), "offset": (0, 0, 1)}

    def checks(self, state: State) -> Checks:
        yield from is_inner(state, self.stage)
        stage = state.stage(self.stage)
        names = _dimensions(stage)
        if self.axis not in names:
            yield "it is not a dimension of the result", f"one of {', '.join(names) or 'none'}"
        if self.factor < 1:
            yield f"factor {self.factor} is not >= 1", ""
        if not 0 <= self.offset < self.factor:
            why = f"offset {self.offset} is not in 0 .. {self.factor - 1}"
            yield why, "strides are offset, offset + factor, offset + 2*factor, ..."
        if self.factor * stage.op.dtypes[0].bytes > tir.ADDRESSABLE:
            yield (
                f"with factor {self.factor} its rows would lie further apart than the "
                f"{tir.ADDRESSABLE} bytes that can be addressed",
                "a factor of a few cache lines",
            )
        if stage.layout is not None and sorted(stage.layout[0]) != sorted(stage.layout[1]):
            yield "it has a layout that does more than permute", "pad in transform_layout"

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        d = _dimensions(stage).index(self.axis)
        others = tuple(a for a in stage.aligns if a[0] != d)
        return state.with_stage(stage.change(aligns=(*others, (d, self.factor, self.offset))))


def _dimensions(stage: Stage) -> list[str]:
    return [a.name for a in stage.op.axis] if isinstance(stage.op, tensor.ComputeOp) else []


@dataclass(frozen=True, slots=True)
class DoubleBuffer(Step):
    """Compute a stage one iteration ahead, into the half of a buffer that is not being read.

        for i in range(n):            B[0] = f(0)
          B[0] = f(i)            ->   for i in range(n):
          C[i] = g(B[0])                if i + 1 < n: B[(i + 1) % 2] = f(i + 1)
                                        C[i] = g(B[i % 2])

    Lowering checks that the stage is computed inside a serial or unrolled loop.
    """

    def checks(self, state: State) -> Checks:
        yield from is_inner(state, self.stage)
        if state.stage(self.stage).store is not None:
            why = "store_at keeps its elements from one iteration to the next"
            yield why, "use only one of store_at and double_buffer"

    def apply(self, state: State) -> State:
        return state.with_stage(state.stage(self.stage).change(double_buffer=True))


@dataclass(frozen=True, slots=True)
class SetStorePredicate(Step):
    """Store a stage's results only where conditions on its axes hold.

        for i in range(8):            for i in range(8):
          C[i] = A[i]            ->     if i < 4: C[i] = A[i]

    axes: the names of the axes that `conds` mentions.
    conds: comparisons such as "i_outer < 4"; axis names are written with "_" in place of ".".
    """

    axes: tuple[LoopName, ...]
    conds: tuple[str, ...]

    @property
    def what(self) -> str:
        return f"{self.primitive} of {self.stage}"

    def checks(self, state: State) -> Checks:
        yield from has_body(self, state)
        stage = state.stage(self.stage)
        known = list(stage.names.values())
        for name in self.axes:
            if name not in known:
                yield f"it has no axis {name!r}", f"one of {', '.join(known)}"
        if not self.conds:
            yield "no condition is given", ""
        conds = self.conditions(stage)
        always = tir.all_of(*conds)
        if always is tir.TRUE or always is tir.FALSE:
            yield f"the condition is always {always is tir.TRUE}", "leave it out"
        for a in _variables(conds):
            if isinstance(a, tensor.Axis) and _reduces(a) and stage.note(a).kind != "bind":
                why = f"{a.name!r} is a reduce axis: all its iterations compute the same element"
                yield why, "use data axes; to skip terms of the sum, te.sum(..., where=...)"
        yield from _one_thread_stores(conds)

    def conditions(self, stage: Stage) -> tuple[tir.Expr, ...]:
        """Return the conditions as comparisons of the stage's axes."""
        axes = {name: a for a, name in stage.names.items()}
        table = {name.replace(".", "_"): axes[name] for name in self.axes}
        return tuple(_comparison(c, table) for c in self.conds)

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        return state.with_stage(stage.change(predicate=self.conditions(stage)))


def _one_thread_stores(conds: tuple[tir.Expr, ...]) -> Checks:
    """Check the conditions on threads that share a reduction: one of these threads must store."""
    reduce_conds = [c for c in conds if any(_reduces(v) for v in tir.variables(c))]
    for c in reduce_conds:
        if len(tir.variables(c)) > 1:
            yield (
                f"{tir.text(c)} mixes a thread of the reduction with other axes: all threads of "
                "the reduction have the same result, so any one of them can store it",
                f"{next(v.name for v in tir.variables(c) if _reduces(v))} == 0, and a second "
                "condition on the data axes",
            )
    for a in _variables(reduce_conds):
        cond = tir.all_of(*(c for c in reduce_conds if any(v is a for v in tir.variables(c))))
        count = a.extent if isinstance(a, tensor.Axis) else 1
        if isinstance(count, int) and all(
            tir.substitute(cond, {a: i}) is tir.FALSE for i in range(count)
        ):
            yield (
                f"{tir.text(cond)} is false for all threads 0 .. {count - 1}: no thread would "
                "store the result",
                f"{a.name} == 0",
            )


def _comparison(source: str, axes: dict[str, tensor.Axis]) -> tir.Expr:
    """Parse `source` as a comparison of the axes; raise ScheduleError if it is something else."""
    match parsed(source):
        case ast.Compare(left, [op], [right]) if type(op) in _SIGNS:
            a, b = (arithmetic(operand, axes, source) for operand in (left, right))
            return tir.compare(_SIGNS[type(op)], a, b)
        case ast.Constant(bool() as always):  # a condition that folded to a constant
            return tir.TRUE if always else tir.FALSE
        case _:
            why = "it is not a comparison"
            raise ScheduleError(f"condition {source!r} in a step", why, "te.all(i < 4, j >= 1)")


_SIGNS: dict[type[ast.cmpop], Any] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}

STORAGE = (SetScope, StorageAlign, DoubleBuffer, SetStorePredicate)


def store_conditions(stage: Stage, values: dict[tensor.Axis, tir.Index]) -> tuple[tir.Expr, ...]:
    """Return the conditions of the stage's store predicate, with `values` substituted for its axes.

    All of them must be true for a result to be stored. Conditions on reduce loops are left out:
    such loops are bound to threads that all have the same result, and the condition only selects
    the thread that stores it.
    """
    conds = [c for c in stage.predicate if not any(_reduces(v) for v in tir.variables(c))]
    return tuple(c for c in (tir.substitute(c, values) for c in conds) if c is not tir.TRUE)


def _variables(conds: Iterable[tir.Expr]) -> list[tir.Var]:
    """Return the variables of all conditions, each once."""
    return list({id(v): v for c in conds for v in tir.variables(c)}.values())


def _reduces(v: object) -> bool:
    return isinstance(v, tensor.Axis) and v.kind == "reduce"
