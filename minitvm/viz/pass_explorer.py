"""PassExplorer: a program before and after each lowering pass."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from minitvm import driver, lowering, te, tir
from minitvm.base import Target

from .blocks import arguments, check_schedule
from .boxes import code, column, picture
from .controls import Layout, Panel
from .diff import Row, folded, rows_of, sides, unified
from .figure import WIDTH
from .scene import Scene
from .stepper import Stepper, about

MAX_ROWS, MAX_DRAWN, MAX_LINES = 400, 26, 25  # most lines in the widget, the picture, the text


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

    @property
    def effect(self) -> str:
        """The change of the number of statements."""
        before, after = self.statements
        return f"{before} -> {after} statements"


def stages_of(
    s: te.Schedule, args: Sequence[Any], target: Target, passes: tuple[lowering.Pass, ...]
) -> tuple[PassResult, ...]:
    """Lower a schedule and return the effect of each pass; errors of lowering are not caught."""
    log: list[tuple[str, tir.PrimFunc]] = []
    spent: list[float] = []
    timed_passes = tuple(_timed(p, spent) for p in passes)
    driver.lower(
        s, args, target=target, passes=timed_passes, watch=lambda name, f: log.append((name, f))
    )
    lines = [tuple(str(func).rstrip("\n").split("\n")) for _, func in log]
    sizes = [count(func.body) for _, func in log]
    return tuple(
        PassResult(
            name, about(p), lines[n], lines[n + 1], (sizes[n], sizes[n + 1]), spent[n]
        )
        for n, (p, (name, _)) in enumerate(zip(passes, log[1:], strict=True))
    )  # fmt: skip


def _timed(p: lowering.Pass, spent: list[float]) -> lowering.Pass:
    @wraps(p)
    def run(s: tir.Stmt) -> tir.Stmt:
        start = time.perf_counter()
        after = p(s)
        spent.append(time.perf_counter() - start)
        return after

    return run


def count(body: tir.Stmt) -> int:
    """Return the number of loops, stores, branches, allocations and calls in a program."""
    return sum(
        isinstance(n, tir.For | tir.Store | tir.If | tir.Allocate | tir.Evaluate)
        for n in tir.walk(body)
    )


class PassExplorer(Stepper[PassResult]):
    """Show a program before and after each lowering pass, with the changed lines marked.

    Passes that changed nothing are pale; the buttons skip them. A "-" marks the lines that a pass
    removed, a "+" those it added. Only the live widget shows the measured time of a pass.

    args     inputs and outputs as for lower(); by default all of them
    target   the target whose passes are run
    passes   the passes to run instead of the target's, such as swap(PASSES["llvm"], vectorize=mine)
    at       the name or the number, from 1 on, of the pass shown first; by default the first
             that changed something
    """

    of = "program"

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
        args = arguments(s.state) if args is None else args
        super().__init__(stages_of(s, args, to, chosen), at)

    def prepare(self) -> None:
        """Align the lines of the program before and after the pass."""
        self._rows: list[Row] = rows_of(self.now.before, self.now.after)

    # --- what is shown ---

    def picture(self) -> Scene:
        """Draw the passes with the code below them; removed and added lines are marked."""
        lines = code(unified(folded(self._rows, MAX_DRAWN)), WIDTH)
        return picture(column(self.body(), lines), self.title(), self.ascii())

    def ascii(self) -> str:
        """Return the name and the effect of the pass, and the changed lines as in diff -u."""
        head = self.head()
        if not self.now.changed:
            return "\n".join(head)
        lines = [line.text for line in unified(folded(self._rows, MAX_LINES - len(head)))]
        return "\n".join([*head, *lines])

    def layout(self) -> Layout:
        left, right = sides(folded(self._rows, MAX_ROWS))
        took = f"{self.now.seconds * 1e3:.2f} ms"
        earlier = f"after {self.stages[self.number - 2].name}"
        panels = (
            Panel(earlier if self.number > 1 else "before the first pass", left),
            Panel(f"after {self.now.name}, which took {took}", right),
        )
        return replace(super().layout(), panels=panels, beside=True)
