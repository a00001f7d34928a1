"""Quantised blocks of ResNet-18: convolutions on the accelerator, the rest on the CPU."""

from dataclasses import replace

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi, vta
from minitvm.accel import execute, mnemonic
from minitvm.vta import Convolution, Tiling

from .layer_arrays import expected, numbers, packed, result

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
    one = packed(first)
    vta.build(*FIRST.scheduled(TILING))(data, one["weight"], one["bias"], middle)
    two = vta.pack_weight(second["weight"]), vta.pack_bias(second["bias"])
    vta.build(*SECOND.scheduled(TILING))(middle, *two, wide, last)
    classifier()(last, weight, scores)

    inner = expected(FIRST, first)
    outer = expected(SECOND, second | {"data": inner, "residual": image.astype("int32")})
    np.testing.assert_array_equal(vta.unpack(last, 1, CHANNELS), outer)
    means = outer.astype("float32").mean((2, 3))
    np.testing.assert_allclose(scores, means @ weight.T, rtol=1e-5, atol=1e-4)


# --- int8 from end to end -------------------------------------------------------------------------

INNER = Convolution(size=(14, 14), channels=(64, 64), bias=True, shift=10)
OUTER = replace(INNER, residual=True, residual_dtype="int8")


def blocks(count: int) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Weight and bias of the two convolutions of each block."""
    made = [numbers(INNER, seed) for seed in range(2 * count)]
    parts = [{name: a for name, a in arrays.items() if name != "data"} for arrays in made]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_two_blocks_of_resnet_18_leave_nothing_but_int8_between_layers(threads: int) -> None:
    """relu(x + conv(relu(conv(x)))), twice: what one layer stores is what the next one loads."""
    tiling = Tiling(h=7, w=14, oc=1, ic=2, oc_threads=threads)
    inner, outer = (vta.build(*layer.scheduled(tiling)) for layer in (INNER, OUTER))
    assert "load acc_8bit" in {mnemonic(n) for n in outer.program.instructions}
    assert all(vta.verify(f).ok for f in (inner, outer))
    right = numbers(INNER)["data"] // 2
    x = vta.pack_data(right)
    for first, second in blocks(2):
        middle, y = result(INNER), result(OUTER)
        inner(x, *packed(first).values(), middle)
        outer(middle, *packed(second).values(), x, y)
        hidden = expected(INNER, first | {"data": right})
        right = expected(OUTER, second | {"data": hidden, "residual": right})
        np.testing.assert_array_equal(vta.unpack(middle, 1, 64), hidden)
        np.testing.assert_array_equal(vta.unpack(y, 1, 64), right)
        x = y
    assert 0 < np.count_nonzero(right == 127) < np.count_nonzero(right) < right.size


def test_a_block_adds_its_input_in_every_legal_order() -> None:
    layer = replace(OUTER, size=(6, 6), channels=(32, 32))
    f, arrays = vta.build(*layer.scheduled(Tiling(h=3, w=6, oc_threads=2))), numbers(layer)
    for seed in range(8):
        outputs = execute(f.program, f.config, packed(arrays), np.random.default_rng(seed))
        right = expected(layer, arrays)
        np.testing.assert_array_equal(vta.unpack(outputs["narrow"], 1, 32), right)
