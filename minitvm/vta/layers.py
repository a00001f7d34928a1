"""The convolutions of ResNet-18, numbered as in the TVM paper, and rooflines of layers."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm import accel
from minitvm.base import check_count

from .tilings import check_layer, cost
from .top import Tiling
from .workloads import Convolution, Layer


def _layer(size: int, ic: int, oc: int, kernel: int, stride: int) -> Convolution:
    return Convolution(
        size=(size, size), channels=(ic, oc), kernel=kernel, stride=stride, pad=kernel // 2
    )


# Chen et al. 2018, "TVM", table 2; C1 has 3 input channels and is left to the CPU
RESNET18 = {
    "C2": _layer(56, 64, 64, 3, 1),
    "C3": _layer(56, 64, 64, 1, 1),
    "C4": _layer(56, 64, 128, 3, 2),
    "C5": _layer(56, 64, 128, 1, 2),
    "C6": _layer(28, 128, 128, 3, 1),
    "C7": _layer(28, 128, 256, 3, 2),
    "C8": _layer(28, 128, 256, 1, 2),
    "C9": _layer(14, 256, 256, 3, 1),
    "C10": _layer(14, 256, 512, 3, 2),
    "C11": _layer(14, 256, 512, 1, 2),
    "C12": _layer(7, 512, 512, 3, 1),
}

# how often each occurs in the network resnet18_v1; C3 does not occur
TIMES = dict(zip(RESNET18, (4, 0, 1, 1, 3, 1, 1, 3, 1, 1, 3), strict=True))


@dataclass(frozen=True, slots=True)
class Roofs:
    """Upper bounds on the utilisation of the matrix unit for a tiling of a layer.

    dram      the memory roof: the utilisation if transfers take all the time; it is above 1 if the
              tiling is compute-bound
    compute   the compute roof, without waits; resets and ALU operations take time, too
    """

    dram: float
    compute: float

    @property
    def lower(self) -> float:
        """Return the lower roof, an upper bound on the utilisation."""
        return min(self.dram, self.compute)


def roofs(layer: Layer, tiling: Tiling, config: accel.Config = accel.vta_pynq) -> Roofs:
    """Return both roofs of a tiling, computed from its transfers and its compute cycles.

    All transfers of the machine are counted: weights, and rows that tiles share, are loaded again
    for each tile, and each transfer has its latency. Reads share one port; writes have another.
    """
    costs = cost(layer, tiling, config)
    peak = layer.macs / config.macs_per_cycle  # cycles
    return Roofs(peak / max(costs.read, costs.store), peak / costs.compute)


def utilisation(layer: Layer, cycles: int, config: accel.Config = accel.vta_pynq) -> float:
    """Return the useful multiply-adds of a layer, as a fraction of those possible in `cycles`."""
    check_layer(layer, config)
    return layer.macs / config.macs_per_cycle / check_count("cycles", cycles)
