"""Print formulas as TVM prints a ComputeDAG, and programs as the Ansor talk prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from minitvm import lowering, schedule, tensor, tir

Names: TypeAlias = Mapping[tensor.Axis, tuple[str, str]]
Factors: TypeAlias = Mapping[tuple[str, str], str]
UNROLL = "auto_unroll_max_step"
KINDS = {"serial": "for"}
INFIX = {"sum": "+="}
OPERATOR = re.compile(r" ([*/%]|//) ")


def formula(op: tensor.Operation) -> list[str]:
    """Return an operation as TVM prints it in a ComputeDAG.

    "A = PLACEHOLDER [512, 512]", "C(i, j) += (A[i, k]*B[k, j])"
    """
    if not isinstance(op, tensor.ComputeOp):
        shapes = (tensor.tensor_of(op, n).shape for n in range(len(op.dtypes)))
        return [f"{op.name} = PLACEHOLDER [{', '.join(map(tir.text, s))}]" for s in shapes]
    axes = ", ".join(a.name for a in op.axis)
    several = len(op.body) > 1
    return [
        f"{op.name}{f'.v{n}' if several else ''}({axes}) {_sign(e)} {_bracketed(e)}"
        for n, e in enumerate(op.body)
    ]


def exact(op: tensor.Operation) -> list[str]:
    """Return an operation as lines with everything its schedules depend on: types, ranges, ..."""
    if not isinstance(op, tensor.ComputeOp):
        constant = isinstance(op, tensor.PlaceholderOp) and op.constant
        return [f"{line} {op.dtypes} {constant}" for line in formula(op)]
    ranges = [
        f"{a.name} {tir.text(a.start)} {tir.text(a.extent)}" for a in (*op.axis, *op.reduce_axis)
    ]
    return [f"{line} {op.dtypes} {ranges}" for line in formula(op)]


def statement(op: tensor.ComputeOp) -> str:
    """Return one iteration's statement without its indices: "C[...] += A[...] * B[...]"."""
    name, source = op.name.replace(".", "_"), tir.text(_source(op.body[0]))
    return f"{name}[...] {_sign(op.body[0])} {_elided(source)}"


def _source(body: tir.Expr) -> tir.Expr:
    return body.sources[body.value_index] if isinstance(body, tensor.Reduce) else body


def _sign(body: tir.Expr) -> str:
    """Return the assignment sign of a statement: "=", or for a reduction "+=" or "max="."""
    if not isinstance(body, tensor.Reduce):
        return "="
    return INFIX.get(body.reducer.name, f"{body.reducer.name}=")


def _bracketed(body: tir.Expr) -> str:
    source = _source(body)
    shown = OPERATOR.sub(r"\1", tir.text(source))
    infix = isinstance(source, tir.Binary) and source.op not in ("min", "max")
    return f"({shown})" if infix else shown


def _elided(text: str) -> str:
    """Replace the indices of each load by "..."."""
    pieces, depth = list[str](), 0
    for c in text:
        if c == "[":
            pieces += ["[..."] if depth == 0 else []
            depth += 1
        elif c == "]":
            depth -= 1
        pieces += [c] if depth == 0 else []
    return "".join(pieces)


# --- programs ------------------------------------------------------------------------------------


def program(state: schedule.State, names: Names, factors: Factors | None) -> str:
    """Return the loops and statements of a schedule, stages nested in the loops that contain them.

    names     the label and the size of each loop: "i.1", "TILE_I1"
    factors   (stage, loop) -> the text for an open size, such as "TILE_J3"; None if no size is
              open: then sizes are numbers, and loops of one iteration are left out
    """
    whole = lowering.normalize(state)
    return "\n".join(_Printed(whole, names, factors).everything())


@dataclass(slots=True, init=False)
class _Printed:
    """A schedule that is being printed, with the data that its lines depend on."""

    state: schedule.State
    names: Names
    factors: Factors | None
    extents: dict[tensor.Axis, tir.Index]
    made: dict[tensor.Axis, schedule.Relation]  # the split or fuse that made a loop

    def __init__(self, state: schedule.State, names: Names, factors: Factors | None) -> None:
        self.state, self.names, self.factors = state, names, factors
        self.made = {}
        for r in (r for s in state.stages for r in s.relations):
            fused = isinstance(r, schedule.FuseRelation)
            self.made |= dict.fromkeys((r.fused,) if fused else (r.outer, r.inner), r)
        domains = lowering.infer(state) if factors is None else {}
        self.extents = {a: n for domain in domains.values() for a, n in domain.extents.items()}

    def everything(self) -> list[str]:
        """Return the lines of all stages at root."""
        at_root = [s for s in self.state.stages if isinstance(s.attach, schedule.AtRoot)]
        return [line for s in at_root for line in self.stage(s)]

    def stage(self, stage: schedule.Stage) -> list[str]:
        """Return the lines of one stage and of all stages in its loops."""
        if not isinstance(stage.op, tensor.ComputeOp):
            return []
        body = [statement(stage.op)]
        for a in reversed(stage.leaves):
            inner_lines = [
                line
                for s in self.state.stages
                if isinstance(s.attach, schedule.At) and s.attach.axis is a
                for line in self.stage(s)
            ]
            body = [*inner_lines, *body]
            size = self.size(stage, a)
            if size != "1":
                kind = KINDS.get(stage.note(a).kind, stage.note(a).kind)
                head = f"{kind} {self.label(a)} in range({size}):"
                body = [head, *(f"  {line}" for line in body)]
        return [*self.pragmas(stage), *body]

    def pragmas(self, stage: schedule.Stage) -> list[str]:
        """Return a line for each pragma that limits unrolling, as in TVM: "C auto_unroll: 16"."""
        limits = [v for a in stage.leaves for k, v in stage.note(a).pragmas if k == UNROLL]
        limit = (self.factors or {}).get((stage.name, UNROLL))
        return [f"{stage.name} auto_unroll: {limit or value}" for value in limits if limit or value]

    def label(self, a: tensor.Axis) -> str:
        """Return the printed name of a loop, such as i.0, or i.0@j.0 if it is fused."""
        if a in self.names:
            return self.names[a][0]
        match self.made.get(a):
            case schedule.FuseRelation() as r:
                return f"{self.label(r.outer)}@{self.label(r.inner)}"
            case schedule.SplitRelation() as r:
                return f"{self.label(r.parent)}.{int(a is r.inner)}"
            case None:
                return a.name

    def size(self, stage: schedule.Stage, a: tensor.Axis) -> str:
        """Return the number of iterations of a loop."""
        if self.factors is None:
            return tir.text(self.extents[a])
        if a in self.names:
            return self.names[a][1]
        match self.made.get(a):
            case schedule.FuseRelation() as r:
                sizes = [self.size(stage, x) for x in (r.outer, r.inner)]
                return " * ".join(n for n in sizes if n != "1") or "1"
            case schedule.SplitRelation() as r:
                factor = self.factors.get((stage.name, stage.names[r.parent])) or str(r.factor)
                return factor if a is r.inner else f"{self.size(stage, r.parent)} / {factor}"
            case None:
                fixed = a.kind == "reduce" or isinstance(stage.attach, schedule.AtRoot)
                return tir.text(a.extent) if fixed else "..."
