"""Measure chosen kernels in their network, in turns with the default kernels.

A kernel that is faster alone may be slower in the network, where the calls before it leave other
data in the caches.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from minitvm import runtime
from minitvm.base import Target

from .compile import compile
from .kernels import Pick
from .node import Graph
from .pipeline import Pass, optimized

ROUNDS = 12  # turns of each network
FEWEST = 3  # turns of each network, however slow it is
SECONDS = 3.0  # after which no more turns begin
RUNS = 2  # of a network in a turn
CLEARLY = 1.01  # how many times as fast as its default a kernel must be in the network


@dataclass(frozen=True, slots=True)
class Race:
    """The times of a network with default kernels and with chosen kernels, measured in turns.

    default, chosen   the fewest seconds of one run
    kernels           {default body: (seconds by default, seconds as chosen)} of all its calls
    """

    default: float
    chosen: float
    kernels: Mapping[Graph, tuple[float, float]]

    def is_faster(self, body: Graph) -> bool:
        """Return whether a kernel as chosen is clearly faster than its default."""
        default, chosen = self.kernels[body]
        return default >= CLEARLY * chosen

    def __str__(self) -> str:
        return (
            f"in the network: {self.chosen * 1e3:.3f} ms a run with the chosen kernels, "
            f"{self.default * 1e3:.3f} ms with the defaults"
        )


def race(
    graph: Graph,
    target: Target,
    pick: Pick,
    passes: tuple[tuple[str, Pass], ...],
    *,
    winograd: bool = True,
) -> Race:
    """Compare a network with the kernels that `pick` and `passes` choose with its default.

    pick, passes, winograd   as in graph.compile
    """
    default = compile(graph, target, winograd=winograd)
    chosen = compile(graph, target, winograd=winograd, pick=pick, passes=passes)
    bodies = [node.body for node in optimized(graph, target, winograd=winograd).calls]
    theirs = optimized(graph, target, winograd=winograd, passes=passes).calls
    number = {b: k for k, b in enumerate(dict.fromkeys(bodies))}
    changed = {b: k for k, b in enumerate(dict.fromkeys(node.body for node in theirs))}
    best = _fewest_seconds(default, chosen)
    kernels = {
        body: (best[0][1][number[body]], best[1][1][changed[node.body]])
        for body, node in zip(bodies, theirs, strict=True)
    }
    return Race(best[0][0], best[1][0], kernels)


def _fewest_seconds(*modules: runtime.NetworkModule) -> list[tuple[float, dict[int, float]]]:
    """Return the seconds of a run of each network, and {number of a kernel: seconds of its calls}.

    The networks take turns, in a new order each round.
    """
    rng, end = np.random.default_rng(0), time.perf_counter() + SECONDS
    inputs = [rng.random(s.shape).astype(s.dtype.numpy) for s in modules[0].plan.inputs]
    runs = np.full(len(modules), np.inf)
    calls = [np.full(len(m.plan.calls), np.inf) for m in modules]
    for n in range(ROUNDS):
        if n >= FEWEST and time.perf_counter() > end:
            break
        order: list[int] = rng.permutation(len(modules)).tolist()
        for k in order:
            profile = modules[k].profile(*inputs, number=RUNS)
            runs[k] = min(runs[k], profile.seconds)
            calls[k] = np.minimum(calls[k], [call.seconds for call in profile.calls])
    found = list[tuple[float, dict[int, float]]]()
    for module, seconds, each in zip(modules, runs.tolist(), calls, strict=True):
        kernels = defaultdict[int, float](float)
        for call, took in zip(module.plan.calls, each.tolist(), strict=True):
            kernels[call.kernel] += took
        found.append((seconds, kernels))
    return found
