"""A network as rows of boxes, and what a pass changed in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TypeAlias

from minitvm import graph

from .diff import Row, rows_of

SHOWN = ("layout", "method")  # the attributes shown beside the name of an operator
SEVERAL = 4  # most operators of a kernel that are named
Notes: TypeAlias = Mapping[graph.Node, str]


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A place in a row for a node or, if `passing`, for a line that leads down to the node.

    note   a line of text below the node's own; "" for none
    """

    node: graph.Node
    passing: bool = False
    note: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines of text in the node's box."""
        return words(self.node) + ([self.note] if self.note else [])


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A network as rows of slots; each node is below its inputs.

    nodes   the inputs and calls of the network in order; parameters are not drawn
    rows    the slots of each row, from left to right
    row     the number of each node's row
    lines   pairs of slots in neighbouring rows, the upper one first, that a line connects
    """

    nodes: tuple[graph.Node, ...]
    rows: tuple[tuple[Slot, ...], ...]
    row: Mapping[graph.Node, int]
    lines: tuple[tuple[Slot, Slot], ...]


def drawn(net: graph.Graph, notes: Notes | None = None) -> Drawn:
    """Arrange a network in rows; `notes` has a further line of text for some nodes."""
    shown = {node: node.inputs for node in net.nodes if node.op != "param"}
    return arranged(shown, notes or {})


def arranged(sources: Mapping[graph.Node, Sequence[graph.Node]], notes: Notes) -> Drawn:
    """Arrange nodes in rows, each below its `sources`; sources that are no nodes do not count."""
    nodes = tuple(sources)
    row = _numbers(sources)
    rows: list[list[Slot]] = [[] for _ in range(1 + max(row.values(), default=0))]
    slots: dict[graph.Node, Slot] = {}
    above: dict[Slot, list[Slot]] = {}
    for node in sorted(nodes, key=row.__getitem__):
        me = slots[node] = Slot(node, note=notes.get(node, ""))
        rows[row[node]].append(me)
        for source in dict.fromkeys(n for n in sources[node] if n in row):
            way = [slots[source]]
            for between in range(row[source] + 1, row[node]):
                way.append(Slot(node, passing=True))
                rows[between].append(way[-1])
            for a, b in pairwise([*way, me]):
                above.setdefault(b, []).append(a)
    lines = tuple((a, b) for b, sources in above.items() for a in sources)
    return Drawn(nodes, tuple(_in_order(rows, above)), row, lines)


def _numbers(sources: Mapping[graph.Node, Sequence[graph.Node]]) -> dict[graph.Node, int]:
    """Return each node's row: below its inputs or, if these are parameters, above its reader."""
    row: dict[graph.Node, int] = {}
    for node, inputs in sources.items():
        row[node] = 1 + max((row[n] for n in inputs if n in row), default=-1)
    readers: dict[graph.Node, list[graph.Node]] = {node: [] for node in sources}
    free = set[graph.Node]()  # calls that read only parameters
    for node, inputs in sources.items():
        if not node.is_leaf and all(n in free or n not in row for n in inputs):
            free.add(node)
        for source in inputs:
            if source in row:
                readers[source].append(node)
    for node in reversed(row):
        if node in free and readers[node]:
            row[node] = min(row[reader] for reader in readers[node]) - 1
    return row


def _in_order(
    rows: Sequence[Sequence[Slot]], above: Mapping[Slot, list[Slot]]
) -> list[tuple[Slot, ...]]:
    """Sort each row by the mean position of the slots above each slot, so that few lines cross."""
    at: dict[Slot, float] = {}
    sorted_rows: list[tuple[Slot, ...]] = []
    for slots in rows:
        means = {s: fmean(at[a] for a in above[s]) if s in above else 0.0 for s in slots}
        order = sorted(slots, key=means.__getitem__)
        at |= {slot: k - (len(order) - 1) / 2 for k, slot in enumerate(order)}
        sorted_rows.append(tuple(order))
    return sorted_rows


# --- what a pass changed -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The difference between two versions of a network.

    rows             the aligned nodes of both as lines of text, as in a diff
    removed, added   the nodes of only the first version, and the nodes of only the second
    same             a node of the first version -> the same node of the second
    """

    rows: tuple[Row, ...]
    removed: frozenset[graph.Node]
    added: frozenset[graph.Node]
    same: Mapping[graph.Node, graph.Node]


def change(before: Drawn, after: Drawn) -> Change:
    """Return the difference of two networks; nodes are matched by label, in call order."""
    rows = rows_of([label(n) for n in before.nodes], [label(n) for n in after.nodes])
    old, new = iter(before.nodes), iter(after.nodes)
    removed, added, same = list[graph.Node](), list[graph.Node](), dict[graph.Node, graph.Node]()
    for a, b in rows:
        if a is not None and b is not None:
            same[next(old)] = next(new)
        elif a is not None:
            removed.append(next(old))
        else:
            added.append(next(new))
    moves = _moved(removed, added)
    removed_nodes = frozenset(n for n in removed if n not in moves)
    come = frozenset(added) - set(moves.values())
    return Change(tuple(rows), removed_nodes, come, same | moves)


def _moved(
    removed: Sequence[graph.Node], added: Sequence[graph.Node]
) -> dict[graph.Node, graph.Node]:
    """Map each removed node that was added again at another place to the added node."""
    left: dict[str, list[graph.Node]] = {}
    for node in reversed(added):
        left.setdefault(label(node), []).append(node)
    return {node: left[label(node)].pop() for node in removed if left.get(label(node))}


def label(node: graph.Node) -> str:
    """Return what a node computes, such as "conv2d strides=2 -> float32[1, 64, 56, 56]"."""
    if node.is_leaf:
        return f"input {node.name}: {node.type}"
    first, *others = graph.operators_of(node)
    if others:
        return f"kernel {' + '.join(n.op for n in (first, *others))} -> {node.type}"
    attrs = "".join(f" {k}={v}" for k, v in first.attrs.items())
    return f"{first.op}{attrs} -> {node.type}"


def words(node: graph.Node) -> list[str]:
    """Return the lines of text in a node's box: the operators, and the shape of the result."""
    shape = "x".join(map(str, node.type.shape)) or "scalar"
    if node.is_leaf:
        return [f"input {node.name}", shape]
    inner = graph.operators_of(node)
    node_texts = [
        " ".join([n.op, *(str(n.attrs[k]) for k in SHOWN if k in n.attrs)]) for n in inner
    ]
    if len(node_texts) > SEVERAL:
        node_texts = [*node_texts[: SEVERAL - 1], f"… {len(node_texts) - SEVERAL + 1} more"]
    return [*node_texts, shape]
