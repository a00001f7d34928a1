"""PassExplorer: a program before and after each lowering pass."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from minitvm import driver, lowering, te, tir
from minitvm.base import ArgumentError, Target

from .blocks import arguments, check_schedule
from .chart import text_lines
from .controls import Button, CodeLine, Layout, Panel, Slider
from .diff import Row, folded, rows_of, sides, unified
from .kinds import ink
from .scene import Group, Line, Rect, Scene, Shape, Text, clipped, folded_code, wrapped
from .visual import Visual

WIDTH, MARGIN, LINE = 808, 10, 16  # pixels
BOX, GAP = 38, 8  # pixels: height of a pass's box, gap between rows of boxes
MOST_ROWS, MOST_DRAWN, MOST_LINES = 400, 26, 25  # most lines in the widget, the picture, the text
MOST_PARTS = 4  # most lines for a long line of code in the picture
ACROSS = 4  # passes in a row of the picture


@dataclass(frozen=True, slots=True, eq=False)
class PassResult:
    """One lowering pass and its effect on a program.

    about           the first paragraph of the pass's docstring
    before, after   the lines of the program before and after the pass
    statements      the number of statements before and after the pass
    seconds         the time that the pass took
    """

    name: str
    about: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    statements: tuple[int, int]
    seconds: float

    @property
    def changed(self) -> bool:
        """Whether the pass changed the program."""
        return self.before != self.after


def stages_of(
    s: te.Schedule, args: Sequence[Any], target: Target, passes: tuple[lowering.Pass, ...]
) -> tuple[PassResult, ...]:
    """Lower a schedule and return the effect of each pass; errors of lowering are not caught."""
    seen: list[tuple[str, tir.PrimFunc]] = []
    spent: list[float] = []
    timed = tuple(_timed(p, spent) for p in passes)
    driver.lower(s, args, target=target, passes=timed, watch=lambda name, f: seen.append((name, f)))
    lines = [tuple(str(func).rstrip("\n").split("\n")) for _, func in seen]
    sizes = [count(func.body) for _, func in seen]
    return tuple(
        PassResult(
            name, about(p), lines[n], lines[n + 1], (sizes[n], sizes[n + 1]), spent[n]
        )
        for n, (p, (name, _)) in enumerate(zip(passes, seen[1:], strict=True))
    )  # fmt: skip


def _timed(p: lowering.Pass, spent: list[float]) -> lowering.Pass:
    @wraps(p)
    def run(s: tir.Stmt) -> tir.Stmt:
        start = time.perf_counter()
        made = p(s)
        spent.append(time.perf_counter() - start)
        return made

    return run


def about(p: Callable[..., object]) -> str:
    """Return the first paragraph of a pass's docstring."""
    text = inspect.getdoc(p) or "a pass without a description"
    return " ".join(text.split("\n\n")[0].split())


def count(body: tir.Stmt) -> int:
    """Return the number of loops, stores, branches, allocations and calls in a program."""
    return sum(
        isinstance(n, tir.For | tir.Store | tir.If | tir.Allocate | tir.Evaluate)
        for n in tir.walk(body)
    )


