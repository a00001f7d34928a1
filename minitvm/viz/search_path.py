"""SearchPath: the substitutions that lead to a cheaper network, and the kernels at both ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from minitvm import graph
from minitvm.base import check_kind

from .boxes import Box, column, legend, row, spread, text
from .figure import WIDTH, Figure
from .graph_rows import change, drawn
from .graph_scene import network, part
from .marks import Dot, Mark, Path, Rule
from .plot import Axis, plot

ROW, GAP = 24, 10  # pixels: of a step, and between the two networks
HEIGHT = 420  # pixels: greatest height of the drawn part of a network


class SearchPath(Figure):
    """Show the cost after each step of a graph.search, and the kernels before and after.

    searched   what graph.search returned
    """

    def __init__(self, searched: graph.Searched) -> None:
        check_kind("SearchPath", searched, graph.Searched, fix="SearchPath(graph.search(net))")
        self.searched = searched
        super().__init__()

    def title(self) -> str:
        return f"substitutions in {self.searched.start.name}"

    def body(self) -> Box:
        searched = self.searched
        before, after = searched.costs
        end = f"cost {after / before:.3f} of the start, alpha {searched.alpha:g}"
        names = Axis(names=["start", *(f"{s.rule}: {s.where}" for s in searched.steps)])
        costs = Axis.around([1.0, *self._shares()], "cost, relative to the start")
        samples = {"blue disc": "a step that saves something", "red triangle": "one that is worse"}
        height = ROW * (1 + len(searched.steps)) + 44
        return column(
            spread(text(self.title(), size=13, bold=True), text(end, "soft", anchor="end"), WIDTH),
            plot(costs, names, self._marks(), WIDTH, height, y2=Axis(names=self._changes())),
            legend(samples, WIDTH),
            self._networks(),
        )

    def _shares(self) -> list[float]:
        """Return the cost after each step, relative to the start."""
        return [step.cost / self.searched.costs[0] for step in self.searched.steps]

    def _changes(self) -> list[str]:
        """Return how much of the cost at the start each step saves or adds."""
        return ["", *(f"{new - old:+.2%}" for old, new in pairwise([1.0, *self._shares()]))]

    def _marks(self) -> Iterator[Mark]:
        points = [(cost, n + 0.5) for n, cost in enumerate((1.0, *self._shares()))]
        yield Rule(x=1.0)
        yield Path(points, "line")
        yield Dot(*points[0], "blue", "step:0", radius=4)
        for n, ((old, _), (new, y)) in enumerate(pairwise(points), 1):
            kind, form = ("red", "triangle") if new > old else ("blue", "disc")
            yield Dot(new, y, kind, f"step:{n}", f"{new - old:+.2%}", 5, form)

    def _networks(self) -> Box:
        """Draw the kernels before and after, from the first row on."""
        ends = [graph.passes.fuse(net) for net in (self.searched.start, self.searched.best)]
        views = [drawn(net) for net in ends]
        diff, wide = change(*views), (WIDTH - GAP) / 2
        sides = list[Box]()
        for net, view, name, nodes, kind in zip(
            ends, views, ("before", "after"), (diff.removed, diff.added),
            ("pale_red", "pale_green"), strict=True,
        ):  # fmt: skip
            rows, marks = part(view, 0, HEIGHT), dict.fromkeys(nodes, kind)
            head = text(name, bold=True, width=wide)
            boxes = network(view, rows, wide, marks, name, frozenset(net.outputs))
            sides.append(column(head, boxes, gap=3))
        return row(*sides, gap=GAP)

    def ascii(self) -> str:
        return str(self.searched)
