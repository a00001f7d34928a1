"""from_onnx: an ONNX model becomes a Graph, node by node."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from minitvm.base import BFLOAT16, GraphError, as_tuple, check_kind

from ..builder import Builder
from ..node import INPUT, Graph, Node
from ..plan import live_bytes
from .model import Body, Budget, Call, Declared, Model
from .place import Place, Scope, Value, dtype_of, shape_of
from .read import read
from .table import OPERATORS

BUDGET = 1 << 31  # bytes
MOST_RUNS = 10_000  # of subgraphs; each iteration of a loop has nodes of its own


def from_onnx(
    model: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    name: str = "",
    budget: int = BUDGET,
) -> Graph:
    """Return the network of an ONNX model; its constants become parameters.

    model   a path, bytes, or an onnx.ModelProto, of operator set 7 to 28
    shapes  the shapes of inputs that the model leaves open: {"x": (1, 3, 224, 224)}
    name    of the network; by default the model's
    budget  the most bytes of all inputs and constants, and of the intermediate tensors that are in
            use at once. Nothing larger is allocated; by default 2 GiB, the limit of an ONNX file

    What depends on constants and shapes alone is computed here. Operators on bfloat16 compute in
    float32, and only conversions round. Raises GraphError, which names the
    node and the reason, for anything that cannot be read. Nothing in the model is executed, and
    data in other files is read from below the model's folder only.
    """
    memory = Budget(check_kind("from_onnx: budget", budget, int, fix="bytes, such as 1 << 31"))
    check_kind("from_onnx: shapes", shapes or {}, Mapping, fix='{"x": (1, 8)}')
    parsed = read(model, memory)
    scope = Scope(Builder(name or parsed.name or "onnx"), memory)
    values: Values = {}
    for each in _inputs(parsed, shapes or {}):
        scope.taken.add(each.name)
        node = scope.b.input(each.name, _fixed(each), each.dtype)
        values[each.name] = scope.in_float32(node, each.name)
        memory.spend(f"input {each.name!r}", node.type.bytes)
    _run(Body((), parsed.constants, parsed.calls, ()), values, scope)
    return _graph(scope, [_output(values, scope, each) for each in parsed.outputs])


Values: TypeAlias = dict[str, Value | None]  # None is an input that is left out


def _run(
    body: Body, own: Values, scope: Scope, outer: MutableMapping[str, Value | None] | None = None
) -> tuple[Value, ...]:
    """Read the nodes of `body`, add what they compute to `own`, and return the outputs.

    own     the values of the inputs
    outer   the values that a subgraph sees around it
    """
    values = ChainMap(own, {} if outer is None else outer)
    for key, array in body.constants.items():
        scope.named(array, key)
        own[key] = scope.in_float32(array, key)
    later = {out: call for call in body.calls for out in call.outputs}
    for call in body.calls:
        inputs = [_value(values, later, call, each) for each in call.inputs]
        for fault in _faults(call, inputs):
            raise GraphError(str(call), fault)
        for out, value in _results(call, inputs, values, scope):
            if out in own:
                raise GraphError(str(call), f"it computes {out!r}, which the model has already")
            own[out] = value
            if not isinstance(value, Node):
                scope.computed(value, out)
    return tuple(_known(values, f"output {name!r}", name) for name in body.outputs)


def _known(values: Mapping[str, Value | None], what: str, name: str) -> Value:
    """Return the value called `name`; raise GraphError if the model has no such value."""
    value = values.get(name)
    if value is None:
        raise GraphError(what, "no input, constant or node of the model has that name")
    return value


def _inputs(model: Model, shapes: Mapping[str, Sequence[int]]) -> Iterator[Declared]:
    """Yield the inputs with the shapes that `shapes` gives them."""
    known = [each.name for each in model.inputs]
    for key in shapes:
        if key not in known:
            why = f"the inputs of the model are {', '.join(map(repr, known)) or 'none'}"
            raise GraphError(f"shapes[{key!r}]", why)
    for each in model.inputs:
        if each.name not in shapes:
            yield each
            continue
        sizes = as_tuple(shapes[each.name])
        model_sizes = each.sizes if each.sizes is not None else ("",) * len(sizes)
        pairs = zip(model_sizes, sizes, strict=False)
        if len(model_sizes) != len(sizes) or any(isinstance(a, int) and a != b for a, b in pairs):
            why = f"shapes gives it {list(sizes)}, but the model {_shown(model_sizes)}"
            raise GraphError(f"input {each.name!r}", why)
        yield replace(each, sizes=sizes)


def _shown(sizes: Sequence[int | str]) -> str:
    return f"[{', '.join(str(n) or '?' for n in sizes)}]"


def _fixed(declared: Declared) -> tuple[int, ...]:
    """Return the shape of an input; GraphError if it is not fixed."""
    what = f"input {declared.name!r}"
    if declared.sizes is None:
        fix = f"from_onnx(model, shapes={{{declared.name!r}: (1, 8)}}), or the sizes that it has"
        raise GraphError(what, "the model does not say its shape", fix)
    example = tuple(n if isinstance(n, int) else 1 for n in declared.sizes)
    fix = f"from_onnx(model, shapes={{{declared.name!r}: {example}}})"
    fix += f", or --shape {declared.name}={','.join(map(str, example))}"
    sizes: list[int] = []
    for k, n in enumerate(declared.sizes):
        if isinstance(n, str):
            size_name = f" ({n!r})" if n else ""
            why = f"its dimension {k}{size_name} is dynamic: its shape is {_shown(declared.sizes)}"
            raise GraphError(what, why, fix)
        if n < 1:
            raise GraphError(what, f"its dimension {k} has {n} elements; no tensor may be empty")
        sizes.append(n)
    return tuple(sizes)


def _value(
    values: Mapping[str, Value | None], later: Mapping[str, Call], call: Call, name: str
) -> Value | None:
    """Return an input of a node; None if it is left out."""
    if not name:
        return None
    if name in values:
        return values[name]
    if name in later:
        why = f"it reads {name!r} before {later[name]} computes it: the graph has a cycle or is "
        raise GraphError(str(call), why + "not in order")
    raise GraphError(str(call), f"it reads {name!r}: no input, constant or node has that name")


def _faults(call: Call, inputs: Sequence[Value | None]) -> Iterator[str]:
    """Yield the faults of a node's inputs: an input is missing, or has a wrong type."""
    bound: dict[str, str] = {}
    for k, (value, formal) in enumerate(zip(inputs, call.formals, strict=True)):
        if value is None:
            if not formal.optional:
                yield f"its input {k} is missing"
            continue
        kind = str(dtype_of(value))
        if kind not in formal.dtypes:
            yield f"its input {k} is {kind}, which {call.op} does not take"
        if bound.setdefault(formal.kind, kind) != kind:
            yield f"its inputs are {bound[formal.kind]} and {kind}; they must have one element type"


