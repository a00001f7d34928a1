"""Find the ranges of a network's tensors, which bytes have to represent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from minitvm.base import GraphError

from .evaluate import evaluate
from .node import Array, Graph, Node

Method: TypeAlias = Literal["minmax", "entropy"]
Calibration: TypeAlias = Sequence[Any] | Array  # an array for each call, or a tuple of them
BINS = 2048  # of the histogram of the absolute values
STRIDE = 16  # bins between two thresholds that are tried
BYTES = 255  # steps of a byte; tensors with both signs have half of them on each side


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest of some real numbers."""

    low: float
    high: float

    def joined(self, other: Range) -> Range:
        """Return the range that contains both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


def ranges(
    graph: Graph, nodes: Sequence[Node], calibration: Calibration, method: Method = "minmax"
) -> list[Range]:
    """Return the range of each of `nodes` of a network.

    method   "minmax": from the least to the greatest value; "entropy": see `entropy_threshold`
    """
    if method not in ("minmax", "entropy"):
        raise GraphError(f"calibration by {method!r}", "no such method", '"minmax" or "entropy"')
    inner = replace(graph, outputs=tuple(nodes))
    calls = calls_of(calibration)
    extremes = [Range(0.0, 0.0)] * len(nodes)  # zero is always among the values
    for inputs in calls:
        values = evaluate(inner, *inputs)
        new = [Range(float(x.min()), float(x.max())) for x in values]
        extremes = [a.joined(b) for a, b in zip(extremes, new, strict=True)]
    if not all(np.isfinite((r.low, r.high)).all() for r in extremes):
        raise GraphError("calibration", "a tensor has values that are not finite", "other images")
    if method == "minmax":
        return extremes
    tops = [max(-r.low, r.high) or 1.0 for r in extremes]
    counts = [np.zeros(BINS, np.int64) for _ in nodes]
    for inputs in calls:
        for n, x in enumerate(evaluate(inner, *inputs)):
            counts[n] += np.histogram(np.abs(x[x != 0]), BINS, (0, tops[n]))[0]
    limits = [
        top * entropy_threshold(count, BYTES if r.low == 0 else BYTES // 2 + 1)
        for r, top, count in zip(extremes, tops, counts, strict=True)
    ]
    return [
        Range(max(r.low, -limit), min(r.high, limit))
        for r, limit in zip(extremes, limits, strict=True)
    ]


def calls_of(calibration: Calibration) -> list[tuple[Any, ...]]:
    """Return the inputs of each call; GraphError unless there are some."""
    if not isinstance(calibration, Sequence | np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
        why = f"{type(calibration).__name__} is not a sequence of inputs"
        raise GraphError("calibration", why, "[image, image, ...]")
    if not len(calibration):
        raise GraphError("calibration", "there are no images", "ten images or more")
    return [x if isinstance(x, tuple) else (x,) for x in calibration]


def entropy_threshold(counts: Array, levels: int) -> float:
    """Return the share of the range of a histogram that `levels` steps describe best.

    Values above a threshold T are clipped to T, and the others are rounded to `levels` steps. The
    best T has the least relative entropy (Kullback-Leibler divergence) of the original histogram
    with respect to the rounded one. (Migacz, "8-bit Inference with TensorRT", GTC 2017.) Zeros do
    not count, since a byte stands for zero exactly.
    """
    candidates = range(len(counts), levels - 1, -STRIDE)
    best = min(candidates, key=lambda kept: _divergence(counts, kept, levels))
    return best / len(counts)


def _divergence(counts: Array, kept: int, levels: int) -> float:
    """Return the relative entropy of a histogram and its first `kept` bins in `levels` steps."""
    inside = counts[:kept].astype(np.float64)
    clipped = inside.copy()
    clipped[-1] += counts[kept:].sum()
    step = np.arange(kept) * levels // kept
    totals = np.bincount(step, inside, levels)
    used = np.bincount(step, inside > 0, levels)
    rounded = np.where(inside > 0, (totals / np.maximum(used, 1))[step], 0)
    if not rounded.any():
        return np.inf
    p, q = clipped / clipped.sum(), rounded / rounded.sum()
    both = p > 0
    return float((p[both] * np.log(p[both] / np.maximum(q[both], 1e-12))).sum())
