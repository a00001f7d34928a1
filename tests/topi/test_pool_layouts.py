"""Pooling in all layouts against numpy, for random windows, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError
from minitvm.testing import assert_allclose

from .images import LAYOUTS, to_layout


def windows(x: Any, kernel: Any, strides: Any, padding: Any, value: float) -> Any:
    """All windows of x [N, C, H, W], as [N, C, OH, OW, KH, KW]; outside the image is `value`."""
    top, left, bottom, right = padding
    p = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
    every = np.lib.stride_tricks.sliding_window_view(p, kernel, axis=(2, 3))
    return every[:, :, :: strides[0], :: strides[1]]


def run(
    out: te.Tensor, data: te.Tensor, x: Any, target: str, schedule_for: str = ""
) -> np.ndarray[Any, Any]:
    got = np.zeros(out.shape, "float32")
    tvm.build(topi.schedule(out, schedule_for or target), [data, out], target)(x, got)
    return got


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_random_windows_equal_numpy(layout: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([16, 48] if layout.endswith("c") else [1, 5, 24, 33]))
    kernel, strides = (tuple(int(n) for n in rng.integers(1, 4, 2)) for _ in range(2))
    padding = tuple(int(p) for p in rng.integers(0, 2, 4))
    size = tuple(int(n) + k for n, k in zip(rng.integers(1, 18, 2), kernel, strict=True))
    x = rng.standard_normal((int(rng.integers(1, 3)), channels, *size)).astype("float32")
    data = te.placeholder(to_layout(x, layout).shape, name="data")
    target = f"llvm -num-cores={1 + seed % 2}"
    most = topi.nn.max_pool2d(data, kernel, strides, padding, layout=layout)
    got = run(most, data, to_layout(x, layout), target)
    want = windows(x, kernel, strides, padding, -np.inf).max((-1, -2))
    np.testing.assert_array_equal(got, to_layout(want, layout))
    mean = topi.nn.avg_pool2d(data, kernel, strides, padding, seed == 0, layout=layout)
    got = run(mean, data, to_layout(x, layout), target)
    every = windows(x, kernel, strides, padding, np.nan)
    every = np.nan_to_num(every) if seed == 0 else every
    count = np.maximum(1, (~np.isnan(every)).sum((-1, -2)))
    want = (np.nansum(every, (-1, -2)) / count).astype("float32")
    assert_allclose(got, to_layout(want, layout), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_interpreter_agrees(layout: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 16, 6, 5)).astype("float32")
    data = te.placeholder(to_layout(x, layout).shape, name="data")
    out = topi.relu(topi.nn.max_pool2d(data, 3, 2, 1, layout=layout))
    got = run(out, data, to_layout(x, layout), "python", "llvm")
    want = windows(x, (3, 3), (2, 2), (1, 1, 1, 1), -9.0).max((-1, -2))
    np.testing.assert_array_equal(got, to_layout(np.maximum(want, 0), layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_global_average_has_one_pixel(layout: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 32, 7, 6)).astype("float32")
    data = te.placeholder(to_layout(x, layout).shape, name="data")
    out = topi.nn.global_avg_pool2d(data, layout=layout)
    got = run(out, data, to_layout(x, layout), "llvm")
    want = to_layout(x.mean((2, 3), keepdims=True), layout)
    assert got.shape == want.shape
    assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
def test_the_data_must_have_the_rank_of_the_layout(pool: str) -> None:
    data = te.placeholder((1, 8, 8, 16), name="data")
    with pytest.raises(ExprError, match=f"topi.{pool} of data: it has 4 dimensions, not 5"):
        getattr(topi.nn, pool)(data, 2, layout="NCHW16c")


def test_a_window_larger_than_the_image_is_refused() -> None:
    data = te.placeholder((1, 4, 4, 16), name="data")
    with pytest.raises(ExprError, match="it spans 5 pixels, but the image has 4"):
        topi.nn.max_pool2d(data, 5, layout="NHWC")
