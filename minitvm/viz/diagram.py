"""Diagram: the parts of a system in a grid, and what flows between them along arrows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from .boxes import Box, column, drawn, legend, text
from .figure import Figure
from .kinds import ink
from .scene import Line, Rect, Shape, Text

Part: TypeAlias = tuple[int, int, str, str]

WIDE, HIGH, ACROSS, DOWN = 126, 60, 92, 56  # pixels: a part, and the gaps between parts
LINE = 16  # pixels: the height of a line of text


class Diagram(Figure):
    """Draw a system.

    parts   {name: (column, row, kind, what it does)}: a part is drawn in a cell of a grid
    flows   (from, to, label): an arrow between two parts in one row or in one column
    kinds   the legend: {"pale_green": "what the parts of this kind have in common"}
    """

    def __init__(
        self,
        title: str,
        parts: Mapping[str, Part],
        flows: Sequence[tuple[str, str, str]],
        kinds: Mapping[str, str],
    ) -> None:
        self._title, self._parts, self._flows, self._kinds = title, parts, flows, kinds
        super().__init__()

    def title(self) -> str:
        return self._title

    def body(self) -> Box:
        parts = self._parts.values()
        width = (1 + max(part[0] for part in parts)) * (WIDE + ACROSS) - ACROSS
        height = (1 + max(part[1] for part in parts)) * (HIGH + DOWN) - DOWN
        system = drawn(self._shapes(), width, height), legend(self._kinds, width)
        return column(text(self._title, size=13, bold=True), *system, gap=14)

    def _shapes(self) -> Iterator[Shape]:
        for start, end, label in self._flows:
            yield from self._flow(self._parts[start], self._parts[end], label.split("\n"))
        for name, (across, down, kind, does) in self._parts.items():
            x, y = across * (WIDE + ACROSS), down * (HIGH + DOWN)
            yield Rect(x, y, WIDE, HIGH, kind, radius=4)
            lines = [name, *does.split("\n")]
            for n, line in enumerate(lines):
                base = y + HIGH / 2 + (n - len(lines) / 2) * LINE + 12
                yield Text(x + WIDE / 2, base, line, ink(kind), 12, "middle", bold=not n)

    def _flow(self, a: Part, b: Part, lines: Sequence[str]) -> Iterator[Shape]:
        """Draw an arrow from part `a` to part `b`: its label is above or beside it."""
        right, down = (b[0] > a[0]) - (b[0] < a[0]), (b[1] > a[1]) - (b[1] < a[1])
        x = a[0] * (WIDE + ACROSS) + WIDE / 2 * (1 + right)
        y = a[1] * (HIGH + DOWN) + HIGH / 2 * (1 + down)
        x2 = b[0] * (WIDE + ACROSS) + WIDE / 2 * (1 - right)
        y2 = b[1] * (HIGH + DOWN) + HIGH / 2 * (1 - down)
        yield Line(((x, y), (x2, y2)), "arrow", arrow=True)
        for n, line in enumerate(lines):
            if right:
                at = (x + x2) / 2, y - 6 - (len(lines) - 1 - n) * LINE
            else:
                at = x - 8 * down, (y + y2) / 2 + 4 + (n - (len(lines) - 1) / 2) * LINE
            yield Text(*at, line, "soft", 12, ("start", "middle", "end")[1 + down])

    def ascii(self) -> str:
        return "\n".join(f"{a} -> {b}: {' '.join(t.split())}" for a, b, t in self._flows)
