"""Read ONNX models. No other file imports `onnx`, whose values have no types (Any).

Nothing in a model is executed. The file is parsed, each node is compared with the definition of
its operator, and what is left are the plain records of model.py.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from minitvm.base import GraphError, dtype, importing

from ..node import Array
from .external import external_bytes
from .model import DTYPES, TYPES, Body, Budget, Call, Declared, Formal, Model, Types

OPSETS = range(7, 29)
CURRENT = 13  # operators of older sets can be read if they are defined as in this one
DOMAINS = ("", "ai.onnx")  # two names of the standard operators
RUNTIME = "com.microsoft"  # the domain of operators of ONNX Runtime, which `onnx` does not define
CONTRIBUTED = ("QLinearAdd",)  # those of them that can be read; they have no attributes
ANY = frozenset(TYPES.values())


@dataclass(frozen=True, slots=True)
class Source:
    """Where the data of tensors are: the folder of a model's files, and the bytes left for them."""

    folder: Path | None
    budget: Budget


def read(source: Any, budget: Budget) -> Model:
    """Return the model of a path, of bytes or of an onnx.ModelProto; count the constants' bytes."""
    onnx = _imported()
    folder: Path | None = None
    if isinstance(source, str | os.PathLike):
        path = Path(cast("str | os.PathLike[str]", source))
        what, folder = f"model {path.name!r}", path.parent
        try:
            budget.check(what, path.stat().st_size)
            source = path.read_bytes()
        except OSError as e:
            raise GraphError(what, f"it cannot be read: {e.strerror or e}") from e
    else:
        what = "ONNX model"
    if isinstance(source, bytes | bytearray):
        source = _parsed(onnx, what, bytes(source))
    if not isinstance(source, onnx.ModelProto):
        why = f"it is {type(source).__name__}, not a path, bytes or an onnx.ModelProto"
        raise GraphError(what, why)
    try:
        return _model(onnx, what, source, Source(folder, budget))
    except (UnicodeDecodeError, OverflowError) as e:
        raise GraphError(what, f"it is malformed: {e}") from e


def _imported() -> Any:
    """Return the module onnx; GraphError if it cannot be imported."""
    with importing("onnx", "graph.from_onnx", "pip install 'minitvm[onnx]'", GraphError):
        import onnx
    return cast("Any", onnx)


def _parsed(onnx: Any, what: str, data: bytes) -> Any:
    from google.protobuf.message import DecodeError  # comes with onnx

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError) as e:
        why = f"it is not an ONNX model, or is malformed or truncated: {e}"
        raise GraphError(what, why) from e
    return model


def _model(onnx: Any, what: str, model: Any, source: Source) -> Model:
    graph = model.graph
    if not model.ir_version or not graph.output:
        raise GraphError(what, "it is malformed or truncated: it has no version or no outputs")
    versions = [v.version for v in model.opset_import if v.domain in DOMAINS]
    if len(versions) != 1 or versions[0] not in OPSETS:
        why = f"its operator set is {', '.join(map(str, versions)) or 'not given'}"
        fix = "onnx.version_converter.convert_version(model, 18)"
        raise GraphError(what, f"{why}; {OPSETS[0]} to {OPSETS[-1]} can be read", fix)
    if graph.sparse_initializer:
        raise GraphError(what, "it has sparse constants, which cannot be read")
    body = _body(onnx, graph, versions[0], source)
    return Model(
        _text(graph.name),
        tuple(_declared("input", v) for v in graph.input if v.name in body.inputs),
        body.constants,
        body.calls,
        tuple(_declared("output", v) for v in graph.output),
    )


def _body(onnx: Any, graph: Any, opset: int, source: Source) -> Body:
    """Return the nodes and constants of a graph; inputs that are constants are left out."""
    constants: dict[str, Array] = {}
    for initializer in graph.initializer:
        key = _text(initializer.name)
        constant_name = f"constant {key!r}"
        if not key or key in constants:
            raise GraphError(constant_name, "constants must have names, and no two the same one")
        constants[key] = _array(onnx, constant_name, initializer, source)
    return Body(
        tuple(_text(v.name) for v in graph.input if v.name not in constants),
        constants,
        tuple(_call(onnx, k, node, opset, source) for k, node in enumerate(graph.node)),
        tuple(_text(v.name) for v in graph.output),
    )


