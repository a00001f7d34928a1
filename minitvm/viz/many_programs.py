"""ManyPrograms: one formula, and the steps, the loops and the code of several schedules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

from minitvm import codegen, lowering, te
from minitvm.base import ArgumentError

from .blocks import arguments, nest_of
from .boxes import Box, Edge, code, column, connected, framed, row, sized, text
from .controls import CodeLine
from .figure import Figure
from .nest import nest_ascii, nest_box
from .triple import formula

WIDTHS, GAP = (126, 184, 284, 148), 17  # pixels: of formula, schedule, loops, code; for an arrow
HEADS = (("formula", "you"), ("schedule", "you, or a search"), ("loops", "minitvm"))
LAST = ("innermost code", "minitvm, for LLVM")
BODY = re.compile(r"(load|fmul|fadd|store) (?:contract )?(<\d+ x float>|float)")
AXES = re.compile(r"s = |[\w, ]+ = s\[\w+\]\.op\.")  # lines of a schedule that are not steps


class ManyPrograms(Figure):
    """Show how schedules of one formula make different loops and code of it.

    schedules   name -> schedule; all of the same formula, a sum of products of floats
    """

    def __init__(self, schedules: Mapping[str, te.Schedule]) -> None:
        if not schedules:
            raise ArgumentError("ManyPrograms", "no schedules", '{"as written": s}')
        self._parts = {name: _parts(s) for name, s in schedules.items()}
        self._formula = formula([*next(iter(schedules.values())).state.stages][-1])
        self._nests = {name: nest_of(s) for name, s in schedules.items()}
        super().__init__()

    def title(self) -> str:
        return f"one formula, {len(self._parts)} programs"

    def body(self) -> Box:
        heads = (
            sized(column(text(a, bold=True), text(b, "soft"), gap=1), w)
            for (a, b), w in zip((*HEADS, LAST), WIDTHS, strict=True)
        )
        edges = [Edge(a, b) for n in self._parts for a, b in _arrows(n)]
        programs = column(*map(self._program, self._parts), gap=12)
        whole = framed(_code([self._formula], WIDTHS[0] - 8), "reduce", "formula")
        body = row(whole, programs, gap=GAP, down=0.5)
        return column(row(*heads, gap=GAP), connected(body, edges, bend=GAP / 2), gap=10)

    def _program(self, name: str) -> Box:
        steps, lines = self._parts[name]
        _, left, middle, right = (width - 8 for width in WIDTHS)
        boxes = (
            column(text(name, bold=True), _code(steps, left)),
            nest_box(self._nests[name], middle),
            _code(lines, right),
        )
        keys = (f"{part}:{name}" for part in ("steps", "nest", "code"))
        return row(*(framed(b, "", k) for b, k in zip(boxes, keys, strict=True)), gap=GAP, down=0.5)

    def ascii(self) -> str:
        lines = [self._formula]
        for name, (steps, body) in self._parts.items():
            lines += [f"{name}: {'; '.join(steps)}", nest_ascii(self._nests[name])]
            lines += [f"  code: {'; '.join(body)}"]
        return "\n".join(lines)


def _parts(s: te.Schedule) -> tuple[list[str], list[str]]:
    """Return the steps of a schedule, and what the code of its innermost loop does."""
    steps = [line for line in s.python().splitlines() if not AXES.match(line)]
    llvm = codegen.emit_llvm(lowering.lower_state(s.state, arguments(s.state)))
    before, _, after = llvm.partition(" = fmul")
    inner = before.rpartition(".loop:")[2] + " = fmul" + after.partition(".loop")[0]
    return steps or ["(no steps)"], [f"{m[1]} {m[2]}" for m in BODY.finditer(inner)]


def _arrows(name: str) -> Iterable[tuple[str, str]]:
    keys = ("formula", f"steps:{name}", f"nest:{name}", f"code:{name}")
    return pairwise(keys)


def _code(lines: Iterable[str], width: float) -> Box:
    return sized(code((CodeLine(line) for line in lines), width), width)
