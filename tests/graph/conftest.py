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


def random_quantised(rng: np.random.Generator, size: int = 6) -> graph.Graph:
    """Return a quantised network of `size` random layers for images [1, 4, 8, 8]."""
    b = graph.Builder("random")
    images = [b.input("x", (1, 4, 8, 8))]
    for k in range(size):
        images.append(_random_layer(b, images, f"layer{k}", rng))
    features = b.mean(images[-1], axis=(2, 3))
    w = rng.standard_normal((5, features.type.shape[1]), np.float32)
    net = b.graph(b.dense(features, b.param("fc", w)))
    examples = [rng.standard_normal((1, 4, 8, 8), np.float32) for _ in range(4)]
    return graph.quantise(net, examples, method=rng.choice(["minmax", "entropy"]))


def _random_layer(
    b: graph.Builder, images: list, name: str, rng: np.random.Generator
) -> graph.Node:
    x = images[int(rng.integers(max(0, len(images) - 3), len(images)))]
    _, channels, height, _ = x.type.shape
    same = [n for n in images if n.type == x.type]
    y = same[int(rng.integers(len(same)))]
    match int(rng.integers(6)):
        case 0:
            return b.relu(b.add(x, y))
        case 1 if height > 3:
            return b.max_pool2d(x, 2, 2)
        case 2 if channels < 20:
            return b.concatenate(x, y, axis=1)
        case 3:
            return b.sigmoid(x)
        case _:
            k, stride = int(rng.choice([1, 3])), int(rng.choice([1, 1, 2]))
            outputs = int(rng.choice([4, 8, 10, 16]))
            w = rng.standard_normal((outputs, channels, k, k), np.float32)
            conv = b.conv2d(x, b.param(name, w), strides=stride, padding=k // 2, name=name)
            shift = rng.standard_normal((outputs, 1, 1), np.float32)
            conv = b.add(conv, b.param(f"{name}.bias", shift))
            return b.clip(conv, 0.0, 6.0) if rng.random() < 0.5 else conv
