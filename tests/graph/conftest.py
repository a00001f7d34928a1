"""What the tests of networks share."""

import os

import numpy as np
import pytest

from minitvm import graph
from minitvm.graph import cache


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session", autouse=True)
def kernel_files(tmp_path_factory):
    """Keep the files of compiled kernels out of the user's cache folder."""
    before = os.environ.get(cache.VARIABLE)
    os.environ[cache.VARIABLE] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ[cache.VARIABLE]
    else:
        os.environ[cache.VARIABLE] = before


def random_network(rng: np.random.Generator, size: int) -> graph.Graph:
    """Return a network of `size` random operators on small tensors of rank 3, and its outputs."""
    b = graph.Builder("random")
    nodes = [b.input("x", (2, 4, 6)), b.input("y", (2, 4, 6))]
    nodes += [b.param("w", rng.random((2, 4, 6), np.float32)), b.input("z", (4, 1))]
    for _ in range(size):
        nodes.append(_random_call(b, nodes, rng))
    outputs = {nodes[-1], nodes[int(rng.integers(4, len(nodes)))]}
    return b.graph(*sorted(outputs, key=nodes.index))


def _random_call(b: graph.Builder, nodes: list, rng: np.random.Generator) -> graph.Node:
    recent = nodes[-4:] if rng.random() < 0.8 else nodes
    x = recent[int(rng.integers(len(recent)))]
    shape = x.type.shape
    same = [n for n in nodes if n.type == x.type]
    fits = [n for n in nodes if n.type.shape in (shape, shape[-2:], (shape[-2], 1))]
    y, z = same[int(rng.integers(len(same)))], fits[int(rng.integers(len(fits)))]
    match int(rng.integers(12)):
        case 0 | 1:
            return b.call(str(rng.choice(["relu", "tanh", "sigmoid", "abs"])), x)
        case 2 | 3:
            return b.call(str(rng.choice(["add", "maximum", "subtract"])), x, y)
        case 4:
            return b.multiply(x, z)
        case 5:
            return b.transpose(x, (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2))
        case 6:
            return b.reshape(x, (2, 4, 6) if x.type.elements == 48 else shape)
        case 7:
            return b.concatenate(x, y, axis=-1 + len(shape)) if shape[-1] < 12 else b.relu(x)
        case 8:
            return b.strided_slice(x, (0,) * len(shape), (*shape[:-1], max(1, shape[-1] // 2)))
        case 9:
            return b.sum(x, axis=-1 + len(shape), keepdims=True)
        case 10:
            return (
                b.matmul(x, y, transpose_b=True)
                if len(shape) == 2
                else b.batch_matmul(x, b.transpose(y, (0, 2, 1)))
            )
        case _:
            return b.softmax(x)
