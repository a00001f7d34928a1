"""GraphStepper: a network before and after each pass, and what the pass saves."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from minitvm import graph
from minitvm.base import Target, check_kind

from .boxes import Box, column, framed, legend, row, text
from .controls import Layout, Slider, both_ways
from .diff import folded, unified
from .figure import WIDTH
from .graph_rows import Change, Drawn, change, drawn
from .graph_scene import network, part
from .kinds import ink
from .stepper import Stepper, about

HEIGHT, GAP = 660, 10  # pixels: greatest height of the drawn part of a network, between two
MOST_LINES = 25  # most lines of the text
UNITS = {"bytes": (1e6, "MB moved"), "multiplications": (1e6, "M multiplications")}


@dataclass(frozen=True, slots=True, eq=False)
class GraphPass:
    """One pass over a network and its effect.

    about            the first paragraph of the pass's docstring
    before, after    the network before and after the pass
    costs            the costs of the network before and after the pass
    changed          whether the pass changed the network
    """

    name: str
    about: str
    before: graph.Graph
    after: graph.Graph
    costs: tuple[graph.Counts, graph.Counts]
    changed: bool

    @property
    def effect(self) -> str:
        """The change of the number of calls."""
        before, after = (cost.kernels for cost in self.costs)
        return f"{before} -> {after} calls"

    def saved(self) -> list[tuple[str, str, str]]:
        """Return (value before, value after, unit) of each cost, as strings."""
        found: list[tuple[str, str, str]] = []
        for each in fields(graph.Counts):
            old, new = (getattr(cost, each.name) for cost in self.costs)
            scale, unit = UNITS.get(each.name, (1, each.name))
            texts = [f"{n / scale:,.2f}" if scale > 1 else f"{n:,}" for n in (old, new)]
            found.append((texts[0], texts[1], unit))
        return found


class _View(NamedTuple):
    """The networks before and after a pass, arranged for drawing, and their difference."""

    before: Drawn
    after: Drawn
    change: Change


class GraphStepper(Stepper[GraphPass]):
    """Show a network before and after each pass: what changed, and what that saves.

    Each box is a call, with its operators and the shape of its result; parameters are not drawn.
    A "-" marks calls that a pass removed, a "+" those it added. Only a part of a large network
    is shown, at first the part around the first change; a slider chooses another part.

    target     the target that the network is optimized for; by default the current one
    winograd   whether convolutions may be computed by Winograd's formulas
    passes     the passes to run instead of graph.PASSES: a tuple of (name, function)
    at         the name or the number, from 1 on, of the pass shown first; by default the first
               that changed something
    """

    of = "network"

    def __init__(
        self,
        net: graph.Graph,
        target: str | Target | None = None,
        *,
        winograd: bool = True,
        passes: tuple[tuple[str, graph.Pass], ...] = graph.PASSES,
        at: str | int | None = None,
    ) -> None:
        check_kind("GraphStepper", net, graph.Graph, fix="net = b.graph(y), of a graph.Builder b")
        seen: list[tuple[str, graph.Graph]] = []
        graph.optimized(
            net,
            target,
            winograd=winograd,
            passes=passes,
            watch=lambda name, now: seen.append((name, now)),
        )
        stages, cost = list[GraphPass](), graph.counts(net, target)
        for (_, old), (name, new), (_, run) in zip(seen, seen[1:], passes, strict=False):
            changed = new is not old and new != old
            costs = cost, cost if new is old else graph.counts(new, target)
            stages.append(GraphPass(name, about(run), old, new, costs, changed))
            cost = costs[1]
        super().__init__(stages, at)

    def prepare(self) -> None:
        """Arrange the network before and after the pass."""
        before, after = drawn(self.now.before), drawn(self.now.after)
        self._view = _View(before, after, change(before, after))
        self._row = self._first_change()

    def _first_change(self) -> int:
        """Return the row of the new network just above its first change."""
        _, after, found = self._view
        rows = [after.row[node] for node in found.added]
        if not rows and found.removed:
            first = next(n for n, (_, b) in enumerate(found.rows) if b is None)
            kept = sum(b is not None for _, b in found.rows[:first])
            rows = [after.row[after.nodes[max(0, kept - 1)]]]
        return max(0, min(rows, default=0) - 1)

    # --- what is shown ---

    def details(self) -> Box:
        """Draw the savings of the pass, and the network before and after it."""
        samples = {
            "pale_red box -": "removed",
            "pale_green box +": "added",
            "pale_sky": "as before",
        }
        return column(
            self._savings(),
            legend(samples, WIDTH),
            row(self._side("before"), self._side("after"), gap=GAP),
        )

    def _savings(self) -> Box:
        """Draw a cell for each cost; cells of changed costs are coloured."""
        saved = self.now.saved()
        wide = (WIDTH - 8 * (len(saved) - 1)) / len(saved)
        return row(*(_cell(old, new, unit, wide) for old, new, unit in saved))

    def _side(self, side: str) -> Box:
        """Draw a part of the network "before" or "after" the pass, with its title."""
        before, after, found = self._view
        net, version, first, kind, marked = (
            (before, self.now.before, self._left_row(), "pale_red", found.removed)
            if side == "before"
            else (after, self.now.after, self._row, "pale_green", found.added)
        )
        rows = part(net, first, HEIGHT)
        of = f": rows {rows.start + 1} to {rows.stop} of {len(net.rows)}"
        head = f"{side} {self.now.name}{of if len(rows) < len(net.rows) else ''}"
        marks, outputs = dict.fromkeys(marked, kind), frozenset(version.outputs)
        wide = (WIDTH - GAP) / 2
        boxes = network(net, rows, wide, marks, side, outputs)
        return column(text(head, bold=True, width=wide), boxes, gap=3)

    def _left_row(self) -> int:
        """Return the row of the old network to draw beside the first drawn row of the new one."""
        before, after, found = self._view
        back = {new: old for old, new in found.same.items()}
        beside = [
            before.row[back[n]] for n in after.nodes if n in back and after.row[n] >= self._row
        ]
        return min(beside, default=len(before.rows) - 1)

    def ascii(self) -> str:
        """Return the effect of the pass in numbers, and the changed calls as in diff -u."""
        head = self.head()
        head += [f"{old} -> {new} {what}" for old, new, what in self.now.saved() if old != new]
        if not self.now.changed:
            return "\n".join(head)
        lines = unified(folded(self._view.change.rows, MOST_LINES - len(head)))
        return "\n".join([*head, *(line.text for line in lines)])

    def layout(self) -> Layout:
        """Return the sliders over the passes and over the rows of the network."""
        before, after, found = self._view
        old, new = ({node: n for n, node in enumerate(net.nodes)} for net in (before, after))
        pairs = ((f"before:{old[a]}", f"after:{new[b]}") for a, b in found.same.items())
        part = Slider("row", "from row", 1, len(after.rows), self._row + 1)
        return replace(super().layout(), controls=(*self.controls(), part), links=both_ways(pairs))

    def on(self, name: str, value: Any) -> str | None:
        """Choose another pass, or another part of the network."""
        if name == "row":
            self._row = value - 1
        return super().on(name, value)


def _cell(old: str, new: str, unit: str, width: float) -> Box:
    """Draw a cost before and after a pass."""
    words, kind = (old, "panel") if old == new else (f"{old} → {new}", "now")
    inside = width - 8
    number = text(words, ink(kind), bold=old != new, width=inside, anchor="middle")
    name = text(unit, ink(kind), width=inside, anchor="middle")
    return framed(column(number, name, gap=1), kind, width=width)
