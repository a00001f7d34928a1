"""One accelerator as a design: its area, its cycles for a network, and what limits them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from minitvm import accel, lowering
from minitvm.base import ArgumentError, ScheduleError, TVMError, check_kind, is_count

from .layers import Roofs, roofs, utilisation
from .tilings import MEMORIES, Best, best_tiling, cost, needs
from .top import Tiling
from .workloads import Convolution, Dense, Layer

# Areas in um2 in a process of 45 nm.
# an 8-bit multiplier and a 32-bit adder: Dally 2015, "High-Performance Hardware for Machine
# Learning" (tutorial at NIPS), synthesised for TSMC's process
MULTIPLIER_AREA = 282 + 137
# a bit of SRAM: Mistry et al. 2007, IEDM, for Intel's process. That cells fill half of a memory,
# beside its decoders and amplifiers, is an assumption.
SRAM_BYTE_AREA = 8 * 0.346 / 0.5
MOST = 8  # simulations per layer: the bounds are tight, so that the first ones find the best tiling
THREADS = (2, 1)
KINDS = {kind.__name__: kind for kind in (Convolution, Dense)}
Json = dict[str, Any]


def area(config: accel.Config) -> float:
    """Estimate the area of an accelerator in mm2, from the bytes of its memories and multipliers.

    The port to DRAM, the ALU and the control logic are not included.
    """
    check_kind("config", config, accel.Config, fix="vta.vta_pynq")
    kinds = accel.Memory.INP, accel.Memory.WGT, accel.Memory.ACC, accel.Memory.UOP
    sram = sum(config.depth(memory) * config.element_bytes(memory) for memory in kinds)
    return (sram * SRAM_BYTE_AREA + config.macs_per_cycle * MULTIPLIER_AREA) / 1e6


@dataclass(frozen=True, slots=True)
class LayerPoint:
    """A layer on one accelerator.

    times         how often the network contains the layer
    best          the fastest tiling that was found, and its cycles
    utilisation   the share of the multipliers' work that is useful, 0 to 1
    roofs         the upper bounds on the utilisation for this tiling
    limit         what takes most of the cycles: "GEMM", "ALU" (all other work of the compute unit:
                  resets, loads of bias and residual, products with padded channels), or transfers,
                  by memory: "INP", "WGT" or "OUT"
    fullest       the memory of which the tiles use the largest share: "INP", "WGT", "ACC" or "UOP".
                  Larger tiles need more of it; they would load less.
    """

    name: str
    times: int
    best: Best
    utilisation: float
    roofs: Roofs
    limit: str
    fullest: str


@dataclass(frozen=True, slots=True)
class Point:
    """An accelerator, and its cycles for a network.

    layers   the layers one by one; empty in a point that was read from an abridged file
    """

    config: accel.Config
    cycles: int
    layers: tuple[LayerPoint, ...] = ()

    @property
    def area(self) -> float:
        """Return the estimated area in mm2."""
        return area(self.config)

    def limits(self) -> dict[str, float]:
        """Map each limit of a layer to its share of the network's cycles, the largest first."""
        cycles = Counter[str]()
        for layer in self.layers:
            cycles[layer.limit] += layer.times * layer.best.cycles
        return {limit: n / self.cycles for limit, n in cycles.most_common() if n}

    def __str__(self) -> str:
        return f"{self.config.name}: {self.area:.3g} mm2, {self.cycles:,} cycles"

    def explain(self) -> str:
        """Describe the design in a line, then its limits and the memories that tiles fill."""
        parts: list[str] = []
        for limit, share in self.limits().items():
            names = " ".join(x.name for x in self.layers if x.limit == limit)
            words = WORDS.get(limit, f"load-bound by {limit}")
            parts.append(f"{words} for {share:.0%} of the cycles ({names})")
        for memory in sorted({x.fullest for x in self.layers}):
            names = " ".join(x.name for x in self.layers if x.fullest == memory)
            parts.append(f"tiles fill {memory} most ({names})")
        return "\n".join([str(self), *parts])


WORDS = {
    "GEMM": "compute-bound",
    "ALU": "bound by resets and the ALU",
    "OUT": "store-bound",
}


