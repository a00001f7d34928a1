"""The graph IR: a network is an acyclic graph of nodes, and each node is one tensor."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import BFLOAT16, DType, GraphError, dtype

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
        return f"{self.dtype}[{', '.join(map(str, self.shape)) or '()'}]"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One tensor of a network.

    op      INPUT; PARAM, whose value is known before the calls; KERNEL; or the name of an operator
    inputs  the nodes from which it is computed
    attrs   the other arguments of the operator. A kernel has "body", the graph that it computes;
            its inputs are the values of the body's inputs, in that order
    type    its shape and element type
    name    the name of an input or a parameter; for other nodes the place, such as "layer1.conv2"
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
        """All nodes: the inputs first, and each node after the nodes that it reads."""
        return ordered(self.outputs, self.inputs)

    @property
    def calls(self) -> tuple[Node, ...]:
        """The nodes that are computed, each after the nodes that it reads."""
        return tuple(node for node in self.nodes if not node.is_leaf)

    def readers(self) -> dict[Node, list[Node]]:
        """Return for each node the nodes that read it; a node that reads it twice occurs twice."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in readers:
            for source in node.inputs:
                readers[source].append(node)
        return readers

    def __str__(self) -> str:
        return "\n".join(_lines(self, ""))

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def with_params(self, more: Mapping[str, Array]) -> Graph:
        """Return this graph with values of more parameters added."""
        return replace(self, params={**self.params, **more})


def ordered(outputs: Iterable[Node], first: Iterable[Node] = ()) -> tuple[Node, ...]:
    """Return `first` and then all nodes that `outputs` need, each after the nodes that it reads.

    Works without recursion, because networks may be deep.
    """
    nodes = dict.fromkeys(first)
    for output in outputs:
        stack = [output]
        while stack:
            missing = [n for n in stack[-1].inputs if n not in nodes]
            if missing:
                stack += reversed(missing)
            else:
                nodes[stack.pop()] = None
    return tuple(nodes)


def tensor_type(shape: Iterable[int], name: str | DType = "float32") -> TensorType:
    """Return the type of tensors with this shape and element type.

    Raises GraphError unless all sizes are integers of at least 1.
    """
    sizes = tuple(shape)
    if not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise GraphError(f"shape {sizes}", "a size is not an integer of at least 1")
    return TensorType(tuple(map(int, sizes)), dtype(name))


def check_graph(value: Any, what: str) -> None:
    """Raise GraphError unless `value` is a graph."""
    if not isinstance(value, Graph):
        raise GraphError(what, f"{reprlib.repr(value)} is not a graph", "b.graph(y) of a Builder")


def as_array(what: str, value: Any) -> Array:
    """Return `value` as a contiguous array; raise GraphError about `what` if it is not an array."""
    try:
        return np.ascontiguousarray(value).reshape(np.shape(value))
    except (MemoryError, TypeError, ValueError) as e:
        raise GraphError(what, f"it cannot be read as an array: {e}") from e


def rewritten(graph: Graph, change: Callable[[Node, Node], Node]) -> Graph:
    """Return a graph in which change(node, old) replaces each node `old`.

    Works from inputs to outputs: `node` is `old` with inputs that have already been replaced.
    Returns `graph` itself if nothing changed.
    """
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = tuple(new[source] for source in node.inputs)
        unchanged = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = change(node if unchanged else replace(node, inputs=inputs), node)
    if all(a is b for a, b in new.items()):
        return graph
    outputs = tuple(new[node] for node in graph.outputs)
    return replace(graph, inputs=tuple(new[n] for n in graph.inputs), outputs=outputs)


def substituted(outputs: Iterable[Node], new: Mapping[Node, Node]) -> tuple[Node, ...]:
    """Return nodes that compute `outputs` with new[n] in the place of each node n of `new`.

    The nodes of `new` may read nodes of the old network, but none that depends on a replaced one.
    """
    result, last = dict(new), tuple(outputs)
    for node in ordered(last, new):
        if node not in result:
            inputs = tuple(result[source] for source in node.inputs)
            result[node] = node if inputs == node.inputs else replace(node, inputs=inputs)
    return tuple(result[node] for node in last)


def stored(w: Node) -> Node:
    """Return the parameter in bfloat16 that w converts to float32, else w.

    before   y = dense(x, cast(w, float32))  # w bfloat16[N, K]
    after    y = dense(x, w)                 # converts what it loads
    """
    widens = w.op == "cast" and w.type.dtype == "float32" and w.inputs[0].type.dtype == BFLOAT16
    return w.inputs[0] if widens and w.inputs[0].op == PARAM else w


def kernel(body: Graph, inputs: tuple[Node, ...], name: str = "") -> Node:
    """Return a node that computes `body` from `inputs`."""
    if [n.type for n in inputs] != [n.type for n in body.inputs]:
        raise GraphError(f"kernel {body.name}", "its inputs differ in type from the body's inputs")
    return Node(KERNEL, inputs, body.outputs[0].type, {"body": body}, name)


# --- printing ---


def _lines(graph: Graph, indent: str) -> Iterator[str]:
    names = _Names()
    inner = indent + "  "
    types = [f"param[{n.type}]" if n.op == PARAM else str(n.type) for n in graph.inputs]
    heads = [f"{names.of(n)}: {t}" for n, t in zip(graph.inputs, types, strict=True)]
    yield f"{indent}def {_identifier(graph.name)}({', '.join(heads)}):"
    kernels: dict[str, str] = {}  # text of a body -> its name
    inputs = set(graph.inputs)
    for node in graph.nodes:
        if node in inputs:
            continue
        if node.op == PARAM:
            yield f"{inner}{names.of(node)} = param({node.name!r}, {node.type})".replace("'", '"')
            continue
        op = node.op
        if op == KERNEL:
            whole = str(node.body)
            if whole not in kernels:
                kernels[whole] = names.fresh(_identifier(node.body.name))
                first, *rest = _lines(node.body, inner)
                yield first.replace(f"def {_identifier(node.body.name)}(", f"def {kernels[whole]}(")
                yield from rest
            op = kernels[whole]
        attrs = [f"{k}={_shown(v)}" for k, v in node.attrs.items() if k != "body"]
        shown = f"{op}({', '.join([*map(names.of, node.inputs), *attrs])})"
        yield f"{inner}{names.of(node, op)} = {shown}  # {node.type}"
    yield f"{inner}return {', '.join(map(names.of, graph.outputs))}"


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _identifier(name: str) -> str:
    letters = re.sub(r"\W", "_", name) or "x"
    return f"x{letters}" if letters[0].isdigit() else letters


class _Names:
    """Unique names of the nodes in a printed function."""

    def __init__(self) -> None:
        self.taken = set[str]()
        self.known: dict[Node, str] = {}

    def of(self, node: Node, function: str = "") -> str:
        """Return the name of a node; base a new name on `function` if the node is not a leaf."""
        if node not in self.known:
            base = _identifier(node.name) if node.is_leaf else f"{function}_"
            self.known[node] = self.fresh(base)
        return self.known[node]

    def fresh(self, base: str) -> str:
        """Return a new name: `base` or, if it is taken or ends in "_", `base` with a number."""
        tries = (f"{base}{n}" for n in range(1, len(self.taken) + 2))
        free = [base] if not base.endswith("_") else []
        name = next(t for t in (*free, *tries) if t not in self.taken)
        self.taken.add(name)
        return name
