"""Costs of networks for graph.search: a described machine, measurements, or the accelerator."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np

from minitvm import driver, tune, vta
from minitvm.base import ArgumentError, ScheduleError, Target, as_tuple, check_kind

from .counts import bytes_moved, operations_of
from .kernels import default_schedule
from .node import PARAM, Graph, Node, check_graph
from .passes import fuse
from .pipeline import optimized
from .plan import VIEWS, is_view

Cost: TypeAlias = Callable[[Graph], float]


def kernels_of(fused: Graph) -> Iterator[Node]:
    """Yield the kernels that a call of a network runs; kernels of parameters alone run earlier."""
    return (n for n in fused.calls if any(source.op != PARAM for source in n.inputs))


@dataclass(frozen=True, slots=True)
class MachineCost:
    """The seconds of a network on a described machine, which runs fused kernels one by one.

    peak        operations per second
    bandwidth   bytes per second between the machine and its memory
    launch      seconds to start a kernel

    A kernel takes launch + max(operations / peak, bytes / bandwidth). A slice of channels of one
    image lies in one piece, so it costs nothing.
    """

    peak: float
    bandwidth: float
    launch: float

    def __post_init__(self) -> None:
        """Raise ArgumentError for rates that are not positive, and for a negative launch."""
        rates = self.peak, self.bandwidth, self.launch
        if not all(type(n) in (int, float) and math.isfinite(n) for n in rates) or not (
            self.peak > 0 and self.bandwidth > 0 and self.launch >= 0
        ):
            raise ArgumentError(f"{self}", "rates are positive numbers", "graph.A100")

    def __call__(self, net: Graph) -> float:
        """Return the seconds of one call of the network."""
        check_graph(net, "MachineCost")
        return sum(self.seconds(kernel.body) for kernel in kernels_of(fuse(net)))

    def seconds(self, body: Graph) -> float:
        """Return the seconds of a kernel."""
        if all(map(_lies_in_input, body.calls)):
            return 0.0
        moved = sum(n.type.bytes for n in (*body.inputs, *body.outputs))
        return self.launch + max(operations_of(body) / self.peak, moved / self.bandwidth)


def _lies_in_input(node: Node) -> bool:
    """Return whether the result of a node is a contiguous part of its input's memory."""
    if node.op in VIEWS:
        return True
    if node.op != "strided_slice" or node.attrs.get("strides"):
        return False
    whole, part = node.inputs[0].type.shape, node.type.shape
    cut = next((d for d, n in enumerate(part) if n != whole[d]), 0)
    return all(n == 1 for n in whole[:cut]) and part[cut + 1 :] == whole[cut + 1 :]


# an NVIDIA A100 by its data sheet (TF32: 156 TFLOP/s, 1,555 GB/s), and 5 us to launch a kernel
A100 = MachineCost(peak=156e12, bandwidth=1.555e12, launch=5e-6)


# --- this machine --------------------------------------------------------------------------------

SKETCH = "default"  # how a log calls the schedule that a kernel has without tuning


