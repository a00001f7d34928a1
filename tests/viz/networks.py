"""A small network for the tests of widgets."""

import numpy as np

from minitvm import graph

TARGET = "llvm -mcpu=skylake-avx512"  # the same choices on every machine


def residual(size: int = 14, channels: int = 16) -> graph.Graph:
    """Two convolutions with batch normalisation, a shortcut, and a dense layer."""
    rng = np.random.default_rng(0)
    b = graph.Builder("residual")

    def param(name, *shape):
        return b.param(name, rng.random(shape, np.float32) * 0.1)

    def norm(x, name):
        return b.batch_norm(x, *(param(f"{name}.{k}", channels) for k in "abmv"))

    x = b.input("data", (1, channels, size, size))
    y = b.conv2d(x, param("w1", channels, channels, 3, 3), padding=1)
    y = b.relu(norm(y, "bn1"))
    y = norm(b.conv2d(y, param("w2", channels, channels, 3, 3), padding=1), "bn2")
    y = b.relu(b.add(y, x))
    y = b.dense(b.mean(y, axis=(2, 3)), param("fc", 10, channels))
    return b.graph(b.softmax(y))


def wide(branches: int = 3) -> graph.Graph:
    """Dense layers of one input, and their sum."""
    rng = np.random.default_rng(0)
    b = graph.Builder("wide")
    x = b.input("x", (4, 32))
    found = [
        b.dense(x, b.param(f"w{n}", rng.random((32, 32), np.float32))) for n in range(branches)
    ]
    y = found[0]
    for other in found[1:]:
        y = b.add(y, other)
    return b.graph(y)
