"""A quantised block of ResNet-18 from image to classes: convolutions here, the rest on the CPU."""

import numpy as np

import minitvm as tvm
from minitvm import te, topi, vta
from minitvm.vta import Convolution, Tiling

from .convolutions import expected, numbers, packed, result

SIZE, CHANNELS, CLASSES = (8, 8), 32, 10
FIRST = Convolution(size=SIZE, channels=(CHANNELS, CHANNELS), bias=True, shift=9)
SECOND = Convolution(size=SIZE, channels=(CHANNELS, CHANNELS), bias=True, residual=True, shift=9)
TILING = Tiling(h=4, w=8, oc=1, ic=1, oc_threads=2)


def packer() -> tvm.runtime.Function:
    """For the CPU: int8 [1, c, h, w] -> packed int8 for INP, packed int32 for ACC."""
    x = te.placeholder((1, CHANNELS, *SIZE), "int8", "x")
    data = vta.packed(x, 1, 16, name="data")
    wide = te.compute(data.shape, lambda *i: data(*i).astype("int32"), name="wide")
    return tvm.build(te.create_schedule([data.op, wide.op]), [x, data, wide])


def classifier() -> tvm.runtime.Function:
    """For the CPU: packed int8 -> the mean of each channel -> one number for each class."""
    y = te.placeholder((1, CHANNELS // 16, *SIZE, 1, 16), "int8", "y")
    weight = te.placeholder((CLASSES, CHANNELS), "float32", "weight")
    plain = vta.unpacked(y)
    image = te.compute(plain.shape, lambda *i: plain(*i).astype("float32"), name="image")
    pooled = topi.global_avg_pool2d(image)
    flat = te.compute((1, CHANNELS), lambda n, c: pooled(n, c, 0, 0), name="flat")
    scores = topi.dense(flat, weight)
    return tvm.build(topi.schedule(scores), [y, weight, scores])


def test_a_block_of_resnet_18_runs_on_both_machines() -> None:
    first, second = numbers(FIRST, 1), numbers(Convolution(size=SIZE, channels=(32, 32), bias=True))
    image = first["data"]
    weight = np.random.default_rng(2).standard_normal((CLASSES, CHANNELS)).astype("float32")

    data, middle, last = result(FIRST), result(FIRST), result(SECOND)
    wide = np.zeros(data.shape, "int32")
    scores = np.zeros((1, CLASSES), "float32")
    packer()(image, data, wide)
    one = packed(FIRST, first)
    vta.build(*FIRST.scheduled(TILING))(data, one["weight"], one["bias"], middle)
    two = vta.pack_weight(second["weight"]), vta.pack_bias(second["bias"])
    vta.build(*SECOND.scheduled(TILING))(middle, *two, wide, last)
    classifier()(last, weight, scores)

    inner = expected(FIRST, first)
    outer = expected(SECOND, second | {"data": inner, "residual": image.astype("int32")})
    np.testing.assert_array_equal(vta.unpack(last, 1, CHANNELS), outer)
    means = outer.astype("float32").mean((2, 3))
    np.testing.assert_allclose(scores, means @ weight.T, rtol=1e-5, atol=1e-4)
