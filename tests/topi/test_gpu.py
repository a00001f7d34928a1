"""The default schedules for a GPU: values at odd sizes, and how well they use its memories."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.runtime import GpuFunction, gpu_code
from minitvm.topi import gpu_tiles

SIMULATED = tvm.Target("cuda -sim")
TOOLS = all(map(gpu_code.tool_path, ("ptxas", "nvdisasm")))
compiles = pytest.mark.skipif(
    find_spec("numba_cuda") is None or not TOOLS, reason="pip install 'minitvm[cuda]'"
)


def inputs(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder(n, name=name) for n, name in zip(shapes, "ABCD", strict=False)]


def case(operator: Callable[..., te.Tensor], *shapes: tuple[int, ...], **options: Any) -> Any:
    return lambda: (args := inputs(*shapes), operator(*args, **options))


def relu_of_product(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return topi.relu(topi.matmul(a, b))


def conv_bias_relu(x: te.Tensor, w: te.Tensor, b: te.Tensor, **options: Any) -> te.Tensor:
    return topi.relu(topi.add(topi.conv2d(x, w, **options), b))


def product_with_itself(a: te.Tensor) -> te.Tensor:
    return topi.matmul(a, a)


def chain(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return topi.exp(topi.tanh(topi.add(a, b)))


PRODUCTS = {
    "matmul": case(topi.matmul, (64, 40), (40, 96)),
    "matmul, odd": case(topi.matmul, (33, 37), (37, 45)),
    "matmul, transposed": case(topi.matmul, (37, 33), (45, 37), transpose_a=True, transpose_b=True),
    "matmul and relu": case(relu_of_product, (50, 16), (16, 33)),
    "dense": case(topi.nn.dense, (50, 64), (70, 64), (70,)),
    "batch": case(topi.batch_matmul, (3, 33, 40), (3, 40, 35)),
    "batch of one": case(topi.batch_matmul, (1, 33, 40), (3, 40, 36)),
    "conv2d": case(topi.conv2d, (1, 8, 9, 9), (17, 8, 3, 3), padding=1),
    "conv2d of two images": case(topi.conv2d, (2, 3, 11, 9), (19, 3, 3, 3), strides=2, padding=1),
    "conv2d, dilated": case(topi.conv2d, (2, 5, 9, 9), (16, 5, 3, 3), dilation=2),
    "conv2d, NHWC": case(topi.conv2d, (1, 9, 9, 8), (3, 3, 8, 17), padding=1, layout="NHWC"),
    "conv2d, NHWC, two images": case(
        topi.conv2d, (2, 7, 9, 8), (3, 3, 8, 20), padding=1, layout="NHWC"
    ),
    "conv2d, 1x1": case(topi.conv2d, (1, 20, 7, 7), (33, 20, 1, 1)),
    "conv2d, bias, relu": case(conv_bias_relu, (1, 8, 9, 9), (17, 8, 3, 3), (17, 1, 1), padding=1),
}
OTHERS = {
    "small matmul": case(topi.matmul, (5, 40), (40, 9)),
    "a @ a": case(product_with_itself, (48, 48)),
    "conv2d, direct": case(topi.conv2d, (1, 8, 9, 9), (17, 8, 3, 3), padding=1, method="direct"),
    "conv2d, groups": case(topi.conv2d, (1, 8, 9, 9), (12, 4, 3, 3), padding=1, groups=2),
    "depthwise": case(topi.depthwise_conv2d, (1, 8, 13, 13), (8, 1, 3, 3), padding=1),
    "depthwise, NHWC": case(
        topi.depthwise_conv2d, (1, 9, 9, 33), (3, 3, 33, 1), padding=1, layout="NHWC"
    ),
    "softmax": case(topi.nn.softmax, (33, 100)),
    "softmax of short rows": case(topi.nn.softmax, (33, 10)),
    "softmax of columns": case(topi.nn.softmax, (33, 10, 7), axis=1),
    "softmax of long rows": case(topi.nn.softmax, (2, 10_000)),
    "layer_norm": case(topi.nn.layer_norm, (7, 1000), (1000,), (1000,)),
    "sum": case(topi.sum, (33, 100)),
    "sum of rows": case(topi.sum, (33, 1001), axis=1),
    "sum of few rows": case(topi.sum, (3, 5000), axis=1),
    "sum of many rows": case(topi.sum, (4500, 40), axis=1),
    "sum of columns": case(topi.sum, (1000, 33), axis=0),
    "largest of planes": case(topi.max, (4, 9, 11), axis=(1, 2)),
    "argmax": case(topi.argmax, (33, 100), axis=1),
    "argmax of columns": case(topi.argmax, (40, 100), axis=0),
    "elementwise": case(chain, (33, 100), (100,)),
    "a dimension of one between others": case(topi.relu, (4, 1, 8)),
    "transpose": case(topi.transpose, (65, 70)),
    "max_pool2d": case(topi.max_pool2d, (1, 8, 14, 13), kernel=3, strides=2, padding=1),
    "global_avg_pool2d": case(topi.global_avg_pool2d, (2, 33, 7, 7)),
}


def check(make: Callable[[], Any]) -> tuple[GpuFunction, tvm.simt.Report]:
    """Compare a program, simulated, with the same formula on the CPU."""
    with SIMULATED:
        args, out = make()
    f = tvm.build(topi.schedule(out, SIMULATED), [*args, out], target=SIMULATED)
    assert isinstance(f, GpuFunction)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, t.shape).astype(t.dtype) for t in args]
    plain, expected = te.create_schedule(out.op), np.zeros(out.shape, out.dtype)
    tvm.build(plain, [*args, out], target="llvm")(*arrays, expected)
    result = np.full(out.shape, 99, out.dtype)
    report = f.check(*arrays, result)
    assert report.ok, report
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert "float64" not in f.source("cuda")
    return f, report


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_one_kernel_without_bank_conflicts(name: str) -> None:
    _, report = check(PRODUCTS[name])
    (kernel,) = report.kernels
    shared = [a for a in kernel.accesses if a.space == "shared" and a.runs]
    assert shared
    for a in shared:  # 4 if all threads of a warp access 16 bytes, 2.5 where the last warp is short
        assert a.wavefronts_per_request in (1, 2.5, 4), a.access
    stored = kernel.accesses[-1]
    assert stored.space == "global"
    assert stored.useful >= 0.3  # at odd sizes rows begin anywhere in a sector


@pytest.mark.parametrize("name", OTHERS)
def test_other_operators(name: str) -> None:
    check(OTHERS[name])


LARGE = {
    "matmul": case(topi.matmul, (128, 20), (20, 132)),
    "conv2d": case(topi.conv2d, (1, 4, 12, 12), (130, 4, 3, 3), padding=1),
    "medium matmul": case(topi.matmul, (64, 20), (20, 101)),
    "medium conv2d": case(topi.conv2d, (1, 9, 9, 4), (3, 3, 4, 66), padding=1, layout="NHWC"),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_product_has_larger_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_tiles, "BLOCKS", 1)
    f, report = check(LARGE[name])
    (kernel,) = report.kernels
    assert kernel.launch.block == (16, 16, 1)
    assert ("k_outer + 1 <" in str(f.func)) == (not name.startswith("medium"))  # double buffers


@compiles
@pytest.mark.parametrize(
    ("size", "share"), [(1024, 0.87), pytest.param(1000, 0.8, marks=pytest.mark.exhaustive)]
)
def test_most_instructions_of_a_large_product_multiply(size: int, share: float) -> None:
    args = inputs((size, size), (size, size))
    out = topi.matmul(*args)
    f = tvm.build(topi.schedule(out, SIMULATED), [*args, out], target=SIMULATED)
    (kernel,) = f.resources()
    assert (kernel.threads, kernel.spilled, kernel.stack) == (256, 0, 0)
    assert kernel.multiply_adds >= share
    assert ".f64" not in f.source("ptx")
