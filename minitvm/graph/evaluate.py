"""Compute networks in numpy, operator by operator, as a reference for compiled networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitvm.base import GraphError, holds_floats

from .node import KERNEL, PARAM, Array, Graph, Node, as_array, check_graph
from .operators import OPERATORS


def evaluate(graph: Graph, *inputs: Any, dtype: str = "") -> tuple[Array, ...]:
    """Return the outputs of a network for these inputs, computed by numpy.

    dtype   the type of all intermediate floating-point numbers, such as "float64"; by default each
            node has its own type
    """
    check_graph(graph, "evaluate")
    if len(inputs) != len(graph.inputs):
        why = f"it has {len(graph.inputs)} inputs, not {len(inputs)}"
        raise GraphError(f"evaluate({graph.name})", why)
    arrays = [as_array(f"input {n.name}", x) for n, x in zip(graph.inputs, inputs, strict=True)]
    for node, x in zip(graph.inputs, arrays, strict=True):
        if x.shape != node.type.shape:
            raise GraphError(f"input {node.name}", f"{x.dtype}{[*x.shape]} is not {node.type}")
    return _outputs(graph, arrays, graph.params, dtype)


def value_of(node: Node, inputs: Sequence[Array], dtype: str = "") -> Array:
    """Compute the value of one node from the values of its inputs."""
    if node.op == KERNEL:
        (value,) = _outputs(node.body, inputs, {}, dtype)
    else:
        value = np.asarray(OPERATORS[node.op].reference(*inputs, **node.attrs))
    if dtype and node.type.dtype.is_float:
        return value.astype(dtype)
    return np.asarray(value, node.type.dtype.numpy, order="C")


def _outputs(
    graph: Graph, inputs: Sequence[Array], params: Mapping[str, Array], dtype: str
) -> tuple[Array, ...]:
    values: dict[Node, Array] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        if node in values:
            value = values[node]
        elif node.op == PARAM:
            value = params.get(node.name)
            if value is None:
                raise GraphError(f"parameter {node.name!r}", "it has no value", "with_params")
        else:
            values[node] = value_of(node, [values[n] for n in node.inputs], dtype)
            continue
        values[node] = value.astype(dtype) if dtype and holds_floats(value) else value
    return tuple(values[n] for n in graph.outputs)
