"""Dependences: which iteration of two loops needs which other one, before and after a swap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from minitvm.base import ArgumentError

from .boxes import Box, column, legend, row, sized, text
from .figure import Figure
from .marks import Bar, Mark, Path
from .plot import Axis, plot

CELL, SHORT = 52, 0.27  # pixels: an iteration; cells: from its centre to the end of an arrow


class Dependences(Figure):
    """Show the iterations of two loops, numbered in the order of their visits, and their arrows.

    An arrow leads from the iteration that writes an element to the one that reads it. On the left
    the loops run as written, on the right they are swapped; an arrow to an earlier visit is red.

    rows, columns   the iterations of the outer and of the inner loop
    step            how many rows and columns lie between an iteration and the one that needs it
    """

    def __init__(self, rows: int, columns: int, step: tuple[int, int]) -> None:
        if min(rows, columns) < 2 or step <= (0, 0):
            why = "an iteration can only need an earlier one, in at least 2 x 2 iterations"
            raise ArgumentError(f"Dependences({rows}, {columns}, {step})", why, "step=(1, -1)")
        self.rows, self.columns, self.step = rows, columns, step
        super().__init__()

    def title(self) -> str:
        return "the dependences of two loops, as written and swapped"

    def body(self) -> Box:
        kinds = {
            "cell box 5": "an iteration: the 5 says when it runs",
            "arrow arrow": "from the write of an element to its read",
            "removed arrow": "the read comes first: the swap is illegal",
        }
        panels = row(self._panel("as written", False), self._panel("swapped", True), gap=60)
        return column(panels, legend(kinds, panels.width), gap=10)

    def visit(self, place: tuple[int, int], swapped: bool) -> int:
        """Return the number of the visit to an iteration."""
        t, j = place
        return j * self.rows + t if swapped else t * self.columns + j

    def arrows(self, swapped: bool) -> Iterator[tuple[tuple[int, int], tuple[int, int], bool]]:
        """Yield each arrow: from where, to where, and whether it leads to a later visit."""
        for t, j in product(range(self.rows), range(self.columns)):
            end = t + self.step[0], j + self.step[1]
            if end[0] < self.rows and 0 <= end[1] < self.columns:
                yield (t, j), end, self.visit((t, j), swapped) < self.visit(end, swapped)

    def _panel(self, name: str, swapped: bool) -> Box:
        places = list(product(range(self.rows), range(self.columns)))
        marks: list[Mark] = [
            Bar(j, t, j + 1, t + 1, "cell", text=str(self.visit((t, j), swapped)), inset=1, gap=2)
            for t, j in places
        ]
        for (t, j), (t2, j2), forward in self.arrows(swapped):
            dt, dj = SHORT * self.step[0], SHORT * self.step[1]
            ends = (j + 0.5 + dj, t + 0.5 + dt), (j2 + 0.5 - dj, t2 + 0.5 - dt)
            marks.append(Path(ends, "arrow" if forward else "removed", arrow=True))
        x = Axis(names=[f"j={j}" for j in range(self.columns)])
        y = Axis(names=[f"t={t}" for t in range(1, self.rows + 1)])
        size = self.columns * CELL, self.rows * CELL
        head = "for j: for t:" if swapped else "for t: for j:"
        words = row(sized(text(name, bold=True), 80), text(head, mono=True))
        return column(words, plot(x, y, marks, *size, inner=True))

    def ascii(self) -> str:
        lines: list[str] = []
        for name, swapped in (("as written", False), ("swapped", True)):
            forward = [right for _, _, right in self.arrows(swapped)]
            lines.append(f"{name}: {len(forward)} arrows, {forward.count(False)} point backward")
        return "\n".join(lines)
