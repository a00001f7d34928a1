"""Packed products and convolutions: those of numpy, in any tiling and in any legal order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.accel import execute, mnemonic
from minitvm.vta import Convolution, Dense, Layer, Tiling, top
from tests.seeds import seeds

from .layer_arrays import computed, expected, numbers, packed


def conv(size: tuple[int, int], channels: tuple[int, int], k: int, s: int, p: int) -> Convolution:
    return Convolution(size=size, channels=channels, kernel=k, stride=s, pad=p)


# --- convolutions ---------------------------------------------------------------------------------

A = conv((6, 6), (32, 64), 3, 1, 1)
B = conv((7, 7), (32, 64), 3, 2, 1)
C = conv((5, 6), (32, 32), 1, 1, 0)
D = conv((8, 8), (16, 32), 3, 2, 1)
E = conv((6, 6), (32, 96), 3, 1, 1)
A_TILING = Tiling(h=3, w=6, oc=1, ic=1, oc_threads=2)

CASES = [
    (A, Tiling(h=3, w=6, oc=2, ic=1)),
    (A, Tiling(h=3, w=6, oc=1, ic=2, oc_threads=2)),
    (A, Tiling(h=2, w=3, oc=2, ic=1, h_threads=3)),
    (B, Tiling(h=2, w=4, oc=2, ic=2)),
    (B, Tiling(h=4, w=2, oc=1, ic=1, oc_threads=2)),
    (B, Tiling(h=2, w=4, oc=4, ic=1, h_threads=2)),
    (C, Tiling(h=5, w=3, oc=1, ic=2)),
    (C, Tiling(h=1, w=6, oc=1, ic=1, oc_threads=2)),
    (D, Tiling(h=4, w=4, oc=2, ic=1)),
    (D, Tiling(h=1, w=4, oc=1, ic=1, oc_threads=2, h_threads=2)),
    (E, Tiling(h=3, w=3, oc=1, ic=1, oc_threads=3)),
]


@pytest.mark.parametrize(("layer", "tiling"), CASES, ids=lambda x: "")
def test_a_convolution_is_that_of_numpy_in_every_legal_order(
    layer: Convolution, tiling: Tiling
) -> None:
    f, arrays = vta.build(*layer.scheduled(tiling)), numbers(layer)
    inputs, right = packed(arrays), expected(layer, arrays)
    for seed in range(4):
        outputs = execute(f.program, f.config, inputs, np.random.default_rng(seed))
        np.testing.assert_array_equal(vta.unpack(outputs["narrow"], 1, right.shape[1]), right)
    np.testing.assert_array_equal(computed(layer, tiling, arrays), right)


@pytest.mark.parametrize(("layer", "tiling"), CASES, ids=lambda x: "")
def test_the_tokens_order_all_that_share_data_and_adders_have_time(
    layer: Convolution, tiling: Tiling
) -> None:
    verdict = vta.verify(vta.build(*layer.scheduled(tiling)))
    assert verdict.ok, verdict


def test_sums_that_come_round_too_early_for_the_hardware_are_warned_of() -> None:
    """A tile of one element: each product adds to the sum that the one before it makes."""
    f = vta.build(*A.scheduled(Tiling()))
    assert "reads ACC[0] at step 1, 1 after writing it" in f.warnings()[0]
    assert vta.build(*A.scheduled(A_TILING)).warnings() == ()


def small_convolution(rng: np.random.Generator) -> Convolution:
    kernel = int(rng.choice([1, 2, 3]))
    return Convolution(
        size=(int(rng.integers(3, 9)), int(rng.integers(3, 9))),
        channels=(16 * int(rng.integers(1, 4)), 16 * int(rng.integers(1, 5))),
        kernel=kernel,
        stride=int(rng.integers(1, 3)),
        pad=int(rng.integers(0, kernel)),
        bias=bool(rng.integers(2)),
        residual=bool(rng.integers(2)),
        residual_dtype=str(rng.choice(["int8", "int32"])),
        residual_shift=(None, 0, 5)[int(rng.integers(3))],
        shift=int(rng.integers(0, 11)),
    )


def small_dense(rng: np.random.Generator) -> Dense:
    return Dense(
        batch=int(rng.integers(1, 13)),
        channels=(16 * int(rng.integers(1, 9)), 16 * int(rng.integers(1, 13))),
        bias=bool(rng.integers(2)),
        residual=bool(rng.integers(2)),
        residual_dtype=str(rng.choice(["int8", "int32"])),
        residual_shift=(None, 0, 5)[int(rng.integers(3))],
        shift=int(rng.integers(0, 11)),
    )


Make = Callable[[np.random.Generator], Layer]


def drawn(make: Make, rng: np.random.Generator) -> tuple[Layer, Tiling]:
    """A small layer and one of the tilings that fit."""
    while True:
        layer = make(rng)
        config = (vta.vta_pynq, vta.vdla_osdi18)[int(rng.integers(2))]
        tilings = vta.legal_tilings(layer, config, int(rng.integers(1, 4)))
        if tilings:
            return layer, tilings[int(rng.integers(len(tilings)))]


@pytest.mark.parametrize("seed", seeds(12, 500))
@pytest.mark.parametrize("make", [small_convolution, small_dense])
def test_random_legal_tilings_are_right_in_a_random_legal_order(make: Make, seed: int) -> None:
    layer, tiling = drawn(make, np.random.default_rng(seed))
    arrays = numbers(layer, seed)
    f, inputs = vta.build(*layer.scheduled(tiling)), packed(arrays)
    assert vta.verify(f).ok, (layer, tiling)
    outputs = execute(f.program, f.config, inputs, np.random.default_rng(seed))
    right = expected(layer, arrays)
    np.testing.assert_array_equal(vta.unpack(outputs["narrow"], *right.shape[:2]), right)


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_bias_and_residual_are_added_before_and_after_the_shift(dtype: str) -> None:
    layer = replace(A, bias=True, residual=True, residual_dtype=dtype, shift=10)
    arrays, tiling = numbers(layer), Tiling(h=3, w=6, oc=2, ic=1, oc_threads=2)
    np.testing.assert_array_equal(computed(layer, tiling, arrays), expected(layer, arrays))


def test_an_int8_residual_is_a_quarter_of_the_bytes_and_nothing_else() -> None:
    narrow = replace(A, residual=True, residual_dtype="int8")
    one, two = (vta.program(layer, A_TILING) for layer in (narrow, replace(A, residual=True)))
    names = zip(*(map(mnemonic, program.instructions) for program in (one, two)), strict=True)
    assert {(a, b) for a, b in names if a != b} == {("load acc_8bit", "load acc")}
    few, many = (vta.simulate(program).counters for program in (one, two))
    assert few.acc_load_nbytes == 6 * 6 * 64
    assert replace(few, acc_load_nbytes=4 * few.acc_load_nbytes) == many


def test_channels_that_fill_no_block_are_filled_up_with_zeros() -> None:
    layer = conv((6, 6), (20, 40), 3, 1, 1)
    arrays, tiling = numbers(layer), Tiling(h=6, w=6)
    np.testing.assert_array_equal(computed(layer, tiling, arrays), expected(layer, arrays))


def test_a_single_product_for_each_element_is_right_too() -> None:
    layer = conv((6, 6), (16, 64), 1, 1, 0)
    arrays, tiling = numbers(layer), Tiling(h=3, w=6, oc=1, oc_threads=2)
    np.testing.assert_array_equal(computed(layer, tiling, arrays), expected(layer, arrays))


def test_c2_of_resnet_18_is_computed_bit_by_bit() -> None:
    layer, tiling = vta.RESNET18["C2"], Tiling(h=8, w=56, oc=2, ic=1, oc_threads=2)
    arrays = numbers(layer)
    np.testing.assert_array_equal(computed(layer, tiling, arrays), expected(layer, arrays))


# --- products -------------------------------------------------------------------------------------


DENSE = Dense(batch=4, channels=(64, 64))


@pytest.mark.parametrize(
    "tiling",
    [Tiling(oc=4, ic=2), Tiling(w=2, oc=2, ic=4, oc_threads=2), Tiling(w=4, oc=1, oc_threads=4)],
    ids=str,
)
def test_a_dense_layer_is_that_of_numpy(tiling: Tiling) -> None:
    arrays = numbers(DENSE)
    np.testing.assert_array_equal(computed(DENSE, tiling, arrays), expected(DENSE, arrays))


def test_a_batch_that_fills_no_element_is_filled_up_with_zeros() -> None:
    layer = Dense(batch=12, channels=(20, 40))
    arrays = numbers(layer)
    with vta.vdla.environment:
        out = computed(layer, Tiling(w=2, oc=5, ic=3), arrays)
    np.testing.assert_array_equal(out, expected(layer, arrays))


# --- what is refused ------------------------------------------------------------------------------


def message(error: type[Exception], f: Any) -> str:
    with pytest.raises(error) as caught:
        f()
    return str(caught.value)


def test_tilings_that_do_not_divide_are_refused() -> None:
    text = message(tvm.ScheduleError, lambda: A.scheduled(Tiling(h=4)))
    assert text.startswith("tiles of 4 along 'i2' of narrow: 4 does not divide 6")


def test_threads_that_do_not_divide_are_refused() -> None:
    text = message(tvm.ScheduleError, lambda: A.scheduled(Tiling(oc_threads=3)))
    assert "3 does not divide 4" in text


def test_a_dense_layer_has_no_rows_to_divide() -> None:
    text = message(tvm.ScheduleError, lambda: DENSE.scheduled(Tiling(h=2)))
    assert "a dense layer has no rows" in text


def test_counts_below_one_are_refused() -> None:
    assert "Tiling(ic=0)" in message(tvm.ArgumentError, lambda: Tiling(ic=0))


def test_only_packed_products_with_what_follows_them_are_scheduled() -> None:
    x = te.placeholder((4, 16), "int32", "x")
    y = te.compute(x.shape, lambda i, j: x(i, j) >> 1, name="y")
    assert "y is not a packed product" in message(
        tvm.ScheduleError, lambda: top.schedule(y, Tiling())
    )


def test_data_that_is_not_packed_is_refused_with_the_way_to_pack_it() -> None:
    data = te.placeholder((1, 64, 14, 14), "int8", "data")
    weight = te.placeholder((64, 64, 3, 3), "int8", "weight")
    assert "vta.pack_data" in message(tvm.ExprError, lambda: top.conv2d(data, weight))


def test_a_residual_is_int8_or_int32() -> None:
    _, _, x = DENSE.product()
    residual = te.placeholder(x.shape, "int16", "residual")
    text = message(tvm.ExprError, lambda: top.requantize(x, residual=residual))
    assert "expected int8 or int32 of shape" in text
