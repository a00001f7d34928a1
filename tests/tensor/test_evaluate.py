"""The value of formulas without schedules, against numpy on cases small enough to do by hand."""

import numpy as np
import pytest

from minitvm import te
from minitvm.base import ArgumentError, ExprError
from minitvm.tensor import Reducer, evaluate, reduce
from minitvm.tir import Load, Select, const


def value_of(tensor, inputs):
    (found,) = evaluate([tensor], inputs)
    assert found.dtype == tensor.dtype.numpy
    return found


def test_elementwise_formulas_work_on_whole_arrays() -> None:
    A = te.placeholder((2, 3), name="A")
    C = te.compute((3, 2), lambda i, j: A[j, i] * 2.0 + i, name="C")
    a = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(value_of(C, {A: a}), a.T * 2 + [[0], [1], [2]])


def test_a_tensor_without_dimensions_is_one_number() -> None:
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute((), lambda: te.sum(A[k], axis=k), name="C")
    found = value_of(C, {A: np.arange(4, dtype="float32")})
    assert found.shape == ()
    assert found == 6


def test_reductions_fold_over_all_their_axes() -> None:
    A = te.placeholder((2, 3, 4), "int32", name="A")
    j, k = te.reduce_axis((0, 3), name="j"), te.reduce_axis((1, 4), name="k")
    C = te.compute((2,), lambda i: te.max(A[i, j, k], axis=[j, k]), name="C")
    a = np.random.default_rng(0).integers(-9, 9, (2, 3, 4), "int32")
    np.testing.assert_array_equal(value_of(C, {A: a}), a[:, :, 1:].max(axis=(1, 2)))


def test_an_empty_reduction_is_the_identity() -> None:
    A = te.placeholder((3,), name="A")
    k = te.reduce_axis((2, 2), name="k")
    C = te.compute((2,), lambda i: te.min(A[k + i], axis=k), name="C")
    np.testing.assert_array_equal(value_of(C, {A: np.zeros(3, "float32")}), [np.inf, np.inf])


def test_where_leaves_points_out_and_guards_their_reads() -> None:
    A = te.placeholder((3,), "int32", name="A")
    k = te.reduce_axis((0, 9), name="k")
    C = te.compute((3,), lambda i: te.sum(A[k], axis=k, where=te.all(k <= i, k < 3)), name="C")
    np.testing.assert_array_equal(value_of(C, {A: np.array([1, 2, 4], "int32")}), [1, 3, 7])


def test_init_takes_the_place_of_the_identity() -> None:
    A = te.placeholder((2, 3), "int32", name="A")
    B = te.placeholder((2,), "int32", name="B")
    k = te.reduce_axis((0, 3), name="k")
    C = te.compute((2,), lambda i: te.sum(A[i, k], axis=k, init=B[i]), name="C")
    a, b = np.ones((2, 3), "int32"), np.array([10, 20], "int32")
    np.testing.assert_array_equal(value_of(C, {A: a, B: b}), [13, 23])


def test_all_parts_of_a_tuple_reduction_see_the_old_values() -> None:
    def combine(old, new):
        larger = new[0] > old[0]
        return tuple(Select(larger, n, o, n.dtype) for o, n in zip(old, new, strict=True))

    argmax = Reducer("argmax", combine, lambda t: (const(-99, t[0]), const(-1, t[1])))
    A = te.placeholder((4,), "int32", name="A")
    k = te.reduce_axis((0, 4), name="k")
    V, at = te.compute((), lambda: reduce(argmax, (A[k], k), k), name="M")
    v, i = evaluate([V, at], {A: np.array([3, 7, 7, 1], "int32")})
    assert (v, i) == (7, 1)


def test_padding_does_not_read_outside() -> None:
    A = te.placeholder((2,), name="A")
    C = te.compute((4,), lambda i: te.if_then_else(te.all(i >= 1, i < 3), A[i - 1], -1.0), name="C")
    np.testing.assert_array_equal(value_of(C, {A: np.array([5, 6], "float32")}), [-1, 5, 6, -1])


def test_padding_around_an_empty_tensor_reads_nothing() -> None:
    A = te.placeholder((0,), name="A")
    C = te.compute((2,), lambda i: te.if_then_else(i < 0, A[i], 1.0), name="C")
    np.testing.assert_array_equal(value_of(C, {A: np.zeros(0, "float32")}), [1, 1])


def test_a_read_outside_is_an_error() -> None:
    A = te.placeholder((3,), name="A")
    C = te.compute((2,), lambda i: A[i + 1], name="C")
    load = C.op.body[0]
    assert isinstance(load, Load)
    far = type(C.op)("C", C.op.axis, (), (Load(A, (load.indices[0] + 1,), A.dtype),))
    with pytest.raises(ExprError, match=r"index 0 of A is not always in 0 \.\. 2"):
        evaluate([far.output(0)], {A: np.zeros(3, "float32")})


def test_an_index_from_data_is_clipped() -> None:
    A = te.placeholder((3,), name="A")
    table = te.placeholder((4,), "int8", name="table")
    C = te.compute((4,), lambda i: A[table[i]], name="C")
    a, at = np.array([1, 2, 3], "float32"), np.array([-5, 0, 2, 9], "int8")
    np.testing.assert_array_equal(value_of(C, {A: a, table: at}), np.take(a, at, mode="clip"))


def test_integers_wrap_and_division_by_zero_is_zero() -> None:
    A = te.placeholder((3,), "int8", name="A")
    C = te.compute((3,), lambda i: (A[i] + A[i]) // te.truncmod(A[i], A[i] - 1), name="C")
    a = np.array([100, 1, -128], "int8")
    # 200 wraps to -56, 100 % 99 = 1; 1 % 0 = 0, 2 // 0 = 0; -256 wraps to 0
    np.testing.assert_array_equal(value_of(C, {A: a}), [-56, 0, 0])


def test_symbolic_sizes_are_learned_from_the_inputs() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[n - 1 - i], name="C")
    a = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(value_of(C, {A: a}), a[::-1])


def test_scalars_are_inputs_too() -> None:
    n = te.var("n")
    C = te.compute((3,), lambda i: i * n, name="C")
    np.testing.assert_array_equal(value_of(C, {n: 7}), [0, 7, 14])


def test_inputs_that_do_not_fit_are_refused() -> None:
    A = te.placeholder((3,), name="A")
    C = te.compute((3,), lambda i: A[i], name="C")
    with pytest.raises(ArgumentError, match="no value is given"):
        evaluate([C], {})
    with pytest.raises(ArgumentError, match="dimension 0: it is 4, not 3"):
        evaluate([C], {A: np.zeros(4, "float32")})
    with pytest.raises(ArgumentError, match="it is float64 with 1 dimensions, not float32 with 1"):
        evaluate([C], {A: np.zeros(3)})


def test_a_masked_input_is_refused() -> None:
    A = te.placeholder((3,), name="A")
    C = te.compute((3,), lambda i: A[i] + 1, name="C")
    masked = np.ma.array(np.ones(3, "float32"), mask=[0, 1, 0])
    with pytest.raises(ArgumentError, match="input A of a masked array: its mask would be lost"):
        evaluate([C], {A: masked})


def test_an_input_that_is_larger_than_memory_is_refused() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), "int8", name="A")
    C = te.compute((n,), lambda i: A[i], name="C")
    huge = np.broadcast_to(np.int8(1), (2**62,))  # one byte
    with pytest.raises(ArgumentError, match="compute C of shape \\(4611686018427387904,\\)"):
        evaluate([C], {A: huge})