def _results(
    call: Call,
    inputs: Sequence[Value | None],
    values: MutableMapping[str, Value | None],
    scope: Scope,
) -> Iterator[tuple[str, Value]]:
    """Yield the outputs of a node that have names."""

    def run(body: Body, arguments: Sequence[Value | None]) -> tuple[Value, ...]:
        scope.runs += 1
        if scope.runs > MOST_RUNS:
            why = f"its loops, which are unrolled, run more than {MOST_RUNS} times"
            raise GraphError("ONNX model", why, "fewer iterations")
        return _run(body, dict(zip(body.inputs, arguments, strict=True)), scope, values)

    try:
        outputs = _computed(Place(call, scope, run), inputs)
    except GraphError as e:
        if e.args[0].startswith("node "):
            raise
        raise GraphError(str(call), f"{e.args[0]}: {e.args[1]}", e.args[2]) from e
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as e:
        raise GraphError(str(call), f"its inputs or attributes do not fit: {e}") from e
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    for k, out in enumerate(call.outputs):
        if out and k >= len(results):
            raise GraphError(str(call), f"its output {k}, {out!r}, is not supported")
        if out:
            yield out, scope.in_float32(results[k], out)


def _computed(at: Place, inputs: Sequence[Value | None]) -> Value | tuple[Value, ...]:
    """Return what a node computes: by our operators, else by ONNX's definition of its operator."""
    function = OPERATORS.get(at.call.op)
    while function and inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    if function is not None:
        return function(at, *inputs)
    if at.call.definition is None:
        raise at.refusal("graphs do not have this operator", "graph.onnx.OPERATORS")
    types = [None if x is None else (str(dtype_of(x)), shape_of(x)) for x in inputs]
    body = at.call.definition(types)
    left_out = [None] * (len(body.inputs) - len(inputs))
    return _run(body, dict(zip(body.inputs, [*inputs, *left_out], strict=True)), at.scope)


def _output(values: Mapping[str, Value | None], scope: Scope, declared: Declared) -> Node:
    """Return the node of an output; raise GraphError if it is not what the model declares."""
    what = f"output {declared.name!r}"
    node = scope.node(_known(values, what, declared.name), declared.name)
    if declared.dtype == BFLOAT16 and node.type.dtype == "float32":
        node = scope.b.call("cast", node, name=declared.name, dtype=BFLOAT16)
    sizes = declared.sizes if declared.sizes is not None else shape_of(node)
    pairs = zip(sizes, shape_of(node), strict=False)
    differ = any(isinstance(a, int) and a != b for a, b in pairs)
    if differ or len(sizes) != len(shape_of(node)) or declared.dtype != str(node.type.dtype):
        why = f"it is {node.type}, but the model declares {declared.dtype}{_shown(sizes)}"
        raise GraphError(what, why)
    return node if not node.is_leaf else scope.b.call("identity", node, name=declared.name)


def _graph(scope: Scope, outputs: Sequence[Node]) -> Graph:
    """Return the network, with the parameters that it needs."""
    graph = scope.b.graph(*outputs)
    size = live_bytes(graph) + sum(node.type.bytes for node in graph.outputs)
    scope.budget.check(f"model {graph.name!r}", size, "all that it computes")
    used = {node.name for node in graph.nodes if node.op != INPUT}
    return replace(graph, params={k: v for k, v in graph.params.items() if k in used})
