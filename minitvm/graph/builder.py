"""Builder: write a network as Python, one call for each operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from minitvm.base import GraphError, TVMError, name_missing, named

from .node import INPUT, PARAM, Array, Graph, Node, as_array, tensor_type
from .operators import OPERATORS, call


class Builder:
    """Builds a network.

        b = graph.Builder("mlp")
        x = b.input("data", (1, 784))
        h = b.relu(b.dense(x, b.param("w1", w1), b.param("b1", b1)))
        net = b.graph(b.softmax(h))

    Every operator of graph.OPERATORS is a method: its tensors come first, then its other arguments.
    Each method returns a Node with a known `type`, or raises GraphError if arguments do not fit.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self._leaves: dict[str, Node] = {}
        self._params: dict[str, Array] = {}

    def input(self, name: str, shape: Iterable[int], dtype: str = "float32") -> Node:
        """Add an input: a tensor that each call of the network gets."""
        return self._leaf(INPUT, name, shape, dtype)

    def param(self, name: str, value: Any) -> Node:
        """Add a parameter: a tensor whose value is known before the calls."""
        array = as_array(f"parameter {name!r}", value)
        node = self._leaf(PARAM, name, array.shape, array.dtype.name)
        self._params[name] = array
        return node

    def unknown(self, name: str, shape: Iterable[int], dtype: str = "float32") -> Node:
        """Add a parameter without a value; pass the value to graph.compile later."""
        return self._leaf(PARAM, name, shape, dtype)

    def call(self, op: str, *inputs: Node, name: str = "", **attrs: Any) -> Node:
        """Add the operator called `op`; `name` says where in the network it is."""
        return call(op, *inputs, name=name, **attrs)

    def graph(self, *outputs: Node) -> Graph:
        """Return the network that computes these outputs."""
        if not outputs:
            raise GraphError(f"graph {self.name}", "it has no outputs", "b.graph(y)")
        inputs = tuple(node for node in self._leaves.values() if node.op == INPUT)
        return Graph(self.name, inputs, outputs, dict(self._params))

    def _leaf(self, op: str, name: str, shape: Iterable[int], dtype: str) -> Node:
        what = f"{op} {name!r}"
        if not name:
            raise GraphError(f"{op} without a name", "inputs and parameters have names")
        if name in self._leaves:
            raise GraphError(what, "the network already has one of this name")
        try:
            kind = tensor_type(shape, dtype)
        except TVMError as e:
            raise GraphError(f"{what}: {e.args[0]}", *e.args[1:]) from e
        except TypeError as e:
            raise GraphError(what, str(e), "a shape such as (1, 3, 224, 224)") from e
        self._leaves[name] = Node(op, (), kind, name=name)
        return self._leaves[name]

    def __getattr__(self, op: str) -> Callable[..., Node]:
        if op.startswith("_") or op not in OPERATORS:
            raise name_missing("graph.Builder", op, [*OPERATORS, *Builder.__dict__])
        formula = OPERATORS[op].formula
        signature = inspect.signature(formula)

        def method(*args: Any, name: str = "", **attrs: Any) -> Node:
            inputs = tuple(a for a in args if isinstance(a, Node))
            try:
                bound = signature.bind(*args, **attrs).arguments
            except TypeError as e:
                raise GraphError(op, str(e), f"{op}{signature}") from e
            left = {k: v for k, v in bound.items() if not _has_nodes(v)}
            if inputs != args[: len(inputs)]:
                why = "its tensors come first; only the last operand may be a number"
                raise GraphError(op, why, f"{op}{signature}")
            inputs += tuple(v for v in attrs.values() if isinstance(v, Node))
            return call(op, *inputs, name=name, **left)

        method = named(method, op, inspect.getdoc(formula) or "")
        method.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return method

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *OPERATORS})


def _has_nodes(value: Any) -> bool:
    return isinstance(value, Node) or (isinstance(value, tuple) and Node in map(type, value))  # pyright: ignore[reportUnknownArgumentType]
