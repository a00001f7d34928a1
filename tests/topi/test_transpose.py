"""Transposes, alone and fused with elementwise stages, and transposed operands of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi

Array = np.ndarray[Any, Any]
ONE = "llvm -num-cores=1"
TARGETS = (ONE, "llvm -num-cores=2", "python")


def check(out: te.Tensor, inputs: list[te.Tensor], want: Callable[..., Any], target: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, t.shape).astype(str(t.dtype)) for t in inputs]
    got = np.zeros(out.shape, str(out.dtype))
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, got)
    np.testing.assert_array_equal(got, want(*arrays))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(6))
def test_random_shapes_are_permuted(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 5))
    shape = [int(rng.choice([1, 3, 4, 7, 16, 33, 50, 64])) for _ in range(rank)]
    axes = [int(d) for d in rng.permutation(rank)]
    dtype = str(rng.choice(["float32", "float64", "int8", "float16", "bool"]))
    if target == "python":
        shape = [min(n, 20) for n in shape]
    x = te.placeholder(shape, dtype, name="x")
    check(topi.transpose(x, axes), [x], lambda v: v.transpose(axes), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(40, 52), (7, 33), (48, 3), (600, 530)])
def test_elementwise_stages_are_computed_in_the_blocks(target: str, shape: tuple[int, int]) -> None:
    if target == "python" and max(shape) > 100:
        shape = (20, 17)
    x, y = te.placeholder(shape, name="x"), te.placeholder(shape[::-1], name="y")
    before = topi.multiply(x, 2.0)
    out = topi.relu(topi.add(topi.transpose(before), y))
    check(out, [x, y], lambda a, b: np.maximum(a.T * 2 + b, 0), target)
    s = topi.schedule(out, ONE)
    assert "global" not in str(tvm.lower(s, [x, y, out], target=ONE))
    twice = topi.add(topi.transpose(x), topi.transpose(topi.add(x, 1.0)))
    check(twice, [x], lambda a: 2 * a.T + 1, target)


@pytest.mark.parametrize("target", TARGETS)
def test_readers_of_other_shapes_read_a_stored_transpose(target: str) -> None:
    x, w = te.placeholder((24, 20), name="x"), te.placeholder((24, 8), name="w")
    moved = topi.transpose(x)
    check(topi.reshape(moved, (480,)), [x], lambda a: a.T.reshape(480), target)
    check(topi.matmul(moved, w), [x, w], lambda a, b: a.T @ b, target)
    check(topi.sum(moved, -1), [x], lambda a: a.T.sum(-1), target)
    square = te.placeholder((33, 33), name="square")
    check(topi.add(square, topi.transpose(square)), [square], lambda a: a + a.T, target)
    mean = te.compute((33, 33), lambda i, j: square[i, j] + square[j, i], name="mean")
    check(mean, [square], lambda a: a + a.T, target)


@pytest.mark.parametrize("features", ["+avx2,-avx512f", "+avx512f"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_blocks_are_transposed_by_shuffles(dtype: str, features: str) -> None:
    target = f"llvm -num-cores=1 -mattr={features}"
    x = te.placeholder((64, 96), dtype, name="x")
    out = topi.transpose(x)
    code = tvm.build(topi.schedule(out, target), [x, out], target).source("ll")
    assert "shufflevector" in code
    assert "scatter" not in code
    assert "gather" not in code


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    "shape", [(17, 40, 48), (50, 33, 70), (9, 3, 20), (60, 64, 2), (64, 1, 16)]
)
def test_a_transposed_right_operand_is_packed(
    target: str, constant: bool, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n, k), name="b", constant=constant)
    check(topi.nn.dense(a, b), [a, b], lambda x, w: x @ w.T, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(16, 16), (50, 30), (33, 9)])
def test_keys_of_a_batch_are_packed(target: str, sizes: tuple[int, int]) -> None:
    rows, depth = sizes
    q, k = (te.placeholder((3, rows, depth), name=name) for name in "qk")
    out = topi.nn.batch_matmul(q, k, transpose_b=True)
    check(out, [q, k], lambda x, y: x @ y.swapaxes(1, 2), target)
