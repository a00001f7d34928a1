"""Elementwise functions: what each computes, and on what types."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tensor, tir
from minitvm.base import ExprError
from minitvm.tir import text

FLOATS = np.array([-2.5, -1.5, -0.25, 0.0, 0.5, 1.5, 2.5, 7.75], "float32")
POSITIVE = np.abs(FLOATS) + 0.125
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 3.5, -0.0], "float32")
INTEGERS = np.array([-7, -4, -1, 0, 1, 4, 7, 9], "int32")
erf = np.vectorize(math.erf)


def result(f: Callable[..., Any], x: np.ndarray[Any, Any], out: str) -> np.ndarray[Any, Any]:
    """f of every element, computed by the python target."""
    A = te.placeholder(x.shape, x.dtype.name, name="A")
    C = te.compute(x.shape, lambda i: f(A[i]), name="C")
    assert C.dtype == out
    made = np.zeros(x.shape, out)
    tvm.build(te.create_schedule(C.op), [A, C], target="python")(x, made)
    return made


@pytest.mark.parametrize(
    ("f", "means"),
    [
        (te.exp, np.exp),
        (te.exp2, np.exp2),
        (te.sin, np.sin),
        (te.cos, np.cos),
        (te.tan, np.tan),
        (te.atan, np.arctan),
        (te.sinh, np.sinh),
        (te.cosh, np.cosh),
        (te.tanh, np.tanh),
        (te.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        (te.erf, erf),
        (te.floor, np.floor),
        (te.ceil, np.ceil),
        (te.trunc, np.trunc),
        (te.round, np.round),
        (te.abs, np.abs),
        (lambda x: te.asin(x * 0.125), lambda x: np.arcsin(x * np.float32(0.125))),
        (lambda x: te.acos(x * 0.125), lambda x: np.arccos(x * np.float32(0.125))),
        (lambda x: te.atan2(x, -0.75), lambda x: np.arctan2(x, np.float32(-0.75))),
        (lambda x: te.hypot(x, -0.75), lambda x: np.hypot(x, np.float32(-0.75))),
        (lambda x: te.copysign(2.0, x), lambda x: np.copysign(np.float32(2), x)),
        (lambda x: te.fmod(x, 1.25), lambda x: np.fmod(x, np.float32(1.25))),
    ],
)
def test_a_function_is_that_of_numpy(f: Callable[..., Any], means: Callable[..., Any]) -> None:
    np.testing.assert_allclose(result(f, FLOATS, "float32"), means(FLOATS), rtol=1e-5)


@pytest.mark.parametrize(
    ("f", "means"),
    [
        (te.log, np.log),
        (te.log2, np.log2),
        (te.log10, np.log10),
        (te.log1p, np.log1p),
        (te.sqrt, np.sqrt),
        (te.rsqrt, lambda x: 1 / np.sqrt(x)),
        (lambda x: te.power(x, 1.5), lambda x: x**1.5),
    ],
)
def test_a_function_of_positive_numbers_is_that_of_numpy(
    f: Callable[..., Any], means: Callable[..., Any]
) -> None:
    np.testing.assert_allclose(result(f, POSITIVE, "float32"), means(POSITIVE), rtol=1e-5)


@pytest.mark.parametrize(
    ("f", "means"), [(te.isnan, np.isnan), (te.isinf, np.isinf), (te.isfinite, np.isfinite)]
)
def test_a_test_gives_a_bool(f: Callable[..., Any], means: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(result(f, ODD, "bool"), means(ODD))


@pytest.mark.parametrize(
    ("f", "means"),
    [
        (lambda x: te.floordiv(x, 3), lambda x: x // 3),
        (lambda x: te.floormod(x, 3), lambda x: x % 3),
        (lambda x: te.truncdiv(x, 3), lambda x: np.trunc(x / 3)),
        (lambda x: te.truncmod(x, 3), lambda x: np.fmod(x, 3)),
        (te.abs, np.abs),
    ],
    ids=["floordiv", "floormod", "truncdiv", "truncmod", "abs"],
)
def test_a_function_of_integers_is_exact(f: Callable[..., Any], means: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(result(f, INTEGERS, "int32"), means(INTEGERS))


@pytest.mark.parametrize("target", ["llvm", "numba", "python"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint8"])
def test_clz_counts_leading_zeros(dtype: str, target: str) -> None:
    x = np.array([0, 1, 2, 3, 64, 100, 127, 5], dtype)
    bits = x.itemsize * 8
    A = te.placeholder((8,), dtype, name="A")
    C = te.compute((8,), lambda i: te.clz(A[i]), name="C")
    s = te.create_schedule(C.op)
    if target == "llvm":
        s[C].vectorize(C.op.axis[0])
    made = np.zeros(8, "int32")
    tvm.build(s, [A, C], target=target)(x, made)
    assert made.tolist() == [bits - int(n).bit_length() for n in x]
    np.testing.assert_array_equal(tensor.evaluate([C], {A: x})[0], made)


def test_clz_of_a_float_is_refused() -> None:
    A = te.placeholder((8,), name="A")
    with pytest.raises(ExprError, match="clz of float32: it takes integers"):
        te.clz(A[0])


def test_division_by_zero_gives_zero() -> None:
    np.testing.assert_array_equal(result(lambda x: te.floordiv(x, x - x), INTEGERS, "int32"), 0)


def test_a_float_function_of_integers_is_refused() -> None:
    A = te.placeholder((8,), "int32", name="A")
    with pytest.raises(ExprError, match="sqrt of int32: it takes floats"):
        te.sqrt(A[0])


@pytest.mark.parametrize(
    "name", ["all", "any", "if_then_else", "exp", "abs", "truncdiv", "indexmod"]
)
def test_tir_has_the_functions_of_te_under_their_names(name: str) -> None:
    assert getattr(tir, name) is getattr(te, name)


def test_tir_has_the_larger_and_the_smaller_of_two_values() -> None:
    assert text(tir.max(tir.min(te.var("n"), 4), 0)) == text(te.max(te.min(te.var("n"), 4), 0))


@pytest.mark.parametrize("op", ["//", "%"])
def test_the_division_of_indices_refuses_data(op: str) -> None:
    A = te.placeholder((8,), "int32", name="A")
    divide = tir.floordiv if op == "//" else tir.floormod
    with pytest.raises(ExprError, match=f"{op} of a int32: it takes indices\n  try: x {op} y"):
        te.compute((8,), lambda i: divide(A[i], 3))
