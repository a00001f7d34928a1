"""Read networks from text.

    def net(data: float32[1, 3, 8, 8]):
      w = param("stem.w", float32[16, 3, 3, 3])
      conv2d_1 = conv2d(data, w, padding=1)  # float32[1, 16, 8, 8]
      relu_1 = relu(conv2d_1)  # float32[1, 16, 8, 8]
      return relu_1

A kernel is a function inside the function; kernels that print the same are printed once.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from minitvm.base import GraphError

from .node import INPUT, PARAM, Graph, Node, TensorType, kernel, tensor_type
from .operators import call


def parse(source: str) -> Graph:
    """Parse the text that print(graph) shows; return the network, without values of parameters.

    Raises GraphError with the line number if the text is not a network.
    """
    try:
        module = ast.parse(source)
    except SyntaxError as e:
        raise GraphError(f"line {e.lineno} of a network", e.msg, "text of print(graph)") from e
    match module.body:
        case [ast.FunctionDef() as function]:
            return _Reader().graph(function)
        case _:
            raise GraphError("text of a network", "it is not one function", "def net(x: ...): ...")


@dataclass(slots=True)
class _Reader:
    """Reads one function."""

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    kernels: dict[str, Graph] = field(default_factory=dict[str, Graph])

    def graph(self, function: ast.FunctionDef) -> Graph:
        inputs = tuple(self.input(arg) for arg in function.args.args)
        outputs = ()
        for statement in function.body:
            match statement:
                case ast.FunctionDef(name=name):
                    self.kernels[name] = _Reader().graph(statement)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as expression):
                    self.nodes[name] = self.call(expression)
                case ast.Return(value=ast.Tuple(elts=values)):
                    outputs = tuple(self.node(v) for v in values)
                case ast.Return(value=ast.Name() as value):
                    outputs = (self.node(value),)
                case _:
                    raise _error(statement, "not a line of a network")
        if not outputs:
            raise _error(function, "it returns nothing")
        return Graph(function.name, inputs, outputs)

    def input(self, arg: ast.arg) -> Node:
        op, declared = INPUT, arg.annotation
        match declared:
            case ast.Subscript(value=ast.Name(id="param"), slice=inner):
                op, declared = PARAM, inner
            case _:
                pass
        self.nodes[arg.arg] = Node(op, (), _type(declared, arg), name=arg.arg)
        return self.nodes[arg.arg]

    def node(self, at: ast.expr) -> Node:
        if not isinstance(at, ast.Name) or at.id not in self.nodes:
            raise _error(at, f"{ast.unparse(at)} is not a node above")
        return self.nodes[at.id]

    def call(self, expression: ast.Call) -> Node:
        match expression:
            case ast.Call(func=ast.Name(id="param"), args=[ast.Constant(value=str(name)), kind]):
                return Node(PARAM, (), _type(kind, kind), name=name)
            case ast.Call(func=ast.Name(id=op)):
                inputs = tuple(self.node(a) for a in expression.args)
                if op in self.kernels:
                    return kernel(self.kernels[op], inputs)
                try:
                    attrs = {k.arg: ast.literal_eval(k.value) for k in expression.keywords if k.arg}
                except ValueError as e:
                    why = "an attribute is not a number, a string or a tuple"
                    raise _error(expression, why) from e
                return call(op, *inputs, **attrs)
            case _:
                raise _error(expression, "not the call of an operator")


def _type(at: ast.expr | None, place: ast.AST) -> TensorType:
    match at:
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            sizes = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            try:
                return tensor_type([ast.literal_eval(n) for n in sizes], name)
            except (ValueError, TypeError) as e:
                raise _error(place, f"{ast.unparse(at)} is not a type") from e
        case _:
            raise _error(place, "a type such as float32[1, 8] is missing")


def _error(at: Any, why: str) -> GraphError:
    return GraphError(f"line {getattr(at, 'lineno', 1)} of a network", why, "text of print(graph)")
