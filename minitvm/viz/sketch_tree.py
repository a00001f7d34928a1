"""SketchTree: how the sketch rules derive the sketches of a computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from minitvm import auto_scheduler, schedule, te
from minitvm.base import check_flag

from .boxes import Box, Edge, column, connected, framed, legend, row, sized, text
from .controls import Layout, Panel, index_in
from .diff import folded, rows_of, unified
from .figure import Figure
from .kinds import ink

ACROSS, DOWN, BEND = 144, 20, 10  # pixels: between states, and from a state to where edges bend
WIDE, MIN_WIDTH = 112, 410  # pixels: the width of a state, and of a picture
MAX_LINES = 60  # most lines of a program in the panel
TILED = "SSRSRS"  # the loops of a tiled stage: S over results, R over terms of a sum
MADE = {
    "": "as written", "skip": "unchanged", "always inline": "inlined",
    "cache write": "sum, then copy", "multi-level tiling": TILED,
}  # fmt: skip


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

    Select a node to see its loops, and how its rule changed them.

    visits   whether to show each visit of a stage, below the graph of the stages; otherwise a rule
             that leaves a state unchanged adds no node
    """

    def __init__(self, task: auto_scheduler.SearchTask, *, visits: bool = False) -> None:
        self._name = ", ".join(t.name for t in task.compute_dag.outputs)
        self._visits = check_flag("visits", visits)
        self.nodes = nodes_of(task, visits)
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
            self._stages() if self._visits else None,
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
        lines = [_label(node)]
        if self._visits:
            first = node.stage or "start" if node.sketch is None else _label(node)
            lines = [first, _made(node)]
        label = (text(line, ink(kind), width=WIDE - 10, anchor="middle") for line in lines)
        box = framed(column(*label, gap=1), kind, f"node:{n}", tip, width=WIDE, inset=5)
        children = column(*map(self._subtree, node.children), gap=DOWN)
        return row(box, children if node.children else None, gap=ACROSS)

    def _stages(self) -> Box:
        """Draw the stages on the way to the first sketch, and the inputs that they read.

        A stage is above the states in which it is visited next.
        """
        n, visited = next(n for n, node in enumerate(self.nodes) if node.sketch == 0), list[str]()
        state = self.nodes[n].state.s.state
        while (parent := self.nodes[n].parent) is not None:
            visited.insert(0, self.nodes[n].stage)
            n = parent
        readers = schedule.readers(state)
        inputs = [s.name for s in state.stages if isinstance(s.op, te.PlaceholderOp)]
        columns, edges = [visited[:1]], list[Edge]()
        for k, stage in enumerate(visited, 1):
            last = [i for i in inputs if stage in readers[i] and not {*visited[k:]} & {*readers[i]}]
            columns.append(visited[k : k + 1] + last)
            pairs = product(visited[:k], columns[-1])
            edges += [
                Edge(f"stage:{a}", f"stage:{b}", "reads") for a, b in pairs if a in readers[b]
            ]
        parts = (column(*(_stage_box(n, n in inputs) for n in names), gap=6) for names in columns)
        return connected(row(*(sized(part, WIDE) for part in parts), gap=ACROSS), edges, BEND)

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


def nodes_of(task: auto_scheduler.SearchTask, visits: bool = False) -> list[Node]:
    """Return the states of the derivation as nodes, each after its parent.

    visits   whether a rule that leaves a state unchanged adds a node
    """
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
        if visits or new is not state:
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


def _made(node: Node) -> str:
    """Return what the rule of a node made of its stage."""
    if node.rule == "tile and fuse":
        level = int(node.state.choices[-1][-1])
        return f"{TILED[:level]} ({TILED[level:]})"
    return MADE.get(node.rule, node.rule)


def _stage_box(name: str, is_input: bool) -> Box:
    label = text(name, width=WIDE - 10, bold=not is_input, anchor="middle")
    kind = "memory" if is_input else "pale_sky"
    return framed(label, kind, f"stage:{name}", width=WIDE, inset=5)
