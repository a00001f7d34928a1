"""Compile a network: passes, kernels, a plan of its memory, and a module that runs it."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeAlias

from minitvm import runtime, tir
from minitvm.base import GraphError, Target

from .counts import operations_of
from .kernels import Pick, compiled
from .kernels import Watch as KernelWatch
from .node import INPUT, KERNEL, PARAM, Array, Graph, Node, as_array, check_graph
from .pipeline import PASSES, Pass, Watch, optimized, separate_outputs
from .plan import is_view, offset_plan, rounded


def compile(
    graph: Graph,
    target: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    pick: Pick | None = None,
    winograd: bool = True,
    passes: tuple[tuple[str, Pass], ...] = PASSES,
    watch: Watch | None = None,
    progress: KernelWatch | None = None,
) -> runtime.NetworkModule:
    """Compile a network to a module: module(x) returns its output, or a tuple of several outputs.

    target     by default the current one. With "vta", the current accelerator computes the
               quantised convolutions that it can, and the CPU the rest: see graph.explain
    params     values of parameters that the graph does not have
    pick       pick(outputs, target) returns a kernel's schedule, or None for the default schedule
    winograd   whether convolutions may be computed by Winograd's formulas, which multiply less and
               round more
    passes     the passes to run; by default graph.PASSES
    watch      is called with (name, graph) before and after each pass
    progress   is called with (name, number, number of kernels) after each kernel is compiled

    Raises GraphError if a parameter has no value or does not fit, or a necessary pass is missing.
    """
    plan, lib, values = build(
        graph,
        target,
        params,
        pick=pick,
        winograd=winograd,
        passes=passes,
        watch=watch,
        progress=progress,
    )
    module = runtime.create(plan, lib)
    module.set_input(**values)
    return module


def build(
    graph: Graph,
    target: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    pick: Pick | None = None,
    winograd: bool = True,
    passes: tuple[tuple[str, Pass], ...] = PASSES,
    watch: Watch | None = None,
    progress: KernelWatch | None = None,
) -> tuple[runtime.NetworkPlan, runtime.Library, dict[str, Array]]:
    """Return the plan of a network, its kernels and its parameters: runtime.create(plan, lib).

    The arguments are the same as in `compile`. The returned parameters are the arrays that kernels
    read; their layouts and scales may differ from the given parameters.
    """
    to = Target(target)
    whole = with_values(graph, params or {})
    fused = optimized(whole, to, winograd=winograd, passes=passes, watch=watch)
    _check_passes(fused)
    kernels = compiled([node.body for node in fused.calls], to, pick, progress)
    lib = runtime.Library(tuple(dict.fromkeys(kernels)))
    return _planned(fused, kernels, index_limits(whole)), lib, dict(fused.params)


def with_values(graph: Graph, params: Mapping[str, Any]) -> Graph:
    """Return the graph with values of all its parameters; GraphError if one does not fit."""
    check_graph(graph, "compile")
    known = {node.name: node for node in graph.nodes if node.op == PARAM}
    what = f"parameters of {graph.name}"
    if not isinstance(params, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(what, f"not a mapping: {reprlib.repr(params)}", "{name: array, ...}")
    arrays = {name: as_array(f"parameter {name!r}", value) for name, value in params.items()}
    for name, array in arrays.items():
        if name not in known:
            raise GraphError(what, f"it has no parameter {name!r}", ", ".join([*known][:5]))
        kind = known[name].type
        if array.shape != kind.shape or array.dtype != kind.dtype.numpy:
            raise GraphError(f"parameter {name!r}", f"{array.dtype}{[*array.shape]} is not {kind}")
    whole = graph.with_params(arrays)
    missing = [name for name in known if name not in whole.params]
    if missing:
        fix = "graph.compile(g, target, {name: array, ...})"
        raise GraphError(what, f"{', '.join(missing[:5])} without a value", fix)
    return whole


def _check_passes(fused: Graph) -> None:
    """Raise GraphError if an operator is in no kernel, or no kernel writes an output."""
    what = f"passes of {fused.name}"
    if alone := [node.op for node in fused.calls if node.op != KERNEL]:
        why = f"after them, {alone[0]} is not in a kernel, and only kernels are compiled"
        raise GraphError(what, why, 'end with the pass "fuse": graph.PASSES[-1]')
    if separate_outputs(fused) is not fused:
        why = "after them, an output is an input, a parameter or another output"
        raise GraphError(what, why, 'the pass "separate_outputs" before "fuse": graph.PASSES[-2:]')


# --- the plan ---


def index_limits(graph: Graph, caches: bool = True) -> dict[str, tuple[int, int]]:
    """Return by name the least and the greatest value of the inputs that are indices in `take`.

    caches   whether also of those that are the position of new rows in the caches of all sequences
    """
    limits: dict[str, tuple[int, int]] = {}
    for node in graph.calls:
        if node.op == "take" and node.attrs.get("mode") == "index":
            axis: int | None = node.attrs.get("axis")
            x = node.inputs[0].type
            size = x.elements if axis is None else x.shape[axis]
            least = -size
        elif node.op == "cache_update" and caches:
            size, least = node.inputs[0].type.shape[2], 0
        else:
            continue
        at = node.inputs[-1]
        while at.op in ("broadcast_to", "cast", "identity", "reshape"):
            (at,) = at.inputs
        if at.op == INPUT and (node.op == "take" or at.type.elements == 1):
            low, high = limits.get(at.name, (least, size - 1))
            limits[at.name] = max(low, least), min(high, size - 1)
    return limits


def _planned(
    fused: Graph, kernels: Sequence[runtime.Function], limits: Mapping[str, tuple[int, int]]
) -> runtime.NetworkPlan:
    """Return the plan of a network of kernels: its calls, and the places of their arguments."""
    memory = offset_plan(fused)
    places = places_of(fused, {n: runtime.Place("arena", at) for n, at in memory.offsets.items()})
    scratch_bytes = 0

    def scratch_of(f: runtime.Function) -> list[runtime.Place]:
        """Return places for the temporary arrays of a kernel after the intermediate tensors."""
        nonlocal scratch_bytes
        sizes = list[int]()
        for buffer in f.func.scratch:
            elements = tir.elements(buffer)
            assert isinstance(elements, int)  # this network has constant shapes
            sizes.append(rounded(elements * buffer.dtype.bytes))
        *offsets, end = accumulate(sizes, initial=0)
        scratch_bytes = max(scratch_bytes, end)
        return [runtime.Place("arena", memory.bytes + at) for at in offsets]

    numbers = {f: k for k, f in enumerate(dict.fromkeys(kernels))}
    calls = calls_of(fused, kernels, numbers, places, scratch_of)
    return runtime.NetworkPlan(
        fused.name,
        tuple(replace(_spec(n), limits=limits.get(n.name)) for n in fused.inputs),
        tuple(_spec(node, f"output{k}") for k, node in enumerate(fused.outputs)),
        tuple(_spec(node) for node in fused.nodes if node.op == PARAM),
        calls,
        memory.bytes + scratch_bytes,
    )


Places: TypeAlias = Mapping[Node, runtime.Place]


def places_of(fused: Graph, intermediate: Places) -> Places:
    """Return the places of all tensors, given those of the intermediate tensors."""
    params = [node for node in fused.nodes if node.op == PARAM]
    places = {node: runtime.Place("input", k) for k, node in enumerate(fused.inputs)}
    places |= {node: runtime.Place("param", k) for k, node in enumerate(params)}
    places |= intermediate
    return places | {node: runtime.Place("output", k) for k, node in enumerate(fused.outputs)}


def calls_of(
    fused: Graph,
    kernels: Sequence[runtime.Function],
    numbers: Mapping[runtime.Function, int],
    places: Places,
    rest_of: Callable[[runtime.Function], list[runtime.Place]],
) -> tuple[runtime.Call, ...]:
    """Return the calls of a network's kernels, without views that stay in their place.

    numbers      of the kernels in the library
    rest_of      returns the places of a kernel's other arguments, such as temporary arrays
    """
    calls = list[runtime.Call]()
    for node, f in zip(fused.calls, kernels, strict=True):
        if is_view(node) and places[node] == places[node.inputs[0]]:
            continue
        args = (*(places[n] for n in node.inputs), places[node], *rest_of(f))
        name, operations = node.name or node.body.name, operations_of(node.body)
        calls.append(runtime.Call(numbers[f], args, name, operations))
    return tuple(calls)


def _spec(node: Node, name: str = "") -> runtime.TensorSpec:
    return runtime.TensorSpec(name or node.name, node.type.shape, node.type.dtype)
