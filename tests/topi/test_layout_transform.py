"""layout_transform between all layouts, alone and fused, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError

from .images import LAYOUTS, to_layout

PAIRS = [(a, b) for a in LAYOUTS for b in LAYOUTS if a != b]


def run(out: te.Tensor, data: te.Tensor, x: Any, target: str, kind: str = "") -> Any:
    got = np.zeros(out.shape, data.dtype)
    tvm.build(topi.schedule(out, target), [data, out], kind or target)(x, got)
    return got


@pytest.mark.parametrize(("source", "result"), PAIRS)
@pytest.mark.parametrize("seed", range(2))
def test_random_images_are_moved(source: str, result: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocked = (source + result).endswith("c") or "c" in source + result
    channels = int(rng.choice([16, 48] if blocked else [1, 3, 24, 33, 64]))
    images, high, wide = int(rng.integers(1, 3)), *(int(n) for n in rng.integers(1, 20, 2))
    x = rng.standard_normal((images, channels, high, wide)).astype("float32")
    data = te.placeholder(to_layout(x, source).shape, name="data")
    out = topi.layout_transform(data, source, result)
    got = run(out, data, to_layout(x, source), f"llvm -num-cores={1 + seed}")
    np.testing.assert_array_equal(got, to_layout(x, result))


@pytest.mark.parametrize(("source", "result"), [p for p in PAIRS if "NCHW4c" not in p])
def test_elementwise_neighbours_are_fused(source: str, result: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 32, 5, 7)).astype("float32")
    data = te.placeholder(to_layout(x, source).shape, name="data")
    out = topi.layout_transform(topi.multiply(data, 2.0), source, result)
    out = topi.relu(topi.add(out, 1.0))
    s = topi.schedule(out, "llvm -num-cores=1")
    text = str(tvm.lower(s, [data, out], target="llvm -num-cores=1"))
    assert '"global"' not in text
    want = to_layout(np.maximum(x * 2 + 1, 0), result)
    got = np.zeros(out.shape, "float32")
    for kind in ("llvm -num-cores=1", "python"):
        tvm.build(s, [data, out], kind)(to_layout(x, source), got)
        np.testing.assert_array_equal(got, want)


def test_a_reader_that_is_not_elementwise_reads_a_stored_image() -> None:
    x = np.random.default_rng(0).standard_normal((1, 16, 6, 5)).astype("float32")
    data = te.placeholder(x.shape, name="data")
    moved = topi.layout_transform(data, "NCHW", "NHWC")
    padded = topi.pad(topi.relu(moved), (0, 1, 1, 0))
    want = np.pad(to_layout(np.maximum(x, 0), "NHWC"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    np.testing.assert_array_equal(run(padded, data, x, "llvm"), want)
    pooled = topi.nn.max_pool2d(moved, 2, layout="NHWC")
    want = x[:, :, :, :4].reshape(1, 16, 3, 2, 2, 2).max((3, 5))
    np.testing.assert_array_equal(run(pooled, data, x, "llvm"), to_layout(want, "NHWC"))
    back = topi.layout_transform(moved, "NHWC", "NCHW16c")
    np.testing.assert_array_equal(run(back, data, x, "llvm"), to_layout(x, "NCHW16c"))


@pytest.mark.parametrize("dtype", ["float64", "int8", "float16", "int32"])
def test_every_type_is_moved(dtype: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 32, 9, 8)).astype(dtype)
    data = te.placeholder(x.shape, dtype, name="data")
    out = topi.layout_transform(data, "NCHW", "NHWC")
    np.testing.assert_array_equal(run(out, data, x, "llvm"), to_layout(x, "NHWC"))


@pytest.mark.parametrize("features", ["+avx2,-avx512f", "+avx512f"])
def test_a_square_block_is_transposed_by_shuffles(features: str) -> None:
    data = te.placeholder((1, 64, 16, 16), name="data")
    out = topi.layout_transform(data, "NCHW", "NHWC")
    target = f"llvm -num-cores=1 -mattr={features}"
    code = tvm.build(topi.schedule(out, target), [data, out], target).source("ll")
    lanes = tvm.Target(target).lanes("float32")
    levels = lanes.bit_length() - 1
    assert code.count("shufflevector") == lanes * levels
    assert "scatter" not in code


def test_the_same_layout_is_the_same_tensor() -> None:
    data = te.placeholder((1, 8, 5, 5), name="data")
    assert topi.layout_transform(data, "NCHW", "NCHW") is data


def refusal(shape: tuple[int, ...], source: str, result: str) -> str:
    with pytest.raises(ExprError) as caught:
        topi.layout_transform(te.placeholder(shape, name="data"), source, result)
    return str(caught.value)


def test_bad_layouts_are_refused() -> None:
    assert refusal((1, 8, 5, 5), "NCHW", "NCHW16c") == (
        "layout NCHW16c: 8 channels cannot be divided into blocks of 16\n"
        "  try: NHWC, or a block that divides the channels"
    )
    assert refusal((1, 8, 5, 5), "NCHW", "HWC") == (
        "topi.layout_transform of data: layout 'HWC': no such layout\n"
        "  try: 'NCHW', 'NHWC' or 'NCHW16c'"
    )
    assert "has 4 dimensions, not 5" in refusal((1, 8, 5, 5), "NCHW8c", "NCHW")