class MeasuredCost:
    """The seconds of a network on this machine: the sum of its kernels, measured one by one.

    log       the file of the measurements; what it has of this machine is not measured again
    target    by default the current one

    The kernels are those that graph.compile makes, with their default schedules. Each is compiled
    and run in other processes. Use it in a `with` statement, or close() it.
    """

    def __init__(self, log: str | Path, target: str | Target | None = None) -> None:
        path = check_kind("MeasuredCost: log", log, str, Path, fix='"kernels.jsonl"')
        self._target, self._log = Target(target), tune.Log(path)
        self._processes = tune.Processes(self._target)
        self._machine = tune.machine_facts(self._target)
        here = str(self._target), self._machine, SKETCH
        self.known = {  # the key of a kernel -> seconds
            r.task: r.cost for r in self._log.records() if (r.target, r.machine, r.sketch) == here
        }

    def __call__(self, net: Graph) -> float:
        """Return the seconds of one call of the network."""
        check_graph(net, "MeasuredCost")
        kinds = {n.name: n.type for n in net.nodes if n.op == PARAM}
        zeros = {name: np.zeros(kind.shape, kind.dtype.numpy) for name, kind in kinds.items()}
        kernels = kernels_of(optimized(net.with_params(zeros), self._target))
        return sum(self.seconds(kernel.body) for kernel in kernels if not is_view(kernel))

    def seconds(self, body: Graph) -> float:
        """Return the seconds of a kernel; MeasureError if it cannot be measured."""
        key = json.dumps(["kernel", str(body)])
        if key not in self.known:
            args, schedule = default_schedule(body, self._target)
            func = driver.lower(schedule, args, body.name, target=self._target)
            options = tune.MeasureOptions(check=False, repeat=3)
            measurer = tune.Measurer(func, self._target, options=options, processes=self._processes)
            result = tune.Result((measurer.reference_cost,))
            record = tune.Record(
                key, str(self._target), self._machine, SKETCH, {}, (), result,
                float(operations_of(body)), 0.0,
            )  # fmt: skip
            self._log.save(record)
            self.known[key] = record.cost
        return self.known[key]

    def close(self) -> None:
        """End the processes; the next measurement starts them again."""
        self._processes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- the accelerator -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CycleCost:
    """The cycles of a network on the accelerator, in int8, if its kernels run one by one.

    threads   the virtual threads of a layer;  most: the tilings that are simulated for each layer

    Convolutions and dense layers take the simulated cycles of their best tiling. What does not fit
    is left to the CPU: it costs the cycles in which the accelerator's port moves its tensors.
    """

    config: vta.Config = vta.vta_pynq
    threads: int = 2
    most: int = 5

    def __call__(self, net: Graph) -> float:
        """Return the cycles of one call of the network."""
        check_graph(net, "CycleCost")
        return float(sum(map(self.cycles, kernels_of(fuse(net)))))

    def cycles(self, kernel: Node) -> int:
        """Return the cycles of a kernel."""
        layer = _layer(kernel.body)
        cycles = layer and _simulated(layer, self.config, self.threads, self.most)
        numbers = bytes_moved(kernel) // kernel.type.dtype.bytes
        return cycles or -(-numbers // self.config.port_bytes)


def _layer(body: Graph) -> vta.Layer | None:
    """Return the layer of the accelerator that a kernel with a convolution or product is."""
    first = body.calls[0]
    adds = [node for node in body.calls if node.op == "add"]
    biases = [any(n.op == PARAM for n in node.inputs) for node in adds]
    has_bias, has_residual = any(biases) or len(first.inputs) > 2, not all(biases)
    if first.op not in ("conv2d", "dense") or biases.count(False) > 1:
        return None
    (batch, ins, *size), (outs, _, *kernel) = (n.type.shape for n in first.inputs[:2])
    if first.op == "dense":
        return vta.Dense(batch=batch, channels=(ins, outs), bias=has_bias, residual=has_residual)
    windows = {key: first.attrs.get(key, n) for key, n in (("strides", 1), ("padding", 0))}
    stride, pad = (set(as_tuple(value)) for value in windows.values())
    plain = first.attrs.get("groups", 1) == 1 and first.attrs.get("dilation", 1) in (1, (1, 1))
    if batch > 1 or not plain or len(set(kernel)) > 1 or len(stride) > 1 or len(pad) > 1:
        return None
    return vta.Convolution(
        size=(size[0], size[1]), channels=(ins, outs), kernel=kernel[0], stride=stride.pop(),
        pad=pad.pop(), bias=has_bias, residual=has_residual, residual_dtype="int8",
    )  # fmt: skip


@lru_cache(maxsize=1000)
def _simulated(layer: vta.Layer, config: vta.Config, threads: int, most: int) -> int:
    """Return the cycles of a layer's best tiling; 0 if none fits into the memories."""
    try:
        return vta.best_tiling(layer, config, threads, most).cycles
    except ScheduleError:
        return 0
