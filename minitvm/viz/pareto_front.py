"""ParetoFront: accelerators by area and cycles, those that no other dominates, and their limits."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import vta
from minitvm.base import ArgumentError, check_kind

from .boxes import Box, column, legend, text
from .controls import CodeLine, Frame, Layout, Panel, both_ways, numbered
from .figure import WIDTH, Figure
from .marks import Dot, Mark, Name, Path
from .plot import Axis, plot

HEIGHT = 340  # pixels
ROOM = 1.15  # the ratio of the end of an axis to the outermost design


class ParetoFront(Figure):
    """Show a search for accelerators: the area and the cycles of each design, and the front.

    A design on the front is dominated by no other one: no design is smaller and at least as fast.
    Squares are the marked designs. A design that is selected says what limits its layers.

    exploration   the result of vta.explore()

    Raises ArgumentError if all configurations were refused.
    """

    def __init__(self, exploration: vta.Exploration) -> None:
        self.exploration = check_kind(
            "exploration", exploration, vta.Exploration, fix="vta.explore(layers)"
        )
        if not exploration.points:
            raise ArgumentError(f"ParetoFront({exploration})", "there is no design to draw")
        super().__init__()

    def title(self) -> str:
        return f"{len(self.exploration.points)} accelerators by area and cycles"

    def body(self) -> Box:
        areas, cycles = zip(*((p.area, p.cycles) for p in self.exploration.points), strict=True)
        x, y = (
            Axis(min(values) / ROOM, max(values) * ROOM, name, log=True, label="{:,.9g}".format)
            for values, name in ((areas, "estimated area in mm2"), (cycles, "cycles"))
        )
        samples = {
            "blue dot": "on the front, compute-bound for most cycles",
            "red dot": "on the front, load- or store-bound",
            "sky dot": "dominated",
            "orange square": "to compare with",
        }
        return column(
            text(self.title(), size=13, bold=True),
            plot(x, y, self._marks(), WIDTH, HEIGHT),
            legend(samples, WIDTH),
        )

    def _marks(self) -> Iterator[Mark]:
        """Draw the front as steps, then all designs, those of the table last."""
        front, table = self.exploration.front, self.exploration.designs
        yield Path([(p.area, p.cycles) for p in front], "line", steps=True)
        for p in self.exploration.points:
            if p not in table:
                yield Dot(p.area, p.cycles, "sky", "", str(p))
        for n, p in enumerate(table):
            if p.config.name in self.exploration.marked:
                yield Dot(p.area, p.cycles, "orange", f"design:{n}", p.explain(), 5, "square")
                yield Name(p.area, p.cycles, p.config.name)
            else:
                kind = "blue" if _is_compute_bound(p) else "red"
                yield Dot(p.area, p.cycles, kind, f"design:{n}", p.explain(), 4)
                yield Name(p.area, p.cycles, p.config.name.split()[0])

    def ascii(self) -> str:
        return self.exploration.table()

    def layout(self) -> Layout:
        designs, (head, *lines) = self.exploration.designs, self.exploration.table().split("\n")
        rows, notes = lines[: len(designs)], lines[len(designs) :]
        return Layout(
            frames=tuple(
                Frame({f"design:{n}": "now", f"row:{n}": "now"}, self._describe(p))
                for n, p in enumerate(designs)
            ),
            links=both_ways((f"design:{n}", f"row:{n}") for n in range(len(designs))),
            panels=(
                Panel("designs", (CodeLine(head), *numbered(rows, "row"), *map(CodeLine, notes))),
            ),
            selectable="design:",
        )

    def _describe(self, p: vta.Point) -> str:
        """Explain a design; if it is dominated, say so."""
        is_dominated = bool(self.exploration.dominating(p))
        return "\n".join([p.explain(), *([self.exploration.verdict(p.config.name)] * is_dominated)])


def _is_compute_bound(p: vta.Point) -> bool:
    limits = p.limits()
    return limits.get("GEMM", 0) + limits.get("ALU", 0) >= 0.5
