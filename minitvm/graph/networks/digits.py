"""A small residual network that reads handwritten digits; benchmarks/digits.py trained it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..node import Array, Graph, Node
from .layers import Layers
from .residual import basic

FILE = Path(__file__).with_name("digits.npz")
CHANNELS = (16, 32)
WHITE = 16  # the brightest value of a pixel in scikit-learn's digits


class Trained(Layers):
    """Adds layers whose parameters are read from `weights` instead of drawn."""

    def __init__(self, name: str, weights: Mapping[str, Array]) -> None:
        super().__init__(name, seed=0)
        self.weights = weights

    def normal(self, name: str, shape: Sequence[int], scale: float) -> Node:
        """Add the parameter called `name`."""
        return self.b.param(name, self.weights[name].reshape(shape))

    def norm(self, x: Node, name: str, gain: float = 1.0) -> Node:
        """Add the batch normalisation called `name`."""
        parts = ("weight", "bias", "running_mean", "running_var")
        vectors = [self.b.param(f"{name}.{part}", self.weights[f"{name}.{part}"]) for part in parts]
        return self.b.batch_norm(x, *vectors, name=name)


def digits(*, batch: int = 1) -> Graph:
    """Return a trained network: data float32[batch, 1, 8, 8] of 0 .. 1 to scores [batch, 10].

    A 3x3 convolution, two blocks of ResNet-18 (He et al. 2015) with 16 and 32 channels, the mean
    over all pixels, and a dense layer: 19,700 weights.
    """
    with np.load(FILE) as stored:
        weights = {name: stored[name] for name in stored.files}
    net = Trained("digits", weights)
    x = net.b.input("data", (batch, 1, 8, 8))
    x = net.b.relu(net.norm(net.conv(x, "conv1", CHANNELS[0], 3, padding=1), "bn1"))
    for k, channels in enumerate(CHANNELS):
        x = basic(net, x, f"layer{k + 1}.0", channels, stride=k + 1)
    return net.b.graph(net.dense(net.flat_mean(x), "fc", 10))


def digit_images() -> tuple[Array, Array]:
    """Return images that the network was not trained on, and the digits that they show.

    images   float32[360, 1, 8, 8], from 0 to 1; a fifth of the digits of scikit-learn, which are
             the test set of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, UCI
             Machine Learning Repository 1998)
    digits   int64[360]
    """
    with np.load(FILE) as stored:
        pixels, labels = stored["test.pixels"], stored["test.digits"]
    images = (pixels.astype(np.float32) / np.float32(WHITE))[:, None]
    return images, labels.astype(np.int64)
