"""Graphs whose sizes are affine in a dynamic size n: three graphs of fixed sizes become one.

The sizes in the shapes and in the arguments of operators are then ints, or runtime.Extent, which
stands for scale * n + shift and is printed as n*4 + 1. Only `sized` and `as_index` lead back to
sizes that operators take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import runtime, tir
from minitvm.base import GraphError

from .node import INPUT, KERNEL, PARAM, Graph, Node, TensorType, rewritten
from .operators import call

Make: TypeAlias = Callable[[int], Graph]  # the network for each size n


def merged(graphs: Sequence[Graph], first: int) -> Graph:
    """Return the network for any n, given the network at n = first, first + 1 and first + 2.

    before   x: float32[16, 768]; x: float32[17, 768]; x: float32[18, 768]
    after    x: float32[n, 768]

    Raises GraphError, which names a node, if the graphs differ in more than sizes affine in n.
    """
    one = graphs[0]
    nodes = [graph.nodes for graph in graphs]
    numbers = [{node: k for k, node in enumerate(row)} for row in nodes]
    if len({len(row) for row in nodes}) > 1:
        counts = ", ".join(f"{len(row)} at n = {first + k}" for k, row in enumerate(nodes))
        fix = "another typical size"
        raise GraphError(f"network {one.name}", f"its number of nodes depends on n: {counts}", fix)
    new: dict[Node, Node] = {}
    for same in zip(*nodes, strict=True):
        sources = {
            tuple(number[s] for s in n.inputs) for n, number in zip(same, numbers, strict=True)
        }
        kinds = {(n.op, n.name, n.type.dtype, *n.attrs) for n in same}
        if len(sources) > 1 or len(kinds) > 1:
            raise _different(same[0], "the operator, or what it reads, depends on n")
        new[same[0]] = _merged_node(same, tuple(new[s] for s in same[0].inputs), first)
    for name, value in one.params.items():
        if not all(np.array_equal(value, graph.params[name]) for graph in graphs[1:]):
            reader = next(n for n in one.calls if any(x.name == name for x in n.inputs))
            shown = reader.body.name if reader.op == KERNEL else reader.op
            why = f"its value depends on n; {shown} reads it"
            fix = "pass largest=, and let this parameter be a prefix of the one in make(largest)"
            raise GraphError(f"parameter {name!r}", why, fix)
    return replace(
        one,
        inputs=tuple(new[node] for node in one.inputs),
        outputs=tuple(new[node] for node in one.outputs),
    )


def _merged_node(same: Sequence[Node], inputs: tuple[Node, ...], first: int) -> Node:
    """Return one node for any n."""
    node = same[0]
    try:
        shape = _affine([n.type.shape for n in same], first)
        attrs = {
            key: merged([n.body for n in same], first)
            if node.op == KERNEL and key == "body"
            else _affine([n.attrs[key] for n in same], first)
            for key in node.attrs
        }
    except ValueError as e:
        raise _different(node, str(e)) from e
    return Node(node.op, inputs, TensorType(shape, node.type.dtype), attrs, node.name)


def _different(node: Node, why: str) -> GraphError:
    name = f" {node.name!r}" if node.name else ""
    return GraphError(f"{node.op}{name}: {node.type}", why, "a network of one form for all sizes")


def _affine(values: Sequence[Any], first: int) -> Any:
    """Return one value for any n, given the value at n = first, first + 1, ...; or ValueError."""
    if all(isinstance(v, tuple) for v in values) and len({len(v) for v in values}) == 1:
        return tuple(_affine(parts, first) for parts in zip(*values, strict=True))
    if all(v == values[0] for v in values):
        return values[0]
    ints = all(type(v) is int for v in values)
    steps = {b - a for a, b in pairwise(values)} if ints else set[int]()
    if len(steps) != 1:
        raise ValueError(f"not affine in n: {', '.join(map(str, values))}")
    (scale,) = steps
    return runtime.Extent(scale, values[0] - scale * first)


# --- tables --------------------------------------------------------------------------------------


def with_slices(graph: Graph, full: Graph) -> Graph:
    """Replace each parameter that is a prefix of the one in `full` by a slice of that one.

    full   the network for the largest n

    before   at = param("arange", int64[16])
    after    at = strided_slice(param("arange", int64[512]), begin=(0,), end=(16,))
    """
    values = dict(graph.params)

    def change(node: Node, _: Node) -> Node:
        part, whole = graph.params.get(node.name), full.params.get(node.name)
        if node.op != PARAM or part is None or whole is None or part.shape == whole.shape:
            return node
        if part.ndim != whole.ndim or not np.array_equal(
            whole[tuple(map(slice, part.shape))], part
        ):
            return node
        values[node.name] = whole
        table = replace(node, type=TensorType(whole.shape, node.type.dtype))
        return call("strided_slice", table, begin=(0,) * part.ndim, end=part.shape)

    return replace(rewritten(graph, change), params=values)


def tables_of(graphs: Sequence[Graph]) -> frozenset[str]:
    """Return the parameters of which a part is read that depends on n, such as one row a word.

    Passes would compute the part for one n: the other nodes that read only constants are the same
    in all `graphs`, the networks for several n.
    """
    tables = set[str]()
    sources: dict[Node, set[str]] = {}  # of each constant: the parameters that it is computed from
    for same in zip(*(graph.nodes for graph in graphs), strict=False):
        node = same[0]
        if node.op == PARAM:
            sources[node] = {node.name}
        elif node.inputs and all(source in sources for source in node.inputs):
            sources[node] = set[str]().union(*(sources[source] for source in node.inputs))
            if any((n.type, n.attrs) != (node.type, node.attrs) for n in same):
                tables |= sources[node]
    return frozenset(tables)


def without_tables(graph: Graph, tables: frozenset[str]) -> Graph:
    """Return the graph with inputs in place of the parameters `tables`, so that none is folded."""
    nodes = [node for node in graph.nodes if node.op == PARAM and node.name in tables]
    new = {node: replace(node, op=INPUT) for node in nodes}
    changed = rewritten(graph, lambda node, old: new.get(old, node))
    rest = {name: value for name, value in graph.params.items() if name not in tables}
    return replace(changed, inputs=(*changed.inputs, *new.values()), params=rest)


def with_tables(graph: Graph, whole: Graph) -> Graph:
    """Return the graph with parameters in place of the inputs that are parameters in `whole`."""

    def change(node: Node, _: Node) -> Node:
        is_table = node.op == INPUT and node.name in whole.params
        return replace(node, op=PARAM) if is_table else node

    changed = rewritten(graph, change)
    values = {n.name: whole.params[n.name] for n in changed.inputs if n.op == PARAM}
    inputs = tuple(n for n in changed.inputs if n.op == INPUT)
    return replace(changed, inputs=inputs, params={**changed.params, **values})


# --- back to sizes -------------------------------------------------------------------------------


def sized(graph: Graph, n: int) -> Graph:
    """Return the graph that a merged graph stands for at one n."""

    def change(node: Node, _: Node) -> Node:
        shape = cast("tuple[int, ...]", _replaced(node.type.shape, lambda extent: extent.at(n)))
        if node.is_leaf:
            return replace(node, type=TensorType(shape, node.type.dtype))
        attrs = {
            key: _replaced(value, lambda extent: extent.at(n)) for key, value in node.attrs.items()
        }
        return call(node.op, *node.inputs, name=node.name, **attrs)

    return rewritten(graph, change)


def as_index(value: Any, n: tir.Var) -> Any:
    """Return a size, an argument, or a tuple of them with extents as expressions of `n`."""
    return _replaced(value, lambda extent: tir.add(tir.mul(n, extent.scale), extent.shift))


def _replaced(value: Any, change: Callable[[runtime.Extent], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_replaced(part, change) for part in cast("tuple[Any, ...]", value))
    return change(value) if isinstance(value, runtime.Extent) else value
