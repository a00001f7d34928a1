"""Compute beforehand what depends on parameters alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..evaluate import value_of
from ..node import PARAM, Array, Graph, Node, rewritten, tensor_type


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes that depend on parameters alone by parameters with their values.

    before   w = param("w", float32[8, 3]); v = transpose(w, axes=(1, 0)); y = matmul(x, v)
    after    v = param("w.transpose", float32[3, 8]); y = matmul(x, v)

    Parameters without a value, and their readers, stay as they are.
    """
    params = dict(graph.params)

    def change(node: Node, _: Node) -> Node:
        if not node.inputs or not are_known(node.inputs, params):
            return node
        value = value_of(node, [params[n.name] for n in node.inputs])
        return add_param(params, f"{node.inputs[0].name}.{node.op}", value)

    return pruned(rewritten(graph, change).with_params(params))


def add_param(params: dict[str, Array], wish: str, value: Array) -> Node:
    """Store a value under a new name, `wish` or `wish` with a number; return its node."""
    tries = (f"{wish}{n}" for n in range(2, len(params) + 3))
    name = next(n for n in (wish, *tries) if n not in params)
    params[name] = value
    return Node(PARAM, (), tensor_type(value.shape, value.dtype.name), name=name)


def are_known(nodes: Iterable[Node], params: Mapping[str, Array]) -> bool:
    """Return whether all nodes are parameters with values."""
    return all(node.op == PARAM and node.name in params for node in nodes)


def pruned(graph: Graph) -> Graph:
    """Return the graph without the values of parameters that it does not read."""
    names = {node.name for node in graph.nodes if node.op == PARAM}
    if names >= graph.params.keys():
        return graph
    return replace(graph, params={n: v for n, v in graph.params.items() if n in names})
