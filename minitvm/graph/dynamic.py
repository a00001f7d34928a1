"""Compile a network once for inputs of any size n, such as any batch or any length of a text.

A network is a function of n. Its graphs at three sizes in a row must have the same operators, whose
shapes and arguments are affine in n: scale * n + shift. Each kernel is compiled for a symbolic n.
For sizes that are common it may also be compiled for that size alone, which is faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from minitvm import runtime, tir, topi
from minitvm.base import GraphError, Target

from . import cache
from .affine import (
    Make,
    as_index,
    merged,
    sized,
    tables_of,
    with_slices,
    with_tables,
    without_tables,
)
from .compile import calls_of, index_limits, places_of, with_values
from .kernels import built, compiled, tensors
from .node import PARAM, Graph, Node
from .pipeline import optimized
from .plan import blocks

LARGEST = (1 << 31) - 1
TYPICAL = 16  # the size for which the passes choose layouts and formulas
Kernels: TypeAlias = list[runtime.Function]  # one for each call of a network


def compile_dynamic(
    make: Make,
    target: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    special: Sequence[int] = (),
    repack: bool = True,
    typical: int = TYPICAL,
    largest: int = LARGEST,
    winograd: bool = True,
) -> runtime.DynamicModule:
    """Compile the networks make(n), for every n >= 1, to one module that takes inputs of any size.

        module = graph.compile_dynamic(lambda n: graph.networks.resnet18(batch=n), special=(1,))
        module = graph.compile_dynamic(lambda n: graph.from_onnx(path, shapes={"x": (n, 3)}))

    make       is called with three sizes in a row, the first of which is `typical`
    params     values of parameters that the graphs do not have
    special    sizes for which all kernels are also compiled alone; small ones gain most
    repack     whether kernels for special sizes may pack weights in a layout of their own, which
               takes memory for a second copy; if not, the general kernel is used where the
               layouts differ
    typical    a common size; layouts and formulas are chosen for it
    largest    the largest n, such as the rows of a table of positions. A parameter may depend on n
               if it is a prefix of the same parameter in make(largest)
    winograd   whether convolutions may be computed by Winograd's formulas

    Raises GraphError if the networks differ in more than sizes that are affine in n, or if an
    operator cannot be compiled for a symbolic size.
    """
    for n in (*special, typical, largest):
        if not isinstance(n, int) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"compile_dynamic: size {n!r}"
            raise GraphError(what, "not an int of at least 1", "special=(1, 2, 4), typical=16")
    to = Target(target)
    if to.kind == "vta":
        why = "programs for the accelerator have fixed sizes"
        raise GraphError("compile_dynamic", why, 'graph.compile(make(n), "vta") for each size')
    wholes = [with_values(make(typical + k), params or {}) for k in range(3)]
    if largest < LARGEST and _shapes_vary([whole.params for whole in wholes]):
        full = with_values(make(largest), params or {})
        wholes = [with_slices(whole, full) for whole in wholes]
    try:
        graph, network = _merged(wholes, frozenset(), to, typical, winograd)
    except GraphError:
        tables = tables_of(wholes)
        if not tables:
            raise
        graph, network = _merged(wholes, tables, to, typical, winograd)
    limited = _limited(network, wholes)
    bodies = [node.body for node in network.calls]
    general = _compiled(bodies, to, largest)
    rows = {n: compiled([sized(body, n) for body in bodies], to) for n in special}
    if not repack:
        rows = {n: [*map(_sharing_weights, row, general)] for n, row in rows.items()}
    lib = runtime.Library(tuple(dict.fromkeys(f for row in (general, *rows.values()) for f in row)))
    plan = runtime.DynamicPlan(
        network.name,
        tuple(_spec(node, limits) for node, limits in limited),
        tuple(_spec(node, None, f"output{k}") for k, node in enumerate(network.outputs)),
        tuple(
            runtime.TensorSpec(node.name, node.type.shape, node.type.dtype)
            for node in network.nodes
            if node.op == PARAM
        ),
        _calls(graph, general, lib),
        {n: _calls(graph, row, lib) for n, row in rows.items()},
        largest,
    )
    return runtime.DynamicModule(plan, lib, network.params)


def _shapes_vary(params: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the shape of a parameter depends on n."""
    first, *others = ({name: array.shape for name, array in each.items()} for each in params)
    return any(other != first for other in others)


