"""float16 and bfloat16: stored in two bytes, each operation rounded as numpy does it."""

import sys
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import minitvm as tvm
from minitvm import te
from minitvm.base import BuildError, ExprError, dtype, host
from minitvm.tensor import evaluate
from minitvm.tir import interpret

from .conftest import CONVERTS_FLOAT16

pytest.importorskip("ml_dtypes")  # importing it tells numpy the name "bfloat16"
HALF = "float16"
HALVES = {HALF: 2.0**-10, "bfloat16": 2.0**-7}  # the distance of 1 to the next number
TARGETS = ("python", "llvm")
N = 35  # two vectors of 16, and a rest

pytestmark = pytest.mark.skipif(
    not CONVERTS_FLOAT16 & host().features,
    reason="this CPU has no instruction that converts float16",
)


Run = Callable[..., list[np.ndarray]]


def everywhere(formula: Callable[..., Any], *inputs: np.ndarray) -> list[np.ndarray]:
    """formula(x, y, ...) of each element: by the evaluator, the interpreter, and each target."""
    return built(formula, *((a.shape, str(a.dtype)) for a in inputs))(*inputs)


def built(formula: Callable[..., Any], *kinds: tuple[tuple[int, ...], str]) -> Run:
    """The programs for inputs of these shapes and types."""
    tensors = [te.placeholder(shape, kind, f"X{n}") for n, (shape, kind) in enumerate(kinds)]
    C = te.compute(kinds[0][0], lambda i: formula(*(t[i] for t in tensors)), name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].vectorize(inner)
    args = [*tensors, C]
    lowered = tvm.lower(s, args)
    programs = [partial(interpret, lowered, flat=True)]
    programs += [tvm.build(s, args, target) for target in TARGETS]

    def run(*inputs: np.ndarray) -> list[np.ndarray]:
        outs = [np.zeros(kinds[0][0], C.dtype) for _ in programs]
        for program, out in zip(programs, outs, strict=True):
            program(*inputs, out)
        return [*evaluate([C], dict(zip(tensors, inputs, strict=True))), *outs]

    return run


def numbers(kind: str, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(N) * 8).astype(kind)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a * b + 2.5": lambda a, b: a * b + 2.5,
    "min": te.min,
    "max": te.max,
    "a < b": lambda a, b: te.if_then_else(a < b, a, b * 0.1),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_rounded_to_its_type(name: str, half: str) -> None:
    want, *others = everywhere(OPERATIONS[name], numbers(half, 1), numbers(half, 2))
    assert want.dtype == half
    for got in others:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_it_is_converted_to_other_types_and_back(kind: str, half: str) -> None:
    want, *others = everywhere(lambda a: a.astype(kind), numbers(half))
    for got in others:
        np.testing.assert_array_equal(got, want)
    back = numbers("int8").astype(kind) if kind != "float64" else numbers(kind)
    for got in everywhere(lambda a: a.astype(half), back):
        np.testing.assert_array_equal(got, back.astype(half))


@cache
def narrowing(wide: str, half: str) -> Run:
    return built(lambda a: a.astype(half), ((N,), wide))


@given(arrays.arrays("float64", N, elements=st.floats(width=64)))
def test_float64_is_rounded_once_to_float16(x: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        want = x.astype(HALF)
    for got in narrowing("float64", HALF)(x):
        np.testing.assert_array_equal(got, want)


def test_a_tie_is_seen_in_all_the_bits_of_a_float64() -> None:
    tie = 1 + 2.0**-11  # halfway between two numbers of float16
    x = np.resize([tie, tie + 2.0**-50, tie - 2.0**-50, -tie - 2.0**-50, 65519.9999999, 65520.0], N)
    for got in everywhere(lambda a: a.astype(HALF), x):
        up = 1 + 2.0**-10
        assert got[:6].tolist() == [1.0, up, 1.0, -up, 65504.0, np.inf]


@given(arrays.arrays("uint32", N))
def test_float32_is_rounded_to_bfloat16_to_the_nearest_even(bits: np.ndarray) -> None:
    x = bits.view("float32")
    with np.errstate(all="ignore"):
        want = x.astype("bfloat16").astype("float32")
        for got in narrowing("float32", "bfloat16")(x):
            np.testing.assert_array_equal(got.astype("float32"), want)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "sigmoid", "sin", "erf", "round"])
def test_functions_agree_to_the_rounding_of_the_type(name: str, half: str) -> None:
    inputs, limit = numbers(half), 2 * HALVES[half]
    want, *others = everywhere(lambda a: getattr(te, name)(te.abs(a)), inputs)
    for got in others:
        wide = (x.astype("float32") for x in (got, want))
        np.testing.assert_allclose(*wide, rtol=limit, atol=limit)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_is_exact_in_float32_where_the_formula_says_so(target: str, half: str) -> None:
    A, k = te.placeholder((4, 4096), half, "A"), te.reduce_axis((0, 4096), name="k")
    wide = te.compute((4,), lambda i: te.sum(A[i, k].astype("float32"), axis=k), name="wide")
    got = np.zeros(4, "float32")
    tvm.build(te.create_schedule(wide.op), [A, wide], target)(np.ones((4, 4096), half), got)
    assert got.tolist() == [4096.0] * 4
    narrow = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="narrow")
    sums = np.zeros(4, half)
    tvm.build(te.create_schedule(narrow.op), [A, narrow], target)(np.ones((4, 4096), half), sums)
    assert sums.tolist() == [2 / HALVES[half]] * 4  # a number that 1 is too small to change


@pytest.mark.parametrize("half", HALVES)
def test_numba_says_that_it_has_neither(half: str) -> None:
    A = te.placeholder((8,), half, "A")
    C = te.compute((8,), lambda i: A[i] * 2.0, name="C")
    with pytest.raises(BuildError, match=f"main with {half}: numba does not support {half} on CPU"):
        tvm.build(te.create_schedule(C.op), [A, C], "numba")


@pytest.mark.skipif("f16c" not in host().features, reason="about x86")
def test_a_cpu_that_cannot_convert_is_refused() -> None:
    A = te.placeholder((8,), HALF, "A")
    C = te.compute((8,), lambda i: A[i] * 2.0, name="C")
    with pytest.raises(BuildError, match="no instruction that converts between float16 and float"):
        tvm.build(te.create_schedule(C.op), [A, C], "llvm -mcpu=x86-64")


def test_without_ml_dtypes_there_is_no_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    module = import_module("minitvm.base.dtype")
    monkeypatch.setattr(module, "_bfloat16", module._bfloat16.__wrapped__)
    with pytest.raises(ExprError) as caught:
        dtype("bfloat16")
    assert str(caught.value) == (
        "dtype 'bfloat16': the package ml_dtypes cannot be imported: import of ml_dtypes halted; "
        "None in sys.modules\n  try: pip install ml_dtypes; or float16"
    )
