"""Each operator means what numpy's means, under its default schedule, on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose
from tests.covering import covering

TARGETS = ["llvm -num-cores=1", "llvm -num-cores=2", "llvm -mattr=-avx512f", "python"]


def place(*shape: int, name: str = "A", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


def check(
    out: te.Tensor, inputs: list[te.Tensor], meaning: Callable[..., Any], target: str
) -> None:
    """Build `out` with its default schedule and compare with `meaning` on random arrays."""
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(0.1, 2, t.shape).astype(t.dtype) for t in inputs]
    got = np.zeros(out.shape, out.dtype)
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, got)
    assert_allclose(got, meaning(*arrays), rtol=1e-4, atol=1e-5)


SIZES = [(5, 7, 3), (64, 64, 64), (33, 70, 65), (1, 40, 9), (2, 17, 20)]
FLIPS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize(("shape", "flips", "target"), covering(SIZES, FLIPS, TARGETS), ids=str)
def test_matmul_in_all_transpositions(
    shape: tuple[int, int, int], flips: tuple[bool, bool], target: str
) -> None:
    (m, n, k), (ta, tb) = shape, flips
    a = place(*((k, m) if ta else (m, k)))
    b = place(*((n, k) if tb else (k, n)), name="B")
    c = topi.matmul(a, b, transpose_a=ta, transpose_b=tb)
    check(c, [a, b], lambda x, y: (x.T if ta else x) @ (y.T if tb else y), target)


def test_matmul_of_int8_sums_in_int32() -> None:
    a, b = place(9, 300, dtype="int8"), place(300, 20, name="B", dtype="int8")
    c = topi.matmul(a, b, out_dtype="int32")
    x, y = np.full((9, 300), -128, "int8"), np.full((300, 20), 127, "int8")
    got = np.zeros((9, 20), "int32")
    tvm.build(topi.schedule(c), [a, b, c])(x, y, got)
    assert (got == x.astype("int32") @ y.astype("int32")).all()


@pytest.mark.parametrize("target", TARGETS)
def test_a_dense_layer_with_bias_and_relu_is_one_nest(target: str) -> None:
    x, w, b = place(50, 30, name="X"), place(40, 30, name="W"), place(40, name="b")
    out = topi.relu(topi.dense(x, w, b))
    check(out, [x, w, b], lambda x, w, b: np.maximum(x @ w.T + b, 0), target)
    if target != "python":
        f = tvm.lower(topi.schedule(out, target), [x, w, b, out], until="nest")
        assert str(f).count("T_relu[") == 1
        assert "T_bias" not in str(f)


def test_two_products_that_meet_in_one_sum_both_come_out_right() -> None:
    a, b, c = (place(20, 20, name=n) for n in "ABC")
    out = topi.add(topi.matmul(a, b), topi.matmul(b, c))
    check(out, [a, b, c], lambda x, y, z: x @ y + y @ z, "llvm")


UNARY: list[tuple[Callable[[te.Tensor], te.Tensor], Callable[[Any], Any]]] = [
    (topi.relu, lambda x: np.maximum(x, 0)),
    (lambda t: topi.leaky_relu(t, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    (topi.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    (topi.tanh, np.tanh),
    (topi.silu, lambda x: x / (1 + np.exp(-x))),
    (topi.gelu, lambda x: 0.5 * x * (1 + np.vectorize(__import__("math").erf)(x / 2**0.5))),
    (topi.exp, np.exp),
    (topi.log, np.log),
    (topi.sqrt, np.sqrt),
    (topi.rsqrt, lambda x: 1 / np.sqrt(x)),
    (topi.negative, np.negative),
    (topi.abs, np.abs),
    (lambda t: topi.clip(t, 0.5, 1.0), lambda x: np.clip(x, 0.5, 1.0)),
    (lambda t: topi.cast(t, "int32"), lambda x: x.astype("int32")),
    (lambda t: topi.subtract(1.0, t), lambda x: 1 - x),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pair", UNARY, ids=range(len(UNARY)))
def test_elementwise_operators(pair: Any, target: str) -> None:
    make, meaning = pair
    x = place(7, 37)
    check(make(x), [x], meaning, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 6), (5, 6)), ((5, 6), (6,)), ((5, 1), (1, 70)), ((), (3,)), ((4, 1, 3), (2, 1))],
)
def test_operands_broadcast_as_in_numpy(a: Any, b: Any, target: str) -> None:
    x, y = place(*a), place(*b, name="B")
    for op, meaning in [
        (topi.add, np.add),
        (topi.multiply, np.multiply),
        (topi.divide, np.divide),
        (topi.maximum, np.maximum),
        (topi.minimum, np.minimum),
        (topi.power, np.power),
    ]:
        check(op(x, y), [x, y], meaning, target)


@pytest.mark.parametrize(
    ("axis", "keepdims", "target"),
    covering([0, 1, -1, (0, 2), None], [False, True], TARGETS),
    ids=str,
)
def test_reductions(axis: Any, keepdims: bool, target: str) -> None:
    x = place(4, 9, 21)
    for op, meaning in [
        (topi.sum, np.sum),
        (topi.max, np.max),
        (topi.min, np.min),
        (topi.prod, np.prod),
    ]:
        out = op(x, axis, keepdims)
        check(out, [x], lambda v, f=meaning: f(v, axis=axis, keepdims=keepdims), target)


@pytest.mark.parametrize("target", TARGETS)
def test_transpose_and_pad(target: str) -> None:
    x = place(5, 6, 7)
    check(topi.transpose(x), [x], np.transpose, target)
    check(topi.transpose(x, (1, 0, 2)), [x], lambda v: v.transpose(1, 0, 2), target)
    widths = ((1, 0), (0, 2), (3, 3))
    padded = topi.pad(x, [w[0] for w in widths], [w[1] for w in widths], 5.0)
    check(padded, [x], lambda v: np.pad(v, widths, constant_values=5.0), target)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda a, v: topi.matmul(a, a), "the inner sizes 4 and 3 differ"),
        (topi.matmul, "2 and 1 dimensions, not 2 and 2"),
        (topi.add, r"\[3, 4\] and \[3\]: the shapes do not broadcast"),
        (lambda a, v: topi.add(1, 2), "neither operand is a tensor"),
        (lambda a, v: topi.sum(a, 2), "over axis 2: these are not different dimensions"),
        (lambda a, v: topi.transpose(a, (0, 0)), "not a permutation of its 2 dimensions"),
        (lambda a, v: topi.pad(a, (1,)), "one size >= 0"),
        (lambda a, v: topi.dense(a, a, v), r"its shape must be \[3\]"),
    ],
)
def test_operands_that_do_not_fit_are_refused(make: Any, why: str) -> None:
    a, v = place(3, 4), place(3, name="v")
    if "its shape" in why:  # the bias
        v = place(5, name="v")
    with pytest.raises(tvm.ExprError, match=why):
        make(a, v)
