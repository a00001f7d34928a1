"""Networks as text: one line for each node, which `parse` reads back.

    def net(data: float32[1, 3, 8, 8]):
      w = param("stem.w", float32[16, 3, 3, 3])
      conv2d = conv2d(data, w, padding=1)   # float32[1, 16, 8, 8]
      relu = relu(conv2d)                   # float32[1, 16, 8, 8]
      return relu

A kernel is a function inside the function; kernels that print the same are printed once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from minitvm.base import GraphError

from .node import INPUT, KERNEL, PARAM, Graph, Node, TensorType, tensor_type
from .operators import call

WIDE = 100  # characters of a line, before the type is left out


def text(graph: Graph) -> str:
    """Return the network as Python-like text."""
    return "\n".join(_lines(graph, ""))


def parse(source: str) -> Graph:
    """Return the network that `text` printed; its parameters have no values.

    Raises GraphError, with the line, for text that is not a network.
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


# --- printing ---


def _lines(graph: Graph, indent: str) -> Iterator[str]:
    names = _Names()
    inner = indent + "  "
    heads = [f"{names.of(n)}: {_declared(n)}" for n in graph.inputs]
    yield f"{indent}def {_identifier(graph.name)}({', '.join(heads)}):"
    kernels: dict[str, str] = {}  # text of a body -> its name
    given = set(graph.inputs)
    for node in graph.nodes:
        if node in given:
            continue
        if node.op == PARAM:
            yield f"{inner}{names.of(node)} = param({node.name!r}, {node.type})".replace("'", '"')
            continue
        op = node.op
        if op == KERNEL:
            whole = text(node.body)
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


def _declared(node: Node) -> str:
    """Return the type of an input of a function; a kernel's parameters are inputs of its body."""
    return f"param[{node.type}]" if node.op == PARAM else str(node.type)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _identifier(name: str) -> str:
    found = re.sub(r"\W", "_", name) or "x"
    return f"x{found}" if found[0].isdigit() else found


class _Names:
    """Names of nodes in a printed function, no two alike."""

    def __init__(self) -> None:
        self.taken = set[str]()
        self.known: dict[Node, str] = {}

    def of(self, node: Node, function: str = "") -> str:
        """Return the name of a node, which is computed by `function` if it is not a leaf."""
        if node not in self.known:
            base = _identifier(node.name) if node.is_leaf else f"{function}_"
            self.known[node] = self.fresh(base)
        return self.known[node]

    def fresh(self, base: str) -> str:
        """Return `base`, or `base` with a number; x_ always gets one."""
        tries = (f"{base}{n}" for n in range(1, len(self.taken) + 2))
        free = [base] if not base.endswith("_") else []
        name = next(t for t in (*free, *tries) if t not in self.taken)
        self.taken.add(name)
        return name


# --- parsing ---


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
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made):
                    self.nodes[name] = self.call(made)
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

    def call(self, made: ast.Call) -> Node:
        match made:
            case ast.Call(func=ast.Name(id="param"), args=[ast.Constant(value=str(name)), kind]):
                return Node(PARAM, (), _type(kind, kind), name=name)
            case ast.Call(func=ast.Name(id=op)):
                inputs = tuple(self.node(a) for a in made.args)
                if op in self.kernels:
                    return kernel(self.kernels[op], inputs)
                return call(op, *inputs, **_attrs(made))
            case _:
                raise _error(made, "not the call of an operator")


def kernel(body: Graph, inputs: tuple[Node, ...], name: str = "") -> Node:
    """Return a node that computes `body` from `inputs`."""
    if [n.type for n in inputs] != [n.type for n in body.inputs]:
        raise GraphError(f"kernel {body.name}", "its inputs have other types than its body's")
    return Node(KERNEL, inputs, body.outputs[0].type, {"body": body}, name)


def _attrs(made: ast.Call) -> Mapping[str, Any]:
    try:
        return {k.arg: ast.literal_eval(k.value) for k in made.keywords if k.arg}
    except ValueError as e:
        raise _error(made, "an attribute is not a number, a string or a tuple") from e


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
