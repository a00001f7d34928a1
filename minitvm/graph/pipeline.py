"""PASSES: the passes that rewrite a network, in order."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeAlias

from minitvm.base import GraphError, Target

from . import passes
from .node import Graph, check_graph
from .operators import call


@dataclass(frozen=True, slots=True)
class Settings:
    """What passes depend on.

    target        the CPU or GPU; for target "vta" the CPU beside the accelerator
    winograd      whether convolutions may be computed by Winograd's formulas
    accelerated   whether the current accelerator computes the convolutions that it can compute
    """

    target: Target
    winograd: bool = True
    accelerated: bool = False


Pass: TypeAlias = Callable[[Graph, Settings], Graph]
Watch: TypeAlias = Callable[[str, Graph], None]


def cpu_of(target: Target) -> Target:
    """Return the target of operators that an accelerator does not compute: its CPU, or `target`."""
    return Target("llvm") if target.kind == "vta" else target


def _alone(change: Callable[[Graph], Graph]) -> Pass:
    """Return `change`, a function of a graph alone, as a pass."""

    @wraps(change)
    def run(graph: Graph, _: Settings) -> Graph:
        return change(graph)

    return run


@wraps(passes.integers)
def _integers(graph: Graph, settings: Settings) -> Graph:
    return passes.integers(graph, settings.accelerated)


@wraps(passes.assign_layouts)
def _assign_layouts(graph: Graph, settings: Settings) -> Graph:
    return passes.assign_layouts(graph, settings.target)


@wraps(passes.merge_attention)
def _merge_attention(graph: Graph, settings: Settings) -> Graph:
    return passes.merge_attention(graph, settings.target)


@wraps(passes.choose_formulas)
def _choose_formulas(graph: Graph, settings: Settings) -> Graph:
    return passes.choose_formulas(graph, settings.target, settings.winograd)


def separate_outputs(graph: Graph) -> Graph:
    """Copy outputs that are inputs, parameters or other outputs, so that a kernel writes each.

    before   return x, y, y
    after    a = identity(x); b = identity(y); return a, y, b
    """
    earlier = dict.fromkeys(graph.inputs)
    outputs = list(graph.outputs)
    for k, node in enumerate(outputs):
        if node.is_leaf or node in earlier:
            outputs[k] = call("identity", node)
        earlier[node] = None
    return graph if tuple(outputs) == graph.outputs else replace(graph, outputs=tuple(outputs))


PASSES: tuple[tuple[str, Pass], ...] = (
    ("simplify", _alone(passes.simplify)),
    ("integers", _integers),
    ("fold_constants", _alone(passes.fold_constants)),
    ("fold_batch_norm", _alone(passes.fold_batch_norm)),
    ("merge_same", _alone(passes.merge_same)),
    ("merge_parallel", _alone(passes.merge_parallel)),
    ("split_concatenate", _alone(passes.split_concatenate)),
    ("merge_attention", _merge_attention),
    ("assign_layouts", _assign_layouts),
    ("cancel_transposes", _alone(passes.simplify)),
    ("fold_weights", _alone(passes.fold_constants)),
    ("choose_formulas", _choose_formulas),
    ("separate_outputs", _alone(separate_outputs)),
    ("fuse", _alone(passes.fuse)),
)


def optimized(
    graph: Graph,
    target: str | Target | None = None,
    *,
    winograd: bool = True,
    passes: tuple[tuple[str, Pass], ...] = PASSES,
    watch: Watch | None = None,
) -> Graph:
    """Return the network after all passes; call watch(name, graph) before and after each pass.

    target     by default the current one
    winograd   whether convolutions may be computed by Winograd's formulas, whose rounding errors
               are larger
    passes     the passes to run, as a tuple of (name, function); by default PASSES
    """
    check_graph(graph, "optimized")
    _check_passes(passes)
    to = Target(target)
    settings = Settings(cpu_of(to), winograd, accelerated=to.kind == "vta")
    if watch is not None:
        watch("before", graph)
    for name, change in passes:
        graph = change(graph, settings)
        if watch is not None:
            watch(name, graph)
    return graph


def _check_passes(passes: Any) -> None:
    """Raise GraphError unless `passes` are pairs (name, function)."""
    parts = passes if type(passes) in (list, tuple) else (None,)
    if not all(
        type(p) is tuple and len(p) == 2 and isinstance(p[0], str) and callable(p[1]) for p in parts
    ):
        fix = "graph.PASSES, or some of them: graph.PASSES[-2:]"
        raise GraphError(f"passes={reprlib.repr(passes)}", "not a tuple of (name, function)", fix)
