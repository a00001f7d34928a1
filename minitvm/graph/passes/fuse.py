"""Operator fusion: operators that can be computed in the same loops become one kernel.

    conv2d = conv2d(x, w)               def conv2d_add_relu(p0, p1, p2): ...
    add = add(conv2d, bias)     ->      conv2d_add_relu = conv2d_add_relu(x, w, bias)
    relu = relu(add)

The rules are those of TVM's FuseOps (src/relay/transforms/fuse_ops.cc). An operator is merged with
its post-dominator, the first operator through which every path to an output goes, and with all
operators on these paths, if their kinds allow it. All other values of a group are then read within
the group only, so a kernel has one result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..node import INPUT, KERNEL, PARAM, Graph, Node, kernel
from ..operators import OPERATORS, Fusion

DEPTH = 256  # the most operators of a kernel
NAME = 60  # the most characters of a kernel's name; a longer one ends with its operators' number
PHASES = 3
Readers = Mapping[Node, list[Node]]


def fuse(graph: Graph, level: int = 1, depth: int = DEPTH) -> Graph:
    """Return the network with all operators in kernels, whose leaves are called p0, p1, ...

    level   0: each operator is a kernel of its own; 1: operators are fused
    depth   the most operators of a kernel
    """
    kernels: dict[Node, Node] = {}
    for last, members in fusion_groups(graph, level, depth).items():
        kernels[last] = _kernel(members, kernels)
    return replace(graph, outputs=tuple(kernels.get(node, node) for node in graph.outputs))


def fusion_groups(graph: Graph, level: int = 1, depth: int = DEPTH) -> dict[Node, list[Node]]:
    """Return the operators of each kernel in order, by the last one, which computes its result."""
    nodes, readers = graph.calls, graph.readers()
    groups = {node: _Group(node, kind_of(node)) for node in nodes}
    dominators = post_dominators(graph) if level else {}
    for phase in range(PHASES if level else 0):
        for node in nodes:
            dominator = dominators[node]
            if dominator.node is None or not _allowed(node, dominator, groups, phase):
                continue
            path = _path(node, dominator.node, readers)
            merged = {groups[n].whole for n in (node, *path, dominator.node)}
            fits = sum(group.size for group in merged) <= depth
            if fits and _may_merge(node, path, dominator.node, groups, phase):
                for member in (node, *path):
                    groups[member].merge_into(groups[dominator.node])
    members: dict[Node, list[Node]] = {}
    for node in nodes:
        members.setdefault(groups[node].whole.sink, []).append(node)
    return {node: members[node] for node in nodes if node in members}


def kind_of(node: Node) -> Fusion:
    """Return what a node can be fused with; kernels are not fused again."""
    return Fusion.OPAQUE if node.op == KERNEL else OPERATORS[node.op].fusion


# --- post-dominators -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dominator:
    """The post-dominator of a node.

    node    the first node through which every path to an output goes; None for an output
    kind    the largest kind of the edges on these paths
    depth   the length of the chain of dominators from the node to an output
    """

    node: Node | None
    kind: Fusion
    depth: int


def post_dominators(graph: Graph) -> dict[Node, Dominator]:
    """Return the post-dominator of each node that is computed."""
    readers, dominators = graph.readers(), dict[Node, Dominator]()
    outputs = set(graph.outputs)
    for node in reversed(graph.calls):
        if node in outputs:
            dominators[node] = Dominator(None, Fusion.OPAQUE, 1)
            continue
        meet, kind = readers[node][0], Fusion.ELEMENTWISE
        for reader in readers[node]:
            meet, kind = _meeting(meet, reader, max(kind, edge_kind(node, reader)), dominators)
        dominators[node] = Dominator(meet, kind, _depth(meet, dominators) + 1)
    return dominators


def edge_kind(node: Node, reader: Node) -> Fusion:
    """Return how the elements of `reader` depend on those of `node`, which it reads."""
    kind = kind_of(reader)
    if kind == Fusion.BROADCAST and node.type.shape == reader.type.shape:
        return Fusion.ELEMENTWISE
    return kind


def _meeting(
    a: Node | None, b: Node | None, kind: Fusion, dominators: Mapping[Node, Dominator]
) -> tuple[Node | None, Fusion]:
    """Return the first common dominator of `a` and `b`, and the largest kind on the way to it."""
    while a is not b:
        if _depth(a, dominators) < _depth(b, dominators):
            a, b = b, a
        assert a is not None  # it is as deep as b, which is another node
        a, kind = dominators[a].node, max(kind, dominators[a].kind)
    return a, kind


def _depth(node: Node | None, dominators: Mapping[Node, Dominator]) -> int:
    return 0 if node is None else dominators[node].depth


# --- groups --------------------------------------------------------------------------------------


class _Group:
    """A set of operators that become a kernel; `whole` is the group that it has been merged into.

    sink   the operator whose result is that of the kernel
    kind   the kind of the sink, or ANCHOR if the group has an anchor
    size   the number of its operators
    """

    def __init__(self, sink: Node, kind: Fusion) -> None:
        self.sink, self.kind, self.size = sink, kind, 1
        self._into: _Group | None = None

    @property
    def whole(self) -> _Group:
        """Return the group that this one was merged into, or this group if it was not merged."""
        group = self
        while group._into is not None:
            group = group._into
        return group

    def merge_into(self, other: _Group) -> None:
        """Merge the groups of two nodes, which may be merged already."""
        part, whole = self.whole, other.whole
        if part is whole:
            return
        part._into, whole.size = whole, whole.size + part.size
        if part.kind == Fusion.ANCHOR:
            whole.kind = Fusion.ANCHOR


Groups = Mapping[Node, _Group]


def _allowed(node: Node, by: Dominator, groups: Groups, phase: int) -> bool:
    """Return whether a phase merges `node` with its dominator, if the path to it allows that.

    0   anchors with elementwise operators; elementwise operators with their readers
    1   elementwise operators again, and operators that move elements, as anchors are complete now
    2   operators that move elements with a concatenate of their results
    """
    kind, sink = groups[node].kind, by.node
    if sink is None or groups[node].whole is groups[sink].whole:
        return False
    if phase == 2 or joins(sink):
        return phase == 2 and joins(sink) and kind <= Fusion.INJECTIVE
    match kind:
        case Fusion.ANCHOR:
            return phase == 0 and by.kind == Fusion.ELEMENTWISE
        case Fusion.ELEMENTWISE | Fusion.BROADCAST:
            return by.kind <= Fusion.REDUCTION
        case Fusion.INJECTIVE:
            return phase == 1
        case Fusion.REDUCTION | Fusion.OPAQUE:
            return False


def _may_merge(node: Node, path: list[Node], sink: Node, groups: Groups, phase: int) -> bool:
    """Return whether the operators on the path and the sink are of kinds that may merge."""
    kind, last = groups[node].kind, groups[sink].whole.kind
    if phase < 2 and any(map(joins, path)):
        return False
    most = Fusion.BROADCAST if kind == Fusion.ANCHOR else Fusion.INJECTIVE
    if any(groups[n].whole.kind > most for n in path):
        return False
    if kind <= Fusion.BROADCAST and phase < 2:
        return last != Fusion.OPAQUE
    return last <= most


def joins(node: Node) -> bool:
    """Return whether a node joins tensors that may come from different kernels."""
    return node.op == "concatenate"


def _path(node: Node, sink: Node, readers: Readers) -> list[Node]:
    """Return the nodes between a node and its dominator."""
    between, left = dict[Node, None](), list(readers[node])
    while left:
        each = left.pop()
        if each is not sink and each not in between:
            between[each] = None
            left += readers[each]
    return list(between)


# --- kernels -------------------------------------------------------------------------------------


def _kernel(members: list[Node], new: Mapping[Node, Node]) -> Node:
    """Return the kernel of a group; `new` has the kernels of the groups that it reads."""
    if len(members) == 1 and members[0].op == KERNEL:
        return replace(members[0], inputs=tuple(new.get(n, n) for n in members[0].inputs))
    inner: dict[Node, Node] = {}
    outside: dict[Node, Node] = {}
    for node in members:
        for source in node.inputs:
            if source not in inner:
                op = PARAM if source.op == PARAM else INPUT
                leaf = Node(op, (), source.type, name=f"p{len(outside)}")
                inner[source] = outside[source] = leaf
        inner[node] = replace(node, inputs=tuple(inner[n] for n in node.inputs), name="")
    name = "_".join(node.op for node in members)
    if len(name) > NAME:
        name = f"{name[:NAME]}_{len(members)}"
    body = Graph(name, tuple(outside.values()), (inner[members[-1]],))
    names = (node.name for node in members if node.name)
    return kernel(body, tuple(new.get(n, n) for n in outside), next(names, ""))
