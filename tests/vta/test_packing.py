"""Packing puts elements side by side, as arrays and as formulas; unpacking undoes it."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="int32").reshape(shape)


def test_data_is_packed_by_channels() -> None:
    a = numbered(1, 32, 2, 3)
    packed = vta.pack(a, 1, 16)
    assert packed.shape == (1, 2, 2, 3, 1, 16)
    assert packed[0, 1, 1, 2, 0, 5] == a[0, 21, 1, 2]


def test_weights_are_packed_by_both_channels() -> None:
    w = numbered(32, 48, 3, 3)
    packed = vta.pack_weight(w)
    assert packed.shape == (2, 3, 3, 3, 16, 16)
    assert packed[1, 2, 0, 1, 3, 4] == w[19, 36, 0, 1]


def test_bias_is_the_same_for_each_row_of_an_accumulator() -> None:
    with vta.vdla.environment:
        packed = vta.pack_bias(np.arange(16))
    assert packed.shape == (2, 8, 8)
    np.testing.assert_array_equal(packed[1], np.tile(np.arange(8, 16), (8, 1)))


def test_unpacking_undoes_packing_and_cuts_what_was_filled_up() -> None:
    a = numbered(3, 20, 5)
    np.testing.assert_array_equal(vta.unpack(vta.pack(a, 2, 16), 3, 20), a)


def test_formulas_for_the_cpu_pack_and_unpack_as_numpy_does() -> None:
    x = te.placeholder((2, 32, 3, 4), "int8", "x")
    p = vta.packed(x, 1, 16)
    u = vta.unpacked(p)
    a = np.random.default_rng(0).integers(-128, 128, (2, 32, 3, 4)).astype("int8")
    packed, back = np.zeros(p.shape, "int8"), np.zeros(a.shape, "int8")
    tvm.build(te.create_schedule([p.op, u.op]), [x, p, u])(a, packed, back)
    np.testing.assert_array_equal(packed, vta.pack(a, 1, 16))
    np.testing.assert_array_equal(back, a)


def test_more_blocks_than_dimensions_are_refused() -> None:
    with pytest.raises(tvm.ArgumentError, match="expected at most one block size"):
        vta.pack(numbered(4), 2, 2)


def test_sizes_that_the_blocks_do_not_hold_are_refused() -> None:
    with pytest.raises(tvm.ArgumentError, match="have fewer elements than these sizes"):
        vta.unpack(numbered(1, 2, 1, 16), 1, 33)


def test_a_formula_packs_whole_blocks() -> None:
    with pytest.raises(tvm.ExprError, match="not a whole number of blocks"):
        vta.packed(te.placeholder((1, 20), name="x"), 1, 16)
