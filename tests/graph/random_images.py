"""Random networks for images, in float32 and int8.

python -m tests.graph.random_images FIRST STOP checks those of the seeds FIRST .. STOP-1.
"""

from __future__ import annotations

import sys
import traceback

import numpy as np

from minitvm import graph
from minitvm.graph import passes

CPU = "llvm -num-cores=1"


def check(seed: int, size: int = 6) -> None:
    """Compare a random network of `size` layers with numpy: close in float32, equal in int8."""
    rng = np.random.default_rng(seed)
    net = network(rng, size)
    shape = net.inputs[0].type.shape
    x = rng.standard_normal(shape, np.float32)
    (exact,) = graph.evaluate(net, x, dtype="float64")
    error = abs(graph.compile(net, CPU)(x) - exact).max()
    assert error <= 1e-5 * max(1.0, abs(exact).max()), f"{error} in float32"
    examples = [rng.standard_normal(shape, np.float32) for _ in range(4)]
    quantised = graph.quantise(net, examples, method=rng.choice(["minmax", "entropy"]))
    (codes,) = graph.evaluate(passes.integers(passes.simplify(quantised)), x)
    np.testing.assert_array_equal(graph.compile(quantised, CPU)(x), codes)


def network(rng: np.random.Generator, size: int) -> graph.Graph:
    """Return a network of `size` random layers for random images, and a dense layer."""
    b = graph.Builder("random")
    batch, channels, high, wide = (
        rng.choice([1, 1, 2]),
        rng.choice([3, 4, 8]),
        *rng.integers(5, 14, 2),
    )
    images = [b.input("x", (int(batch), int(channels), int(high), int(wide)))]
    for k in range(size):
        images.append(_layer(b, images, f"layer{k}", rng))
    features = b.mean(images[-1], axis=(2, 3))
    w = rng.standard_normal((5, features.type.shape[1]), np.float32)
    return b.graph(b.dense(features, b.param("fc", w)))


def _layer(
    b: graph.Builder, images: list[graph.Node], name: str, rng: np.random.Generator
) -> graph.Node:
    """Return a random layer of one of the last three images."""
    x = images[int(rng.integers(max(0, len(images) - 3), len(images)))]
    _, channels, high, wide = x.type.shape
    same = [n for n in images if n.type == x.type]
    y = same[int(rng.integers(len(same)))]
    match int(rng.integers(9)):
        case 0:
            return b.relu(b.add(x, y))
        case 1 if min(high, wide) > 3:
            return b.max_pool2d(x, 3, int(rng.integers(1, 3)), int(rng.integers(2)))
        case 2 if channels < 20:
            return b.concatenate(x, y, axis=1)
        case 3:
            return b.sigmoid(x)
        case 4:
            return b.clip(b.add(x, y), -1.0, float(rng.uniform(0, 3)))
        case 5 | 6:
            return _conv(b, x, name, rng, channels * int(rng.integers(1, 3)), channels)
        case _:
            return _conv(b, x, name, rng, int(rng.choice([4, 8, 10, 16, 33])), 1)


def _conv(
    b: graph.Builder, x: graph.Node, name: str, rng: np.random.Generator, outputs: int, groups: int
) -> graph.Node:
    """Return a convolution with a bias, perhaps limited as by relu6."""
    channels, kernel = x.type.shape[1] // groups, rng.choice([1, 2, 3, 5], 2)
    dilation = int(rng.choice([1, 1, 2]))
    edges = [int(rng.integers(k)) * dilation for k in (*kernel, *kernel)]
    missing = [
        max(0, (int(k) - 1) * dilation + 1 - n)
        for k, n in zip(kernel, x.type.shape[2:], strict=True)
    ]
    padding = (edges[0] + missing[0], edges[1] + missing[1], edges[2], edges[3])
    w = b.param(name, rng.standard_normal((outputs, channels, *kernel), np.float32))
    strides = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    y = b.conv2d(
        x, w, strides=strides, padding=padding, dilation=dilation, groups=groups, name=name
    )
    y = b.add(y, b.param(f"{name}.bias", rng.standard_normal((outputs, 1, 1), np.float32)))
    return b.clip(y, 0.0, 6.0) if rng.random() < 0.5 else y


def main() -> int:
    """Check the networks of the command line; return 1 if any is not computed as by numpy."""
    first, stop = map(int, sys.argv[1:])
    failed = list[int]()
    for seed in range(first, stop):
        try:
            check(seed)
        except Exception:
            failed.append(seed)
            print(f"seed {seed}\n{traceback.format_exc(limit=-2)}", flush=True)
    print(f"{stop - first} networks, {len(failed)} failed: {failed}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
