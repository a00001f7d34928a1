"""Small computations of all kinds, and what the sketches of each are checked with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm import te, tensor, topi


def matmul(relu: bool = False) -> te.Tensor:
    a, b = te.placeholder((12, 20), name="A"), te.placeholder((20, 48), name="B")
    k = te.reduce_axis((0, 20), "k")
    c = te.compute((12, 48), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="C")
    return te.compute((12, 48), lambda i, j: te.max(c[i, j], 0.0), name="D") if relu else c


def conv2d_nhwc() -> te.Tensor:
    x = te.placeholder((1, 7, 7, 16), name="x")
    w = te.placeholder((3, 3, 16, 32), name="w", constant=True)
    return topi.nn.relu(topi.conv2d(x, w, 1, 1, layout="NHWC"))


def conv2d_nchw() -> te.Tensor:
    x, w = te.placeholder((1, 6, 9, 9), name="x"), te.placeholder((8, 6, 3, 3), name="w")
    return topi.conv2d(x, w, 2, 1, method="direct")


def depthwise() -> te.Tensor:
    x = te.placeholder((1, 9, 9, 16), name="x")
    w = te.placeholder((3, 3, 16, 1), name="w", constant=True)
    return topi.depthwise_conv2d(x, w, 1, 1, layout="NHWC")


def norm() -> te.Tensor:
    a = te.placeholder((20, 50), name="A")
    i, j = te.reduce_axis((0, 20), "i"), te.reduce_axis((0, 50), "j")
    squares = te.compute((1,), lambda b: te.sum(a[i, j] * a[i, j], [i, j]), name="S")
    return te.compute((1,), lambda b: te.sqrt(squares[b]), name="N")


def outer_product() -> te.Tensor:
    a, b = te.placeholder((12,), name="A"), te.placeholder((48,), name="B")
    return te.compute((12, 48), lambda i, j: a[i] * b[j], name="C")


def row_sum() -> te.Tensor:
    return topi.sum(te.placeholder((20, 50), name="A"), 1)


def column_sum() -> te.Tensor:
    return topi.sum(te.placeholder((20, 50), name="A"), 0)


def softmax() -> te.Tensor:
    return topi.softmax(te.placeholder((20, 50), name="A"))


PROGRAMS: dict[str, Callable[[], te.Tensor]] = {
    "matmul": matmul,
    "matmul + relu": lambda: matmul(relu=True),
    "conv2d NHWC + relu": conv2d_nhwc,
    "conv2d NCHW": conv2d_nchw,
    "depthwise": depthwise,
    "norm": norm,
    "outer product": outer_product,
    "row sum": row_sum,
    "column sum": column_sum,
    "softmax": softmax,
}


def args_of(out: te.Tensor) -> tuple[te.Tensor, ...]:
    """Return the inputs of a computation and its output."""
    ops = tensor.producers_first((out.op,))
    inputs = [op.output(0) for op in ops if isinstance(op, te.PlaceholderOp)]
    return *inputs, out


def arrays(args: tuple[te.Tensor, ...], rng: np.random.Generator) -> list[Any]:
    """Return random values for inputs, and NaN for the output."""
    shapes = [tuple(map(int, a.shape)) for a in args]  # type: ignore[arg-type]
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    values[-1][...] = np.nan
    return values