def _text(value: Any) -> str:
    """Return a string of a model; raise UnicodeDecodeError if it is not UTF-8, and thus bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _declared(kind: str, value: Any) -> Declared:
    name = _text(value.name)
    what = f"{kind} {name!r}"
    if value.type.WhichOneof("value") != "tensor_type":
        raise GraphError(what, "it is not a tensor")
    tensor = value.type.tensor_type
    if tensor.elem_type not in TYPES:
        raise GraphError(what, f"its element type {tensor.elem_type} is not supported")
    sizes = None
    if tensor.HasField("shape"):
        sizes = tuple(
            d.dim_value if d.WhichOneof("value") == "dim_value" else _text(d.dim_param)
            for d in tensor.shape.dim
        )
    return Declared(name, TYPES[tensor.elem_type], sizes)


def _call(onnx: Any, at: int, node: Any, opset: int, source: Source) -> Call:
    op, domain = _text(node.op_type), _text(node.domain)
    inputs, outputs = tuple(map(_text, node.input)), tuple(map(_text, node.output))
    name = _text(node.name) or next((out for out in outputs if out), f"#{at}")
    what = f"node {name!r} ({op})"
    if domain == RUNTIME and op in CONTRIBUTED:
        any_types = tuple(Formal(ANY, f"T{k}", True) for k in range(len(inputs)))
        return Call(op, name, inputs, outputs, {}, any_types)
    if domain not in DOMAINS:
        why = f"its operator is of the domain {domain!r}, not one of ONNX's own"
        raise GraphError(what, why, "export the model with standard operators only")
    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError as e:
        raise GraphError(what, f"operator set {opset} has no operator {op}") from e
    if opset < CURRENT and not _is_current(onnx, schema):
        why = f"{op} of operator set {opset} is not that of {CURRENT}"
        fix = "onnx.version_converter.convert_version(model, 18)"
        raise GraphError(what, why, fix)
    attrs = {_text(a.name): _attribute(onnx, what, a, opset, source) for a in node.attribute}
    for fault in _faults(schema, node, attrs):
        raise GraphError(what, fault)
    formals: list[Formal] = []
    for k in range(len(inputs)):
        formal = schema.inputs[min(k, len(schema.inputs) - 1)]
        types = cast("list[str]", list(formal.types))
        names = (DTYPES.get(t, t.removeprefix("tensor(").removesuffix(")")) for t in types)
        formals.append(Formal(frozenset(names), formal.type_str, formal.option.name == "Optional"))
    definition = None
    if schema.has_function or schema.has_context_dependent_function:
        definition = partial(_definition, onnx, schema, node, opset)
    return Call(op, name, inputs, outputs, attrs, tuple(formals), definition)


def _is_current(onnx: Any, old: Any) -> bool:
    """Whether what an operator's old definition allows means the same in the set CURRENT."""
    try:
        new = onnx.defs.get_schema(old.name, CURRENT, "")
    except onnx.defs.SchemaError:
        return False
    defaults, old_defaults = (
        {a.name: (a.type, a.default_value.SerializeToString()) for a in s.attributes.values()}
        for s in (new, old)
    )
    keeps = all(
        [f.name for f in before] == [f.name for f in after[: len(before)]]
        for before, after in ((old.inputs, new.inputs), (old.outputs, new.outputs))
    )
    return keeps and not new.deprecated and old_defaults.items() <= defaults.items()


def _faults(schema: Any, node: Any, attrs: dict[str, Any]) -> Iterator[str]:
    """Yield what the definition of an operator does not allow in a node."""
    for kind, count, low, high in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not low <= count <= high:
            limits = str(low) if low == high else f"{low} to {high}"
            yield f"it has {count} {kind}, not {limits}"
    if len(attrs) != len(node.attribute):
        yield "it has an attribute twice"
    for a in node.attribute:
        if a.name not in schema.attributes:
            yield f"its operator has no attribute {a.name!r}"
        elif a.type != schema.attributes[a.name].type.value:
            yield f"its attribute {a.name!r} is of another type than the operator's"
    for a in schema.attributes.values():
        if a.required and a.name not in attrs:
            yield f"its attribute {a.name!r} is missing"


