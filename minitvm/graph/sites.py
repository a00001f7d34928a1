"""Which tensors of a network become bytes when it is quantised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from . import passes
from .node import INPUT, Graph, Node

LIMITS = ("clip", "relu")


@dataclass(frozen=True, slots=True)
class Sites:
    """The tensors of a network that become bytes.

    names     the tensors, which are inputs or results of arithmetic, and a unique name of each
    first     the tensors -> a tensor with which they share a scale, as they are concatenated
    varying   the nodes that depend on an input
    """

    graph: Graph
    names: Mapping[Node, str]
    first: Mapping[Node, Node]
    varying: frozenset[Node]

    def is_product(self, node: Node) -> bool:
        """Return whether a node multiplies data and constant weights."""
        return _is_product(self.graph, node, self.varying)

    def continues(self, node: Node) -> bool:
        """Return whether a node limits a result, or adds a constant to it."""
        return _continues(node, self.varying)

    def summed_products(self) -> set[Node]:
        """Return the first product of each sum of two tensors, after its bias.

        Nothing but the sum reads these tensors.
        """
        readers, products = self.graph.readers(), set[Node]()
        for node in self.graph.calls:
            operands = node.inputs if _is_sum(node, self.varying) else ()
            single = (x for x in operands if len(readers[x]) == 1 and self._is_biased_product(x))
            products.update(islice(single, 1))
        return products

    def _is_biased_product(self, node: Node) -> bool:
        while node.op == "add" and self.continues(node):
            node = next(source for source in node.inputs if source in self.varying)
        return self.is_product(node)


def sites_of(graph: Graph) -> Sites:
    """Return the tensors that become bytes: those that convolutions and products read.

    Where such a tensor is a sum of two tensors or a mean, the tensors that these operators read
    become bytes, too. Where operators move elements, what they read becomes bytes.
    """
    varying: set[Node] = set()
    for node in graph.nodes:
        if node.op == INPUT or any(source in varying for source in node.inputs):
            varying.add(node)
    readers = graph.readers()
    bytes_, ends = set[Node](), set[Node]()  # ends: bytes, perhaps after a bias and limits
    for node in reversed(graph.nodes):
        if node not in varying or node.type.dtype != "float32":
            continue
        for reader in readers[node]:
            if _continues(reader, varying):
                if reader in ends:
                    ends.add(node)
            elif _reads_bytes(graph, reader, node, varying, bytes_, ends):
                bytes_.add(node)
                ends.add(node)
    tensors = [n for n in graph.nodes if n in bytes_ and n.op not in passes.MOVES]
    return Sites(graph, _names(tensors, varying), _shared(graph, bytes_), frozenset(varying))


def _is_product(graph: Graph, node: Node, varying: set[Node] | frozenset[Node]) -> bool:
    if node.op not in passes.PRODUCTS or node.attrs.get("transpose_a"):
        return False
    x, *constants = node.inputs
    return x in varying and passes.are_known(constants, graph.params)


def _continues(node: Node, varying: set[Node] | frozenset[Node]) -> bool:
    return node.op in LIMITS or (node.op == "add" and not _is_sum(node, varying))


def _is_sum(node: Node, varying: set[Node] | frozenset[Node]) -> bool:
    return node.op == "add" and len(node.inputs) == 2 and varying.issuperset(node.inputs)


def _reads_bytes(
    graph: Graph, reader: Node, node: Node, varying: set[Node], bytes_: set[Node], ends: set[Node]
) -> bool:
    """Return whether an operator reads `node` as bytes; its result may become bytes, too."""
    if reader.op in passes.MOVES:
        return reader in bytes_
    if reader.op in passes.MEANS or _is_sum(reader, varying):
        return reader in ends
    return _is_product(graph, reader, varying) and reader.inputs[0] is node


def _names(tensors: Sequence[Node], varying: set[Node]) -> dict[Node, str]:
    """Return a unique name for each tensor: that of its layer, or of its operator."""
    names: dict[Node, str] = {}
    taken = set[str]()
    for node in tensors:
        first = node
        while not first.name and _continues(first, varying):
            first = next(source for source in first.inputs if source in varying)
        base = first.name or first.op
        tries = (base, *(f"{base}.{k}" for k in range(2, len(tensors) + 2)))
        names[node] = next(name for name in tries if name not in taken)
        taken.add(names[node])
    return names


def _shared(graph: Graph, bytes_: set[Node]) -> dict[Node, Node]:
    """Return for each node of bytes the first node of those that must have its scale."""
    first: dict[Node, Node] = {}
    for node in graph.nodes:
        if node not in bytes_:
            continue
        first[node] = node
        if node.op in passes.MOVES:
            groups = {first[source] for source in node.inputs}
            first |= {n: node for n, group in first.items() if group in groups}
    return first
