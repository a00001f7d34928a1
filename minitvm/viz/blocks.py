"""A loop program as nested blocks for drawing, with the lines of its printed text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from minitvm import explain, schedule, te, tensor, tir
from minitvm.base import ArgumentError


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One loop, statement, guard or allocation, with the blocks nested in it.

    kind         its look, a name in KINDS: serial, reduce, parallel, ..., store, guard, memory
    label, note  the text on the left and on the right of its bar
    key          "loop:i_outer" for a loop, with its printed name; "init:i_inner_init" for the loop
                 of an initialisation, which no schedule step can name; "line:7" for other blocks
    first, last  its first and last line in the printed program, counted from 0
    """

    kind: str
    label: str
    note: str
    key: str
    first: int
    last: int
    inside: tuple[Block, ...] = ()
    stmt: tir.Stmt | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A loop program as nested blocks, to be drawn or printed.

    lines   the printed program
    blocks  the outermost blocks, in program order
    owners  loop key -> (stage, name of the axis in the schedule); empty for a lowered program
    """

    lines: tuple[str, ...]
    blocks: tuple[Block, ...]
    owners: dict[str, tuple[str, str]]
    body: tir.Stmt

    def all(self) -> list[Block]:
        """Return every block, parents before children."""
        return list(_flat(self.blocks))


def _flat(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for b in blocks:
        yield b
        yield from _flat(b.inside)


def nest_of(program: te.Schedule | schedule.State | tir.PrimFunc) -> Nest:
    """Return the nest of a schedule, a schedule state or a lowered program.

    Raises the error of lowering if a schedule cannot be lowered to loops.
    """
    if isinstance(program, tir.PrimFunc):
        printer = tir.Printer()
        early = () if program.prepack is None else (*program.prepack.lines(printer), "")
        lines = (*early, *program.lines(printer))
        maker = _BlockMaker(printer, {})
        before = [] if program.prepack is None else maker.blocks(program.prepack.body, 1)
        blocks = (*before, *maker.blocks(program.body, len(early) + 1))
        return Nest(lines, blocks, {}, program.body)
    if not isinstance(program, te.Schedule | schedule.State):  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"nest of {type(program).__name__}"
        why = "neither a schedule nor a lowered program"
        raise ArgumentError(what, why, "te.create_schedule(C.op) or tvm.lower(s, args)")
    loops = explain.loops_of(program.state if isinstance(program, te.Schedule) else program)
    context = loops.context
    axes: dict[tir.Var, tuple[str, str, tensor.Axis]] = {}  # stage, name in the schedule, axis
    for name, domain in context.domains.items():
        axis_names = context.state.stage(name).names
        axes |= {v: (name, axis_names[a], a) for a, v in domain.loops.items()}
    owners_of = context.buffers.items()
    prepacked = frozenset(b for t, b in owners_of if context.state.owner(t).name in loops.prepacked)
    blocks = tuple(_BlockMaker(loops.printer, axes, prepacked).blocks(loops.body, 0))
    owners = {f"loop:{loops.printer.name(v)}": (s, n) for v, (s, n, _) in axes.items()}
    return Nest(tuple(loops.printer.lines(loops.body)), blocks, owners, loops.body)


class _BlockMaker:
    """Converts statements to blocks, and counts the printed lines that each block occupies."""

    def __init__(
        self,
        printer: tir.Printer,
        axes: dict[tir.Var, tuple[str, str, tensor.Axis]],
        prepacked: frozenset[tir.Buffer] = frozenset(),
    ) -> None:
        self.printer, self.axes, self.prepacked = printer, axes, prepacked

    def blocks(self, s: tir.Stmt, line: int) -> list[Block]:
        """Return the blocks of `s`, whose text begins at `line`."""
        match s:
            case tir.For():
                return [self.loop(s, line)]
            case tir.Seq(body):
                bars: list[Block] = []
                for part in body:
                    bars += self.blocks(part, line)
                    line = bars[-1].last + 1 if bars else line + 1
                return bars
            case tir.Allocate(buffer, body):
                p = self.printer
                shape = ", ".join(p.expr(n) for n in buffer.shape)
                form = f"{buffer.dtype}[{shape}]"
                note = (
                    f"{form}, packed once" if buffer in self.prepacked else f"{buffer.scope} {form}"
                )
                bar = Block("memory", p.name(buffer), note, f"line:{line}", line, line, (), s)
                return [bar, *self.blocks(body, line + 1)]
            case tir.Pragma(key, value, body):
                bar = Block("store", f"pragma {key}", str(value), f"line:{line}", line, line, (), s)
                return [bar, *self.blocks(body, line + 1)]
            case tir.If(cond, body, orelse):
                then_block = self.arm(f"if {self.printer.expr(cond)}", body, line)
                else_blocks = (
                    [] if orelse is None else [self.arm("else", orelse, then_block.last + 1)]
                )
                return [then_block, *else_blocks]
            case tir.Store() | tir.Evaluate():
                (text,) = self.printer.lines(s)
                short = re.sub(r"\[[^\[\]]*\]", "[…]", text)
                return [Block("store", short, "", f"line:{line}", line, line, (), s)]
            case _:
                assert_never(s)

    def loop(self, s: tir.For, line: int) -> Block:
        name, inner_blocks = self.printer.name(s.var), tuple(self.blocks(s.body, line + 1))
        axis = self.axes[s.var][2] if s.var in self.axes else None
        reduces = s.kind == "serial" and axis is not None and axis.kind == "reduce"
        kind = "reduce" if reduces else s.kind
        how = {"serial": "", "bind": s.thread}.get(kind, kind)
        note = f"{how} × {self.printer.expr(s.extent)}".strip()
        last = inner_blocks[-1].last if inner_blocks else line + 1
        key = f"init:{name}" if axis is None and self.axes else f"loop:{name}"
        return Block(kind, name, note, key, line, last, inner_blocks, s)

    def arm(self, label: str, body: tir.Stmt, line: int) -> Block:
        inner_blocks = tuple(self.blocks(body, line + 1))
        last = inner_blocks[-1].last if inner_blocks else line + 1
        return Block("guard", label, "", f"line:{line}", line, last, inner_blocks)


# --- the text beside the picture ---------------------------------------------------------------


def code_links(nest: Nest) -> dict[str, tuple[str, ...]]:
    """Link each loop's bar to its lines, and each line to the innermost bar that contains it."""
    links: dict[str, tuple[str, ...]] = {}
    for b in nest.all():  # parents first: a line keeps the link of its innermost bar
        span = tuple(f"line:{n}" for n in range(b.first, b.last + 1))
        if not b.key.startswith("line:"):
            links[b.key] = span
            links |= dict.fromkeys(span, (b.key,))
    return links


# --- what a widget is given --------------------------------------------------------------------


def check_schedule(who: str, s: Any) -> te.Schedule:
    """Return `s` if it is a schedule; otherwise raise ArgumentError. `who` is the caller's name."""
    if not isinstance(s, te.Schedule):
        why = "not a schedule"
        raise ArgumentError(f"{who}({type(s).__name__})", why, "te.create_schedule(C.op)")
    return s


def arguments(state: schedule.State) -> tuple[tensor.Tensor, ...]:
    """Return all inputs and outputs of a schedule state, inputs first."""
    inputs = [s.op for s in state.stages if isinstance(s.op, tensor.PlaceholderOp)]
    outputs = [s.op for s in state.stages if s.is_output]
    return tuple(
        tensor.tensor_of(op, i) for op in (*inputs, *outputs) for i in range(len(op.dtypes))
    )
