"""Measure tuned kernels in their network, alternately with the default kernels.

A kernel that is faster alone may be slower in the network, where the calls before it leave other
data in the caches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from minitvm import runtime

from .node import Graph

SECONDS = 2.0  # no round starts after this many seconds, except the first FEWEST
FEWEST, MOST = 2, 200  # rounds
CLEARLY = 1.01  # how many times as fast as its default a kernel must be in the network


@dataclass(frozen=True, slots=True)
class Race:
    """The times of a network with its default kernels and with tuned kernels.

    default, tuned   the shortest time of one run, in seconds
    kernels          the seconds of all calls of each default kernel, and of the same calls in the
                     network with tuned kernels
    """

    default: float
    tuned: float
    kernels: Mapping[Graph, tuple[float, float]]

    def is_faster(self, kernel: Graph) -> bool:
        """Return whether the calls of a kernel are clearly faster in the network that is tuned."""
        default, tuned = self.kernels[kernel]
        return default > CLEARLY * tuned

    def __str__(self) -> str:
        return (
            f"one run of the network: {self.tuned * 1e3:.3f} ms with tuned kernels, "
            f"{self.default * 1e3:.3f} ms with the defaults"
        )


def race(
    default: runtime.NetworkModule, tuned: runtime.NetworkModule, kernels: Sequence[Graph]
) -> Race:
    """Run two modules of a network alternately, in a new order each round, and compare their calls.

    kernels   the distinct kernels of `default`, in the order of their first calls
    """
    modules = default, tuned
    rng, end = np.random.default_rng(0), time.perf_counter() + SECONDS
    inputs = [rng.random(s.shape).astype(s.dtype.numpy) for s in default.plan.inputs]
    runs = [float("inf")] * 2
    calls = np.full((2, len(default.plan.calls)), np.inf)
    for n in range(MOST):
        if n >= FEWEST and time.perf_counter() > end:
            break
        order: list[int] = rng.permutation(2).tolist()
        for k in order:
            profile = modules[k].profile(*inputs, number=1)
            runs[k] = min(runs[k], profile.seconds)
            calls[k] = np.minimum(calls[k], [call.seconds for call in profile.calls])
    found: dict[Graph, npt.NDArray[np.float64]] = {body: np.zeros(2) for body in kernels}
    for call, seconds in zip(default.plan.calls, calls.T, strict=True):
        found[kernels[call.kernel]] += seconds
    each = {body: (float(a), float(b)) for body, (a, b) in found.items()}
    return Race(runs[0], runs[1], each)
