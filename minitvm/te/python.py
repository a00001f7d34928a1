"""A schedule written down as the Python code that makes it."""

from __future__ import annotations

import re
from typing import assert_never

from minitvm import schedule
from minitvm.tensor import Axis, ComputeOp


class _Names:
    """Python names for tensors and axes, each taken once."""

    def __init__(self) -> None:
        self.taken: dict[str, object] = {"s": None, "te": None}
        self.axes: dict[Axis, str] = {}
        self.stages: dict[str, str] = {}

    def _free(self, wanted: str, what: object) -> str:
        name, n = wanted.replace(".", "_"), 1
        while name in self.taken:
            name, n = f"{wanted.replace('.', '_')}_{n}", n + 1
        self.taken[name] = what
        return name

    def axis(self, a: Axis) -> str:
        if a not in self.axes:
            self.axes[a] = self._free(a.name, a)
        return self.axes[a]

    def stage(self, name: str) -> str:
        if name not in self.stages:
            self.stages[name] = self._free(name, name)
        return self.stages[name]


def python_source(start: schedule.State, steps: tuple[schedule.Step, ...]) -> str:
    """The code, one line a step; axes are fetched where a stage is first touched."""
    names = _Names()
    outs = [names.stage(s.name) for s in start.stages if s.is_output]
    for s in start.stages:
        names.stage(s.name)
    lines = [f"s = te.create_schedule([{', '.join(f'{o}.op' for o in outs)}])"]
    if len(outs) == 1:
        lines = [f"s = te.create_schedule({outs[0]}.op)"]
    known: set[str] = set()
    state = start
    for step in steps:
        for name in _touched(step):
            if name not in known:
                known.add(name)
                lines += _fetch(state, name, names)
        after = schedule.apply(state, step)
        lines.append(_line(state, after, step, names))
        if isinstance(step, schedule.RFactor):
            known.discard(step.stage)  # it has new axes
        state = after
    return "\n".join(lines)


def _touched(step: schedule.Step) -> list[str]:
    """The stages whose axes the step names."""
    match step:
        case (
            schedule.Split()
            | schedule.Fuse()
            | schedule.Reorder()
            | schedule.Annotate()
            | schedule.Pragma()
            | schedule.RFactor()
            | schedule.Bind()
            | schedule.StorageAlign()
            | schedule.SetStorePredicate()
            | schedule.Prefetch()
            | schedule.Tensorize()
        ):
            return [step.stage]
        case schedule.ComputeAt() | schedule.StoreAt():
            return [step.target]
        case _:
            return []


def _fetch(state: schedule.State, name: str, names: _Names) -> list[str]:
    op = state.stage(name).op
    lines: list[str] = []
    if isinstance(op, ComputeOp):
        for kind, axes in (("axis", op.axis), ("reduce_axis", op.reduce_axis)):
            if axes:
                left = ", ".join(names.axis(a) for a in axes) + ("," if len(axes) == 1 else "")
                lines.append(f"{left} = s[{names.stage(name)}].op.{kind}")
    return lines


def _axis_name(state: schedule.State, stage: str, axis: str, names: _Names) -> str:
    return names.axis(next(a for a, name in state.stage(stage).names.items() if name == axis))


