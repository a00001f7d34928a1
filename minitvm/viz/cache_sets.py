"""CacheSets: the bits of an address choose a set, and a stride decides how many sets are used."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from minitvm import cachesim
from minitvm.base import ArgumentError

from .boxes import Box, aligned, column, framed, legend, row, text
from .figure import Figure
from .marks import Bar, Mark, Note, Path
from .plot import Axis, plot

SIDE, WRITTEN, BEYOND = 24, 3, 3  # pixels: a line; addresses in bits; lines drawn beside a full set


class CacheSets(Figure):
    """Show to which sets the lines of a walk down a column go, for several lengths of a row.

    cache    the simulated cache; it has sets and ways
    rows     name -> bytes from one row to the next;  count: the number of rows
    """

    def __init__(self, cache: cachesim.Cache, rows: Mapping[str, int], count: int) -> None:
        if not rows or count < WRITTEN or cache.ways is None:
            what = f"CacheSets({cache}, {dict(rows)}, {count})"
            raise ArgumentError(what, "it needs ways, rows, and 3 or more of them")
        self.cache, self.rows, self.count = cache, dict(rows), count
        super().__init__()

    def title(self) -> str:
        return f"{self.count} rows in the sets of a cache"

    def body(self) -> Box:
        looks = {
            "now box set": "the bits that choose the set",
            "seen box 5": "the line of row 5",
            "pale_red box 9": "no way left: it evicts another line",
        }
        panels = row(*(self._panel(name, apart) for name, apart in self.rows.items()), gap=24)
        return column(panels, legend(looks, panels.width), gap=14)

    def _sets(self, apart: int) -> list[list[int]]:
        """Return for each set the rows whose lines go there."""
        sets: list[list[int]] = [[] for _ in range(self.cache.sets)]
        for n in range(self.count):
            sets[n * apart // self.cache.line % self.cache.sets].append(n)
        return sets

    def _panel(self, name: str, apart: int) -> Box:
        sets, ways = self._sets(apart), self.cache.ways or 1
        marks: list[Mark] = [
            Bar(w, n, w + 1, n + 1, "cell") for n, w in product(range(len(sets)), range(ways))
        ]
        for n, members in enumerate(sets):
            for w, number in enumerate(members[: ways + BEYOND]):
                kind = "pale_red" if w >= ways else "seen"
                marks.append(Bar(w, n, w + 1, n + 1, kind, text=str(number), gap=2, inset=1))
            if (left := len(members) - ways - BEYOND) > 0:
                marks.append(Note(ways + BEYOND, n + 0.5, f"and {left} more"))
        marks.append(Path(((ways, 0), (ways, len(sets))), "line"))
        x, y = (
            Axis(0, ways + BEYOND + 4, hidden=True),
            Axis(names=[f"set {n}" for n in range(len(sets))]),
        )
        grid = plot(x, y, marks, (ways + BEYOND + 4) * SIDE, len(sets) * SIDE, inner=True)
        return column(text(name, bold=True), *self._addresses(apart), grid)

    def _addresses(self, apart: int) -> list[Box]:
        """Write the addresses of the first rows in bits, cut into tag, set and offset."""
        low, high = (
            n.bit_length() - 1 for n in (self.cache.line, self.cache.line * self.cache.sets)
        )
        heads = ("", "tag", "set", "offset")
        lines = [[text(head, "soft") for head in heads]]
        for n in range(WRITTEN):
            bits = f"{n * apart:0{high + 3}b}"
            parts = bits[:-high], bits[-high:-low], bits[-low:]
            fields = [
                framed(text(part, mono=True), kind, inset=2)
                for part, kind in zip(parts, ("cell", "now", "cell"), strict=True)
            ]
            label = text(f"row {n}, address {n * apart} =")
            lines.append([framed(label, "paper", inset=2), *fields])
        return aligned(lines, (1, 0.5, 0.5, 0.5), gap=4)

    def ascii(self) -> str:
        lines = [f"{'lines in each set':18}ways: {self.cache.ways}"]
        return "\n".join(
            [
                *lines,
                *(
                    f"{name}: {' '.join(str(len(s)) for s in self._sets(apart))}"
                    for name, apart in self.rows.items()
                ),
            ]
        )
