"""Comparisons, where, take and mean against numpy, on every target."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError

X, Y = te.placeholder((3, 4), name="X"), te.placeholder((4,), name="Y")
P = te.placeholder((2, 3), "int32", name="P")
NUMBERS = np.arange(12, dtype="float32").reshape(3, 4)
ROW = np.array([1, 9, 6, 2], "float32")
PLACES = np.array([[0, 2, 1], [-3, 1, 99]], "int32")
CASES: dict[str, tuple[te.Tensor, dict[te.Tensor, Any], Any]] = {
    "equal": (topi.equal(X, Y), {X: NUMBERS, Y: ROW}, NUMBERS == ROW),
    "not_equal": (topi.not_equal(X, Y), {X: NUMBERS, Y: ROW}, NUMBERS != ROW),
    "less": (topi.less(X, Y), {X: NUMBERS, Y: ROW}, NUMBERS < ROW),
    "less_equal": (topi.less_equal(X, 5), {X: NUMBERS}, NUMBERS <= 5),
    "greater": (topi.greater(5, X), {X: NUMBERS}, NUMBERS < 5),
    "greater_equal": (topi.greater_equal(X, Y), {X: NUMBERS, Y: ROW}, NUMBERS >= ROW),
    "where": (topi.where(topi.less(X, Y), X, -1.0), {X: NUMBERS, Y: ROW},
              np.where(NUMBERS < ROW, NUMBERS, -1)),
    "where by int": (topi.where(P, 1.0, 2.0), {P: PLACES}, np.where(PLACES != 0, 1.0, 2.0)),
    "take": (topi.take(X, P, axis=0), {X: NUMBERS, P: PLACES},
             NUMBERS.take(PLACES, 0, mode="clip")),
    "take last": (topi.take(X, P, axis=-1), {X: NUMBERS, P: PLACES},
                  NUMBERS.take(PLACES, 1, mode="clip")),
    "take of all": (topi.take(X, P), {X: NUMBERS, P: PLACES}, NUMBERS.take(PLACES, mode="clip")),
    "mean": (topi.mean(X), {X: NUMBERS}, NUMBERS.mean()),
    "mean of columns": (topi.mean(X, 0), {X: NUMBERS}, NUMBERS.mean(0)),
    "mean kept": (topi.mean(X, -1, keepdims=True), {X: NUMBERS}, NUMBERS.mean(1, keepdims=True)),
}  # fmt: skip


@pytest.mark.parametrize("target", ["llvm", "python", "numba"])
@pytest.mark.parametrize("case", CASES)
def test_the_result_is_that_of_numpy(case: str, target: str) -> None:
    out, inputs, wanted = CASES[case]
    got = np.zeros(out.shape, out.dtype)
    f = tvm.build(topi.schedule(out, target), [*inputs, out], target)
    f(*(a.copy() for a in inputs.values()), got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (
            lambda: topi.take(X, P, mode="wrap"),
            "topi.take with mode='wrap': no such mode",
        ),
        (lambda: topi.take(X, Y, 0), "an index of type float32: indices are integers"),
        (
            lambda: topi.take(X, P, 2),
            "topi.take of X over axis 2: these are not different dimensions",
        ),
        (lambda: topi.where(True, X, X), "topi.where: condition is bool: not a tensor"),
        (lambda: topi.less(1, 2), "topi.less: neither operand is a tensor"),
        (lambda: topi.where(X, X, P), "topi.where of"),
    ],
)
def test_what_does_not_fit_is_refused(act: Callable[[], Any], says: str) -> None:
    with pytest.raises(ExprError) as caught:
        act()
    assert str(caught.value).startswith(says)


def test_the_layers_of_networks_are_in_nn_too() -> None:
    assert topi.nn.conv2d is topi.conv2d
    both = [n for n in topi.nn.__all__ if n != "conv2d_nchw"]  # in TVM it is in nn only
    assert [n for n in both if getattr(topi, n) is not getattr(topi.nn, n)] == []