def _merged(
    wholes: Sequence[Graph], tables: frozenset[str], target: Target, typical: int, winograd: bool
) -> tuple[Graph, Graph]:
    """Return the fused network at n = typical and for any n; `tables` are not folded."""
    graphs = [
        with_tables(optimized(without_tables(whole, tables), target, winograd=winograd), whole)
        for whole in wholes
    ]
    return graphs[0], merged(graphs, typical)


def _sharing_weights(special: runtime.Function, general: runtime.Function) -> runtime.Function:
    """Return the special kernel, or the general one if they pack weights in different layouts."""
    return special if str(special.func.prepack) == str(general.func.prepack) else general


def _limited(network: Graph, wholes: Sequence[Graph]) -> list[tuple[Node, tuple[int, int] | None]]:
    """Return the inputs with their limits as indices; GraphError if these depend on n.

    Positions in caches whose number of rows depends on n are not limited: kernels leave out the
    rows past the end.
    """
    limits, *others = (index_limits(whole) for whole in wholes)
    if any(other != limits for other in others):
        limits, *others = (index_limits(whole, caches=False) for whole in wholes)
    for node in network.inputs:
        if any(other.get(node.name) != limits.get(node.name) for other in others):
            why = "its elements are indices of a dimension whose size depends on n"
            raise GraphError(f"input {node.name!r}", why)
    return [(node, limits.get(node.name)) for node in network.inputs]


def _spec(node: Node, limits: tuple[int, int] | None, name: str = "") -> runtime.DynamicSpec:
    return runtime.DynamicSpec(name or node.name, node.type.shape, node.type.dtype, limits)


def _calls(fused: Graph, kernels: Kernels, lib: runtime.Library) -> tuple[runtime.Call, ...]:
    """Return the calls of these kernels; intermediate tensors and temporary arrays are in blocks.

    fused   the network at some size
    """
    block_of, sizes = blocks(fused)
    places = places_of(fused, {n: runtime.Place("block", b) for n, b in block_of.items()})

    def rest_of(f: runtime.Function) -> list[runtime.Place]:
        scalars = [runtime.Place("size", 0) for p in f.func.params if isinstance(p, tir.Var)]
        scratch = (runtime.Place("block", len(sizes) + k) for k in range(len(f.func.scratch)))
        return [*scalars, *scratch]

    numbers = {f: k for k, f in enumerate(lib.kernels)}
    calls = calls_of(fused, kernels, numbers, places, rest_of)
    return tuple(replace(call, operations=0) for call in calls)  # unknown: they depend on n


def _compiled(bodies: Sequence[Graph], target: Target, largest: int) -> Kernels:
    """Return the kernels of these bodies for any n; each distinct kernel is compiled once.

    A slice of a table must be inside it, so only there n must not be larger than `largest`.
    """
    kernels: dict[str, runtime.Function] = {}
    for body in bodies:
        key = cache.key_of(str(body), target, f"{largest}")
        if key not in kernels:
            path = cache.path_of(key)
            stored = None if path is None else cache.read(path, target)
            kernels[key] = stored or _built(body, target, largest)
            if path is not None and stored is None:
                cache.write(path, kernels[key])
    cache.trim()
    return [kernels[cache.key_of(str(body), target, f"{largest}")] for body in bodies]


def _built(body: Graph, target: Target, largest: int) -> runtime.Function:
    """Compile one kernel for any n."""
    slices = any(node.op == "strided_slice" for node in body.calls)
    n = tir.Var("n", 1, largest if slices else tir.INF)
    inputs, output = tensors(body, lambda value: as_index(value, n))
    with topi.dispatch.using(lambda outputs, to: None):  # tuned schedules are for fixed sizes
        schedule = topi.schedule(output, target)
    return built(body, target, [*inputs, output, n], schedule)
