"""Compute equal nodes once (common subexpressions)."""

from __future__ import annotations

from typing import Any

from ..node import Graph, Node, rewritten


def merge_same(graph: Graph) -> Graph:
    """Replace nodes with the same operator, inputs and attributes by the first of them.

    before   a = relu(x); b = relu(x); y = add(a, b)
    after    a = relu(x); y = add(a, a)
    """
    known: dict[Any, Node] = {}

    def change(node: Node, _: Node) -> Node:
        if node.is_leaf:
            return node
        key = (node.op, node.inputs, tuple(sorted(node.attrs.items())))
        return known.setdefault(key, node)

    return rewritten(graph, change)
