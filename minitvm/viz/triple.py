"""TripleView: a formula, its loops and their code, side by side and linked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minitvm import codegen, driver, lowering, schedule, te, tensor, tir
from minitvm.base import BuildError, Target

from .blocks import Nest, arguments, check_schedule, nest_of
from .boxes import Box, code, column, picture, row, text
from .controls import CodeLine, Layout, Panel, Select, numbered
from .figure import Figure
from .nest import nest_ascii, nest_box
from .scene import Scene

NEST, CODE = 400, 470  # pixels: widths
MAX_LINES = 32  # most lines of code in the picture; the widget shows all
CODES = ("python", "loops", "llvm")
HEADER = re.compile(r"( *)for \w+ in ")
LABEL = re.compile(r"[\w.]+?\.(loop|done)(?:\.\d+)?:")  # of LLVM: i_outer.loop:


class TripleView(Figure):
    """Show formula, loops and code of a schedule; pointing at a loop lights up its code.

    The code is Python by default, or printed loops if Python cannot express them. A control chooses
    the loops after all passes, or the LLVM code before LLVM optimizes it. In these two, a
    vectorized or unrolled loop has no lines of its own.

    args     inputs and outputs as for lower(); by default all of them
    target   the target whose passes are run for the loops and LLVM
    """

    def __init__(
        self, s: te.Schedule, args: Sequence[Any] | None = None, target: str | Target | None = None
    ) -> None:
        check_schedule("TripleView", s)
        self._state, self._target = s.state, Target(target)
        self._args = arguments(s.state) if args is None else tuple(args)
        self._nest = nest_of(s)
        self._formula, self._axes = formula_lines(s.state, self._nest)
        try:
            self._choose("python")
        except BuildError:  # for example hardware threads, which only the loops show
            self._choose("loops")
        super().__init__()

    def _choose(self, code: str) -> None:
        """Generate `code`, a kind of code in CODES, and find the lines of each loop in it."""
        passes = driver.TARGETS["python" if code == "python" else self._target.kind].passes
        renamed = rename([b.label for b in self._nest.all() if isinstance(b.stmt, tir.For)])
        func = lowering.lower_state(self._state, self._args, passes=(renamed, *passes))
        self._lines = tuple(emitted(func, code, self._target).split("\n"))
        bodies = [f.body for f in (func.prepack, func) if f is not None]
        names = [n.var.name for s in bodies for n in tir.walk(s) if isinstance(n, tir.For)]
        self._spans = code_spans(self._lines, names)
        self._code = code

    def title(self) -> str:
        """Return the title of the loops, which are between panels."""
        return "the loops"

    def body(self) -> Box:
        """Draw the loops; the formula and the code are in panels beside the picture."""
        return nest_box(self._nest, NEST)

    def picture(self) -> Scene:
        """Draw the formula, the loops and the code, without panels."""
        shown, left = list(self._lines[:MAX_LINES]), len(self._lines) - MAX_LINES
        shown += [f"… {left} more lines"] * (left > 0)
        loops = column(text("loops", size=13, bold=True), self.body())
        formula = _listing("formula", [line.text for line in self._formula], NEST)
        parts = row(column(formula, loops), _listing(self._code, shown, CODE), gap=20)
        return picture(parts, "formula, loops, code", self.ascii())

    def ascii(self) -> str:
        formula = [t.text for t in self._formula][:8]
        return "\n".join([*formula, nest_ascii(self._nest, 24 - len(formula))])

    def layout(self) -> Layout:
        lines = numbered(self._lines, "code")
        return Layout(
            controls=(Select("code", "code", CODES, self._code),),
            links=self._links(),
            panels=(Panel("formula", self._formula), Panel(self._code, lines)),
            selectable="loop:",
        )

    def _links(self) -> dict[str, tuple[str, ...]]:
        """Link bars, lines of code and lines of the formula in all directions."""
        bars = {b.label: b.key for b in self._nest.all() if not b.key.startswith("line:")}
        links: dict[str, tuple[str, ...]] = {}
        for name, key in bars.items():
            lines = tuple(f"code:{n}" for n in self._spans.get(name, ()))
            links[key] = (*lines, *(a for a, loops in self._axes.items() if key in loops))
            for line in lines:  # outer loops first: a line keeps the link of its innermost loop
                links[line] = (key,)
        for axis, loops in self._axes.items():
            links[axis] = (*loops, *dict.fromkeys(c for k in loops for c in links.get(k, ())))
        return links

    def on(self, name: str, value: Any) -> str | None:
        """Choose other code, or return a message if a clicked loop has no lines in the code."""
        if name == "code":
            self._choose(value)
            return None
        for bar in self._nest.all():
            if bar.key == value and isinstance(bar.stmt, tir.For) and bar.label not in self._spans:
                return f"{bar.label} ({bar.note}): no such loop is left in the code shown"
        return None


# --- the formula -------------------------------------------------------------------------------


def formula_lines(
    state: schedule.State, nest: Nest
) -> tuple[tuple[CodeLine, ...], dict[str, tuple[str, ...]]]:
    """Return (lines, loops).

    lines   each stage's formula, followed by a line for each axis
    loops   {key of an axis line: keys of its loops}
    """
    keys = {owner: key for key, owner in nest.owners.items()}
    lines: list[CodeLine] = []
    loops_of: dict[str, tuple[str, ...]] = {}
    for stage in state.stages:
        op = stage.op
        if isinstance(op, tensor.PlaceholderOp):
            continue
        lines.append(CodeLine(formula(stage)))
        axis_names = stage.names
        for axis in (*op.axis, *op.reduce_axis) if isinstance(op, tensor.ComputeOp) else ():
            parts = [axis]  # with the axes that result from splitting and fusing it
            for r in stage.relations:
                if isinstance(r, schedule.SplitRelation):
                    parts += [r.outer, r.inner] if any(a is r.parent for a in parts) else []
                elif any(a is r.outer or a is r.inner for a in parts):
                    parts.append(r.fused)
            leaves = (a for a in stage.leaves if any(a is part for part in parts))
            loops = [keys[o] for a in leaves if (o := (stage.name, axis_names[a])) in keys]
            key = f"axis:{stage.name}/{axis.name}"
            loops_of[key] = tuple(loops)
            what = "summed over, " if axis.kind == "reduce" else ""
            into = ", ".join(k.partition(":")[2] for k in loops) or "no loop"
            size = tir.Printer().expr(axis.extent)
            lines.append(CodeLine(f"  {axis.name}: {what}{size} -> {into}", key))
    return tuple(lines), loops_of


def formula(stage: schedule.Stage) -> str:
    """Return a stage's formula, such as "C[i, j] = sum(A[i, k] * B[k, j], axis=k)"."""
    op, p = stage.op, tir.Printer()
    if not isinstance(op, tensor.ComputeOp):
        return repr(op)
    left = f"{stage.name}[{', '.join(a.name for a in op.axis) or '()'}]"
    body = op.body[0]
    if not isinstance(body, tensor.Reduce):
        return f"{left} = " + ", ".join(p.expr(e) for e in op.body)
    sources = ", ".join(p.expr(e) for e in body.sources)
    axes = ", ".join(a.name for a in body.axes)
    return f"{left} = {body.reducer.name}({sources}, axis={axes})"


