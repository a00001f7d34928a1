"""Remove operators that change nothing, and join those that undo or continue each other."""

from __future__ import annotations

from collections.abc import Iterator

from ..node import Graph, Node, rewritten
from ..operators import call


def simplify(graph: Graph) -> Graph:
    """Replace nodes by simpler ones that compute the same.

    before   y = transpose(transpose(x, axes=(0, 2, 3, 1)), axes=(0, 3, 1, 2)); z = add(y, b=0.0)
    after    z = x
    """
    while (found := rewritten(graph, _simpler)) is not graph:
        graph = found
    return graph


def _simpler(node: Node, _: Node) -> Node:
    return next(_simpler_forms(node), node)


def _simpler_forms(node: Node) -> Iterator[Node]:
    """Yield nodes that compute the same as `node` with less work."""
    if not node.inputs:
        return
    x, attrs = node.inputs[0], node.attrs
    same_type = x.type == node.type
    match node.op:
        case "identity":
            yield x
        case "add" | "subtract" if attrs.get("b") == 0 and same_type:
            yield x
        case "multiply" | "divide" if attrs.get("b") == 1 and same_type:
            yield x
        case "cast" | "reshape" if same_type:
            yield x
        case "reshape" if x.op == "reshape":
            yield call("reshape", x.inputs[0], name=node.name, shape=node.type.shape)
        case "transpose":
            yield from _transposed(node, x)
        case "concatenate" if len(node.inputs) == 1:
            yield x
        case "strided_slice" if same_type and min(attrs.get("strides") or (1,)) > 0:
            yield x
        case "pad" if same_type:
            yield x
        case "relu" if x.op == "relu":
            yield x
        case _:
            pass


def _transposed(node: Node, x: Node) -> Iterator[Node]:
    axes = permutation(node)
    if axes == tuple(range(len(axes))):
        yield x
    elif x.op == "transpose":
        before = permutation(x)
        yield call("transpose", x.inputs[0], name=node.name, axes=tuple(before[d] for d in axes))
    elif sum(n > 1 for n in x.type.shape) <= 1:  # all elements are along one dimension
        yield call("reshape", x, name=node.name, shape=node.type.shape)


def permutation(node: Node) -> tuple[int, ...]:
    """Return the axes of a transpose: dimension k of the result is axes[k] of the input."""
    axes = node.attrs.get("axes")
    rank = len(node.type.shape)
    return tuple(reversed(range(rank))) if axes is None else tuple(d % rank for d in axes)
