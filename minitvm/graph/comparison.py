"""Measure tuned kernels in their network, alternately with the default kernels.

A kernel that is faster alone may be slower in the network, where the calls before it leave other
data in the caches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import runtime

from .node import Array, Graph

Floats: TypeAlias = npt.NDArray[np.float64]

SECONDS = 3.0  # no round starts after this many seconds, except the first MIN_ROUNDS
MIN_ROUNDS, MAX_ROUNDS = 4, 200
CLEARLY = 1.02  # how many times as fast as its default a kernel must be in the network


@dataclass(frozen=True, slots=True)
class Comparison:
    """The times of a network with its default kernels (A) and with tuned kernels (B).

    default, tuned   the median seconds of one run
    gains            {default kernel: how many times as fast its calls are in the network with tuned
                     kernels}: in three of four rounds, the gain is at least this number
    """

    default: float
    tuned: float
    gains: Mapping[Graph, float]

    def is_faster(self, kernel: Graph) -> bool:
        """Return whether tuning clearly sped up the calls of `kernel`, measured in the network."""
        return self.gains[kernel] >= CLEARLY

    def __str__(self) -> str:
        return (
            f"one run of the network: {self.tuned * 1e3:.3f} ms with tuned kernels, "
            f"{self.default * 1e3:.3f} ms with the defaults"
        )


def random_inputs(module: runtime.NetworkModule) -> list[Array]:
    """Return an array for each input: random numbers in 0 .. 1 for floats, zeros for integers."""
    rng = np.random.default_rng(0)
    return [rng.random(spec.shape).astype(spec.dtype.numpy) for spec in module.plan.inputs]


def compare(
    default: runtime.NetworkModule, tuned: runtime.NetworkModule, kernels: Sequence[Graph]
) -> Comparison:
    """Run two modules of a network alternately, in a new order each round, and compare their calls.

    kernels   the distinct kernels of `default`, in the order of their first calls
    The clock of a CPU changes within seconds, so times of the same round are compared.
    """
    modules = default, tuned
    rng, end = np.random.default_rng(0), time.perf_counter() + SECONDS
    inputs = random_inputs(default)
    number = [call.kernel for call in default.plan.calls]
    rounds = list[tuple[Floats, Floats]]()  # of each module: seconds of a run, then of each kernel
    while len(rounds) < MAX_ROUNDS and (len(rounds) < MIN_ROUNDS or time.perf_counter() < end):
        times = np.zeros(1 + len(kernels)), np.zeros(1 + len(kernels))
        order: list[int] = rng.permutation(2).tolist()
        for k in order:
            profile = modules[k].profile(*inputs, number=1)
            seconds = np.bincount(number, [c.seconds for c in profile.calls], len(kernels))
            times[k][0], times[k][1:] = profile.seconds, seconds
        rounds.append(times)
    a, b = np.array(rounds).swapaxes(0, 1)
    quartiles = np.quantile(a[:, 1:] / np.maximum(b[:, 1:], 1e-12), 0.25, axis=0)
    gains = dict(zip(kernels, quartiles.tolist(), strict=True))
    return Comparison(float(np.median(a[:, 0])), float(np.median(b[:, 0])), gains)
