"""GraphStepper: a network before and after each pass, and what the pass saves."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from minitvm import graph
from minitvm.base import Target, check_kind, plural

from .boxes import Box, column, framed, legend, row, text
from .controls import Layout, Slider, both_ways
from .diff import folded, unified
from .figure import WIDTH
from .graph_rows import change, drawn
from .graph_scene import network, part
from .kinds import ink
from .stepper import Stepper, about

HEIGHT, GAP = 660, 10  # pixels: greatest height of the drawn part of a network, between two
MAX_LINES = 25  # most lines of the text
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
        return f"{before} -> {after} call{plural(after)}"

    def saved(self) -> list[tuple[str, str, str]]:
        """Return (value before, value after, unit) of each cost, as strings."""
        savings: list[tuple[str, str, str]] = []
        for field in fields(graph.Counts):
            old, new = (getattr(cost, field.name) for cost in self.costs)
            scale, unit = UNITS.get(field.name, (1, field.name))
            texts = [f"{n / scale:,.2f}" if scale > 1 else f"{n:,}" for n in (old, new)]
            savings.append((texts[0], texts[1], unit))
        return savings


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
        snapshots: list[tuple[str, graph.Graph]] = []
        graph.optimized(
            net,
            target,
            winograd=winograd,
            passes=passes,
            watch=lambda name, now: snapshots.append((name, now)),
        )
        stages, cost = list[GraphPass](), graph.counts(net, target)
        for (_, old), (name, new), (_, run) in zip(snapshots, snapshots[1:], passes, strict=False):
            changed = new is not old and new != old
            costs = cost, cost if new is old else graph.counts(new, target)
            stages.append(GraphPass(name, about(run), old, new, costs, changed))
            cost = costs[1]
        super().__init__(stages, at)

    def prepare(self) -> None:
        """Arrange the network before and after the pass."""
        before, after = drawn(self.now.before), drawn(self.now.after)
        diff = change(before, after)
        self._view = before, after, diff
        rows = [after.row[node] for node in diff.added]
        if not rows and diff.removed:
            first = next(n for n, (_, b) in enumerate(diff.rows) if b is None)
            nodes_above = sum(b is not None for _, b in diff.rows[:first])
            rows = [after.row[after.nodes[max(0, nodes_above - 1)]]]
        self._row = max(0, min(rows, default=0) - 1)  # just above the first change

    # --- what is shown ---

    def details(self) -> Box:
        """Draw the savings of the pass, and the network before and after it."""
        samples = {
            "pale_red box -": "removed",
            "pale_green box +": "added",
            "pale_sky": "as before",
        }
        savings = self.now.saved()
        wide = (WIDTH - 8 * (len(savings) - 1)) / len(savings)
        return column(
            row(*(_cell(old, new, unit, wide) for old, new, unit in savings)),
            legend(samples, WIDTH),
            row(self._side("before"), self._side("after"), gap=GAP),
        )

    def _side(self, side: str) -> Box:
        """Draw a part of the network "before" or "after" the pass, with its title."""
        before, after, diff = self._view
        if side == "after":
            net, version, first = after, self.now.after, self._row
            kind, changed = "pale_green", diff.added
        else:  # from beside the first drawn row of the new network
            back = {new: old for old, new in diff.same.items()}
            below = (n for n in after.nodes if n in back and after.row[n] >= self._row)
            first = min((before.row[back[n]] for n in below), default=len(before.rows) - 1)
            net, version, kind, changed = before, self.now.before, "pale_red", diff.removed
        rows = part(net, first, HEIGHT)
        rows_text = f": rows {rows.start + 1} to {rows.stop} of {len(net.rows)}"
        head = f"{side} {self.now.name}{rows_text if len(rows) < len(net.rows) else ''}"
        marks, outputs = dict.fromkeys(changed, kind), frozenset(version.outputs)
        wide = (WIDTH - GAP) / 2
        boxes = network(net, rows, wide, marks, side, outputs)
        return column(text(head, bold=True, width=wide), boxes, gap=3)

    def ascii(self) -> str:
        """Return the effect of the pass in numbers, and the changed calls as in diff -u."""
        head = self.head()
        head += [f"{old} -> {new} {what}" for old, new, what in self.now.saved() if old != new]
        if not self.now.changed:
            return "\n".join(head)
        lines = unified(folded(self._view[2].rows, MAX_LINES - len(head)))
        return "\n".join([*head, *(line.text for line in lines)])

    def layout(self) -> Layout:
        before, after, diff = self._view
        old, new = ({node: n for n, node in enumerate(net.nodes)} for net in (before, after))
        pairs = ((f"before:{old[a]}", f"after:{new[b]}") for a, b in diff.same.items())
        part = Slider("row", "from row", 1, len(after.rows), self._row + 1)
        return replace(super().layout(), controls=(*self.controls(), part), links=both_ways(pairs))

    def on(self, name: str, value: Any) -> str | None:
        if name == "row":
            self._row = value - 1
        return super().on(name, value)


def _cell(old: str, new: str, unit: str, width: float) -> Box:
    """Draw a cost before and after a pass."""
    words, kind = (old, "panel") if old == new else (f"{old} → {new}", "now")
    inner_width = width - 8
    number = text(words, ink(kind), bold=old != new, width=inner_width, anchor="middle")
    name = text(unit, ink(kind), width=inner_width, anchor="middle")
    return framed(column(number, name, gap=1), kind, width=width)
