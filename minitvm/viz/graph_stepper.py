"""GraphStepper: a network before and after each pass, and what the pass saves."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

from minitvm import graph
from minitvm.base import ArgumentError, Target, check_kind

from .chart import legend, swatch, text_lines
from .controls import Button, Layout, Slider, both_ways
from .diff import folded, unified
from .graph_rows import Change, Drawn, change, drawn
from .graph_scene import network, part
from .kinds import ink
from .pass_explorer import LINE, MARGIN, WIDTH, PassBox, about, strip
from .scene import Line, Rect, Scene, Shape, Text, wrapped
from .visual import Visual

HEIGHT = 660  # pixels: the greatest height of the drawn part of a network
MOST_LINES = 25  # most lines of the text
COLUMN = (WIDTH - 3 * MARGIN) / 2
UNITS = {"bytes": (1e6, "MB moved"), "multiplications": (1e6, "M multiplications")}


@dataclass(frozen=True, slots=True, eq=False)
class GraphPass:
    """One pass over a network and its effect.

    about            the first paragraph of the pass's docstring
    before, after    the network before and after the pass
    costs            the costs of the network before and after the pass
    """

    name: str
    about: str
    before: graph.Graph
    after: graph.Graph
    costs: tuple[graph.Counts, graph.Counts]

    @property
    def changed(self) -> bool:
        """Whether the pass changed the network."""
        return self.before is not self.after and self.before != self.after

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


class GraphStepper(Visual):
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
        if not passes:
            raise ArgumentError("GraphStepper(passes=())", "there is no pass", "graph.PASSES")
        seen: list[tuple[str, graph.Graph]] = []
        graph.optimized(
            net,
            target,
            winograd=winograd,
            passes=passes,
            watch=lambda name, now: seen.append((name, now)),
        )
        costs = [graph.counts(net, target)]
        for (_, old), (_, new) in pairwise(seen):
            costs.append(costs[-1] if new is old else graph.counts(new, target))
        self.stages = tuple(
            GraphPass(name, about(run), seen[n][1], seen[n + 1][1], (costs[n], costs[n + 1]))
            for n, (name, run) in enumerate(passes)
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
        before, after = drawn(self._now.before), drawn(self._now.after)
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

    @property
    def _now(self) -> GraphPass:
        return self.stages[self._number - 1]

    def _title(self) -> str:
        """Return the title, such as "pass 11 of 11: fuse, 69 -> 24 calls"."""
        now = self._now
        before, after = (cost.kernels for cost in now.costs)
        size = f"{before} -> {after} calls" if now.changed else "nothing changed"
        return f"pass {self._number} of {len(self.stages)}: {now.name}, {size}"

    def scene(self) -> Scene:
        """Draw all passes, the savings of the chosen pass, and the network before and after it."""
        shapes, y = strip([_box(stage) for stage in self.stages], self._number)
        shapes.append(Text(MARGIN, y + 22, self._title(), bold=True))
        told = wrapped(self._now.about, WIDTH - 2 * MARGIN, 13)
        shapes += text_lines(told, MARGIN, y + 42, size=13, step=LINE)
        y += 42 + LINE * len(told)
        shapes += _savings(self._now, y)
        y += 52
        samples = [
            swatch("pale_red", "removed", "-"),
            swatch("pale_green", "added", "+"),
            swatch("pale_sky", "as before"),
        ]
        key, y = legend(samples, y + 14, WIDTH - MARGIN, MARGIN)
        bottom = y
        for side, left in (("before", MARGIN), ("after", 2 * MARGIN + COLUMN)):
            made, low = self._side(side, left, y + 12)
            shapes += made
            bottom = max(bottom, low)
        x = 1.5 * MARGIN + COLUMN
        shapes.append(Line(((x, y + 12), (x, bottom)), "grid"))
        return Scene(WIDTH, bottom + MARGIN, (*shapes, *key), self._title(), self.ascii())

    def _side(self, side: str, left: float, top: float) -> tuple[list[Shape], float]:
        """Draw the network `side` ("before" or "after") the pass; return shapes and lower edge."""
        before, after, found = self._view
        net, version, first, kind, marked = (
            (before, self._now.before, self._left_row(), "pale_red", found.removed)
            if side == "before"
            else (after, self._now.after, self._row, "pale_green", found.added)
        )
        rows = part(net, first, HEIGHT)
        shown = "" if len(rows) == len(net.rows) else (
            f": rows {rows.start + 1} to {rows.stop} of {len(net.rows)}"
        )  # fmt: skip
        head = Text(left, top + 12, f"{side} {self._now.name}{shown}", size=12, bold=True)
        marks = dict.fromkeys(marked, kind)
        outputs = frozenset(version.outputs)
        shapes, y = network(net, rows, left, top + 18, COLUMN, marks, side, outputs)
        return [head, *shapes], y

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
        head = [self._title(), *wrapped(self._now.about, 800, 12)]
        head += [f"{old} -> {new} {what}" for old, new, what in self._now.saved() if old != new]
        if not self._now.changed:
            return "\n".join(head)
        lines = unified(folded(self._view.change.rows, MOST_LINES - len(head)))
        return "\n".join([*head, *(line.text for line in lines)])

    def layout(self) -> Layout:
        """Return the sliders over the passes and over the rows of the network."""
        before, after, found = self._view
        old, new = ({node: n for n, node in enumerate(net.nodes)} for net in (before, after))
        pairs = ((f"before:{old[a]}", f"after:{new[b]}") for a, b in found.same.items())
        return Layout(
            controls=(
                Slider("pass", "pass", 1, len(self.stages), self._number),
                self._button("back", "previous", -1),
                self._button("next", "next", 1),
                Slider("row", "from row", 1, len(after.rows), self._row + 1),
            ),
            links=both_ways(pairs),
            selectable="pass:",
        )

    # --- what happens ---

    def on(self, name: str, value: Any) -> str | None:
        """Choose another pass, by slider, click or button, or another part of the network."""
        if name == "row":
            self._row = value - 1
            return None
        if name == "pass":
            self._show(value)
        elif name == "click" and value.startswith("pass:"):
            self._show(value.removeprefix("pass:"))
        elif name in ("back", "next") and (number := self._change(-1 if name == "back" else 1)):
            self._show(number)
        self.selected = f"pass:{self._now.name}"
        return None

    def _button(self, name: str, which: str, by: int) -> Button:
        tip = f"go to the {which} pass that changed the network"
        return Button(name, f"{which} change", self._change(by) > 0, tip)

    def _change(self, by: int) -> int:
        """Return the number of the next (by=1) or previous (by=-1) pass with changes; 0 if none."""
        numbers = range(self._number + by, len(self.stages) + 1 if by > 0 else 0, by)
        return next((n for n in numbers if self.stages[n - 1].changed), 0)


def _box(stage: GraphPass) -> PassBox:
    before, after = (cost.kernels for cost in stage.costs)
    return PassBox(stage.name, stage.about, f"{before} → {after} calls" if stage.changed else "")


def _savings(now: GraphPass, y: float) -> list[Shape]:
    """Draw a row of cells, one for each cost; cells of changed costs are coloured."""
    shapes: list[Shape] = []
    saved = now.saved()
    wide = (WIDTH - 2 * MARGIN - 8 * (len(saved) - 1)) / len(saved)
    for n, (old, new, what) in enumerate(saved):
        x = MARGIN + n * (wide + 8)
        same = old == new
        text, kind = (old, "panel") if same else (f"{old} → {new}", "now")
        middle, look = x + wide / 2, ink(kind)
        shapes += [
            Rect(x, y, wide, 40, kind, radius=4),
            Text(middle, y + 16, text, look, 12, "middle", bold=not same),
            Text(middle, y + 32, what, look, 12, "middle"),
        ]
    return shapes
