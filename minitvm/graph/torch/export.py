"""Export modules by torch.export. No other file imports `torch`, whose values have no types (Any).

What depends on constants alone is computed here, by torch. What is left are plain records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from minitvm.base import BFLOAT16, GraphError, dtype, importing

from ..node import Array

WHAT = "graph.from_torch"
FRAME = re.compile(r'File "(.*)", line (\d+), in .*\n *(.*)')  # in torch's text of a stack
Type: TypeAlias = tuple[tuple[int, ...], str]  # a shape and an element type


@dataclass(frozen=True, slots=True)
class Ref:
    """An input, constant or result that an operation reads, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the program.

    op      its name in torch, such as "conv2d"
    name    of its result
    module  the path of the module that it belongs to, such as "layer1.0.conv1"
    line    the line of source that called it, such as "resnet.py line 92: out = self.conv1(x)"
    args    its arguments: Refs, numbers, strings, None, and tuples of them; a torch.dtype is the
            name of an element type, devices and memory formats are None
    types   the shapes and the element types of its results
    """

    op: str
    name: str
    module: str
    line: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    types: tuple[Type, ...]

    def __str__(self) -> str:
        where = f" of module {self.module!r}" if self.module else ""
        return f"node {self.name!r} ({self.op}){where}"


@dataclass(frozen=True, slots=True)
class Program:
    """An exported module: its inputs, constants and operations in order, and its outputs."""

    name: str
    inputs: Mapping[str, Type]
    constants: Mapping[str, tuple[str, Array]]  # name of a value -> name of the parameter, value
    operations: tuple[Operation, ...]
    outputs: tuple[tuple[Any, str], ...]  # Refs, and the element types in torch


def exported(module: Any, args: Sequence[Any], known: Collection[str]) -> Program:
    """Export a module for inference; torch decomposes the operators that are not `known`."""
    torch = imported(WHAT)
    if not isinstance(module, torch.nn.Module):
        why = f"{type(module).__name__} is not a torch.nn.Module"
        raise GraphError(WHAT, why, "graph.from_torch(module, (x,))")
    if not isinstance(args, tuple):
        why = f"its inputs are {type(args).__name__}, not a tuple of tensors"
        raise GraphError(WHAT, why, "graph.from_torch(module, (x,))")
    name = type(module).__name__
    with torch.no_grad(), _inference(module):
        try:
            program = torch.export.export(module, args)
            table = torch.export.default_decompositions()
            for op in list(table):
                if _name(op) in known:
                    table.pop(op)
            program = program.run_decompositions(table)
        except Exception as e:  # whatever the module's own code raises
            why = f"torch.export cannot export it: {type(e).__name__}: {e}"
            raise GraphError(f"module {name}", why) from e
        return _Reader(torch, program).program(name)


def imported(purpose: str) -> Any:
    """Return the module torch; raise GraphError if it cannot be imported.

    purpose   what it is needed for: "graph.from_torch"
    """
    with importing("torch", purpose, "pip install 'minitvm[torch]'", GraphError):
        import torch  # pyright: ignore[reportMissingImports]
    return cast("Any", torch)


@contextmanager
def _inference(module: Any) -> Generator[None]:
    """Set a module and its parts to evaluation, and back at the end."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _name(target: Any) -> str:
    """Return the name of an operator without its namespace and overload: aten.add.Tensor, add."""
    packet = getattr(target, "overloadpacket", target)
    return str(getattr(packet, "__name__", packet))


