"""Quantised operators: equal to numpy's integers and float32, for all limits and zero points."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError, host
from minitvm.te import Tensor
from tests.covering import covering

TARGETS = ["llvm -num-cores=1", "llvm -num-cores=2", "python"]
Array = np.ndarray[Any, Any]


def place(*shape: int, dtype: str = "float32", name: str = "A") -> Tensor:
    return te.placeholder(shape, dtype, name)


def random(*shape: int, dtype: str = "uint8", seed: int = 0) -> Array:
    ends = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(ends.min, ends.max + 1, shape).astype(dtype)


def run(out: Tensor, inputs: list[Tensor], arrays: list[Array], target: str) -> Array:
    """Compute `out` under its default schedule."""
    got = np.full([n for n in out.shape if isinstance(n, int)], 77, out.dtype)
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, got)
    return got


# --- elementwise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("uint8", 113), ("int8", -7)])
def test_quantise_rounds_half_to_even_and_limits(dtype: str, zero: int, target: str) -> None:
    x = place(2, 40)
    values = np.random.default_rng(0).uniform(-200, 200, (2, 40)).astype("float32")
    values[0, :9] = [0.25, 0.75, -0.25, -0.75, 3e38, -3e38, np.inf, -np.inf, np.nan]
    got = run(topi.quantise(x, 0.5, zero, dtype), [x], [values], target)
    ends = np.iinfo(dtype)
    q = np.rint(values / np.float64(0.5)) + zero
    want = np.clip(np.where(np.isnan(q), 0, q), ends.min, ends.max).astype(dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_each_channel_may_have_its_own_scale_and_zero_point(target: str) -> None:
    x, q = place(5, 3, 4), place(5, 3, 4, dtype="uint8", name="Q")
    scale, zero = place(3, name="S"), place(3, dtype="uint8", name="Z")
    s, z = np.float32([0.5, 0.1, 3]), np.uint8([0, 255, 100])
    values = np.random.default_rng(0).uniform(-200, 200, x.shape).astype("float32")
    got = run(topi.quantise(x, scale, zero, axis=1), [x, scale, zero], [values, s, z], target)
    want = np.clip(np.rint(values / s[:, None]) + z[:, None], 0, 255)
    np.testing.assert_array_equal(got, want)
    back = topi.dequantise(q, scale, zero, axis=1)
    got = run(back, [q, scale, zero], [want.astype("uint8"), s, z], target)
    np.testing.assert_array_equal(got, (want - z[:, None]).astype("float32") * s[:, None])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "zero", "low", "high"), [("uint8", 3, 3, 255), ("int8", -9, -128, 127)]
)
def test_requantise_equals_numpy(dtype: str, zero: int, low: int, high: int, target: str) -> None:
    acc, bias = place(9, 24, dtype="int32"), place(24, dtype="int32", name="B")
    scale = place(24, name="S")
    rng = np.random.default_rng(0)
    sums, b = rng.integers(-100_000, 100_000, (9, 24), "int32"), rng.integers(-9, 9, 24, "int32")
    s = rng.uniform(1e-4, 4e-3, 24).astype("float32")
    s[3], sums[0, 3] = 1e30, -(1 << 31) + 9  # far out of the range of int32
    out = topi.requantise(acc, bias, scale, zero, low, high, dtype)
    got = run(out, [acc, bias, scale], [sums, b, s], target)
    with np.errstate(over="ignore"):
        q = np.rint((sums + b).astype("float32") * s) + zero
    want = np.clip(q, low, high).astype(dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_add_requantised_equals_numpy(target: str) -> None:
    a, b = place(9, 24, dtype="uint8"), place(9, 24, dtype="int8", name="B")
    x, y = random(9, 24), random(9, 24, dtype="int8", seed=1)
    ra, rb, rc = np.float32([0.7, 0.41, 12.3])
    out = topi.add_requantised(a, b, float(ra), float(rb), float(rc), low=20)
    inner = np.float32(y * np.float64(rb) + rc)  # float64 holds the product exactly
    want = np.clip(np.rint(np.float32(x * np.float64(ra) + inner)), 20, 255)
    np.testing.assert_array_equal(run(out, [a, b], [x, y], target), want)


# --- convolutions --------------------------------------------------------------------------------


def exact(x: Array, w: Array, stride: int, pad: int, value: int) -> Array:
    """Convolve [N, H, W, C] with [KH, KW, C, O] in int64, one kernel element at a time."""
    x = np.pad(x.astype("int64"), ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=value)
    kh, kw, *_ = w.shape
    oh, ow = (x.shape[1] - kh) // stride + 1, (x.shape[2] - kw) // stride + 1
    taps = [(i, j) for i in range(kh) for j in range(kw)]
    ends = stride * (oh - 1) + 1, stride * (ow - 1) + 1
    return sum(
        x[:, i : i + ends[0] : stride, j : j + ends[1] : stride] @ w[i, j].astype("int64")
        for i, j in taps
    )


ARM = "neon" in host().features
WITHOUT = f"llvm -num-cores=1 -mattr={'-dotprod,-i8mm' if ARM else '-avx512vnni,-avxvnni'}"
NARROW = f"llvm -num-cores=1 -mattr={'-i8mm' if ARM else '-avx512f'}"
CONV_TARGETS = [*TARGETS, WITHOUT, NARROW, "numba -num-cores=1"]
LAYERS = [  # size, inputs, outputs, kernel, stride, padding
    (14, 8, 32, 3, 1, 1),
    (9, 3, 16, 3, 2, 1),
    (7, 16, 64, 1, 1, 0),
    (13, 12, 24, 5, 2, 2),
    (6, 5, 7, 2, 1, 1),
    (17, 20, 50, 3, 1, 0),
    (15, 3, 32, 7, 2, 3),
    (10, 6, 16, 1, 1, 0),
]


@pytest.mark.parametrize(
    ("layer", "dtype", "target"), covering(LAYERS, ["uint8", "int8"], CONV_TARGETS), ids=str
)
def test_a_convolution_of_bytes_is_exact(layer: Any, dtype: str, target: str) -> None:
    size, c, o, k, stride, pad = layer
    x = place(2, size, size + 2, c, dtype=dtype, name="X")
    w = place(k, k, c, o, dtype="int8", name="W")
    value = np.iinfo(dtype).max - 40
    out = topi.conv2d(x, w, stride, pad, layout="NHWC", pad_value=value)
    data, weights = random(*x.shape, dtype=dtype), random(*w.shape, dtype="int8", seed=1)
    got = run(out, [x, w], [data, weights], target)
    assert out.dtype == "int32"
    np.testing.assert_array_equal(got, exact(data, weights, stride, pad, value))


@pytest.mark.parametrize("c", [6, 8])
def test_a_dilated_window_reads_pixels_apart(c: int) -> None:
    x, w = place(1, 11, 11, c, dtype="uint8", name="X"), place(3, 3, c, 16, dtype="int8", name="W")
    data, weights = random(*x.shape), random(*w.shape, dtype="int8", seed=1)
    out = topi.conv2d(x, w, 1, 2, dilation=2, layout="NHWC", pad_value=5)
    spread = np.zeros((5, 5, c, 16), "int8")
    spread[::2, ::2] = weights
    got = run(out, [x, w], [data, weights], "llvm -num-cores=1")
    np.testing.assert_array_equal(got, exact(data, spread, 1, 2, 5))


def layer(o: int = 32, shape: tuple[Any, ...] = (1, 9, 9, 8)) -> tuple[Tensor, ...]:
    """Return data, weights, bias and scale of a convolution, and its requantised result."""
    x = place(*shape, dtype="uint8", name="X")
    w = te.placeholder((3, 3, 8, o), "int8", name="W", constant=True)
    bias, scale = place(o, dtype="int32", name="bias"), place(o, name="scale")
    sums = topi.conv2d(x, w, 1, 1, layout="NHWC", pad_value=7)
    return x, w, bias, scale, topi.requantise(sums, bias, scale, 3)


def numbers(x: Tensor, o: int = 32) -> tuple[list[Array], Array]:
    """Return arrays for the inputs of `layer`, and what the result must be."""
    data, weights = random(*x.shape), random(3, 3, 8, o, dtype="int8", seed=1)
    bias, scale = np.arange(o, dtype="int32") * 50, np.linspace(1e-3, 4e-3, o, dtype="float32")
    sums = (exact(data, weights, 1, 1, 7) + bias).astype("float32")
    want = np.clip(np.rint(sums * scale) + 3, 0, 255).astype("uint8")
    return [data, weights, bias, scale], want


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -num-cores=2", WITHOUT, "python"])
@pytest.mark.parametrize("o", [16, 24, 32])
def test_a_residual_block_is_computed_tile_by_tile(o: int, target: str) -> None:
    *inputs, q = layer(o)
    other = place(*q.shape, dtype="uint8", name="other")
    out = topi.add_requantised(q, other, 0.5, 0.25, 9.0, low=9)
    arrays, first = numbers(inputs[0], o)
    second = random(*first.shape, seed=2)
    want = np.clip(np.rint(first * 0.5 + second * 0.25 + 9), 9, 255)
    got = run(out, [*inputs, other], [*arrays, second], target)
    np.testing.assert_array_equal(got, want)
    program = str(tvm.lower(topi.schedule(out, target), [*inputs, other, out]))
    assert "T_requantise" not in program
    assert "T_conv2d" not in program


READERS: dict[str, tuple[Any, Any]] = {
    "relu": (topi.relu, lambda q: q),
    "pool": (
        lambda q: topi.max_pool2d(q, 2, 2, layout="NHWC"),
        lambda q: q[:, :8, :8].reshape(1, 4, 2, 4, 2, 32).max((2, 4)),
    ),
    "channels": (
        lambda q: topi.strided_slice(q, [0, 0, 0, 3], [1, 9, 9, 10]),
        lambda q: q[..., 3:10],
    ),
    "transpose": (lambda q: topi.transpose(q, (0, 3, 1, 2)), lambda q: q.transpose(0, 3, 1, 2)),
    "reshape": (lambda q: topi.reshape(q, (81, 32)), lambda q: q.reshape(81, 32)),
    "itself and its sum": (
        lambda q: topi.add(q, topi.sum(q, axis=3, keepdims=True)),
        lambda q: q + q.sum(3, keepdims=True, dtype="uint8"),
    ),
}


@pytest.mark.parametrize("target", ["llvm -num-cores=1", WITHOUT, "python"])
@pytest.mark.parametrize("reader", READERS)
def test_any_operator_may_read_the_result(reader: str, target: str) -> None:
    *inputs, q = layer()
    make, meaning = READERS[reader]
    arrays, want = numbers(inputs[0])
    np.testing.assert_array_equal(run(make(q), inputs, arrays, target), meaning(want))


def test_the_batch_may_be_symbolic() -> None:
    *inputs, q = layer(shape=(te.var("n"), 9, 9, 8))
    f = tvm.build(topi.schedule(q), [*inputs, q])
    for n in (1, 3):
        arrays, want = numbers(place(n, 9, 9, 8))
        got = np.zeros_like(want)
        f(*arrays, got)
        np.testing.assert_array_equal(got, want)


@pytest.mark.skipif("avx512vnni" not in host().features, reason="needs VNNI")
def test_the_instruction_reads_bytes_where_they_are_and_packed_weights() -> None:
    x = place(1, 14, 14, 64, dtype="uint8", name="X")
    w = te.placeholder((1, 1, 64, 64), "int8", name="W", constant=True)
    out = topi.conv2d(x, w, layout="NHWC")
    s = topi.schedule(out, "llvm -num-cores=1")
    assert [stage.name for stage in s.stages][:3] == ["X", "W", "T_groups"]  # no copy of the data
    f = tvm.build(s, [x, w, out], "llvm -num-cores=1 -unroll=0")
    assert "def main_prepack" in str(tvm.lower(s, [x, w, out]))
    loops = re.findall(r"^\.LBB\w+:\n((?:\t[^j].*\n)+)\tj", f.source("asm"), flags=re.MULTILINE)
    hot = max(loops, key=lambda loop: loop.count("vpdpbusd"))
    names = {line.split()[0] for line in hot.splitlines() if line.startswith("\tv")}
    assert names <= {"vpdpbusd", "vpbroadcastd", "vmovdqu64", "vmovdqa64"}


@pytest.mark.parametrize("method", ["direct", "rows", "blocks", "gemm"])
def test_all_formulas_sum_bytes_in_int32_and_pad_with_the_value(method: str) -> None:
    x, w = place(1, 16, 9, 9, dtype="uint8", name="X"), place(32, 16, 3, 3, dtype="int8", name="W")
    out = topi.conv2d(x, w, padding=1, method=method, pad_value=100)
    data, weights = random(*x.shape), random(*w.shape, dtype="int8", seed=1)
    got = run(out, [x, w], [data, weights], "llvm -num-cores=1")
    want = exact(data.transpose(0, 2, 3, 1), weights.transpose(2, 3, 1, 0), 1, 1, 100)
    np.testing.assert_array_equal(got, want.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_depthwise_convolution_of_bytes_is_exact(layout: str) -> None:
    x = place(1, 9, 9, 8, dtype="uint8", name="X")
    w = place(3, 3, 1, 8, dtype="int8", name="W")
    data, weights = random(*x.shape), random(*w.shape, dtype="int8", seed=1)
    dense = np.zeros((3, 3, 8, 8), "int8")
    dense[:, :, range(8), range(8)] = weights[:, :, 0]
    want = exact(data, dense, 1, 1, 9)
    if layout == "NCHW":
        x, w = place(1, 8, 9, 9, dtype="uint8", name="X"), place(8, 1, 3, 3, dtype="int8", name="W")
        data, weights = data.transpose(0, 3, 1, 2).copy(), weights.transpose(3, 2, 0, 1).copy()
        want = want.transpose(0, 3, 1, 2)
    out = topi.conv2d(x, w, padding=1, groups=8, layout=layout, pad_value=9)
    got = run(out, [x, w], [data, weights], "llvm -num-cores=1")
    np.testing.assert_array_equal(got, want)


def test_wrong_parameters_are_refused() -> None:
    x, q, w = place(4, 4), place(4, 4, dtype="int32"), place(3, name="W")
    images = place(1, 9, 9, 8, dtype="uint8"), place(3, 3, 8, 8, dtype="int8")
    with pytest.raises(ExprError, match='dtype is float32\n  try: "uint8" or "int8"'):
        topi.quantise(x, 0.5, dtype="float32")
    with pytest.raises(ExprError, match=r"zero is 200, but int8 has the range -128 .. 127"):
        topi.quantise(x, 0.5, 200, "int8")
    with pytest.raises(ExprError, match=r"the limits are 9 .. 3, not a part of 0 .. 255"):
        topi.requantise(q, q, w, low=9, high=3)
    with pytest.raises(ExprError, match=r"W: its shape must be \[4\]"):
        topi.requantise(q, place(4, dtype="int32"), w)
    with pytest.raises(ExprError, match="it has type float32\n  try: uint8, int8 or int32"):
        topi.dequantise(x, 0.5)
    with pytest.raises(ExprError, match=r"pad_value=-1: uint8 has the range 0 .. 255"):
        topi.conv2d(*images, layout="NHWC", pad_value=-1)