class PassExplorer(Visual):
    """Show a program before and after each lowering pass, with the changed lines marked.

    Passes that changed nothing are pale; the buttons skip them. A "-" marks the lines that a pass
    removed, a "+" those it added. Only the live widget shows the measured time of a pass.

    args     inputs and outputs as for lower(); by default all of them
    target   the target whose passes are run
    passes   the passes to run instead of the target's, such as swap(PASSES["llvm"], vectorize=mine)
    at       the name or the number, from 1 on, of the pass shown first; by default the first
             that changed something
    """

    def __init__(
        self,
        s: te.Schedule,
        args: Sequence[Any] | None = None,
        target: str | Target | None = None,
        *,
        passes: tuple[lowering.Pass, ...] | None = None,
        at: str | int | None = None,
    ) -> None:
        check_schedule("PassExplorer", s)
        to = Target(target)
        chosen = driver.TARGETS[to.kind].passes if passes is None else passes
        given = arguments(s.state) if args is None else args
        self.stages = stages_of(s, given, to, chosen)
        if not self.stages:
            raise ArgumentError(
                "PassExplorer(passes=())", "there is no pass to look at", 'PASSES["llvm"]'
            )
        changed = (n for n, stage in enumerate(self.stages, 1) if stage.changed)
        self._show(next(changed, 1) if at is None else at)
        super().__init__()

    def _show(self, at: str | int) -> None:
        names = [stage.name for stage in self.stages]
        number = names.index(at) + 1 if at in names else at
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ArgumentError(f"pass {at!r}", "no such pass", f"one of {', '.join(names)}")
        if not 1 <= number <= len(names):
            raise ArgumentError(f"pass {at}", f"there are passes 1 to {len(names)}")
        self._number = int(number)
        now = self.stages[self._number - 1]
        self._rows: list[Row] = rows_of(now.before, now.after)

    # --- what is shown ---

    @property
    def _now(self) -> PassResult:
        return self.stages[self._number - 1]

    def _title(self) -> str:
        """Return the title, such as "pass 5 of 10: vectorize, 9 -> 7 statements"."""
        now = self._now
        before, after = now.statements
        size = f"{before} -> {after} statements" if now.changed else "nothing changed"
        return f"pass {self._number} of {len(self.stages)}: {now.name}, {size}"

    def scene(self) -> Scene:
        """Draw the passes in order, the chosen one highlighted, with its description below."""
        boxes = [
            PassBox(s.name, s.about, "{} → {}".format(*s.statements) if s.changed else "")
            for s in self.stages
        ]
        shapes, y = strip(boxes, self._number)
        words: list[Shape] = [Text(MARGIN, y + 22, self._title(), bold=True)]
        told = wrapped(self._now.about, WIDTH - 2 * MARGIN, 13)
        words += text_lines(told, MARGIN, y + 42, size=13, step=LINE)
        height = y + 42 + LINE * (len(told) - 1) + MARGIN
        names = ", ".join(s.name + " (changed)" * s.changed for s in self.stages)
        return Scene(WIDTH, height, (*shapes, *words), self._title(), f"passes: {names}")

    def picture(self) -> Scene:
        """Draw the scene with the code below it; removed and added lines are marked."""
        scene = self.scene()
        lines = unified(folded(self._rows, MOST_DRAWN))
        code, bottom = column(lines, MARGIN, scene.height, WIDTH - 2 * MARGIN)
        shapes = (*scene.shapes, *code)
        return Scene(WIDTH, bottom + MARGIN, shapes, scene.title, self.ascii())

    def ascii(self) -> str:
        """Return the name and the effect of the pass, and the changed lines as in diff -u."""
        head = [self._title(), *wrapped(self._now.about, 800, 12)]
        if not self._now.changed:
            return "\n".join(head)
        lines = [line.text for line in unified(folded(self._rows, MOST_LINES - len(head)))]
        return "\n".join([*head, *lines])

    def layout(self) -> Layout:
        """Return the slider over the passes, and the code before and after."""
        now, last = self._now, len(self.stages)
        left, right = sides(folded(self._rows, MOST_ROWS))
        took = f"{now.seconds * 1e3:.2f} ms"
        names = [stage.name for stage in self.stages]
        earlier = names[self._number - 2] if self._number > 1 else "the first pass"
        return Layout(
            controls=(
                Slider("pass", "pass", 1, last, self._number),
                self._button("back", "previous", -1),
                self._button("next", "next", 1),
            ),
            panels=(
                Panel(f"after {earlier}" if self._number > 1 else f"before {earlier}", left),
                Panel(f"after {now.name}, which took {took}", right),
            ),
            selectable="pass:",
            beside=True,
        )  # fmt: skip

    # --- what happens ---

    def on(self, name: str, value: Any) -> str | None:
        """Choose another pass: by slider, by click, or by a button for the next change."""
        if name == "pass":
            self._show(value)
        elif name == "click" and value.startswith("pass:"):
            self._show(value.removeprefix("pass:"))
        elif name in ("back", "next") and (number := self._change(-1 if name == "back" else 1)):
            self._show(number)
        self.selected = f"pass:{self._now.name}"
        return None

    def _button(self, name: str, which: str, by: int) -> Button:
        tip = f"go to the {which} pass that changed the program"
        return Button(name, f"{which} change", self._change(by) > 0, tip)

    def _change(self, by: int) -> int:
        """Return the number of the next (by=1) or previous (by=-1) pass with changes; 0 if none."""
        number = self._number + by
        while 1 <= number <= len(self.stages):
            if self.stages[number - 1].changed:
                return number
            number += by
        return 0


# --- drawing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PassBox:
    """The box of a pass: its name, its description, and its effect ("" if it has none)."""

    name: str
    about: str
    effect: str


def strip(boxes: Sequence[PassBox], number: int) -> tuple[list[Shape], float]:
    """Draw passes as rows of boxes, pass `number` highlighted; return shapes and lower edge."""
    wide = (WIDTH - 2 * MARGIN - (ACROSS - 1) * 14) / ACROSS
    shapes: list[Shape] = []
    y = float(MARGIN)
    for n, box in enumerate(boxes):
        down, right = divmod(n, ACROSS)
        x, y = MARGIN + right * (wide + 14), MARGIN + down * (BOX + GAP)
        if right:
            shapes.append(Line(((x - 12, y + BOX / 2), (x - 2, y + BOX / 2)), "arrow", arrow=True))
        kind = "now" if n + 1 == number else "pale_sky" if box.effect else "faint"
        look = ink(kind)
        name = clipped(f"{n + 1} {box.name}", wide - 8, 12)
        inside = (
            Rect(x, y, wide, BOX, kind, radius=4),
            Text(x + 6, y + 15, name, look, 12, bold=bool(box.effect)),
            Text(x + 6, y + 31, box.effect or "=", look, 12),
        )
        shapes.append(Group(inside, f"pass:{box.name}", box.about))
    return shapes, y + BOX


def column(
    lines: Sequence[CodeLine], x: float, y: float, width: float
) -> tuple[list[Shape], float]:
    """Draw code with removed and added lines coloured; return the shapes and their lower edge."""
    shapes: list[Shape] = []
    grounds = {"removed": "pale_red", "added": "pale_green"}
    for line in lines:
        parts = folded_code(line.text, width - 8, MOST_PARTS) or [""]
        tip = line.text.strip() if parts[-1].endswith("…") else ""
        ground = grounds.get(line.note)
        if ground:
            shapes.append(Rect(x, y, width, LINE * len(parts), ground))
        kind = ink(ground) if ground else "soft" if line.note == "later" else "text"
        for part in parts:
            shapes.append(Text(x + 4, y + 12, part, kind, 12, mono=True, tip=tip))
            y += LINE
    return shapes, y