# --- the code ----------------------------------------------------------------------------------


def emitted(func: tir.PrimFunc, code: str, target: Target) -> str:
    """Return the text of a lowered program: Python, printed loops, or unoptimized LLVM."""
    if code == "loops":
        return str(func)
    if code == "python":
        text = codegen.emit_python(func)
    else:
        text = codegen.emit_llvm(func, vector_bytes=target.vector_bytes)
    before = "" if func.prepack is None else f"{emitted(func.prepack, code, target)}\n\n"
    return before + text.rstrip("\n")


def rename(labels: Sequence[str]) -> lowering.Pass:
    """Return a pass, to be run first, that renames the loops to `labels`, in program order.

    Use it for one lowering. If a program packs constants, the pass runs on that program first.
    The labels are the distinct printed names, for example i for i of B, and i_1 for i of C. Copies
    of a loop made by later passes keep its name, which shows where a piece of code comes from.
    """
    left = iter(labels)

    def renamed(s: tir.Stmt) -> tir.Stmt:
        loops = [n.var for n in tir.walk(s) if isinstance(n, tir.For)]
        new = {v: tir.Var(next(left), v.low, v.high, v.top) for v in loops}
        return tir.rewrite(
            tir.substitute(s, new),
            lambda n: replace(n, var=new[n.var]) if isinstance(n, tir.For) else n,
        )

    return renamed


def code_spans(lines: Sequence[str], names: Sequence[str]) -> dict[str, list[int]]:
    """Return the line numbers of each loop, in Python, in printed loops or in LLVM text.

    names   the name of each loop in the code, in order of appearance, with repetitions

    Returns {} if the loops found in the code do not match `names`.
    """
    spans: dict[str, list[int]] = {}
    open_loops: list[tuple[int, str]] = []  # (indentation, loop); in LLVM labels open and close
    remaining_names = iter(names)
    for n, line in enumerate(lines):
        header, label = HEADER.match(line), LABEL.fullmatch(line)
        if label and label[1] == "done":
            open_loops.pop()
        elif label:
            open_loops.append((-1, next(remaining_names, "")))
        elif line.strip():
            indent = len(line) - len(line.lstrip())
            open_loops = [(at, name) for at, name in open_loops if at < indent]
            if header:
                open_loops.append((indent, next(remaining_names, "")))
        for name in dict.fromkeys(name for _, name in open_loops):
            spans.setdefault(name, []).append(n)
    has_all_names = "" not in spans and next(remaining_names, None) is None
    return (
        spans if has_all_names else {}
    )  # if a loop is unknown, show no links: they could be wrong


def _listing(title: str, lines: Sequence[str], width: float) -> Box:
    """Draw lines of code below a title, folded at `width` pixels."""
    return column(text(title, size=13, bold=True), code(map(CodeLine, lines), width), gap=5)