def evaluate(
    layers: Mapping[str, Layer],
    config: accel.Config = accel.vta_pynq,
    times: Mapping[str, int] | None = None,
    most: int = MOST,
) -> Point:
    """Return the cycles of a network on one accelerator, with the fastest tilings of its layers.

    layers   name -> layer, such as vta.RESNET18
    times    name -> how often the network contains it, such as vta.TIMES; by default once each
    most     the number of tilings of a layer that are simulated

    Raises ScheduleError if a layer does not fit into the memories.
    """
    counts = check_network(layers, times)
    check_kind("config", config, accel.Config, fix="vta.vta_pynq")
    fastest: dict[str, Best] = {}
    for name, layer in layers.items():
        try:
            fastest[name] = best_tiling(layer, config, THREADS, most)
        except ScheduleError as e:
            raise ScheduleError(f"{name} on {config.name}", *e.args[1:]) from e
    return point(layers, counts, config, fastest)


def point(
    layers: Mapping[str, Layer],
    times: Mapping[str, int],
    config: accel.Config,
    fastest: Mapping[str, Best],
) -> Point:
    """Return the point of a configuration from the fastest tilings of all layers."""
    points: list[LayerPoint] = []
    for name, best in fastest.items():
        layer, bounds = layers[name], roofs(layers[name], best.tiling, config)
        used = utilisation(layer, best.cycles, config)
        limit = _limit(layer, best.tiling, config, bounds)
        sizes = {memory.name: lowering.capacity(config, memory) for memory in MEMORIES}
        counts = dict(zip(sizes, needs(layer, best.tiling, config), strict=True))
        fullest = max(sizes, key=lambda memory: counts[memory] / sizes[memory])
        points.append(LayerPoint(name, times[name], best, used, bounds, limit, fullest))
    return Point(config, sum(x.times * x.best.cycles for x in points), tuple(points))


def _limit(layer: Layer, tiling: Tiling, config: accel.Config, bounds: Roofs) -> str:
    """Return what takes most of the cycles, as LayerPoint describes."""
    c = cost(layer, tiling, config)
    if bounds.compute <= bounds.dram:
        return "GEMM" if bounds.compute >= 0.5 else "ALU"
    if c.store > c.read:
        return "OUT"
    return "WGT" if 2 * c.weights > c.load else "INP"


def check_network(layers: Any, times: Any) -> dict[str, int]:
    """Return how often each layer occurs; raise ArgumentError for layers or counts of no sense."""
    check_kind("layers", layers, Mapping, fix="vta.RESNET18")
    check_kind("times", {} if times is None else times, Mapping, fix="vta.TIMES")
    counts: dict[Any, Any] = {**dict.fromkeys(layers, 1), **(times or {})}
    for layer in layers.values():
        check_kind("a layer", layer, *KINDS.values(), fix='vta.RESNET18["C2"]')
    if not layers or not all(isinstance(name, str) for name in layers):
        raise ArgumentError(f"layers={layers!r:.60}", "no named layers", "vta.RESNET18")
    if len(counts) > len(layers) or not all(is_count(n, 0) for n in counts.values()):
        why = "expected an int of at least 0 for names of layers"
        raise ArgumentError(f"times={times!r:.60}", why, "vta.TIMES")
    return counts


# --- as JSON, for files and other processes ------------------------------------------------------


def request(layers: Mapping[str, Layer], times: Mapping[str, int], most: int) -> Json:
    """Return the question that answer() answers for a configuration, as JSON."""
    described = {name: {"kind": type(x).__name__, **asdict(x)} for name, x in layers.items()}
    return {"layers": described, "times": dict(times), "most": most}


def answer(asked: Json) -> Json:
    """Evaluate a configuration: return its cycles and tilings, or why a layer does not fit."""
    layers = {name: _layer(**described) for name, described in asked["layers"].items()}
    try:
        p = evaluate(layers, accel.Config(**asked["config"]), asked["times"], asked["most"])
    except TVMError as e:
        return {"refused": ": ".join(e.args[:2])}
    return {"cycles": p.cycles, "layers": {x.name: asdict(x.best) for x in p.layers}}


def _layer(kind: str, **options: Any) -> Layer:
    """Return the layer of a description, where pairs have become lists."""
    pairs: Json = {name: tuple(options[name]) for name in ("size", "channels") if name in options}
    return KINDS[kind](**{**options, **pairs})


def best_of(described: Json) -> Best:
    """Return the tiling and cycles of a description in an answer."""
    fields: Json = {**described, "tiling": Tiling(**described["tiling"])}
    return Best(**fields)
