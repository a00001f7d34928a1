"""Operators in combination: one after another, several outputs, symbolic and empty sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError
from minitvm.testing import assert_allclose


def place(*shape: Any, name: str = "X") -> te.Tensor:
    return te.placeholder(shape, name=name)


def soft(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normal(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def check(out: te.Tensor, inputs: list[te.Tensor], meaning: Callable[..., Any]) -> None:
    arrays = [np.random.default_rng(2).standard_normal(t.shape).astype("float32") for t in inputs]
    got = np.zeros(out.shape, "float32")
    tvm.build(topi.schedule(out), [*inputs, out])(*arrays, got)
    assert_allclose(got, meaning(*arrays), rtol=1e-3, atol=1e-4)


X, W = place(100, 64), place(64, 80, name="W")
CASES: list[tuple[te.Tensor, list[te.Tensor], Callable[..., Any]]] = [
    (topi.sum(topi.matmul(X, W), 1), [X, W], lambda x, w: (x @ w).sum(1)),
    (topi.sum(topi.softmax(X), -1), [X], lambda x: soft(x).sum(-1)),
    (topi.sum(topi.transpose(X), -1), [X], lambda x: x.T.sum(-1)),
    (topi.sum(topi.layer_norm(X), -1, keepdims=True), [X], lambda x: normal(x).sum(-1)[:, None]),
    (topi.relu(topi.softmax(X)), [X], soft),
    (topi.softmax(topi.matmul(X, W)), [X, W], lambda x, w: soft(x @ w)),
    (topi.softmax(topi.softmax(X)), [X], lambda x: soft(soft(x))),
    (topi.add(X, topi.layer_norm(X)), [X], lambda x: x + normal(x)),
]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_one_operator_after_another(case: Any) -> None:
    check(*case)


def test_a_product_before_a_softmax_has_its_tile_of_registers() -> None:
    s = topi.schedule(topi.softmax(topi.matmul(X, W)), "llvm -num-cores=1")
    product = s["T_matmul"]
    assert not product.is_attached
    assert "T_matmul.local" in [stage.name for stage in s.stages]


def test_a_stage_that_is_also_an_output_stays_at_root() -> None:
    r = topi.relu(X)
    out = topi.softmax(r)
    x = np.random.default_rng(0).standard_normal((100, 64)).astype("float32")
    got, rows = np.zeros_like(x), np.zeros_like(x)
    tvm.build(topi.schedule([r, out]), [X, r, out])(x, rows, got)
    assert_allclose(rows, np.maximum(x, 0))
    assert_allclose(got, soft(np.maximum(x, 0)), rtol=1e-4)


def test_formulas_that_double_are_not_put_into_each_other_for_ever() -> None:
    a = y = place(8)
    for _ in range(24):
        y = topi.add(y, y)
    got = np.zeros(8, "float32")
    tvm.build(topi.schedule(y), [a, y])(np.ones(8, "float32"), got)
    assert (got == 2.0**24).all()


def test_symbolic_columns_are_one_build_for_many_sizes() -> None:
    n = te.var("n")
    a, b = place(40, 30, name="A"), place(30, n, name="B")
    c = topi.matmul(a, b)
    f = tvm.build(topi.schedule(c), [a, b, c])
    for columns in (1, 17, 100):
        x, y = np.ones((40, 30), "float32"), np.ones((30, columns), "float32")
        got = np.zeros((40, columns), "float32")
        f(x, y, got)
        assert (got == 30).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("symbolic", ["n", "k", "nk", "mn", "mnk"])
def test_products_of_symbolic_sizes_are_one_build_for_many(symbolic: str, transposed: bool) -> None:
    size = {"m": 50, "k": 30, "n": 70}
    m, k, n = (te.var(x) if x in symbolic else size[x] for x in "mkn")
    a, b = place(m, k, name="A"), place(*((n, k) if transposed else (k, n)), name="B")
    c = topi.matmul(a, b, transpose_b=transposed)
    f = tvm.build(topi.schedule(c), [a, b, c])
    for grown in (0, 3, 40):
        rows, depth, columns = (size[x] + (grown if x in symbolic else 0) for x in "mkn")
        x, y = np.ones((rows, depth), "float32"), np.ones((depth, columns), "float32")
        got = np.zeros((rows, columns), "float32")
        f(x, np.ascontiguousarray(y.T) if transposed else y, got)
        assert (got == depth).all()


def test_a_transpose_of_a_symbolic_matrix() -> None:
    a = place(te.var("n"), te.var("m"))
    t = topi.transpose(a)
    f = tvm.build(topi.schedule(t), [a, t])
    x = np.arange(15, dtype="float32").reshape(5, 3)
    got = np.zeros((3, 5), "float32")
    f(x, got)
    assert (got == x.T).all()


@pytest.mark.parametrize(
    ("n", "begin", "end"),
    [
        (te.var("n"), lambda n: 0, lambda n: n),
        (te.size_var("n"), lambda n: n, lambda n: n + 1),
        (te.size_var("n"), lambda n: 1, lambda n: n + 1),
    ],
)
def test_slices_of_a_symbolic_dimension(n: Any, begin: Any, end: Any) -> None:
    rows = n if end(2) == 2 else n + 1
    a = place(n, 3, name="size")
    b = place(rows, 5)
    cut = topi.strided_slice(b, (begin(n), 1), (end(n), 4))
    f = tvm.build(topi.schedule(cut), [a, b, cut])
    for size in (1, 4, 9):
        x = np.arange(5 * (size + 1), dtype="float32").reshape(size + 1, 5)
        x = x[: size if rows is n else size + 1]
        expected = x[begin(size) : end(size), 1:4]
        got = np.zeros(expected.shape, "float32")
        f(np.zeros((size, 3), "float32"), x, got)
        assert (got == expected).all()


@pytest.mark.parametrize(
    ("begin", "end", "strides"),
    [
        ((0, 0), (te.var("m"), 5), None),
        ((0, 0), (te.size_var("n"), 5), (2, 1)),
        ((-1, 0), (1, 5), None),
    ],
)
def test_slices_that_may_be_out_of_bounds_are_refused(begin: Any, end: Any, strides: Any) -> None:
    with pytest.raises(ExprError, match="does not follow"):
        topi.strided_slice(place(te.size_var("n"), 5), begin, end, strides)


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (0, 0)])
@pytest.mark.parametrize("op", [topi.softmax, topi.layer_norm, topi.relu, topi.transpose])
def test_rows_without_elements(op: Any, shape: tuple[int, int]) -> None:
    x = place(*shape)
    out = op(x)
    tvm.build(topi.schedule(out), [x, out])(
        np.zeros(shape, "float32"), np.zeros(out.shape, "float32")
    )


def test_an_empty_sum_is_zero() -> None:
    x = place(4, 0)
    out = topi.sum(x, -1)
    got = np.ones(4, "float32")
    tvm.build(topi.schedule(out), [x, out])(np.zeros((4, 0), "float32"), got)
    assert (got == 0).all()


def test_an_input_whose_last_read_folds_away_stays_an_argument() -> None:
    a, i = place(1, name="A"), te.placeholder((4,), "int32", name="I")
    c = te.compute((4,), lambda j: a[i[j]], name="C")
    got = np.zeros(4, "float32")
    tvm.build(te.create_schedule(c.op), [a, i, c])(
        np.full(1, 7, "float32"), np.arange(4, dtype="int32"), got
    )
    assert (got == 7).all()


def test_a_symbolic_divisor_below_one_counts_as_one() -> None:
    m, a = te.var("m"), place(6, name="A")
    d = te.compute((6,), lambda i: a[i] + (i // m).astype("float32"), name="D")
    for target in ("llvm", "python"):
        f = tvm.build(te.create_schedule(d.op), [a, d, m], target)
        for value, want in (
            (0, [0, 1, 2, 3, 4, 5]),
            (-2, [0, 1, 2, 3, 4, 5]),
            (4, [0, 0, 0, 0, 1, 1]),
        ):
            got = np.zeros(6, "float32")
            f(np.zeros(6, "float32"), got, value)
            assert got.tolist() == want
