"""What a formula reads: exactly, through stages and guards; where data decide, at most."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import te, topi
from minitvm.base import ArgumentError
from minitvm.tensor import evaluate
from minitvm.viz import footprint, reads_of

from .programs import matmul

A8 = te.placeholder((8,), name="A")


def line(n: int, formula) -> te.Tensor:
    return te.compute((n,), formula, name="C")


def test_an_element_of_a_product_reads_a_row_and_a_column() -> None:
    _, (A, B, C) = matmul(3)
    assert footprint(C, [1, 2]) == {
        A: ((1, 0), (1, 1), (1, 2)),
        B: ((0, 2), (1, 2), (2, 2)),
    }


def test_neighbours_share_what_they_read() -> None:
    C = line(6, lambda i: A8[i] + A8[i + 1] + A8[i + 2])
    assert footprint(C, [(2, 2)]) == {A8: ((2,), (3,), (4,), (5,))}


def test_padding_reads_nothing() -> None:
    C = line(10, lambda i: te.if_then_else(te.all(i > 0, i < 9), A8[i - 1], 0.0))
    assert footprint(C, [0]) == {A8: ()}
    assert footprint(C, [9]) == {A8: ()}
    assert footprint(C, [1]) == {A8: ((0,),)}


def test_the_other_arm_of_a_condition_reads_elsewhere() -> None:
    C = line(8, lambda i: te.if_then_else(i < 4, A8[i], A8[7 - i]))
    assert footprint(C, [6]) == {A8: ((1,),)}


def test_both_arms_of_a_select_are_read() -> None:
    B = te.placeholder((8,), name="B")
    C = line(8, lambda i: te.max(A8[i], B[7 - i]))
    assert footprint(C, [2]) == {A8: ((2,),), B: ((5,),)}


def test_terms_that_do_not_count_are_not_read() -> None:
    k = te.reduce_axis((0, 8), name="k")
    C = line(4, lambda i: te.sum(A8[k], axis=k, where=k % 4 == i))
    assert footprint(C, [1]) == {A8: ((1,), (5,))}


def test_a_sum_over_a_triangle_ends_at_the_diagonal() -> None:
    C = te.compute((8,), lambda i: te.sum(A8[(k := te.reduce_axis((0, i + 1), "k"))], axis=k), "C")
    assert footprint(C, [2]) == {A8: ((0,), (1,), (2,))}


def test_stages_between_are_looked_through() -> None:
    B = te.compute((7,), lambda i: A8[i] * A8[i + 1], name="B")
    C = line(6, lambda i: B[i] + B[i + 1])
    assert footprint(C, [3]) == {B: ((3,), (4,))}
    assert footprint(C, [3], inputs=[A8]) == {A8: ((3,), (4,), (5,))}


def test_data_decide_which_row_is_read() -> None:
    P = te.placeholder((4,), "int32", name="P")
    E = te.compute((4,), lambda i: A8[P[i]], name="E")
    found = reads_of(E, np.array([[1]]))
    assert footprint(E, [1]) == {A8: tuple((i,) for i in range(8)), P: ((1,),)}
    assert found.unsure == {A8}


def test_data_decide_which_arm_is_read() -> None:
    B = te.placeholder((8,), name="B")
    C = line(8, lambda i: te.if_then_else(A8[i] > 0.0, B[i], 0.0))
    assert reads_of(C, np.array([[3]])).unsure == {B}


def test_a_scalar_reads_all_it_sums() -> None:
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((), lambda: te.sum(A8[k], axis=k), name="C")
    assert len(footprint(C, [])[A8]) == 8


@settings(max_examples=30)  # of 108 cases
@given(
    stride=st.integers(1, 3), kernel=st.integers(1, 3), pad=st.integers(0, 2), at=st.integers(0, 3)
)
def test_what_is_read_is_what_matters(stride: int, kernel: int, pad: int, at: int) -> None:
    """An element of the input is read just if changing it changes the output: a convolution."""
    data, images = (te.placeholder((n, 1, 7, 7), name="data") for n in (1, 50))
    weight = te.placeholder((1, 1, kernel, kernel), name="weight")
    y, many = (topi.conv2d(x, weight, stride, pad, 1) for x in (data, images))
    place = (0, 0, min(at, y.shape[2] - 1), 0)
    elements = list(np.ndindex(*data.shape))
    x = np.ones(images.shape, np.float32)  # in each image but the last, another element is changed
    for n, e in enumerate(elements):
        x[(n, *e[1:])] = 2
    w = np.ones(weight.shape, np.float32)
    *values, before = evaluate([many], {images: x, weight: w})[0][:, *place[1:]]
    changed = {e for e, value in zip(elements, values, strict=True) if value != before}
    assert set(footprint(y, place, inputs=[data, weight])[data]) == changed


@pytest.mark.parametrize("tile", [[0], [(0, 9), 0], [0, "x"], [(0, 0), 1], [-1, 0], 3])
def test_a_tile_outside_the_tensor_is_refused(tile) -> None:
    with pytest.raises(ArgumentError, match="tile"):
        footprint(matmul(8)[1][2], tile)


def test_an_input_reads_nothing() -> None:
    with pytest.raises(
        ArgumentError, match="the reads of A: no formula computes it: placeholder A"
    ):
        footprint(A8, [0])


def test_a_symbolic_size_is_refused() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    with pytest.raises(ArgumentError, match="constant sizes"):
        footprint(te.compute((n,), lambda i: A[i], name="C"), [0])


def test_a_sum_as_long_as_data_say_is_refused() -> None:
    P = te.placeholder((5,), "int32", name="P")
    C = te.compute(
        (4,), lambda i: te.sum(A8[(k := te.reduce_axis((P[i], P[i + 1]), "k"))], axis=k), name="C"
    )
    with pytest.raises(ArgumentError, match="the length of its sum depends on"):
        footprint(C, [0])
