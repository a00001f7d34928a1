"""Convolutions, pools, normalisations and shape operators against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose

TARGETS = ["llvm -num-cores=1", "llvm -num-cores=2", "python"]


def check(
    out: te.Tensor, inputs: list[te.Tensor], meaning: Callable[..., Any], target: str
) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in inputs]
    got = np.zeros(out.shape, out.dtype)
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, got)
    assert_allclose(got, meaning(*arrays), rtol=1e-4, atol=1e-4)


def place(*shape: int, name: str = "A", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


def convolution(x: Any, w: Any, stride: Any, pad: Any, dilation: int, groups: int) -> Any:
    """conv2d by the definition, one kernel element at a time."""
    (sh, sw), (top, left, bottom, right) = stride, pad
    outputs, inner, kh, kw = w.shape
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    oh = (x.shape[2] - dilation * (kh - 1) - 1) // sh + 1
    ow = (x.shape[3] - dilation * (kw - 1) - 1) // sw + 1
    out = np.zeros((x.shape[0], outputs, oh, ow))
    for o in range(outputs):
        c = o // (outputs // groups) * inner
        for ky in range(kh):
            for kx in range(kw):
                y, z = ky * dilation, kx * dilation
                part = x[:, c : c + inner, y : y + oh * sh : sh, z : z + ow * sw : sw]
                out[:, o] += np.einsum("nchw,c->nhw", part[:, :, :oh, :ow], w[o, :, ky, kx])
    return out


@pytest.mark.parametrize("method", ["rows", "direct"])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "dilation", "groups"),
    [
        ((3, 3), 1, 1, 1, 1),
        ((3, 3), 2, 1, 1, 1),
        ((1, 1), 1, 0, 1, 1),
        ((1, 1), 2, 0, 1, 1),
        ((7, 7), 2, 3, 1, 1),
        ((3, 5), (1, 2), (0, 1, 2, 3), 1, 1),
        ((3, 3), 1, 2, 2, 1),
        ((3, 3), 3, 1, 2, 2),
        ((3, 3), 1, 1, 1, 4),
    ],
)
def test_conv2d(
    kernel: Any, stride: Any, pad: Any, dilation: int, groups: int, method: str
) -> None:
    x, w = place(2, 4, 9, 11), place(8, 4 // groups, *kernel, name="W")
    out = topi.conv2d(x, w, stride, pad, dilation, groups, method)
    steps = stride if isinstance(stride, tuple) else (stride, stride)
    around = pad if isinstance(pad, tuple) else (pad,) * 4
    for target in TARGETS[: 3 if kernel == (3, 3) else 1]:
        check(out, [x, w], lambda a, b: convolution(a, b, steps, around, dilation, groups), target)


@pytest.mark.parametrize(("inputs", "outputs"), [(24, 8), (16, 32)])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "dilation"),
    [
        ((3, 3), (1, 1), (1, 1, 1, 1), 1),
        ((1, 1), (2, 2), (0, 0, 0, 0), 1),
        ((3, 5), (1, 2), (0, 1, 2, 3), 1),
        ((3, 3), (1, 1), (2, 2, 2, 2), 2),
    ],
)
def test_conv2d_by_blocks_of_channels(
    kernel: Any, stride: Any, pad: Any, dilation: int, inputs: int, outputs: int
) -> None:
    x, w = place(2, inputs, 9, 11), place(outputs, inputs, *kernel, name="W")
    out = topi.conv2d(x, w, stride, pad, dilation, method="blocks")
    check(out, [x, w], lambda a, b: convolution(a, b, stride, pad, dilation, 1), "llvm")


def test_conv1d_and_conv3d() -> None:
    x, w = place(2, 3, 20), place(5, 3, 4, name="W")
    check(
        topi.conv1d(x, w, 2, 1),
        [x, w],
        lambda a, b: convolution(a[:, :, None], b[:, :, None], (1, 2), (0, 1, 0, 1), 1, 1)[:, :, 0],
        "llvm",
    )
    x, w = place(2, 2, 4, 5, 6), place(3, 2, 2, 3, 3, name="W")

    check(topi.conv3d(x, w), [x, w], _conv3d, "llvm")


def test_conv3d_with_strides_padding_and_dilation() -> None:
    x, w = place(2, 2, 7, 6, 5), place(3, 2, 2, 3, 2, name="W")
    strides, pads, spread = (2, 1, 1), (1, 2, 0), (3, 1, 2)

    def meaning(a: Any, b: Any) -> Any:
        padded = np.pad(a, [(0, 0), (0, 0), *((p, p) for p in pads)])
        wide = np.zeros((3, 2, 4, 3, 3))
        wide[:, :, ::3, :, ::2] = b
        return _conv3d(padded, wide)[:, :, ::2]

    check(topi.conv3d(x, w, strides, pads, spread), [x, w], meaning, "llvm")


def _conv3d(a: Any, b: Any) -> Any:
    depth = a.shape[2] - b.shape[2] + 1
    planes = [
        sum(
            convolution(a[:, :, z + d], b[:, :, d], (1, 1), (0, 0, 0, 0), 1, 1)
            for d in range(b.shape[2])
        )
        for z in range(depth)
    ]
    return np.stack(planes, axis=2)


@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 2), (2, 1), (3, 0), (3, 1), (4, 0)])
def test_conv2d_transpose_is_the_gradient_of_conv2d(stride: int, pad: int) -> None:
    x, w = place(1, 3, 5, 4), place(3, 2, 3, 3, name="W")

    def meaning(a: Any, b: Any) -> Any:
        high, wide = ((n - 1) * stride + 3 for n in a.shape[2:])
        out = np.zeros((1, 2, high, wide))
        for y in range(a.shape[2]):
            for z in range(a.shape[3]):
                patch = np.einsum("nc,cohw->nohw", a[:, :, y, z], b)
                out[:, :, y * stride : y * stride + 3, z * stride : z * stride + 3] += patch
        return out[:, :, pad : high - pad, pad : wide - pad]

    check(topi.conv2d_transpose(x, w, stride, pad), [x, w], meaning, "llvm")


@pytest.mark.parametrize("target", TARGETS)
def test_pools(target: str) -> None:
    x = place(2, 3, 9, 8)

    def windows(a: Any, fill: float) -> Any:
        a = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
        found = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3))
        return found[:, :, ::2, ::2]

    check(topi.max_pool2d(x, 3, 2, 1), [x], lambda a: windows(a, -np.inf).max((-1, -2)), target)
    check(topi.avg_pool2d(x, 3, 2, 1), [x], lambda a: windows(a, 0).mean((-1, -2)), target)
    inside = topi.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    check(inside, [x], lambda a: np.nanmean(windows(a, np.nan), axis=(-1, -2)), target)
    check(topi.global_avg_pool2d(x), [x], lambda a: a.mean((2, 3), keepdims=True), target)


def soft(a: Any, axis: int) -> Any:
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_and_layer_norm(axis: int, target: str) -> None:
    x = place(6, 37, 5)
    check(topi.softmax(x, axis), [x], lambda a: soft(a, axis), target)
    check(topi.log_softmax(x, axis), [x], lambda a: np.log(soft(a, axis)), target)

    def normal(a: Any) -> Any:
        return (a - a.mean(axis, keepdims=True)) / np.sqrt(a.var(axis, keepdims=True) + 1e-5)

    check(topi.layer_norm(x, axis=axis), [x], normal, target)


def test_layer_norm_and_batch_norm_scale_and_shift() -> None:
    x, g, b, m, v = place(4, 6), *(place(6, name=n) for n in "gbmv")
    check(
        topi.layer_norm(x, g, b),
        [x, g, b],
        lambda x, g, b: (
            (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b
        ),
        "llvm",
    )
    out = topi.batch_norm(x, g, b, m, topi.abs(v))
    check(
        out,
        [x, g, b, m, v],
        lambda x, g, b, m, v: (x - m) / np.sqrt(abs(v) + 1e-5) * g + b,
        "llvm",
    )


@pytest.mark.parametrize("target", TARGETS)
def test_argmax_takes_the_first_of_equals(target: str) -> None:
    x = place(5, 40, dtype="int8")
    for axis in (0, 1):
        check(topi.argmax(x, axis), [x], lambda a, d=axis: a.argmax(d), target)
        check(topi.argmin(x, axis), [x], lambda a, d=axis: a.argmin(d), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flips", [(False, False), (True, True)])
def test_batch_matmul(flips: Any, target: str) -> None:
    ta, tb = flips
    a = place(3, *((7, 20) if ta else (20, 7)))
    b = place(3, *((50, 7) if tb else (7, 50)), name="B")
    one = place(1, *((50, 7) if tb else (7, 50)), name="B")

    def meaning(x: Any, y: Any) -> Any:
        return (x.transpose(0, 2, 1) if ta else x) @ (y.transpose(0, 2, 1) if tb else y)

    check(topi.batch_matmul(a, b, ta, tb), [a, b], meaning, target)
    check(topi.batch_matmul(a, one, ta, tb), [a, one], meaning, target)


@pytest.mark.parametrize("target", TARGETS)
def test_concatenate_reshape_and_slice(target: str) -> None:
    a, b = place(2, 3, 5), place(2, 4, 5, name="B")
    check(topi.concatenate([a, b, a], 1), [a, b], lambda x, y: np.concatenate([x, y, x], 1), target)
    check(topi.reshape(a, (5, 6)), [a], lambda x: x.reshape(5, 6), target)
    cut = topi.strided_slice(b, (0, -1, 4), (2, -4, 0), (1, -1, -2))
    check(cut, [b], lambda x: x[0:2, -1:-4:-1, 4:0:-2], target)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda x: topi.conv2d(x, place(8, 3, 3, 3, name="W")),
            "the kernel reads 3 in each of 1 group",
        ),
        (
            lambda x: topi.conv2d(x, place(8, 4, 30, 3, name="W")),
            "it spans 30 pixels, but the image has 9",
        ),
        (lambda x: topi.conv2d(x, place(8, 4, 3, 3, name="W"), strides=0), "the stride is 0"),
        (lambda x: topi.conv2d(x, place(8, 4, 3, 3, name="W"), strides=(1, 2, 3)), "strides"),
        (lambda x: topi.conv2d(x, place(8, 4, 3, 3, name="W"), method="fft"), "no such method"),
        (lambda x: topi.max_pool2d(x, (20, 20)), "it spans 20 pixels"),
        (lambda x: topi.reshape(x, (3, 5)), "has another number of elements"),
        (
            lambda x: topi.concatenate([x, place(2, 4, 9, name="B")]),
            "B and A differ in type or in another dimension",
        ),
        (lambda x: topi.softmax(x, 4), "these are not different dimensions"),
    ],
)
def test_operands_that_do_not_fit_are_refused(make: Any, why: str) -> None:
    with pytest.raises(tvm.ExprError, match=why):
        make(place(2, 4, 9, 11))
