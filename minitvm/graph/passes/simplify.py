"""Remove operators that change nothing, and join those that undo, continue or repeat others."""

from __future__ import annotations

from typing import Any

from ..node import Graph, Node, rewritten, stored
from ..operators import call
from .sink import sunk


def simplify(graph: Graph) -> Graph:
    """Replace nodes by simpler ones that compute the same.

    before   y = transpose(transpose(x, axes=(0, 2, 3, 1)), axes=(0, 3, 1, 2)); z = add(y, b=0.0)
    after    z = x

    Transposes of images move behind operators that may as well work on other layouts.
    """
    while (simpler := _once(graph)) is not graph:
        graph = simpler
    return graph


def _once(graph: Graph) -> Graph:
    """Return the graph after one walk from its inputs to its outputs."""
    readers = graph.readers()

    def change(node: Node, old: Node) -> Node:
        shared = [
            x
            for x, before in zip(node.inputs, old.inputs, strict=True)
            if before in graph.outputs
            or any(r is not old and r.op != "transpose" for r in readers[before])
        ]
        return sunk(_simpler(node), shared)

    return rewritten(graph, change)


def _simpler(node: Node) -> Node:
    """Return a node that computes the same as `node` with less work, or else `node`."""
    if not node.inputs:
        return node
    x, attrs = node.inputs[0], node.attrs
    same_type = x.type == node.type
    match node.op:
        case "identity":
            return x
        case "cast" | "reshape" | "pad" if same_type:
            return x
        case "add" | "subtract" if attrs.get("b") == 0 and same_type:
            return x
        case "multiply" | "divide" if attrs.get("b") == 1 and same_type:
            return x
        case "strided_slice" if same_type and min(attrs.get("strides") or (1,)) > 0:
            return x
        case "concatenate" if len(node.inputs) == 1:
            return x
        case "relu" if x.op == "relu":
            return x
        case "reshape" if x.op == "reshape":
            return call("reshape", x.inputs[0], name=node.name, shape=node.type.shape)
        case "transpose":
            return _transposed(node, x)
        case "dense" | "matmul" | "batch_matmul" if x.type.dtype == "float32":
            w, *bias = node.inputs[1:]
            if stored(w) is w:
                return node
            return call(node.op, x, stored(w), *bias, name=node.name, **attrs)
        case "take" if stored(x) is not x:
            rows = call("take", stored(x), *node.inputs[1:], name=node.name, **attrs)
            return call("cast", rows, name=node.name, dtype="float32")
        case _:
            return node


def _transposed(node: Node, x: Node) -> Node:
    """Return `node`, a transpose of `x`, or a simpler node with the same result."""
    axes = permutation(node)
    if axes == tuple(range(len(axes))):
        return x
    if x.op == "transpose":
        before = permutation(x)
        return call("transpose", x.inputs[0], name=node.name, axes=tuple(before[d] for d in axes))
    if sum(n > 1 for n in x.type.shape) <= 1:  # all elements are along one dimension
        return call("reshape", x, name=node.name, shape=node.type.shape)
    return node


def permutation(node: Node) -> tuple[int, ...]:
    """Return the axes of a transpose: dimension k of the result is axes[k] of the input."""
    axes = node.attrs.get("axes")
    rank = len(node.type.shape)
    return tuple(reversed(range(rank))) if axes is None else tuple(d % rank for d in axes)


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
