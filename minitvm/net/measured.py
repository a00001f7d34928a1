"""Compile a network, and measure what its printed table and its HTML page show."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import graph, runtime
from minitvm.base import Target

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """A compiled network and its measurements.

    fused     the network after all passes
    steps     for each pass: its name, the number of operators (after fusion, of kernels) after it,
              and the bytes that they read and write if nothing stays in a cache
    memory    the bytes of all intermediate tensors under each memory plan. "naive": each tensor has
              its own memory; "pool": TVM's plan, a pool of blocks that tensors share; "offsets":
              the plan that is used, one block with an offset for each tensor; "live": the most
              bytes in use at once, a lower bound for every plan
    params    the bytes of the parameters
    seconds   how long the compilation took
    error     the largest error compared with numpy in float64: see relative_error
    """

    name: str
    target: Target
    fused: graph.Graph
    tasks: graph.Tasks
    steps: tuple[tuple[str, int, int], ...]
    memory: Mapping[str, int]
    params: int
    seconds: float
    error: float
    profile: runtime.Profile


def measured(
    net: graph.Graph,
    target: Target,
    *,
    pick: graph.Pick | None = None,
    winograd: bool = True,
    passes: tuple[tuple[str, graph.Pass], ...] = graph.PASSES,
    runs: int = 10,
    progress: Progress | None = None,
) -> Measured:
    """Compile a network, compare it with numpy in float64, and measure its kernels.

    pick, winograd, passes   as in graph.compile
    runs       how often the network runs to measure the times of its kernels
    progress   called with (kernel, its number, number of kernels) after each compilation
    """
    steps: list[tuple[str, int, int]] = []

    def watch(name: str, now: graph.Graph) -> None:
        steps.append((name, len(now.calls), sum(map(graph.bytes_moved, now.calls))))

    start = time.perf_counter()
    module = graph.compile(
        net, target, pick=pick, winograd=winograd, passes=passes, watch=watch, progress=progress
    )
    seconds = time.perf_counter() - start
    inputs = graph.random_inputs(module)
    outputs = module(*inputs)
    exact = graph.evaluate(net, *inputs, dtype="float64")
    fused = graph.optimized(net, target, winograd=winograd, passes=passes)
    memory = {
        "naive": graph.naive_bytes(fused),
        "pool": graph.pool_plan(fused).bytes,
        "offsets": graph.offset_plan(fused).bytes,
        "live": graph.live_bytes(fused),
    }
    return Measured(
        name=net.name,
        target=target,
        fused=fused,
        tasks=graph.extract_tasks(net, target, winograd=winograd),
        steps=tuple(steps),
        memory=memory,
        params=sum(spec.bytes for spec in module.plan.params),
        seconds=seconds,
        error=relative_error(outputs if isinstance(outputs, tuple) else (outputs,), exact),
        profile=module.profile(*inputs, number=runs),
    )


def relative_error(outputs: tuple[Any, ...], exact: tuple[Any, ...]) -> float:
    """Return the largest |output - exact| of all outputs, relative to each one's max |exact|."""
    pairs = zip(outputs, exact, strict=True)
    return max(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)) for a, b in pairs)
