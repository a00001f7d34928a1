"""The computations of Ansor's evaluation, by name, with the shapes that it measured.

task = auto_scheduler.SearchTask("C2D", workloads.SHAPES["C2D"][2], target="llvm")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from minitvm import te, topi

Tensors = list[te.Tensor]
CAPSULE = 4  # rows and columns of the matrix in each pixel


def c1d(n: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> Tensors:
    """Define a convolution in one dimension."""
    x, taps = te.placeholder((n, ci, w), name="x"), te.placeholder((co, ci, k), name="w")
    return [x, taps, topi.conv1d(x, taps, stride, pad)]


def c2d(
    n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int,
    dilation: int = 1, groups: int = 1,
) -> Tensors:  # fmt: skip
    """Define a convolution, in NHWC."""
    x = te.placeholder((n, h, w, ci), name="x")
    taps = te.placeholder((k, k, ci // groups, co), name="w")
    return [x, taps, topi.conv2d(x, taps, stride, pad, dilation, groups, layout="NHWC")]


def c3d(n: int, d: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> Tensors:
    """Define a convolution in three dimensions."""
    x = te.placeholder((n, ci, d, h, w), name="x")
    taps = te.placeholder((co, ci, k, k, k), name="w")
    return [x, taps, topi.conv3d(x, taps, stride, pad)]


def gmm(b: int, n: int, m: int, k: int) -> Tensors:
    """Define a product of matrices, for each of b pairs."""
    x, y = te.placeholder((b, n, k), name="x"), te.placeholder((b, k, m), name="y")
    return [x, y, topi.batch_matmul(x, y)]


def dep(n: int, h: int, w: int, c: int, k: int, stride: int, pad: int) -> Tensors:
    """Define a depthwise convolution, in NHWC."""
    x, taps = te.placeholder((n, h, w, c), name="x"), te.placeholder((k, k, c, 1), name="w")
    return [x, taps, topi.depthwise_conv2d(x, taps, stride, pad, layout="NHWC")]


def t2d(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> Tensors:
    """Define a transposed convolution."""
    x, taps = te.placeholder((n, ci, h, w), name="x"), te.placeholder((ci, co, k, k), name="w")
    return [x, taps, topi.conv2d_transpose(x, taps, stride, pad)]


def cap(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> Tensors:
    """Define a capsule convolution: each pixel is a 4 x 4 matrix, and so is each tap."""
    x = te.placeholder((n, h, w, CAPSULE, CAPSULE, ci), name="x")
    taps = te.placeholder((k, k, CAPSULE, CAPSULE, ci, co), name="w")
    padded = topi.pad(x, (0, pad, pad, 0, 0, 0))
    ry, rx = te.reduce_axis((0, k), "ry"), te.reduce_axis((0, k), "rx")
    rk, rc = te.reduce_axis((0, CAPSULE), "rk"), te.reduce_axis((0, ci), "rc")

    def body(b: Any, y: Any, x: Any, i: Any, j: Any, o: Any) -> Any:
        pixel = padded[b, y * stride + ry, x * stride + rx, i, rk, rc]
        return te.sum(pixel * taps[ry, rx, rk, j, rc, o], [ry, rx, rk, rc])

    high, wide = ((size + 2 * pad - k) // stride + 1 for size in (h, w))
    out = te.compute((n, high, wide, CAPSULE, CAPSULE, co), body, name="capsules")
    return [x, taps, out]


def nrm(b: int, n: int, m: int) -> Tensors:
    """Define the 2-norm of each of b matrices."""
    a = te.placeholder((b, n, m), name="A")
    i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, m), "j")

    def square(x: Any) -> Any:
        return te.sum(a[x, i, j] * a[x, i, j], [i, j])

    def root(x: Any) -> Any:
        return te.sqrt(squares[x])

    squares = te.compute((b,), square, name="squares")
    return [a, te.compute((b,), root, name="norm")]


def conv_layer(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> Tensors:
    """Define a convolution, batch normalization and ReLU, in NHWC."""
    x, taps, y = c2d(n, h, w, ci, co, k, stride, pad)
    parts = [te.placeholder((co,), name=name) for name in ("gamma", "beta", "mean", "variance")]
    return [x, taps, *parts, topi.relu(topi.batch_norm(y, *parts, axis=3))]


def tbs(b: int, length: int, heads: int, size: int) -> Tensors:
    """Define the weights of attention: two transpositions, a batch of products, and softmax."""
    q, k = (te.placeholder((b, length, heads, size), name=name) for name in "qk")
    rows = topi.reshape(topi.transpose(q, (0, 2, 1, 3)), (b * heads, length, size))
    columns = topi.reshape(topi.transpose(k, (0, 2, 3, 1)), (b * heads, size, length))
    return [q, k, topi.softmax(topi.batch_matmul(rows, columns))]


WORKLOADS: Mapping[str, Callable[..., Tensors]] = {
    "C1D": c1d, "C2D": c2d, "C3D": c3d, "GMM": gmm, "GRP": c2d, "DIL": c2d, "DEP": dep,
    "T2D": t2d, "CAP": cap, "NRM": nrm, "ConvLayer": conv_layer, "TBS": tbs,
}  # fmt: skip

# The arguments of each function, with a batch of 1. The paper also measures a batch of 16.
SHAPES: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "C1D": (
        (1, 256, 64, 128, 3, 2, 1), (1, 128, 128, 256, 1, 2, 0),
        (1, 64, 256, 256, 5, 1, 2), (1, 32, 512, 512, 3, 1, 1),
    ),
    "C2D": (
        (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 64, 1, 1, 0),
        (1, 14, 14, 256, 256, 3, 1, 1), (1, 7, 7, 512, 512, 3, 1, 1),
    ),
    "C3D": (
        (1, 16, 224, 224, 3, 64, 7, 2, 3), (1, 16, 56, 56, 64, 64, 1, 1, 0),
        (1, 16, 14, 14, 256, 256, 3, 1, 1), (1, 16, 7, 7, 512, 512, 3, 1, 1),
    ),
    "GMM": ((1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)),
    "GRP": (
        (1, 56, 56, 64, 128, 3, 2, 1, 1, 4), (1, 56, 56, 64, 64, 1, 1, 0, 1, 4),
        (1, 14, 14, 256, 256, 3, 1, 1, 1, 4), (1, 7, 7, 512, 512, 3, 1, 1, 1, 4),
    ),
    "DIL": (
        (1, 224, 224, 3, 64, 7, 2, 3, 2), (1, 56, 56, 64, 64, 1, 1, 0, 2),
        (1, 14, 14, 256, 256, 3, 1, 1, 2), (1, 7, 7, 512, 512, 3, 1, 1, 2),
    ),
    "DEP": (
        (1, 112, 112, 32, 3, 1, 1), (1, 112, 112, 64, 3, 2, 1),
        (1, 14, 14, 512, 3, 2, 1), (1, 7, 7, 1024, 3, 1, 1),
    ),
    "T2D": (
        (1, 4, 4, 512, 256, 4, 2, 1), (1, 8, 8, 256, 128, 4, 2, 1),
        (1, 16, 16, 128, 64, 4, 2, 1), (1, 32, 32, 64, 3, 4, 2, 1),
    ),
    "CAP": (
        (1, 16, 16, 32, 32, 3, 2, 1), (1, 8, 8, 32, 32, 3, 1, 1),
        (1, 16, 16, 8, 16, 3, 2, 1), (1, 8, 8, 16, 16, 3, 1, 1),
    ),
    "NRM": ((1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 4096)),
    "ConvLayer": (
        (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 128, 3, 2, 1),
        (1, 28, 28, 128, 256, 1, 2, 0), (1, 7, 7, 512, 512, 3, 1, 1),
    ),
    "TBS": ((1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)),
}  # fmt: skip

# Shapes of the same kinds that are small enough for tests.
SMALL: Mapping[str, tuple[int, ...]] = {
    "C1D": (1, 16, 6, 16, 3, 2, 1),
    "C2D": (1, 5, 5, 4, 16, 3, 1, 1),
    "C3D": (1, 3, 4, 4, 3, 8, 3, 2, 1),
    "GMM": (1, 8, 24, 12),
    "GRP": (1, 5, 5, 4, 16, 3, 1, 1, 1, 2),
    "DIL": (1, 7, 7, 3, 16, 3, 2, 2, 2),
    "DEP": (1, 8, 8, 16, 3, 2, 1),
    "T2D": (1, 3, 3, 4, 4, 4, 2, 1),
    "CAP": (1, 3, 3, 2, 4, 3, 2, 1),
    "NRM": (1, 20, 50),
    "ConvLayer": (1, 5, 5, 4, 16, 3, 2, 1),
    "TBS": (1, 6, 2, 4),
}
