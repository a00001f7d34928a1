"""What the functions of operators work with: values, and the place of a node in the network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm.base import BFLOAT16, DType, GraphError, dtype

from ..builder import Builder
from ..evaluate import value_of
from ..node import INPUT, PARAM, Array, Node, ordered, stored, tensor_type
from ..operators import OPERATORS, Fusion, call
from .model import Body, Budget, Call

Value: TypeAlias = Node | Array  # an array is a constant


def dtype_of(value: Value) -> DType:
    """Return the element type of a value."""
    return value.type.dtype if isinstance(value, Node) else dtype(value.dtype.name)


def shape_of(value: Value) -> tuple[int, ...]:
    """Return the shape of a value."""
    return value.type.shape if isinstance(value, Node) else value.shape


@dataclass(slots=True)
class Scope:
    """The network so far: its Builder, and the names of constants that may become parameters."""

    b: Builder
    budget: Budget
    names: dict[int, str] = field(default_factory=dict[int, str])  # id of an array -> its name
    named_arrays: list[Array] = field(default_factory=list[Array])  # their ids must stay in use
    params: dict[int, Node] = field(default_factory=dict[int, Node])
    taken: set[str] = field(default_factory=set[str])
    runs: int = 0  # how many subgraphs have been read

    def named(self, array: Array, name: str) -> None:
        """Give a constant a name unless it has one."""
        if id(array) not in self.names:
            self.names[id(array)] = name
            self.named_arrays.append(array)

    def computed(self, array: Array, name: str) -> None:
        """Name a constant that the model computes, and count its bytes unless it is a view."""
        if id(array) not in self.names and array.base is None:
            self.budget.spend(f"constant {name!r}", array.nbytes)
        self.named(array, name)

    def node(self, value: Value, name: str) -> Node:
        """Return the node of a value; a constant without a name becomes the parameter `name`."""
        if isinstance(value, Node):
            return value
        if id(value) not in self.params:
            self.named(value, name)
            base = self.names[id(value)] or name
            tries = (base, *(f"{base}.{k}" for k in range(2, len(self.taken) + 3)))
            name = next(t for t in tries if t not in self.taken)
            self.taken.add(name)
            self.params[id(value)] = self.b.param(name, value)
        return self.params[id(value)]

    def constant_of(self, node: Node) -> Array | None:
        """Return the constant that became this parameter; None for other nodes."""
        return next((a for a in self.named_arrays if self.params.get(id(a)) is node), None)

    def in_bfloat16(self, value: Value | None) -> Array | None:
        """Return the constant in bfloat16 that a value converts; None for other values."""
        if not isinstance(value, Node) or stored(value) is value:
            return None
        return self.constant_of(stored(value))

    def in_float32(self, value: Value, name: str) -> Value:
        """Return bfloat16 as float32, in which operators compute; other values as they are.

        Constant matrices stay in bfloat16, and a node converts them. Products and `take` read them
        as they are stored; other operators get a copy in float32.
        """
        if dtype_of(value) != BFLOAT16:
            return value
        if not isinstance(value, Node) and (value.ndim < 2 or value.size == 1):
            value = value.astype("float32")
            self.named(value, name)
            return value
        return self.b.call("cast", self.node(value, name), name=name, dtype="float32")

    def is_arange(self, node: Node, count: int) -> bool:
        """Return whether a node is a constant of the integers from 0 to count - 1."""
        array = self.constant_of(node)
        return array is not None and np.array_equal(array, np.arange(count))


def _no_subgraphs(body: Body, values: Sequence[Value | None]) -> tuple[Value, ...]:
    raise GraphError("subgraph", "only ONNX's nodes have one")


@dataclass(frozen=True, slots=True)
class Place:
    """One node of the model, as the function that reads its operator sees it.

    run   reads a subgraph of the node: run(body, values of its inputs) returns those of its outputs
    """

    call: Call
    scope: Scope
    run: Callable[[Body, Sequence[Value | None]], tuple[Value, ...]] = _no_subgraphs

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes that the model gives."""
        return self.call.attrs

    def having(self, **attrs: Any) -> Place:
        """Return the same place with these attributes instead of the model's."""
        return replace(self, call=replace(self.call, attrs=attrs))

    def transposed(self, matrix: Value) -> Value:
        """Return a transposed matrix; a constant in bfloat16 is transposed as it is stored."""
        narrow = self.scope.in_bfloat16(matrix)
        y = self.make("transpose", matrix if narrow is None else narrow, axes=(1, 0))
        return self.scope.in_float32(y, f"{self.call.name}.weight")

    def refusal(self, why: str, fix: str = "") -> GraphError:
        """Return the error that names this node."""
        return GraphError(str(self.call), why, fix)

    def make(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """Apply an operator: compute it in numpy if all inputs are constants, else add a node."""
        if any(isinstance(x, Node) for x in inputs):
            nodes = [self.scope.node(x, f"{self.call.name}.constant") for x in inputs]
            node = self.scope.b.call(op, *nodes, name=self.call.name, **attrs)
            self.limit(node.type.shape, node.type.dtype.bytes)
            return node
        arrays = cast("tuple[Array, ...]", inputs)
        if not all(x.size for x in arrays):  # as shapes and axes may be
            if OPERATORS[op].fusion == Fusion.ANCHOR or op == "pad":
                raise self.refusal("it reads an empty tensor")
            self.limit([max(1, n) for x in arrays for n in x.shape])  # no result is larger
            return np.asarray(OPERATORS[op].reference(*arrays, **attrs))
        types = [tensor_type(x.shape, x.dtype.name) for x in arrays]
        leaves = [Node(PARAM, (), leaf_type, name="constant") for leaf_type in types]
        node = call(op, *leaves, **attrs)
        self.limit(node.type.shape, node.type.dtype.bytes)
        value = value_of(node, arrays)
        source = self.scope.names.get(id(arrays[0])) if arrays else None
        if source:
            self.scope.named(value, f"{source}.{op}")
        return value

    def limit(self, shape: Sequence[int], size: int = 8) -> None:
        """Raise GraphError if a tensor of this shape, of elements of `size` bytes, is too large."""
        self.scope.budget.check(str(self.call), math.prod(shape) * size, f"a tensor {list(shape)}")

    def constant(self, value: Value | None, what: str) -> Array:
        """Return the value of an input that must be constant."""
        narrow = self.scope.in_bfloat16(value)
        if narrow is not None:
            return narrow.astype("float32")
        if not isinstance(value, np.ndarray):
            if value is None:
                raise self.refusal(f"it has no {what}")
            input_names = [repr(n.name) for n in ordered((value,)) if n.op == INPUT]
            why = (
                f"its {what} must be constant, but depends on the input {' and '.join(input_names)}"
            )
            raise self.refusal(why, f"export the model with a constant {what}")
        return value

    def ints(self, value: Value | None, what: str) -> tuple[int, ...]:
        """Return the integers of an input that must be constant."""
        array = self.constant(value, what)
        if array.dtype.kind not in "iu":
            raise self.refusal(f"its {what} must be integers, not {array.dtype}")
        return tuple(int(n) for n in array.reshape(-1))

    def axis(self, axis: int, rank: int) -> int:
        """Return `axis`, which may count from the end, as a number from 0 to rank - 1."""
        if not -rank <= axis < rank:
            raise self.refusal(f"it has axis {axis}, but the tensor has {rank} dimensions")
        return axis % rank

    def only(self, **allowed: Any) -> None:
        """Raise GraphError if an attribute has another value than the actual one, its default."""
        for key, value in allowed.items():
            actual = self.attrs.get(key, value)
            if actual != value:
                raise self.refusal(f"its attribute {key}={actual!r} is not supported, only {value}")

    def flag(self, key: str, default: int = 0) -> bool:
        """Return an attribute that is 0 or 1; raise GraphError for other values."""
        if self.attrs.get(key, default) not in (0, 1):
            raise self.refusal(f"its attribute {key}={self.attrs[key]!r} is neither 0 nor 1")
        return bool(self.attrs.get(key, default))

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Return x with another shape."""
        return x if shape_of(x) == shape else self.make("reshape", x, shape=shape)
