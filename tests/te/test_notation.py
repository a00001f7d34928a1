"""Formulas on one line, in the notation of Tensor Comprehensions."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.tensor import evaluate
from minitvm.testing import assert_allclose


def place(*shape: Any, name: str) -> te.Tensor:
    return te.placeholder(shape, name=name)


def check(line: str, meaning: Any, **tensors: te.Tensor) -> te.Tensor:
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(t.shape).astype("float32") for n, t in tensors.items()}
    out = te.define(line, **tensors)
    (got,) = evaluate([out], {t: arrays[n] for n, t in tensors.items()})
    assert_allclose(got, meaning(**arrays), rtol=1e-4, atol=1e-4)
    return out


def test_a_matrix_product() -> None:
    A, B = place(5, 7, name="A"), place(7, 3, name="B")
    C = check("C(i, j) +=! A(i, k) * B(k, j)", lambda A, B: A @ B, A=A, B=B)
    assert C.name == "C"
    assert [a.name for a in C.op.axis] == ["i", "j"]
    assert [a.name for a in C.op.reduce_axis] == ["k"]


def test_an_elementwise_formula_with_functions_and_choices() -> None:
    A, b = place(4, 6, name="A"), place(6, name="b")
    check("R(i, j) = max(A(i, j) + b(j), 0)", lambda A, b: np.maximum(A + b, 0), A=A, b=b)
    check("R(i, j) = exp(-A(i, j)) / 2.0", lambda A: np.exp(-A) / 2, A=A)
    check("R(i, j) = A(i, j) if i < j else 0.0", lambda A: np.triu(A, 1), A=A)


def test_a_convolution_finds_how_far_its_window_moves() -> None:
    X, W = place(2, 3, 9, 9, name="X"), place(4, 3, 3, 3, name="W")
    out = te.define("O(n, o, h, w) +=! X(n, c, 2*h + kh, 2*w + kw) * W(o, c, kh, kw)", X=X, W=W)
    assert out.shape == (2, 4, 4, 4)


def test_the_largest_of_a_row_and_a_range_by_hand() -> None:
    A = place(4, 6, name="A")
    check("M(i) max=! A(i, j)", lambda A: A.max(1), A=A)
    check("M(i) max=! A(i, j) where j in 2:5", lambda A: A[:, 2:5].max(1), A=A)


def test_symbolic_sizes() -> None:
    n = te.size_var("n")
    A = place(n, 6, name="A")
    B = te.define("B(i) +=! A(i, j)", A=A)
    f = tvm.build(te.create_schedule(B.op), [A, B], "python")
    out = np.zeros(3, "float32")
    f(np.ones((3, 6), "float32"), out)
    assert out.tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("C(i, j) = A(i, k) * B(k, j)", "k is only on the right side: reduce over it"),
        ("C(i, j) +=! A(i, j)", "needs an index that is only on the right side"),
        ("C(i, q) = A(i, 0)", "nothing on the right side has the index q"),
        ("C(i, i) = A(i, i)", "not of the form"),
        ("C(i) + A(i)", "not of the form"),
        ("C(i) +=! A(i, k) * v(k)", "v has 2 dimensions|v\\(k\\) is not understood"),
        ("C(i) +=! A(i, k) * B(i, k)", "but indexes"),
        ("C(i) +=! open('x', i) * A(i, k)", "is not understood"),
        ("C(i) = A(i,, 0)", "not an expression"),
        ("C(i) +=! A(i, j) where j from 2", "not a range"),
        ("C(i) +=! A(i % 2, j)", "not a sum of multiples of indices"),
    ],
)
def test_what_is_no_formula_is_refused(line: str, why: str) -> None:
    with pytest.raises(tvm.ExprError, match=why):
        te.define(line, A=place(5, 7, name="A"), B=place(7, 3, name="B"))
