"""Compile a network and measure it: what the table and the page show."""

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
    """A network after a pass.

    calls   operators, or kernels after fusion
    bytes   what they read and write, if nothing stays in a cache
    """

    name: str
    calls: int
    bytes: int

    @classmethod
    def of(cls, name: str, net: graph.Graph) -> Step:
        """Return what a page says about the network after the pass `name`."""
        return cls(name, len(net.calls), sum(map(graph.bytes_moved, net.calls)))


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes of all intermediate tensors by each plan, and those of the parameters.

    naive     each tensor has its own memory
    pool      the plan of TVM
    offsets   the plan that is used
    live      the most that is in use at once: no plan needs less
    """

    naive: int
    pool: int
    offsets: int
    live: int
    params: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A compiled network.

    fused     the network after all passes
    seconds   how long the compilation took
    error     the largest difference to float64, relative to the largest number of the output
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
    runs: int = 10,
    progress: Progress | None = None,
) -> Measured:
    """Compile a network, compare it with numpy in float64, and measure its kernels.

    pick       chooses schedules, as in graph.compile
    runs       how often it runs, for the times of its kernels
    progress   is called with (kernel, number, of how many) after each one that is compiled
    """
    steps: list[Step] = []

    def watch(name: str, now: graph.Graph) -> None:
        steps.append(Step.of(name, now))

    start = time.perf_counter()
    module = graph.compile(
        net, target, pick=pick, winograd=winograd, watch=watch, progress=progress
    )
    seconds = time.perf_counter() - start
    inputs = random_inputs(net)
    found = module(*inputs)
    exact = graph.evaluate(net, *inputs, dtype="float64")
    fused = graph.optimized(net, target, winograd=winograd)
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
    """Return random inputs: numbers from 0 to 1; those of integers, such as words, are 0."""
    rng = np.random.default_rng(0)
    return [rng.random(n.type.shape).astype(n.type.dtype.numpy) for n in net.inputs]


def relative_error(found: tuple[Any, ...], exact: tuple[Any, ...]) -> float:
    """Return the largest difference, relative to the largest number of each output."""
    pairs = zip(found, exact, strict=True)
    return max(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)) for a, b in pairs)
