"""Print a schedule as Python code that recreates it."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from minitvm import schedule, tensor


class _Names:
    """Assigns unique Python names to tensors and axes."""

    def __init__(self) -> None:
        self.taken: set[str] = {"s", "te"}
        self.axes: dict[tensor.Axis, str] = {}
        self.stages: dict[str, str] = {}

    def _free(self, base: str) -> str:
        base = base.replace(".", "_")
        name, n = base, 1
        while name in self.taken:
            name, n = f"{base}_{n}", n + 1
        self.taken.add(name)
        return name

    def axis(self, a: tensor.Axis) -> str:
        if a not in self.axes:
            self.axes[a] = self._free(a.name)
        return self.axes[a]

    def stage(self, name: str) -> str:
        if name not in self.stages:
            self.stages[name] = self._free(name)
        return self.stages[name]


def python_source(start: schedule.State, steps: tuple[schedule.Step, ...]) -> str:
    """Return Python code that creates the schedule `start` and takes `steps`, one line per step.

    Before the first step on the loops of a stage, a line such as `i, j = s[C].op.axis` names them.
    """
    names = _Names()
    names.taken |= _sizes(steps)
    outs = [names.stage(s.name) for s in start.stages if s.is_output]
    for s in start.stages:
        names.stage(s.name)
    lines = [f"s = te.create_schedule([{', '.join(f'{o}.op' for o in outs)}])"]
    if len(outs) == 1:
        lines = [f"s = te.create_schedule({outs[0]}.op)"]
    with_axes: set[str] = set()
    state = start
    for step in steps:
        host = _host(step)
        if host and host not in with_axes:
            with_axes.add(host)
            lines += _fetch(state, host, names)
        after = schedule.apply(state, step)
        lines.append(_line(state, after, step, names))
        if isinstance(step, schedule.RFactor):
            with_axes.discard(step.stage)  # its axes are new
        state = after
    return "\n".join(lines)


def _sizes(steps: tuple[schedule.Step, ...]) -> set[str]:
    """Return the names of the symbolic sizes by which `steps` split loops."""
    splits = [s for s in steps if isinstance(s, schedule.Split)]
    formulas = [n for s in splits for n in (s.factor, s.nparts) if isinstance(n, str)]
    return {name for n in formulas for name in re.findall(r"[A-Za-z_]\w*", n)}


def _host(step: schedule.Step) -> str:
    """Return the name of the stage whose loops are arguments of the step; "" if there are none."""
    if any("LoopName" in str(f.type) for f in fields(step)):
        return getattr(step, "target", step.stage)
    return ""


def _fetch(state: schedule.State, name: str, names: _Names) -> list[str]:
    op = state.stage(name).op
    lines: list[str] = []
    if isinstance(op, tensor.ComputeOp):
        for kind, axes in (("axis", op.axis), ("reduce_axis", op.reduce_axis)):
            if axes:
                left = ", ".join(names.axis(a) for a in axes) + ("," if len(axes) == 1 else "")
                lines.append(f"{left} = s[{names.stage(name)}].op.{kind}")
    return lines


def _line(before: schedule.State, after: schedule.State, step: schedule.Step, names: _Names) -> str:
    """Return the line of Python that takes the step; most are s[stage].primitive(arguments).

    before, after   the states before and after the step
    """

    def loop(name: str) -> str:
        table = before.stage(_host(step)).names
        return names.axis(next(a for a, printed in table.items() if printed == name))

    def argument(kind: str, name: str, v: Any) -> str:
        match kind:
            case "LoopName":
                return loop(v)
            case "tuple[LoopName, ...]":
                return ", ".join(map(loop, v))
            case "StageName":
                return f"s[{names.stage(v)}]" if name == "target" else names.stage(v)
            case _:
                return repr(v)

    me, call = names.stage(step.stage), f"s[{names.stage(step.stage)}].{step.verb}"
    match step:
        case schedule.Split(_, name, factor, nparts, exact):
            r = after.stage(step.stage).relations[-1]
            size = f"factor={factor}" if factor is not None else f"nparts={nparts}"
            size += ", disable_predication=True" if exact else ""
            return f"{names.axis(r.outer)}, {names.axis(r.inner)} = {call}({loop(name)}, {size})"
        case schedule.Fuse(_, axes):
            stage = after.stage(step.stage)
            fused = schedule.parts(stage.relations[-1])[0] if axes else stage.leaves[0]
            return f"{names.axis(fused)} = {call}({', '.join(map(loop, axes))})"
        case schedule.Annotate(_, name):
            return f"{call}({loop(name)})"
        case schedule.Bind(_, name, thread, extent):
            thread_text = repr(thread) if extent is None else f"(0, {extent}), {thread!r}"
            return f"{call}({loop(name)}, te.thread_axis({thread_text}))"
        case schedule.Tensorize(_, name, intrin):
            return f"{call}({loop(name)}, {intrin})"
        case schedule.TransformLayout(_, axes, layout):
            return f"{call}(lambda {', '.join(axes)}: ({', '.join(layout)},))"
        case schedule.SetStorePredicate(_, axes, conds):
            words = {n.replace(".", "_"): loop(n) for n in axes}
            text = ", ".join(_renamed(c, words) for c in conds)
            return f"{call}({text if len(conds) == 1 else f'te.all({text})'})"
        case schedule.CacheRead(stage, output, scope, readers):
            several = len(before.stage(stage).op.dtypes) > 1
            source = me + (f".op.output({output})" if several else "")
            arguments = f"{source}, {scope!r}, [{', '.join(map(names.stage, readers))}]"
            return f"{_made(before, after, names)} = s.cache_read({arguments})"
        case schedule.CacheWrite(_, scope):
            return f"{_made(before, after, names)} = s.cache_write({me}, {scope!r})"
        case schedule.RFactor(stage, name, place):
            where = f", factor_axis={place}" if place else ""
            output = "[0]" if len(before.stage(stage).op.dtypes) > 1 else ""
            return f"{_made(before, after, names)} = s.rfactor({me}, {loop(name)}{where}){output}"
        case _:
            values = [argument(str(f.type), f.name, getattr(step, f.name)) for f in fields(step)]
            return f"{call}({', '.join(values[1:])})"


def _renamed(source: str, words: dict[str, str]) -> str:
    """Rename the variables in the Python expression `source` according to `words`."""
    return re.sub(r"[A-Za-z_]\w*", lambda m: words.get(m[0], m[0]), source)


def _made(before: schedule.State, after: schedule.State, names: _Names) -> str:
    """Return the Python name of the stage that is in `after` but not in `before`."""
    old = {s.name for s in before.stages}
    return names.stage(next(s.name for s in after.stages if s.name not in old))
