"""What measures programs: processes here, the workers of a Dask cluster, or a model of cycles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minitvm import tir
from minitvm.base import Target

from .cluster import ClusterMeasurer, DaskMeasurer, in_use
from .inputs import Array
from .measure import MeasureOptions, Measurer, Processes
from .simulated import SimulatedGpu, SimulatedVta


def measurer(
    reference: tir.PrimFunc,
    target: Target,
    *,
    inputs: Sequence[Array] | None = None,
    rng: np.random.Generator | None = None,
    options: MeasureOptions | None = None,
    processes: Processes | None = None,
) -> Measurer | SimulatedGpu | SimulatedVta | ClusterMeasurer:
    """Return what measures programs for a target; for the arguments, see Measurer.

    A simulator has no caches and no clock; of the options, it uses `check` only.
    """
    check = options is None or options.check
    if target.kind == "vta":
        return SimulatedVta(reference, inputs=inputs, rng=rng, check=check)
    if target.sim:
        return SimulatedGpu(reference, target, inputs=inputs, rng=rng, check=check)
    if options is not None and options.cluster:
        cluster = DaskMeasurer(options.cluster, options.device)
        return cluster.of(reference, target, inputs=inputs, rng=rng, options=options, own=True)
    if (cluster := in_use()) is not None:
        return cluster.of(reference, target, inputs=inputs, rng=rng, options=options)
    return Measurer(reference, target, inputs=inputs, rng=rng, options=options, processes=processes)
