"""Formulas of many terms, and selects that guard reads: what TVM programs write."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import ExprError
from minitvm.tensor import Tensor, evaluate

TARGETS = ("python", "numba", "llvm")


def stencil(size: int) -> tuple[Tensor, Tensor]:
    """The mean of size * size neighbours, written out."""
    A = te.placeholder((size + 3, size + 2), name="A")

    def body(i: Any, j: Any) -> Any:
        total = A[i, j]
        for k in range(1, size * size):
            total = total + A[i + k // size, j + k % size]
        return total / float(size * size)

    return A, te.compute((4, 3), body, name="B")


@pytest.mark.parametrize(  # numba takes 20 s to compile 961 terms
    ("size", "target"), [*((13, target) for target in TARGETS), (31, "llvm"), (31, "python")]
)
def test_a_stencil_of_many_terms_runs(size: int, target: str) -> None:
    A, B = stencil(size)
    a = np.random.default_rng(0).random(A.shape, "float32")
    b = np.zeros((4, 3), "float32")
    tvm.build(te.create_schedule(B.op), [A, B], target)(a, b)
    windows = np.lib.stride_tricks.sliding_window_view(a, (size, size))
    np.testing.assert_allclose(b, windows.mean((2, 3)), rtol=1e-5)
    np.testing.assert_allclose(evaluate([B], {A: a})[0], b, rtol=1e-6)


def test_a_sum_that_is_not_too_long_stays_as_it_was_written() -> None:
    A = te.placeholder((200,), name="A")
    B = te.compute((1,), lambda i: sum((A[i + k] for k in range(1, 100)), A[i]), name="B")
    assert "(" not in tir.text(B.op.body[0])


@pytest.mark.parametrize("target", TARGETS)
def test_differences_keep_their_signs(target: str) -> None:
    A = te.placeholder((400,), "int32", name="A")

    def body(i: Any) -> Any:
        total = A[i]
        for k in range(1, 400):
            total = total - A[k] if k % 3 else total + A[k]
        return total

    B = te.compute((1,), body, name="B")
    a, b = np.arange(400, dtype="int32") ** 2, np.zeros(1, "int32")
    tvm.build(te.create_schedule(B.op), [A, B], target)(a, b)
    assert b[0] == a[0] + sum(-a[k] if k % 3 else a[k] for k in range(1, 400))


def test_a_reduction_of_a_long_sum_is_accepted() -> None:
    A, k = te.placeholder((300, 4), name="A"), te.reduce_axis((0, 4), name="k")
    B = te.compute((1,), lambda i: te.sum(sum((A[n, k] for n in range(1, 300)), A[0, k]), k))
    a = np.ones((300, 4), "float32")
    assert evaluate([B], {A: a})[0].tolist() == [1200]


def test_what_is_deep_and_no_sum_is_refused() -> None:
    A = te.placeholder((4,), name="A")

    def body(i: Any) -> Any:
        x = A[i]
        for _ in range(400):
            x = te.exp(x)
        return x

    with pytest.raises(ExprError, match=r"it nests 40[01] operations"):
        te.compute((4,), body)


# --- selects -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_select_pads(target: str) -> None:
    A = te.placeholder((5,), name="A")
    B = te.compute(
        (7,), lambda i: tir.Select(te.all(i >= 1, i < 6), A[i - 1], tir.const(0.0)), name="B"
    )
    a, b = np.arange(1, 6, dtype="float32"), np.zeros(7, "float32")
    tvm.build(te.create_schedule(B.op), [A, B], target)(a, b)
    assert b.tolist() == [0, 1, 2, 3, 4, 5, 0]
    assert evaluate([B], {A: a})[0].tolist() == b.tolist()


def test_a_select_pads_a_tensor_of_the_same_size() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: tir.Select(i > 0, A[i - 1], tir.const(0.0)), name="B")
    b = np.zeros(3, "float32")
    tvm.build(te.create_schedule(B.op), [A, B])(np.arange(1, 4, dtype="float32"), b)
    assert b.tolist() == [0, 1, 2]


def test_a_select_pads_inside_a_reduction() -> None:
    A, k = te.placeholder((5,), name="A"), te.reduce_axis((0, 3), name="k")
    B = te.compute(
        (5,),
        lambda i: te.sum(
            tir.Select(te.all(i + k >= 1, i + k < 6), A[i + k - 1], tir.const(0.0)), axis=k
        ),
        name="B",
    )
    b = evaluate([B], {A: np.ones(5, "float32")})[0]
    assert b.tolist() == [2, 3, 3, 3, 2]


def test_a_select_that_reads_inside_in_both_arms_stays_a_select() -> None:
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: tir.Select(i > 2, A[i], A[4 - i]), name="B")
    assert isinstance(B.op.body[0], tir.Select)


def test_a_select_whose_condition_does_not_help_is_refused() -> None:
    A = te.placeholder((5,), name="A")
    with pytest.raises(ExprError, match="may leave A"):
        te.compute((7,), lambda i: tir.Select(i >= 1, A[i - 1], tir.const(0.0)))


def test_an_empty_tensor_is_guarded_by_a_select() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((2,), lambda i: tir.Select(n > 0, A[0], tir.const(7.0)), name="B")
    assert B.op.needs == ()
    b = np.zeros(2, "float32")
    tvm.build(te.create_schedule(B.op), [A, B])(np.zeros(0, "float32"), b)
    assert b.tolist() == [7, 7]
