"""Compile a network, and measure what its printed table and its HTML page show."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import graph, runtime
from minitvm.base import Target

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Step:
    """The size of a network after the pass `name`.

    calls   the number of operators, or of kernels after fusion
    bytes   the bytes that they read and write if nothing stays in a cache
    """

    name: str
    calls: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes of all intermediate tensors under each memory plan, and the bytes of parameters.

    naive     the plan in which each tensor has its own memory
    pool      TVM's plan: a pool of blocks that tensors share
    offsets   the plan that is used: one block with an offset for each tensor
    live      the most bytes in use at once, a lower bound for every plan
    """

    naive: int
    pool: int
    offsets: int
    live: int
    params: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A compiled network and its measurements.

    fused     the network after all passes
    seconds   how long the compilation took
    error     the largest error compared with numpy in float64: see relative_error
    """

    name: str
    module: runtime.NetworkModule
    target: Target
    fused: graph.Graph
    tasks: graph.Tasks
    steps: tuple[Step, ...]
    memory: Memory
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
    steps: list[Step] = []

    def watch(name: str, now: graph.Graph) -> None:
        steps.append(Step(name, len(now.calls), sum(map(graph.bytes_moved, now.calls))))

    start = time.perf_counter()
    module = graph.compile(
        net, target, pick=pick, winograd=winograd, passes=passes, watch=watch, progress=progress
    )
    seconds = time.perf_counter() - start
    inputs = random_inputs(net)
    found = module(*inputs)
    exact = graph.evaluate(net, *inputs, dtype="float64")
    fused = graph.optimized(net, target, winograd=winograd, passes=passes)
    memory = Memory(
        naive=graph.naive_bytes(fused),
        pool=graph.pool_plan(fused).bytes,
        offsets=graph.offset_plan(fused).bytes,
        live=graph.live_bytes(fused),
        params=sum(spec.bytes for spec in module.plan.params),
    )
    return Measured(
        name=net.name,
        module=module,
        target=target,
        fused=fused,
        tasks=graph.extract_tasks(net, target, winograd=winograd),
        steps=tuple(steps),
        memory=memory,
        seconds=seconds,
        error=relative_error(found if isinstance(found, tuple) else (found,), exact),
        profile=module.profile(*inputs, number=runs),
    )


def random_inputs(net: graph.Graph) -> list[Any]:
    """Return an array for each input: random numbers in 0 .. 1 for floats, zeros for integers."""
    rng = np.random.default_rng(0)
    return [rng.random(n.type.shape).astype(n.type.dtype.numpy) for n in net.inputs]


def relative_error(found: tuple[Any, ...], exact: tuple[Any, ...]) -> float:
    """Return the largest |found - exact| of all outputs, relative to each output's max |exact|."""
    pairs = zip(found, exact, strict=True)
    return max(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)) for a, b in pairs)