class _Reader:
    """Reads an exported program.

    known   the values of constants, and of nodes that read only constants, each with a name
    """

    def __init__(self, torch: Any, exported_program: Any) -> None:
        self.torch, self.exported = torch, exported_program
        self.known: dict[Any, tuple[str, Any]] = {}
        self.inputs: dict[str, Type] = {}
        self.constants: dict[str, tuple[str, Array]] = {}

    def program(self, name: str) -> Program:
        graph = self.exported.graph
        self._leaves([node for node in graph.nodes if node.op == "placeholder"])
        operations: list[Operation] = []
        for node in graph.nodes:
            if node.op == "call_function" and node.users:
                if all(source in self.known for source in node.all_input_nodes):
                    self._compute(node)
                else:
                    operations.append(self._operation(node))
        outputs = self._outputs(graph.output_node())
        return Program(name, self.inputs, self.constants, tuple(operations), outputs)

    def _leaves(self, nodes: Sequence[Any]) -> None:
        """Read the inputs, and the constants with their values."""
        stored = {**self.exported.state_dict, **self.exported.constants}
        for node, spec in zip(nodes, self.exported.graph_signature.input_specs, strict=True):
            what = f"input {node.name!r}"
            if spec.target is not None:
                self.known[node] = spec.target, stored[spec.target]
            elif spec.kind.name != "USER_INPUT":
                raise GraphError(what, f"it is a {spec.kind.name}, not a tensor")
            elif hasattr(spec.arg, "value"):  # a number; the program is the one for this number
                self.known[node] = node.name, spec.arg.value
            else:
                self.inputs[node.name] = _type(what, node.meta["val"])

    def _compute(self, node: Any) -> None:
        """Compute a node that reads only constants."""
        if self.torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise GraphError(
                f"node {node.name!r} ({_name(node.target)})", "it draws random numbers"
            )
        values = {source: self.known[source][1] for source in node.all_input_nodes}
        args, kwargs = self.torch.fx.node.map_arg(
            (node.args, dict(node.kwargs)), values.__getitem__
        )
        name = ".".join(filter(None, (_module(node), node.name)))
        self.known[node] = name, node.target(*args, **kwargs)

    def _operation(self, node: Any) -> Operation:
        name = _name(node.target)
        results = node.meta["val"]
        what = f"node {node.name!r} ({name})"
        several = cast("Sequence[Any]", results if isinstance(results, list | tuple) else [results])
        types = tuple(_computed_type(what, result) for result in several if result is not None)
        args = tuple(self._argument(a) for a in node.args)
        kwargs = {key: self._argument(value) for key, value in node.kwargs.items()}
        return Operation(name, node.name, _module(node), _line(node), args, kwargs, types)

    def _argument(self, value: Any) -> Any:
        torch = self.torch
        match value:
            case torch.fx.Node():
                return self._value(value)
            case torch.dtype():
                return str(value).removeprefix("torch.")
            case torch.device() | torch.layout() | torch.memory_format():
                return None
            case list() | tuple():
                return tuple(self._argument(v) for v in cast("Sequence[Any]", value))
            case _:
                return value

    def _value(self, node: Any) -> Any:
        """Return the value of a node that an operation reads: a Ref, or a number."""
        if node in self.known:
            name, value = self.known[node]
            if not isinstance(value, self.torch.Tensor):
                return value
            if node.name not in self.constants:
                self.constants[node.name] = name, self._array(name, value)
        return Ref(node.name)

    def _outputs(self, node: Any) -> tuple[tuple[Any, str], ...]:
        for spec in self.exported.graph_signature.output_specs:
            if spec.kind.name != "USER_OUTPUT":
                why = f"it changes {spec.target!r}: a network keeps no state between its calls"
                raise GraphError(WHAT, why, "pass the state as an input, and return it")
        results = [value for value in node.args[0] if value is not None]
        tensors = (getattr(value, "meta", {}).get("val") for value in results)
        kinds = (str(getattr(t, "dtype", "")).removeprefix("torch.") for t in tensors)
        return tuple(zip(map(self._argument, results), kinds, strict=True))

    def _array(self, name: str, tensor: Any) -> Array:
        """Return a tensor as an array that shares its memory, if it is in the memory of the CPU."""
        try:
            if tensor.dtype == self.torch.bfloat16:
                bits = tensor.detach().cpu().view(self.torch.int16)
                return bits.numpy().view(dtype(BFLOAT16).numpy)
            return tensor.detach().cpu().numpy()
        except (TypeError, RuntimeError) as e:
            raise GraphError(f"constant {name!r}", f"numpy has no such array: {e}") from e


def _type(what: str, value: Any) -> Type:
    """Return the shape and the element type of a tensor."""
    if not hasattr(value, "shape"):
        raise GraphError(what, f"it is {type(value).__name__}, not a tensor")
    return tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch.")


def _computed_type(what: str, value: Any) -> Type:
    """Return the type of a result: operators on bfloat16 compute in float32."""
    shape, kind = _type(what, value)
    return shape, "float32" if kind == BFLOAT16 else kind


def _module(node: Any) -> str:
    """Return the path of the module that a node belongs to; "" is the module itself."""
    stack = list(
        cast("dict[str, tuple[str, Any]]", node.meta.get("nn_module_stack") or {}).values()
    )
    return stack[-1][0] if stack else ""


def _line(node: Any) -> str:
    """Return the last line of the user's source, outside torch's own modules, that a node is of."""
    frames = FRAME.findall(node.meta.get("stack_trace") or "")
    users = [frame for frame in frames if "/torch/nn/" not in frame[0].replace("\\", "/")]
    if not (users or frames):
        return ""
    path, number, code = (users or frames)[-1]
    return f"{path.replace(chr(92), '/').rsplit('/', 1)[-1]} line {number}: {code.strip()}"
