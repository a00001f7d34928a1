"""Quantise a network: insert quantise and dequantise nodes, as ONNX's quantised models have them.

    y = conv2d(x, w)    ->    y = conv2d(dequantise(quantise(x)), dequantise(bytes of w))

The pass `integers` makes integer operators of them when the network is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minitvm.base import check_flag

from . import passes
from .calibrate import Calibration, Method, Range, calls_of, ranges
from .evaluate import evaluate
from .node import Array, Graph, Node, check_graph, rewritten
from .operators import call
from .sites import Sites, sites_of

STEPS = 127  # of an int8 on each side of zero


def quantise(
    graph: Graph,
    calibration: Calibration,
    *,
    method: Method = "minmax",
    powers_of_two: bool = False,
) -> Graph:
    """Return a network whose convolutions and products read bytes.

    calibration   typical inputs: for each call of the network an array, or a tuple of arrays
    method        how the range of an activation follows from the calibration: "minmax", or
                  "entropy", which clips rare values
    powers_of_two   whether all scales are powers of two, as for the accelerator, which shifts:
                  weights have one scale, activations are int8 with zero point 0, and a product that
                  only a sum reads is not rounded before the sum

    Weights become int8 with a scale for each output channel, activations uint8 with one scale and
    zero point. Batch normalisations are folded into the weights first. Sums of two tensors and
    means become integer operators where a convolution or product reads them; other operators stay
    float32 (graph.explain says which). Raises GraphError if the calibration does not fit.
    """
    check_graph(graph, "quantise")
    sites = sites_of(_prepared(graph))
    net, params = sites.graph, dict(sites.graph.params)
    shared = _shared(sites, ranges(net, list(sites.names), calibration, method))
    exact = sites.summed_products() if check_flag("powers_of_two", powers_of_two) else set[Node]()
    weights, real = dict[Node, Node](), dict[Node, Node]()

    def change(node: Node, old: Node) -> Node:
        inputs = list(node.inputs)
        for k, source in enumerate(old.inputs):
            if source in real and not sites.continues(old):
                inputs[k] = real[source]
        if sites.is_product(old):
            w = old.inputs[1]
            if w not in weights:
                axis = passes.output_axis(old)
                weights[w] = _rounded_weights(w, axis, params, powers_of_two)
            inputs[1] = weights[w]
        if inputs != list(node.inputs):
            node = call(node.op, *inputs, name=node.name, **node.attrs)
        if old in shared and old not in exact:
            real[old] = _rounded(node, shared[old], sites.names[old], powers_of_two)
        return node

    return passes.pruned(rewritten(net, change).with_params(params))


def _prepared(graph: Graph) -> Graph:
    """Return the network with constants computed and batch normalisations folded."""
    for change in (passes.simplify, passes.fold_constants, passes.fold_batch_norm):
        graph = change(graph)
    return graph


def _shared(sites: Sites, measured: list[Range]) -> dict[Node, Range]:
    """Return the range of each site: those that are concatenated have a common one."""
    common: dict[Node, Range] = {}
    for site, span in zip(sites.names, measured, strict=True):
        first = sites.first[site]
        common[first] = common[first].joined(span) if first in common else span
    return {site: common[sites.first[site]] for site in sites.names}


def _rounded(x: Node, span: Range, name: str, power_of_two: bool) -> Node:
    """Return x rounded to uint8, or to int8 with a power of two: dequantise(quantise(x))."""
    low, high = min(span.low, 0.0), max(span.high, 0.0)
    if power_of_two:
        attrs = {"scale": _power_of_two(max(-low, high) / STEPS), "zero": 0, "dtype": "int8"}
        codes = call("quantise", x, name=name, **attrs)
        return call("dequantise", codes, name=name, scale=attrs["scale"])
    scale = np.float32((high - low) / 255) or np.float32(1)
    attrs = {"scale": scale, "zero": int(np.rint(-low / scale))}
    return call("dequantise", call("quantise", x, name=name, **attrs), name=name, **attrs)


def _power_of_two(scale: Any) -> Any:
    """Return the next power of two that is not below `scale`; 1 for a scale of 0."""
    return np.exp2(np.ceil(np.log2(np.where(scale > 0, scale, 1)))).astype(np.float32)


def _rounded_weights(w: Node, axis: int, params: dict[str, Array], power_of_two: bool) -> Node:
    """Return weights rounded to int8, with a scale for each index of `axis`.

    With `power_of_two`, all these scales are equal, and a power of two.
    """
    value = params[w.name].astype(np.float64)
    others = tuple(d for d in range(value.ndim) if d != axis)
    top = np.abs(value).max(others, keepdims=True)
    if power_of_two:
        scale = np.broadcast_to(_power_of_two(top.max() / STEPS), top.shape)
    else:
        scale = np.where(top > 0, top / STEPS, 1).astype(np.float32)
    codes = passes.add_param(params, f"{w.name}.int8", np.rint(value / scale).astype(np.int8))
    vector = passes.add_param(params, f"{w.name}.scale", scale.reshape(-1))
    return call("dequantise", codes, vector, name=w.name, axis=axis)


# --- the error of each tensor ---


@dataclass(frozen=True, slots=True)
class TensorError:
    """The signal-to-noise ratio of a quantised tensor, in decibels."""

    name: str
    decibels: float

    def __str__(self) -> str:
        return f"{self.name:24} {self.decibels:5.1f} dB"


@dataclass(frozen=True, slots=True)
class QuantisationError:
    """The ratio of signal to quantisation noise of each quantised tensor and of the outputs."""

    tensors: tuple[TensorError, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.tensors))

    __repr__ = __str__


def quantisation_error(graph: Graph, quantised: Graph, calls: Calibration) -> QuantisationError:
    """Compare the tensors of a network with the tensors of quantise(graph, ...), in numpy.

    calls   inputs: for each call of the network an array, or a tuple of arrays

    About 6 dB are one bit. Each number contains the errors of the tensors before it.
    """
    check_graph(graph, "quantisation_error")
    check_graph(quantised, "quantisation_error")
    sites = sites_of(_prepared(graph))
    rounded = {
        n.name: n for n in quantised.nodes if n.op == "dequantise" and n.inputs[0].op == "quantise"
    }
    pairs: dict[str, tuple[Node, Node]] = {
        name: (site, rounded[name]) for site, name in sites.names.items() if name in rounded
    }
    for k, ends in enumerate(zip(sites.graph.outputs, quantised.outputs, strict=True)):
        pairs[f"output {k}" if k else "output"] = ends
    signal, noise = dict.fromkeys(pairs, 0.0), dict.fromkeys(pairs, 0.0)
    for arrays in calls_of(calls):
        exact = _values(sites.graph, [a for a, _ in pairs.values()], arrays)
        changed = _values(quantised, [b for _, b in pairs.values()], arrays)
        for name, x, y in zip(pairs, exact, changed, strict=True):
            signal[name] += float(np.square(x, dtype=np.float64).sum())
            noise[name] += float(np.square(x.astype(np.float64) - y).sum())
    return QuantisationError(
        tuple(
            TensorError(name, 10 * float(np.log10(signal[name] / max(noise[name], 1e-30))))
            for name in pairs
        )
    )


def _values(graph: Graph, nodes: list[Node], inputs: tuple[Any, ...]) -> tuple[Array, ...]:
    return evaluate(replace(graph, outputs=tuple(nodes)), *inputs)
