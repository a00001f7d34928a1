"""Layers of networks with random weights: what the networks of this folder are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..builder import Builder
from ..node import Node


class Layers:
    """Adds layers to a Builder; their weights are drawn so that activations keep their size.

    Names of parameters are those of torchvision's models: layer1.0.conv1.weight.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.b = Builder(name)
        self.rng = np.random.default_rng(seed)

    def normal(self, name: str, shape: Sequence[int], scale: float) -> Node:
        """Add a parameter of normally distributed numbers."""
        drawn = self.rng.standard_normal(tuple(shape), np.float32)
        return self.b.param(name, drawn * np.float32(scale))

    def conv(
        self,
        x: Node,
        name: str,
        channels: int,
        kernel: int,
        *,
        bias: bool = False,
        groups: int = 1,
        **options: Any,
    ) -> Node:
        """Add a convolution of images, of 2 or 3 dimensions."""
        _, inputs, *sizes = x.type.shape
        shape = (channels, inputs // groups, *([kernel] * len(sizes)))
        scale = (2 / (shape[1] * kernel ** len(sizes))) ** 0.5
        w = self.normal(f"{name}.weight", shape, scale)
        if len(sizes) == 2 and groups > 1:
            options["groups"] = groups
        y = self.b.call("conv2d" if len(sizes) == 2 else "conv3d", x, w, name=name, **options)
        if not bias:
            return y
        shift = self.normal(f"{name}.bias", (channels, *([1] * len(sizes))), 0.1)
        return self.b.add(y, shift)

    def norm(self, x: Node, name: str, gain: float = 1.0) -> Node:
        """Add a batch normalisation; `gain` is the average of its factors."""
        n = x.type.shape[1]
        vectors = {
            "weight": gain * (1 + 0.1 * self.rng.standard_normal(n)),
            "bias": 0.1 * self.rng.standard_normal(n),
            "running_mean": 0.1 * self.rng.standard_normal(n),
            "running_var": 1 + 0.1 * self.rng.random(n),
        }
        params = [self.b.param(f"{name}.{k}", v.astype("float32")) for k, v in vectors.items()]
        return self.b.batch_norm(x, *params, name=name)

    def dense(self, x: Node, name: str, outputs: int, *, bias: bool = True) -> Node:
        """Add a dense layer."""
        inputs = x.type.shape[1]
        w = self.normal(f"{name}.weight", (outputs, inputs), inputs**-0.5)
        if not bias:
            return self.b.dense(x, w, name=name)
        return self.b.dense(x, w, self.normal(f"{name}.bias", (outputs,), 0.1), name=name)

    def layer_norm(self, x: Node, name: str) -> Node:
        """Add a layer normalisation of the last dimension."""
        n = x.type.shape[-1]
        gamma = self.b.param(f"{name}.weight", 1 + 0.1 * self.rng.random(n, np.float32))
        return self.b.layer_norm(x, gamma, self.normal(f"{name}.bias", (n,), 0.1), name=name)

    def flat_mean(self, x: Node) -> Node:
        """Add the average over all pixels, as a matrix [batch, channels]."""
        return self.b.mean(x, axis=tuple(range(2, len(x.type.shape))))
