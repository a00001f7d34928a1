"""Transposes, alone and fused with elementwise stages, and transposed operands of products."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from tests.covering import covering

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
@pytest.mark.parametrize("shape", [(2, 3, 5, 80), (1, 2, 4, 17), (1, 3, 8, 1), (3, 2, 1, 64)])
def test_two_or_three_channels_become_adjacent(target: str, shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    out = topi.transpose(topi.quantise(x, 0.5, 7), (0, 2, 3, 1))
    check(out, [x], lambda a: np.clip(a.transpose(0, 2, 3, 1) * 2 + 7, 0, 255), target)


def test_rows_of_three_channels_are_stored_in_vectors() -> None:
    x = te.placeholder((1, 3, 8, 96), name="x")
    out = topi.transpose(topi.quantise(x, 0.5, 7), (0, 2, 3, 1))
    text = str(tvm.lower(topi.schedule(out, ONE), [x, out], target=ONE))
    assert re.search(r"\[[^]]* : 3\] = uint8\(", text)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 12, 7, 7), (2, 5, 14, 6), (1, 4, 3, 49), (3, 8, 9, 10)])
def test_axes_that_stay_together_are_one_loop(target: str, shape: tuple[int, ...]) -> None:
    n, c, h, w = shape
    x, bias = te.placeholder(shape, name="x"), te.placeholder((c,), name="bias")
    channels_last = topi.transpose(x, (0, 2, 3, 1))
    check(channels_last, [x], lambda v: v.transpose(0, 2, 3, 1), target)
    out = topi.relu(topi.add(channels_last, bias))
    check(out, [x, bias], lambda v, b: np.maximum(v.transpose(0, 2, 3, 1) + b, 0), target)
    y = te.placeholder((n, h, w, c), name="y")
    check(topi.transpose(y, (0, 3, 1, 2)), [y], lambda v: v.transpose(0, 3, 1, 2), target)
    out = topi.add(topi.transpose(y, (0, 3, 1, 2)), x)
    check(out, [y, x], lambda v, a: v.transpose(0, 3, 1, 2) + a, target)
    cube = te.placeholder((c, h, w, n, 3), name="cube")
    check(
        topi.transpose(cube, (4, 0, 1, 2, 3)), [cube], lambda v: v.transpose(4, 0, 1, 2, 3), target
    )


@pytest.mark.parametrize("axes", [(0, 2, 3, 1), (0, 3, 1, 2)])
def test_images_of_14_x_14_are_read_and_written_in_vectors(axes: tuple[int, ...]) -> None:
    x = te.placeholder((1, 14, 14, 16) if axes[1] == 3 else (1, 16, 14, 14), name="x")
    out = topi.transpose(x, axes)
    loops = str(tvm.lower(topi.schedule(out, ONE), [x, out], target=ONE))
    assert "fused" in loops
    assert "if" not in loops  # 196 pixels are 49 vectors of 4


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


@pytest.mark.parametrize("target", TARGETS)
def test_two_transposes_have_one_reader(target: str) -> None:
    x, y = te.placeholder((5, 20, 33), name="x"), te.placeholder((20, 33, 5), name="y")
    out = topi.add(topi.transpose(x, (0, 2, 1)), topi.transpose(y, (2, 1, 0)))
    check(out, [x, y], lambda a, b: a.transpose(0, 2, 1) + b.transpose(2, 1, 0), target)
    w, z = te.placeholder((40, 24), name="w"), te.placeholder((40, 24), name="z")
    out = topi.relu(topi.subtract(topi.transpose(w), topi.transpose(z)))
    check(out, [w, z], lambda a, b: np.maximum(a.T - b.T, 0), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("product", [False, True])
def test_a_stage_of_constants_is_not_fused_into_a_call(target: str, product: bool) -> None:
    w = te.placeholder((16, 24), name="w", constant=True)
    inner = topi.matmul(topi.transpose(w), w) if product else topi.transpose(w)
    x = te.placeholder(inner.shape, name="x")
    out = topi.add(inner, x)
    check(out, [x, w], lambda a, b: (b.T @ b if product else b.T) + a, target)
    main = tvm.lower(topi.schedule(out, target), [x, w, out], target=target)
    assert main.prepack is not None
    _, calls = str(main).split("def main(")
    assert "w[" not in calls


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


SIZES = [(17, 40, 48), (50, 33, 70), (9, 3, 20), (60, 64, 2), (64, 1, 16)]


@pytest.mark.parametrize(
    ("target", "constant", "shape"), covering(TARGETS, [False, True], SIZES), ids=str
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


def kernel_and_image(block: int, groups: int, side: int, constant: bool) -> list[te.Tensor]:
    """Return placeholders for an image of 16 channels a group in NCHWc, and a kernel in OIHW."""
    channels = 16 * groups
    return [
        te.placeholder((1, channels // block, 3, 4, block), name="x"),
        te.placeholder((2 * channels, 16, side, side), name="w", constant=constant),
    ]


def direct(x: Array, w: Array, groups: int) -> Array:
    """Convolve x in NCHWc with w in OIHW, and return the result in NCHWc."""
    n, panels, high, wide, block = x.shape
    pad = w.shape[-1] // 2
    image = x.transpose(0, 1, 4, 2, 3).reshape(n, groups, -1, high, wide)
    image = np.pad(image, ((0, 0), (0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(image, w.shape[2:], (3, 4))
    kernel = w.reshape(groups, -1, *w.shape[1:])
    out = np.einsum("ngcyxhw,gochw->ngoyx", windows, kernel)
    return out.reshape(n, 2 * panels, block, high, wide).transpose(0, 1, 3, 4, 2)


@pytest.mark.parametrize(
    ("target", "block", "kernel"),
    covering(TARGETS, [4, 8, 16], [(1, 3, False), (2, 1, True)]),
    ids=str,
)
def test_kernels_in_oihw_are_packed(target: str, block: int, kernel: tuple[int, int, bool]) -> None:
    groups, side, constant = kernel
    x, w = kernel_and_image(block, groups, side, constant)
    out = topi.nn.conv2d(x, w, 1, side // 2, layout=f"NCHW{block}c", groups=groups)
    check(out, [x, w], lambda a, b: direct(a, b, groups), target)


@pytest.mark.parametrize("features", ["+avx2,-avx512f", "+avx512f"])
@pytest.mark.parametrize("block", [4, 8, 16])
def test_kernels_in_oihw_are_packed_by_shuffles(block: int, features: str) -> None:
    target = f"llvm -num-cores=1 -mattr={features}"
    x, w = kernel_and_image(block, 1, 3, constant=True)
    out = topi.nn.conv2d(x, w, 1, 1, layout=f"NCHW{block}c")
    early = tvm.lower(topi.schedule(out, target), [x, w, out], target=target).prepack
    assert early is not None
    code = tvm.build(early, target=target).source("ll")
    assert "shufflevector" in code
    assert "gather" not in code
    assert "scatter" not in code
