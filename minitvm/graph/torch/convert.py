"""from_torch: a module of torch becomes a Graph, operation by operation."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from minitvm.base import BFLOAT16, GraphError

from ..builder import Builder
from ..node import INPUT, Graph, Node
from ..onnx import Budget, Call, Place, Scope, Value, dtype_of, shape_of
from .export import Operation, Ref, exported
from .table import OPERATORS

Values: TypeAlias = dict[str, Value | tuple[Value, ...]]


def from_torch(module: Any, args: Sequence[Any], *, name: str = "") -> Graph:
    """Return the network that a torch.nn.Module computes for inputs like `args`.

    module  is exported by torch.export for inference; its modes are as before afterwards
    args    a tuple of example inputs, such as (torch.zeros(1, 3, 224, 224),). The network has their
            shapes and element types; numbers among them become constants
    name    of the network; by default that of the module's class

    Operators on bfloat16 compute in float32, and only conversions round.

    Parameters share the memory of the module's where numpy can view it, and what depends on them
    alone is computed here. A module that returns several tensors becomes a network with as many
    outputs. Raises GraphError, which names the node, its operator and the line that calls it, for
    what graphs do not have.
    """
    program = exported(module, args, OPERATORS)
    scope = Scope(Builder(name or program.name), Budget(sys.maxsize))
    values: Values = {}
    for key, (shape, dtype) in program.inputs.items():
        scope.taken.add(key)
        values[key] = scope.in_float32(scope.b.input(key, shape, dtype), key)
    for key, (path, array) in program.constants.items():
        scope.named(array, path)
        values[key] = scope.in_float32(array, path)
    for operation in program.operations:
        values[operation.name] = _results(operation, values, scope)
    graph = scope.b.graph(*(_output(ref, kind, values, scope) for ref, kind in program.outputs))
    used = {node.name for node in graph.nodes if node.op != INPUT}
    return replace(graph, params={k: v for k, v in graph.params.items() if k in used})


def _output(ref: Any, kind: str, values: Values, scope: Scope) -> Node:
    """Return the node of an output of the element type `kind`."""
    if not isinstance(ref, Ref):
        raise GraphError("graph.from_torch", f"an output is {ref!r}, not a tensor")
    value = values[ref.name]
    assert not isinstance(value, tuple)
    node = scope.node(value, ref.name)
    if kind == BFLOAT16:
        return scope.b.call("cast", node, name=ref.name, dtype=kind)
    return scope.b.call("identity", node, name=ref.name) if node.is_leaf else node


def _results(operation: Operation, values: Values, scope: Scope) -> Value | tuple[Value, ...]:
    """Apply the function for an operation; check that the results are of the types in torch."""
    call = Call(operation.op, operation.module or operation.name, (), (), {}, ())
    what, at_line = str(operation), f" ({operation.line})" if operation.line else ""
    function = OPERATORS.get(operation.op)
    if function is None:
        raise GraphError(
            what, f"graphs do not have this operator{at_line}", "graph.torch.OPERATORS"
        )
    args, kwargs = _filled(operation.args, values), _filled(operation.kwargs, values)
    try:
        value = function(Place(call, scope), *args, **kwargs)
    except GraphError as e:
        part = "" if e.args[0] == str(call) else f"{e.args[0]}: "
        raise GraphError(what, f"{part}{e.args[1]}{at_line}", e.args[2]) from e
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as e:
        raise GraphError(what, f"its arguments are not supported: {e}{at_line}") from e
    several = isinstance(value, tuple)
    parts = tuple(scope.in_float32(v, operation.name) for v in (value if several else (value,)))
    for part, expected in zip(parts, operation.types, strict=False):
        actual = shape_of(part), str(dtype_of(part))
        if actual != expected:
            raise GraphError(what, f"it is {expected} in torch, but {actual} as a graph{at_line}")
    return parts if several else parts[0]


def _filled(argument: Any, values: Values) -> Any:
    """Return an argument of an operation with values in place of Refs."""
    match argument:
        case Ref(name):
            return values[name]
        case tuple():
            return tuple(_filled(part, values) for part in cast("tuple[Any, ...]", argument))
        case Mapping():
            parts = cast("Mapping[str, Any]", argument)
            return {key: _filled(part, values) for key, part in parts.items()}
        case _:
            return argument
