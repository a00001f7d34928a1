"""depthwise_conv2d in all layouts against numpy, for random shapes, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError
from minitvm.testing import assert_allclose

from .images import LAYOUTS, to_layout

VNNI = "llvm -mattr=+avx512f,+avx512bw,+avx512vl,+avx512vnni"


def reference(x: Any, w: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    """Depthwise convolution of x [N, C, H, W] with w [C, M, KH, KW], tap by tap."""
    (sy, sx), (top, left, bottom, right), (dy, dx) = strides, padding, dilation
    n, c, _, _ = x.shape
    _, m, kh, kw = w.shape
    p = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    oh = (p.shape[2] - (kh - 1) * dy - 1) // sy + 1
    ow = (p.shape[3] - (kw - 1) * dx - 1) // sx + 1
    out = np.zeros((n, c, m, oh, ow), "float32")
    for ky in range(kh):
        for kx in range(kw):
            y, z = ky * dy, kx * dx
            part = p[:, :, y : y + (oh - 1) * sy + 1 : sy, z : z + (ow - 1) * sx + 1 : sx]
            out += part[:, :, None] * w[None, :, :, ky, kx, None, None]
    return out.reshape(n, c * m, oh, ow)


def draw(rng: np.random.Generator, layout: str) -> tuple[tuple[int, ...], ...]:
    """Random (data shape, kernel shape, strides, padding, dilation)."""
    channels = int(rng.choice([16, 32, 48] if layout.endswith("c") else [1, 3, 8, 16, 24, 40]))
    kernel = tuple(int(k) for k in rng.integers(1, 5, 2))
    dilation = tuple(int(d) for d in rng.integers(1, 3, 2))
    image = tuple(
        int(n) + (k - 1) * d
        for n, k, d in zip(rng.integers(1, 14, 2), kernel, dilation, strict=True)
    )
    several = int(rng.choice([1, 1, 1, 2]))
    strides = tuple(int(s) for s in rng.integers(1, 4, 2))
    padding = tuple(int(p) for p in rng.integers(0, 3, 4))
    shape = (int(rng.integers(1, 3)), channels, *image)
    return shape, (channels, several, *kernel), strides, padding, dilation


def check(layout: str, seed: int, target: str) -> None:
    rng = np.random.default_rng(seed)
    shape, weights, strides, padding, dilation = draw(rng, layout)
    x, w = (rng.integers(-4, 5, s).astype("float32") for s in (shape, weights))
    want = to_layout(np.maximum(reference(x, w, strides, padding, dilation), 0), layout)
    x = to_layout(x, layout)
    w = np.ascontiguousarray(w.transpose(2, 3, 0, 1)) if layout == "NHWC" else w
    data, kernel = te.placeholder(x.shape, name="data"), te.placeholder(w.shape, name="kernel")
    out = topi.nn.depthwise_conv2d(data, kernel, strides, padding, dilation, layout=layout)
    out = topi.relu(out) if seed % 2 else out
    got = np.zeros(out.shape, "float32")
    tvm.build(topi.schedule(out, target), [data, kernel, out], target)(x, w, got)
    np.testing.assert_array_equal(got if seed % 2 else np.maximum(got, 0), want)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_random_shapes_equal_numpy(layout: str, seed: int) -> None:
    check(layout, seed, f"llvm -num-cores={1 + seed % 2}")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_interpreter_agrees(layout: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 16, 6, 5)).astype("float32")
    w = np.random.default_rng(1).standard_normal((16, 1, 3, 3)).astype("float32")
    want = to_layout(reference(x, w, (2, 1), (1, 1, 1, 1), (1, 1)), layout)
    x, w = to_layout(x, layout), w.transpose(2, 3, 0, 1).copy() if layout == "NHWC" else w
    data, kernel = te.placeholder(x.shape, name="data"), te.placeholder(w.shape, name="kernel")
    out = topi.nn.depthwise_conv2d(data, kernel, (2, 1), 1, layout=layout)
    s = topi.schedule(out)  # the schedule for llvm, run by the interpreter
    got = np.zeros(out.shape, "float32")
    tvm.build(s, [data, kernel, out], "python")(x, w, got)
    assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def check_bytes(seed: int, target: str, *, interpreted: bool = False) -> None:
    rng = np.random.default_rng(seed)
    shape, weights, strides, padding, dilation = draw(rng, "NHWC")
    dilation = dilation if seed % 4 == 3 else (1, dilation[1])  # dot products need adjacent rows
    x, w = rng.integers(0, 256, shape).astype("uint8"), rng.integers(-128, 128, weights)
    zero = int(rng.integers(256))  # of the padding
    centred = x.astype("float32") - zero
    sums = w.sum((2, 3)).reshape(-1) * zero
    want = to_layout(reference(centred, w, strides, padding, dilation), "NHWC") + sums
    x, w = to_layout(x, "NHWC"), np.ascontiguousarray(w.transpose(2, 3, 0, 1), "int8")
    data = te.placeholder(x.shape, "uint8", name="data")
    kernel = te.placeholder(w.shape, "int8", name="kernel")
    with tvm.Target(target):
        out = topi.nn.depthwise_conv2d(
            data, kernel, strides, padding, dilation, layout="NHWC", pad_value=zero
        )
        s = topi.schedule(out)
    got = np.zeros(out.shape, "int32")
    tvm.build(s, [data, kernel, out], "python" if interpreted else target)(x, w, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("seed", range(8))
def test_bytes_are_summed_exactly(seed: int) -> None:
    check_bytes(seed, f"llvm -num-cores={1 + seed % 2}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 60))
def test_more_shapes_of_bytes_are_summed_exactly(seed: int) -> None:
    check_bytes(seed, "llvm -num-cores=1")


@pytest.mark.parametrize("attributes", ["", " -mattr=-avx512vnni,-avxvnni,-dotprod,-i8mm"])
def test_the_interpreter_sums_bytes_exactly(attributes: str) -> None:
    check_bytes(11, f"llvm -num-cores=1{attributes}", interpreted=True)


@pytest.mark.parametrize(("rows", "stride", "shared"), [(3, 1, 2), (3, 2, 1), (5, 1, 4), (2, 1, 3)])
def test_rows_of_the_result_share_the_rows_of_dot_products(
    rows: int, stride: int, shared: int
) -> None:
    data = te.placeholder((1, 12, 12, 32), "uint8", name="data")
    kernel = te.placeholder((rows, 3, 32, 1), "int8", name="kernel")
    with tvm.Target(VNNI):
        out = topi.nn.depthwise_conv2d(data, kernel, stride, 1, layout="NHWC")
    fours = next(t for t in out.op.input_tensors if t.op.name == "T_fours")
    assert fours.shape == (shared, -(-rows // 4), 3, 32, 4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_tiles_inside_the_image_do_not_test_for_padding(layout: str) -> None:
    shape = (1, 2, 12, 128) if layout == "NCHW" else (1, 12, 12, 32)
    weights = (2, 1, 3, 3) if layout == "NCHW" else (3, 3, 32, 1)
    data, kernel = te.placeholder(shape, name="data"), te.placeholder(weights, name="kernel")
    out = topi.nn.depthwise_conv2d(data, kernel, 1, 1, layout=layout)
    target = "llvm -num-cores=1 -mattr=+avx512f"
    text = str(tvm.lower(topi.schedule(out, target), [data, kernel, out], target=target))
    assert "T_pad" not in text
    tiles = text.split("allocate(")[1:]
    assert any(" if " not in tile for tile in tiles)


def refusal(shape: tuple[int, ...], weights: tuple[int, ...], **options: Any) -> str:
    data, kernel = te.placeholder(shape, name="data"), te.placeholder(weights, name="kernel")
    with pytest.raises(ExprError) as caught:
        topi.nn.depthwise_conv2d(data, kernel, **options)
    return str(caught.value)


def test_the_channels_must_agree() -> None:
    assert refusal((1, 8, 5, 5), (4, 1, 3, 3)) == (
        "topi.depthwise_conv2d of data, kernel: the data has 8 channels in layout NCHW, but the "
        "kernel has 4\n  try: a kernel [C, M, KH, KW] with C channels, or the layout of the data"
    )


def test_a_kernel_has_four_dimensions() -> None:
    assert refusal((1, 5, 5, 8), (3, 3, 8), layout="NHWC") == (
        "topi.depthwise_conv2d of data, kernel: the kernel has 3 dimensions, not 4\n"
        "  try: a kernel [KH, KW, C, M]"
    )


def test_a_kernel_larger_than_the_image_is_refused() -> None:
    assert "spans 7 pixels, but the image has 5" in refusal((1, 8, 5, 5), (8, 1, 7, 7))


def test_an_unknown_layout_is_refused() -> None:
    assert "no such layout" in refusal((1, 8, 5, 5), (8, 1, 3, 3), layout="CHWN")
