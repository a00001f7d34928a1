"""A Stepper walks through the steps of a process, such as the passes of a compiler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from minitvm.base import ArgumentError

from .boxes import Box, Edge, column, connected, framed, paragraph, row, text
from .controls import Button, Control, Layout, Slider
from .figure import WIDTH, Figure
from .kinds import ink
from .scene import wrapped

ACROSS, GAP = 4, 14  # passes in a row of the picture, and pixels between them


class Step(Protocol):
    """A pass: its name, what it does, and its effect, such as "9 -> 7 statements"."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str: ...

    @property
    def changed(self) -> bool: ...

    @property
    def effect(self) -> str: ...


S = TypeVar("S", bound=Step)


class Stepper(Figure, Generic[S]):
    """A widget that shows passes in order, and the effect of one of them.

    Passes that changed nothing are pale; the buttons skip them. A subclass has details() and
    prepare(), and sets `of`, the name of what the passes change.
    """

    of: ClassVar[str]

    def __init__(self, stages: Sequence[S], at: str | int | None) -> None:
        if not stages:
            what = f"{type(self).__name__}(passes=())"
            raise ArgumentError(what, "there is no pass to look at", "at least one pass")
        self.stages = tuple(stages)
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
        self.number = int(number)
        self.prepare()

    # --- for subclasses ---

    def prepare(self) -> None:
        """Compute what is shown of the chosen pass."""

    def details(self) -> Box | None:
        """Draw what the pass did, below its description."""

    @property
    def now(self) -> S:
        """The chosen pass."""
        return self.stages[self.number - 1]

    # --- what is shown ---

    def title(self) -> str:
        """Return the title, such as "pass 5 of 10: vectorize, 9 -> 7 statements"."""
        effect = self.now.effect if self.now.changed else "nothing changed"
        return f"pass {self.number} of {len(self.stages)}: {self.now.name}, {effect}"

    def head(self) -> list[str]:
        """Return the title and the description of the chosen pass."""
        return [self.title(), *wrapped(self.now.about, 800, 12)]

    def body(self) -> Box:
        """Draw all passes, the chosen one highlighted, with its description and details below."""
        boxes = [self._box(n, stage) for n, stage in enumerate(self.stages, 1)]
        rows = [boxes[n : n + ACROSS] for n in range(0, len(boxes), ACROSS)]
        edges = [
            Edge(f"pass:{a.name}", f"pass:{b.name}")
            for n, (a, b) in enumerate(pairwise(self.stages), 1)
            if n % ACROSS
        ]
        about = paragraph(self.now.about, WIDTH, size=13)
        return column(
            connected(column(*(row(*row_boxes, gap=GAP) for row_boxes in rows)), edges),
            column(text(self.title(), size=13, bold=True), about, gap=3),
            self.details(),
        )

    def _box(self, n: int, stage: S) -> Box:
        """Draw the name of a pass and its effect."""
        wide = (WIDTH - GAP * (ACROSS - 1)) / ACROSS
        kind = "now" if n == self.number else "pale_sky" if stage.changed else "faint"
        name = text(f"{n} {stage.name}", ink(kind), bold=stage.changed, width=wide - 10)
        effect = text(stage.effect.replace("->", "→") if stage.changed else "=", ink(kind))
        words = column(name, effect, gap=0)
        return framed(words, kind, f"pass:{stage.name}", stage.about, width=wide, inset=5)

    # --- what happens ---

    def controls(self) -> tuple[Control, ...]:
        """Return the controls that choose a pass."""
        return (
            Slider("pass", "pass", 1, len(self.stages), self.number),
            self._button("back", "previous", -1),
            self._button("next", "next", 1),
        )

    def layout(self) -> Layout:
        """Return the slider over the passes, and the buttons that go to the next change."""
        return Layout(self.controls(), selectable="pass:")

    def on(self, name: str, value: Any) -> str | None:
        if name == "pass":
            self._show(value)
        elif name == "click" and value.startswith("pass:"):
            self._show(value.removeprefix("pass:"))
        elif name in ("back", "next") and (number := self._change(-1 if name == "back" else 1)):
            self._show(number)
        self.selected = f"pass:{self.now.name}"
        return None

    def _button(self, name: str, which: str, by: int) -> Button:
        tip = f"go to the {which} pass that changed the {self.of}"
        return Button(name, f"{which} change", self._change(by) > 0, tip)

    def _change(self, by: int) -> int:
        """Return the number of the next (by=1) or previous (by=-1) pass with changes; 0 if none."""
        numbers = range(self.number + by, len(self.stages) + 1 if by > 0 else 0, by)
        return next((n for n in numbers if self.stages[n - 1].changed), 0)


def about(p: Callable[..., object]) -> str:
    """Return the first paragraph of a pass's docstring."""
    words = inspect.getdoc(p) or "a pass without a description"
    return " ".join(words.split("\n\n")[0].split())