def _attribute(onnx: Any, what: str, a: Any, opset: int, source: Source) -> Any:
    kinds = onnx.AttributeProto
    match a.type:
        case kinds.FLOAT:
            return float(a.f)
        case kinds.INT:
            return int(a.i)
        case kinds.STRING:
            return a.s.decode()
        case kinds.STRINGS:
            return tuple(s.decode() for s in a.strings)
        case kinds.FLOATS:
            return tuple(map(float, a.floats))
        case kinds.INTS:
            return tuple(map(int, a.ints))
        case kinds.TENSOR:
            return _array(onnx, f"{what}, attribute {a.name!r}", a.t, source)
        case kinds.GRAPH:
            return _body(onnx, a.g, opset, source)
        case _:
            raise GraphError(what, f"its attribute {a.name!r} is of a type that cannot be read")


def _definition(onnx: Any, schema: Any, node: Any, opset: int, types: Types) -> Body:
    """Return the nodes by which ONNX defines an operator, for inputs of these types."""
    if schema.has_function:
        version = _newest(schema.function_opset_versions, opset)
        data = schema.get_function_with_opset_version(version)
    else:
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        protos = [_type_proto(onnx, each) for each in types]
        arguments = version, node.SerializeToString(), protos
        data = schema.get_context_dependent_function_with_opset_version(*arguments)
    function = onnx.FunctionProto.FromString(data)
    actual = {a.name: a.default_value for a in schema.attributes.values() if a.default_value.type}
    actual |= {a.name: a for a in node.attribute}
    _bind(function.node, actual)
    (inner,) = (v.version for v in function.opset_import if v.domain in DOMAINS)
    nothing = Source(None, Budget(sys.maxsize))  # its constants are a few numbers
    calls = tuple(_call(onnx, k, each, inner, nothing) for k, each in enumerate(function.node))
    return Body(tuple(function.input), {}, calls, tuple(function.output[: len(node.output)]))


def _newest(versions: Sequence[int], opset: int) -> int:
    """Return the newest version that `opset` has; if it has none, all mean the same."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_proto(onnx: Any, given: tuple[str, tuple[int, ...]] | None) -> bytes:
    """Return the type of an input as ONNX writes it; no bytes if it is left out."""
    if given is None:
        return b""
    kind, shape = given
    numbers = {name: number for number, name in TYPES.items()}
    return onnx.helper.make_tensor_type_proto(numbers[kind], shape).SerializeToString()


def _bind(nodes: Any, actual: Mapping[str, Any]) -> None:
    """Replace references to the attributes of a function by the `actual` attributes of its call."""
    for node in nodes:
        attributes = list(node.attribute)
        del node.attribute[:]
        for a in attributes:
            if not a.ref_attr_name:
                _bind(a.g.node, actual)
                node.attribute.append(a)
            elif a.ref_attr_name in actual:
                bound = node.attribute.add()
                bound.CopyFrom(actual[a.ref_attr_name])
                bound.name = a.name


def _array(onnx: Any, what: str, tensor: Any, source: Source) -> Array:
    """Return the value of a TensorProto."""
    shape = tuple(map(int, tensor.dims))
    if tensor.data_type not in TYPES:
        raise GraphError(what, f"its element type {tensor.data_type} is not supported")
    if min(shape, default=0) < 0:
        raise GraphError(what, f"its shape {list(shape)} has negative sizes")
    kind = dtype(TYPES[tensor.data_type]).numpy
    size = math.prod(shape) * kind.itemsize
    source.budget.spend(what, size)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}
        data = external_bytes(what, source.folder, entries, size)
        return np.frombuffer(data, kind.newbyteorder("<")).astype(kind).reshape(shape)
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor), kind).reshape(shape)
    except (ValueError, TypeError) as e:
        raise GraphError(what, f"its data does not fit its shape {list(shape)}: {e}") from e
