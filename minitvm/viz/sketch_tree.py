"""SketchTree: how the sketch rules derive the sketches of a computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from minitvm import auto_scheduler

from .chart import legend, swatch
from .controls import Layout, Panel, index_in
from .diff import folded, rows_of, unified
from .kinds import ink
from .scene import Group, Line, Rect, Scene, Shape, Text, clipped
from .visual import Visual

MARGIN, TOP = 10, 34  # pixels
ACROSS, DOWN = 256, 46  # pixels from a state to the next one beside it, and below it
WIDE, HIGH = 112, 26  # pixels: the size of a state
MOST = 60  # most lines of a program in the panel


@dataclass(slots=True, eq=False)
class Node:
    """A state of the derivation.

    rule, stage   the rule that made it, and the stage that it was applied to; "" for the start
    parent        the number of the node that the rule was applied to; None for the start
    sketch        its number among the sketches; None if the state is not a sketch
    """

    state: auto_scheduler.State
    rule: str = ""
    stage: str = ""
    parent: int | None = None
    sketch: int | None = None
    children: list[int] = field(default_factory=list[int])


class SketchTree(Visual):
    """Show the derivation of sketches as a tree: states are nodes, rules are edges.

    A rule that leaves a state unchanged at a stage adds no node. Select a node to see its loops,
    and how its rule changed them.
    """

    def __init__(self, task: auto_scheduler.SearchTask) -> None:
        self._name = ", ".join(t.name for t in task.compute_dag.outputs)
        self.nodes = nodes_of(task)
        self._now = 0
        super().__init__()

    # --- what is shown ---

    def _title(self) -> str:
        sketches = sum(n.sketch is not None for n in self.nodes)
        return f"{self._name}: {len(self.nodes)} states, {sketches} of them sketches"

    def scene(self) -> Scene:
        """Draw the tree from left to right."""
        places = dict[int, tuple[float, float]]()
        _place(self.nodes, 0, MARGIN, [TOP], places)
        shapes: list[Shape] = [Text(MARGIN, 20, self._title(), bold=True)]
        for n, node in enumerate(self.nodes):
            if node.parent is not None:
                shapes += _edge(node, places[node.parent], places[n])
        for n, node in enumerate(self.nodes):
            shapes.append(self._box(n, node, places[n]))
        base = max(y for _, y in places.values()) + HIGH + 30
        wide = max(x for x, _ in places.values()) + WIDE + MARGIN
        entries = [
            swatch("pale_green", "a sketch, with its number", "S0", wide=26),
            swatch("cell", "a state on the way"),
            swatch("now", "the selected one"),
        ]
        key, last = legend(entries, base, max(wide, 420))
        return Scene(max(wide, 430), last + 14, (*shapes, *key), self._title(), self.ascii())

    def _box(self, n: int, node: Node, at: tuple[float, float]) -> Group:
        kind = "now" if n == self._now else "cell" if node.sketch is None else "pale_green"
        text = clipped(_label(node), WIDE - 8, 12)
        shapes = (
            Rect(*at, WIDE, HIGH, kind, radius=4),
            Text(at[0] + WIDE / 2, at[1] + 17, text, ink(kind), 12, "middle"),
        )
        told = "sketch" if node.sketch is not None else "state"
        return Group(
            shapes, f"node:{n}", f"{told} after: {', '.join(node.state.rules) or 'no rule'}"
        )

    def ascii(self) -> str:
        """Return the tree as text, children below their parents."""
        lines = list(self._lines(0, 0))
        more = [f"... and {len(lines) - 23} more"] if len(lines) > 24 else []
        return "\n".join([self._title(), *(lines[:23] if more else lines), *more])

    def _lines(self, n: int, depth: int) -> Iterator[str]:
        node = self.nodes[n]
        rule = f"{node.rule} ({node.stage}) -> " if node.rule else ""
        yield "  " * depth + rule + _label(node)
        for child in node.children:
            yield from self._lines(child, depth + 1)

    def layout(self) -> Layout:
        """Return the loops of the selected state, with the changes by its rule marked."""
        node = self.nodes[self._now]
        after = str(node.state).splitlines()
        before = after if node.parent is None else str(self.nodes[node.parent].state).splitlines()
        title = f"{node.rule} at {node.stage}" if node.rule else "the computation without steps"
        lines = unified(folded(rows_of(before, after), MOST))
        return Layout(panels=(Panel(title, tuple(lines)),), selectable="node:")

    def on(self, name: str, value: Any) -> None:
        """Select a state."""
        n = index_in(value, "node", len(self.nodes))
        self._now = self._now if n is None else n


def nodes_of(task: auto_scheduler.SearchTask) -> list[Node]:
    """Return the states of the derivation as nodes, each after its parent."""
    nodes = list[Node]()
    number = dict[int, int]()  # id of a state -> the number of its node

    def add(node: Node) -> int:
        number[id(node.state)] = len(nodes)
        nodes.append(node)
        return len(nodes) - 1

    def watch(
        state: auto_scheduler.State,
        stage: str,
        rule: auto_scheduler.Rule,
        new: auto_scheduler.State,
    ) -> None:
        parent = number[id(state)] if id(state) in number else add(Node(state))
        if new is not state:
            nodes[parent].children.append(add(Node(new, rule.name, stage, parent)))

    dag = task.compute_dag
    found = auto_scheduler.derived(dag.initial, task.target, task.rules, watch)
    for n, state in enumerate(found):
        nodes[number[id(state)] if id(state) in number else add(Node(state))].sketch = n
    return nodes


def _label(node: Node) -> str:
    """Return the text of a node: its sketch number, if it has one, and its last choice."""
    chosen = node.state.choices[-1:] if node.rule else ("start",)
    sketch = () if node.sketch is None else (f"S{node.sketch}",)
    return " ".join((*sketch, *chosen)) or "state"


def _place(
    nodes: list[Node], n: int, x: float, y: list[float], places: dict[int, tuple[float, float]]
) -> None:
    """Place a node and its first child in the row y[0], and each other child in a new row."""
    places[n] = x, y[0]
    for k, child in enumerate(nodes[n].children):
        y[0] += DOWN if k else 0
        _place(nodes, child, x + ACROSS, y, places)


def _edge(node: Node, start: tuple[float, float], end: tuple[float, float]) -> Iterator[Shape]:
    """Draw the edge of a rule: a line from the old state to the new one, and the rule's name."""
    left, top = start[0] + WIDE, start[1] + HIGH / 2
    right, low = end[0], end[1] + HIGH / 2
    bend = left + 10
    points = ((left, top), (bend, top), (bend, low), (right, low))
    yield Line(points if low != top else (points[0], points[3]), "arrow", arrow=True)
    room = right - bend - 6
    name = clipped(node.rule, room, 12)
    yield Text((bend + right) / 2, low - 5, name, "soft", 12, "middle", tip=f"at {node.stage}")
