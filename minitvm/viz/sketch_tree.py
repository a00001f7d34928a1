"""SketchTree: how the sketch rules derive the sketches of a computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from minitvm import auto_scheduler

from .boxes import Box, Edge, column, connected, framed, legend, row, text
from .controls import Layout, Panel, index_in
from .diff import folded, rows_of, unified
from .figure import Figure
from .kinds import ink

ACROSS, DOWN, BEND = 144, 20, 10  # pixels: between states, and from a state to where edges bend
WIDE, MIN_WIDTH = 112, 410  # pixels: the width of a state, and of a picture
MAX_LINES = 60  # most lines of a program in the panel


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


class SketchTree(Figure):
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

    def title(self) -> str:
        sketches = sum(n.sketch is not None for n in self.nodes)
        return f"{self._name}: {len(self.nodes)} states, {sketches} of them sketches"

    def body(self) -> Box:
        edges = (
            Edge(f"node:{node.parent}", f"node:{n}", node.rule, f"at {node.stage}")
            for n, node in enumerate(self.nodes)
            if node.parent is not None
        )
        tree = connected(self._subtree(0), edges, BEND)
        samples = {
            "pale_green box S0": "a sketch, with its number",
            "cell": "a state on the way",
            "now": "the selected one",
        }
        return column(
            text(self.title(), size=13, bold=True),
            tree,
            legend(samples, max(tree.width, MIN_WIDTH)),
            gap=10,
        )

    def _subtree(self, n: int) -> Box:
        """Draw a state, and its children in a column beside it."""
        node = self.nodes[n]
        kind = "now" if n == self._now else "cell" if node.sketch is None else "pale_green"
        word = "sketch" if node.sketch is not None else "state"
        tip = f"{word} after: {', '.join(node.state.rules) or 'no rule'}"
        label = text(_label(node), ink(kind), width=WIDE - 10, anchor="middle")
        box = framed(label, kind, f"node:{n}", tip, width=WIDE, inset=5)
        children = column(*map(self._subtree, node.children), gap=DOWN)
        return row(box, children if node.children else None, gap=ACROSS)

    def ascii(self) -> str:
        """Return the tree as text, children below their parents."""
        lines = list(self._lines(0, 0))
        more = [f"... and {len(lines) - 23} more"] if len(lines) > 24 else []
        return "\n".join([self.title(), *(lines[:23] if more else lines), *more])

    def _lines(self, n: int, depth: int) -> Iterator[str]:
        node = self.nodes[n]
        rule = f"{node.rule} ({node.stage}) -> " if node.rule else ""
        yield "  " * depth + rule + _label(node)
        for child in node.children:
            yield from self._lines(child, depth + 1)

    def layout(self) -> Layout:
        node = self.nodes[self._now]
        after = str(node.state).splitlines()
        before = after if node.parent is None else str(self.nodes[node.parent].state).splitlines()
        title = f"{node.rule} at {node.stage}" if node.rule else "the computation without steps"
        lines = unified(folded(rows_of(before, after), MAX_LINES))
        return Layout(panels=(Panel(title, tuple(lines)),), selectable="node:")

    def on(self, name: str, value: Any) -> None:
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

    def number_of(state: auto_scheduler.State) -> int:
        return number[id(state)] if id(state) in number else add(Node(state))

    def watch(
        state: auto_scheduler.State,
        stage: str,
        rule: auto_scheduler.Rule,
        new: auto_scheduler.State,
    ) -> None:
        parent = number_of(state)
        if new is not state:
            nodes[parent].children.append(add(Node(new, rule.name, stage, parent)))

    dag = task.compute_dag
    sketches = auto_scheduler.derived(dag.initial, task.target, task.rules, watch)
    for n, state in enumerate(sketches):
        nodes[number_of(state)].sketch = n
    return nodes


def _label(node: Node) -> str:
    """Return the text of a node: its sketch number, if it has one, and its last choice."""
    chosen = node.state.choices[-1:] if node.rule else ("start",)
    sketch = () if node.sketch is None else (f"S{node.sketch}",)
    return " ".join((*sketch, *chosen)) or "state"
