"""The graph IR: a network is an acyclic graph of nodes, and each node is one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import DType, dtype

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

INPUT, PARAM, KERNEL = "input", "param", "kernel"


@dataclass(frozen=True, slots=True)
class TensorType:
    """The shape and the element type of a tensor."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The number of bytes in memory."""
        return self.elements * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One tensor of a network.

    op      INPUT; PARAM, whose value is known before the calls; KERNEL; or the name of an operator
    inputs  the nodes that it is computed from
    attrs   the other arguments of the operator. A kernel has "body", the graph that it computes;
            its inputs are the values of the body's inputs, in that order
    type    its shape and element type
    name    of an input or a parameter; for others the place in the network, such as "layer1.conv2"
    """

    op: str
    inputs: tuple[Node, ...]
    type: TensorType
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""

    @property
    def is_leaf(self) -> bool:
        """Whether the node is an input or a parameter."""
        return self.op in (INPUT, PARAM)

    @property
    def body(self) -> Graph:
        """The graph that this kernel computes."""
        return self.attrs["body"]

    def __repr__(self) -> str:
        return f"<{self.op} {self.name or 'node'}: {self.type}>"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A network: its inputs, its outputs and the values of its parameters.

    print(graph) shows one line for each node, and graph.parse(text) reads this back. Graphs are
    equal if they print the same; the values of the parameters are not compared.
    """

    name: str
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    params: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes; each comes after those that it is computed from, and the inputs come first."""
        return ordered(self.outputs, self.inputs)

    @property
    def calls(self) -> tuple[Node, ...]:
        """The nodes that are computed, in an order in which they can be."""
        return tuple(node for node in self.nodes if not node.is_leaf)

    def readers(self) -> dict[Node, list[Node]]:
        """Return the nodes that read each node, once for each time that they read it."""
        found: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in found:
            for source in node.inputs:
                found[source].append(node)
        return found

    def with_params(self, more: Mapping[str, Array]) -> Graph:
        """Return the graph with the values of more parameters."""
        return replace(self, params={**self.params, **more})


def ordered(outputs: Iterable[Node], first: Iterable[Node] = ()) -> tuple[Node, ...]:
    """Return `first` and all nodes that `outputs` need, each after those that it is computed from.

    Works without recursion: networks may be deep.
    """
    found = dict.fromkeys(first)
    for output in outputs:
        stack = [output]
        while stack:
            missing = [n for n in stack[-1].inputs if n not in found]
            if missing:
                stack += reversed(missing)
            else:
                found[stack.pop()] = None
    return tuple(found)


def tensor_type(shape: Iterable[int], name: str | DType = "float32") -> TensorType:
    """Return the type of tensors with this shape and element type."""
    return TensorType(tuple(map(int, shape)), dtype(name))


def rewritten(graph: Graph, change: Callable[[Node], Node]) -> Graph:
    """Return a graph in which change(node) takes the place of each node, from inputs to outputs.

    `change` gets each node with inputs that have been replaced already. The result is `graph`
    itself if nothing changed.
    """
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = tuple(new[source] for source in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = change(node if same else replace(node, inputs=inputs))
    if all(a is b for a, b in new.items()):
        return graph
    outputs = tuple(new[node] for node in graph.outputs)
    return replace(graph, inputs=tuple(new[n] for n in graph.inputs), outputs=outputs)
