"""TreeGRU: a recurrent network that reads the loop tree of a program (Chen et al. 2018, section 4).

Its weights are trained by benchmarks/treegru.py on C1 to C6; the columns are those of loop_tree.py.

A gated recurrent unit reads the tree from the innermost loops outwards. Its input at a loop is the
loop's context vector x; its state s is the sum of the embeddings of the loops directly inside.

    r, z = sigmoid(x W + s U + b)            the first two thirds of W, U and b
    h    = (1 - z) tanh(x W + b + r (s U + c)) + z s             the last third

The embedding h of each loop is scattered into memory slots, out_i = softmax(h V)_i h. The score is
a linear function of the sum of `out` over all loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minitvm import tune

from .loop_tree import CONTEXT, DEPTH, LOOPS

FILE = Path(__file__).with_name("treegru.npz")
RIDGE = 5.0  # of the correction, relative to the mean square of the embeddings; tried on C7, C8


class Weights(NamedTuple):
    """Trained weights, float32, of H hidden units and M memory slots."""

    read: tune.Floats  # W [context, 3 H]
    state: tune.Floats  # U [H, 3 H]
    bias: tune.Floats  # b [3 H]
    inner: tune.Floats  # c [H]
    slots: tune.Floats  # V [H, M]
    head: tune.Floats  # the linear function [M, H]


@dataclass(slots=True)
class TreeGRU:
    """A network that was trained on other tasks; fit() changes only its last, linear function.

    In equation 4, f_global + f_local, both terms are linear in the embedding; `head` is their sum.
    """

    weights: Weights
    head: tune.Floats

    def fit(self, features: tune.Floats, labels: tune.Floats) -> None:
        """Fit log2(label): scale the trained score, and correct it by ridge regression."""
        units, shares = embedded(self.weights, features)
        inputs = (shares.swapaxes(1, 2) @ units).reshape(len(units), -1).astype(np.float64)
        inputs -= inputs.mean(axis=0)
        speeds = np.log2(np.maximum(labels, tune.MIN_LABEL)).astype(np.float64)
        trained = self.weights.head.ravel().astype(np.float64)
        scores, speeds = inputs @ trained, speeds - speeds.mean()
        scale = max(0.0, float(scores @ speeds) / max(float(scores @ scores), 1e-9))
        products = inputs @ inputs.T  # [trials, trials]; there are fewer trials than inputs
        penalty = np.eye(len(products)) * (RIDGE * products.diagonal().mean() + 1e-9)
        pulls = np.asarray(np.linalg.solve(products + penalty, speeds - scale * scores), np.float64)
        head = np.asarray(scale * trained + inputs.T @ pulls, np.float32)
        self.head = head.reshape(self.head.shape)

    def predict(self, features: tune.Floats) -> tune.Floats:
        """Return the scores of candidates, float32[candidates]."""
        return self._of_loops(features).sum(axis=1)

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return no column: a recurrent network has no shares of its inputs."""
        return {}

    def explain(self, features: tune.Floats, names: Sequence[str]) -> dict[str, float]:
        """Return how much each loop adds to the score of one candidate, largest effect first."""
        parts: list[float] = self._of_loops(features[:1])[0].tolist()
        order = sorted(range(LOOPS), key=lambda n: -abs(parts[n]))
        return {f"loop{n}": parts[n] for n in order if parts[n]}

    def _of_loops(self, features: tune.Floats) -> tune.Floats:
        """Return what each loop adds to the score, float32[candidates, LOOPS]."""
        units, shares = embedded(self.weights, features)
        return (shares * (units @ self.head.T)).sum(axis=2)


def embedded(weights: Weights, features: tune.Floats) -> tuple[tune.Floats, tune.Floats]:
    """Return h and softmax(h V) of each loop, float32[candidates, LOOPS, H] and [..., M].

    The shares of unused loops are 0.
    """
    trees = features.reshape(len(features), LOOPS, len(CONTEXT))
    depths, hidden = trees[:, :, DEPTH].astype(np.intp), len(weights.state)
    units = np.zeros((len(trees), LOOPS, hidden), np.float32)
    # Loops are read from the end of the text: those inside a loop just before the loop itself.
    # sums[:, d]: the sum of h of the loops at depth d since the last loop of a smaller depth
    sums = np.zeros((len(trees), LOOPS + 2, hidden), np.float32)
    for n in reversed(range(LOOPS)):
        used = np.flatnonzero(depths[:, n])
        depth = depths[used, n]
        units[used, n] = _step(weights, trees[used, n], sums[used, depth + 1])
        sums[used, depth + 1] = 0
        sums[used, depth] += units[used, n]
    logits = units @ weights.slots
    shares = np.exp(logits - logits.max(axis=2, keepdims=True)) * (depths > 0)[:, :, None]
    return units, shares / np.maximum(shares.sum(axis=2, keepdims=True), 1e-30)


def _step(weights: Weights, x: tune.Floats, state: tune.Floats) -> tune.Floats:
    """Return the gated recurrent unit's output for inputs and states, float32[loops, H]."""
    hidden = len(weights.state)
    inputs, memory = x @ weights.read + weights.bias, state @ weights.state
    gates = 1 / (1 + np.exp(-(inputs[:, : 2 * hidden] + memory[:, : 2 * hidden])))
    reset, keep = gates[:, :hidden], gates[:, hidden:]
    new = np.tanh(inputs[:, 2 * hidden :] + reset * (memory[:, 2 * hidden :] + weights.inner))
    return (1 - keep) * new + keep * state


def load_treegru(path: Path = FILE) -> TreeGRU:
    """Return a model with the weights in a file, by default those that come with minitvm."""
    with np.load(path) as arrays:
        weights = Weights(**{name: arrays[name] for name in Weights._fields})
    return TreeGRU(weights, weights.head)
