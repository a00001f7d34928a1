"""Formulas on one line, in the notation of Tensor Comprehensions."""

import contextlib
import random
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
        ("C(i, j) = A(i * j, 0)", "i \\* j is not a sum of multiples of indices"),
        ("C(__debug__) = A(__debug__, 0)", "not of the form"),
        ("C(if) = A(if, 0)", "not of the form"),
        ("C(i) = A(i, 0) * 2**9999999999", "2 \\*\\* 9999999999 has no value of 64 bits"),
        ("C(i) = A(i, 0) + 1 / 0", "1 / 0 has no value of 64 bits"),
        ("C(i) = max(A(i, 0))", "max\\(A\\(i, 0\\)\\): max takes 2 operands"),
        ("C(i) = A(i, 0) + exp()", "exp\\(\\): exp takes 1 operands"),
        ("C(i) = A(i, 0) + \0", "not an expression"),
        ("C(i) = A(i, 0)" + " + 1" * 250, "it has 1014 characters, at most 1000 are read"),
        ("C(i) = " + "-" * 980 + "A(i, 0)", "too deeply|not an expression"),
        ("C(i) = A(i, 0) where i in 0:" + "9" * 900, "not a range"),
    ],
)
def test_what_is_no_formula_is_refused(line: str, why: str) -> None:
    with pytest.raises(tvm.ExprError, match=why):
        te.define(line, A=place(5, 7, name="A"), B=place(7, 3, name="B"))


def test_an_index_may_have_any_name() -> None:
    A = place(5, 7, name="A")
    assert tuple(te.define("C(body, line) = A(body, line)", A=A).shape) == (5, 7)


def test_an_input_is_a_tensor() -> None:
    with pytest.raises(tvm.ExprError, match="line: it is int, not a tensor"):
        te.define("C(i) = line(i)", line=3)  # type: ignore[arg-type]


WORDS = """
    A A B B C i i j j k body __debug__ None max min exp floor where in if else and not lambda await
    ( ( ( ) ) ) , , , [ ] { } + - * / // % ** = +=! *=! max=! < == := : 0 1 2 1e999 1j 'a' ... @ ~ #
    0:8 99999999999999999999 . f'{i}' \\
"""


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_line_it_is_a_tensor_or_a_reason(seed: int) -> None:
    rng, words = random.Random(seed), WORDS.split()

    def some(most: int) -> str:
        return " ".join(rng.choice(words) for _ in range(rng.randrange(most)))

    A, B = place(5, 7, name="A"), place(7, 3, name="B")
    for _ in range(100):
        form = rng.choice(
            ["C({}) = {}", "C(i, j) = A(i, {}) {}", "C(i) +=! A(i, {}) * {}", "{} {}"]
        )
        with contextlib.suppress(tvm.TVMError):  # any other error fails
            assert isinstance(te.define(form.format(some(5), some(9)), A=A, B=B), te.Tensor)