def _line(state: schedule.State, after: schedule.State, step: schedule.Step, names: _Names) -> str:
    def axis(name: str) -> str:
        return _axis_name(state, step.stage, name, names)

    if isinstance(step, schedule.MemoryStep):
        return _memory_line(state, step, names)
    me = f"s[{names.stage(step.stage)}]"
    match step:
        case schedule.Split(_, name, factor, nparts, exact):
            made = after.stage(step.stage).relations[-1]
            size = f"factor={factor}" if factor is not None else f"nparts={nparts}"
            size += ", disable_predication=True" if exact else ""
            left = f"{names.axis(made.outer)}, {names.axis(made.inner)}"
            return f"{left} = {me}.split({axis(name)}, {size})"
        case schedule.Fuse(_, axes):
            made = after.stage(step.stage).relations[-1]
            assert isinstance(made, schedule.FuseRelation)
            given = ", ".join(axis(a) for a in axes)
            return f"{names.axis(made.fused)} = {me}.fuse({given})"
        case schedule.Reorder(_, axes):
            return f"{me}.reorder({', '.join(axis(a) for a in axes)})"
        case schedule.Annotate(_, name, kind):
            return f"{me}.{kind}({axis(name)})"
        case schedule.Pragma(_, name, key, value):
            return f"{me}.pragma({axis(name)}, {key!r}, {value!r})"
        case schedule.ComputeAt(_, target, name):
            at = _axis_name(state, target, name, names)
            return f"{me}.compute_at(s[{names.stage(target)}], {at})"
        case schedule.ComputeInline():
            return f"{me}.compute_inline()"
        case schedule.ComputeRoot():
            return f"{me}.compute_root()"
        case schedule.SetScope(_, scope):
            return f"{me}.set_scope({scope!r})"
        case schedule.Tensorize(_, name, intrin):
            return f"{me}.tensorize({axis(name)}, {intrin})"
        case schedule.TransformLayout(_, axes, layout):
            return f"{me}.transform_layout(lambda {', '.join(axes)}: ({', '.join(layout)},))"
        case schedule.CacheRead(stage, output, scope, readers):
            who = ", ".join(names.stage(r) for r in readers)
            made_name = names.stage(_new_stage(state, after))
            several = len(state.stage(stage).op.dtypes) > 1
            source = names.stage(stage) + (f".op.output({output})" if several else "")
            return f"{made_name} = s.cache_read({source}, {scope!r}, [{who}])"
        case schedule.RFactor(stage, name, place):
            made_name = names.stage(_new_stage(state, after))
            where = f", factor_axis={place}" if place else ""
            one = "[0]" if len(state.stage(stage).op.dtypes) > 1 else ""
            return f"{made_name} = s.rfactor({names.stage(stage)}, {axis(name)}{where}){one}"
        case schedule.CacheWrite(stage, scope):
            made_name = names.stage(_new_stage(state, after))
            return f"{made_name} = s.cache_write({names.stage(stage)}, {scope!r})"
        case _:
            assert_never(step)


def _memory_line(state: schedule.State, step: schedule.MemoryStep, names: _Names) -> str:
    """A step about threads and memory."""

    def axis(name: str) -> str:
        return _axis_name(state, step.stage, name, names)

    me = f"s[{names.stage(step.stage)}]"
    match step:
        case schedule.StoreAt(_, target, name):
            at = _axis_name(state, target, name, names)
            return f"{me}.store_at(s[{names.stage(target)}], {at})"
        case schedule.Bind(_, name, thread, extent):
            given = repr(thread) if extent is None else f"(0, {extent}), {thread!r}"
            return f"{me}.bind({axis(name)}, te.thread_axis({given}))"
        case schedule.DoubleBuffer():
            return f"{me}.double_buffer()"
        case schedule.StorageAlign(_, name, factor, offset):
            return f"{me}.storage_align({axis(name)}, {factor}, {offset})"
        case schedule.Prefetch(_, tensor, name, offset):
            return f"{me}.prefetch({names.stage(tensor)}, {axis(name)}, {offset})"
        case schedule.SetStorePredicate(_, given, conds):
            words = {n.replace(".", "_"): axis(n) for n in given}
            texts = ", ".join(_renamed(c, words) for c in conds)
            return f"{me}.set_store_predicate({texts if len(conds) == 1 else f'te.all({texts})'})"


def _renamed(source: str, words: dict[str, str]) -> str:
    """`source` with other names for its variables."""
    return re.sub(r"[A-Za-z_]\w*", lambda m: words.get(m[0], m[0]), source)


def _new_stage(state: schedule.State, after: schedule.State) -> str:
    old = {s.name for s in state.stages}
    return next(s.name for s in after.stages if s.name not in old)
