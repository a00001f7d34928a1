"""Elementary functions as machine code: how many ulps they are off, and what is special.

One ulp is the distance between two floats where the exact result is. References are numpy's in
long double; where that is no wider than float64, they may be off by an ulp themselves.
"""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm.base import FLOAT32, FLOAT64, DType
from minitvm.codegen import emit_llvm
from minitvm.tir import (
    Binary,
    Buffer,
    Expr,
    For,
    PrimFunc,
    Store,
    Var,
    const,
    intrinsic,
    lane,
    load,
)

from .conftest import call

ROOT = Path(__file__).parents[2]
Array = np.ndarray[Any, Any]
Formula = Callable[..., Expr]
Long = np.longdouble
WIDE = np.finfo(Long).nmant > np.finfo(np.float64).nmant
FLOATS = [FLOAT32, FLOAT64]
LANES = [1, 4, 8, 16]


def _sigmoid(x: Array) -> Array:
    e = np.exp(-abs(x))
    return np.where(x > 0, 1, e) / (1 + e)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[float])(x).astype(x.dtype)


EXACT: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sigmoid": _sigmoid, "erf": _erf,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan,
    "asin": np.arcsin, "acos": np.arccos, "log1p": np.log1p,
}  # fmt: skip
ULPS = {  # all others: 2
    "log10": 3, "tan": 3.5, "tanh": 3, "sigmoid": 2.5, "atan": 3, "asin": 4.5, "acos": 4.5,
    "log1p": 4,
}  # fmt: skip


def program(formula: Formula, dtype: DType, lanes: int, size: int, inputs: int) -> PrimFunc:
    """C[i] = formula(A0[i], A1[i], ...), `lanes` elements at a time."""
    buffers = [Buffer(f"A{k}", (size,), dtype) for k in range(inputs)]
    C, i = Buffer("C", (size,), dtype), Var("i", 0, size // lanes - 1)
    at = i * lanes + lane(lanes) if lanes > 1 else i
    body = For(i, size // lanes, Store(C, (at,), formula(*(load(b, at) for b in buffers))))
    return PrimFunc("main", (*buffers, C), body, (C,))


def evaluate(formula: Formula, dtype: DType, *inputs: Array, lanes: int = 8) -> Array:
    """The formula over arrays of any length, padded with ones to whole vectors."""
    size = -(-len(inputs[0]) // lanes) * lanes
    arrays = [np.pad(x, (0, size - len(x)), constant_values=1) for x in inputs]
    result = np.zeros(size, dtype.numpy)
    text = emit_llvm(program(formula, dtype, lanes, size, len(inputs)), vector_bytes=64)
    assert call(text, "main", (*arrays, result)) == 0
    return result[: len(inputs[0])]


def power(x: Any, y: Any) -> Expr:
    return Binary("pow", x, y, x.dtype)


def worst(got: Array, exact: Array) -> float:
    """The largest error in ulps; infinite if inf or nan is not where it should be."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        ulp = np.spacing(np.minimum(abs(rounded), np.finfo(got.dtype).max)).astype(Long)
        error = abs(got.astype(Long) - exact) / ulp
    finite = np.isfinite(rounded) & np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return float(np.where(finite, error, np.where(same, 0, np.inf)).max())


def same_bits(got: Array, expected: Array) -> None:
    """Equal, down to the sign of zeros; one nan is as good as another."""
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def limits(dtype: DType) -> list[float]:
    """Numbers at the ends of the type and of the functions' ranges."""
    f = np.finfo(dtype.numpy)
    top, least = math.log(f.max), math.log(float(f.smallest_subnormal))
    ends = [
        f.max,
        f.tiny,
        f.smallest_subnormal,
        f.tiny / 2,
        top,
        least,
        top + 0.5,
        math.log(f.tiny),
    ]
    near = [1.0, 2.0, 0.5, math.sqrt(0.5), math.sqrt(2), math.pi, 10.0, 1000.0, f.eps, 1 - f.eps]
    turns = [float(n) * math.pi / 2 for n in (1, 2, 3, 4, 1000, 999_999)]
    return [float(v) for v in (*ends, *near, *turns)]


@cache
def sample(dtype: DType) -> Array:
    """Numbers of every size: all exponents alike, and many where functions change."""
    rng = np.random.default_rng(0)
    kind = np.uint32 if dtype is FLOAT32 else np.uint64
    patterns = rng.integers(0, np.iinfo(kind).max, 6000, kind).view(dtype.numpy)
    top = math.log(float(np.finfo(dtype.numpy).max))
    parts = [rng.uniform(-r, r, 6000) for r in (1, 4, 30, 1.05 * top)]
    some = np.concatenate([limits(dtype), 1 + rng.normal(0, 1e-3, 3000), *parts])
    both = np.concatenate([some, -some]).astype(dtype.numpy)
    return np.concatenate([patterns[np.isfinite(patterns)], both])


@cache
def exact(name: str, dtype: DType) -> Array:
    """The function over sample(dtype) in long double."""
    with np.errstate(all="ignore"):
        return EXACT[name](sample(dtype).astype(Long))


# --- accuracy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_results_are_a_few_ulps_off_at_most(name: str, dtype: DType) -> None:
    got = evaluate(partial(intrinsic, name), dtype, sample(dtype))
    slack = 0 if dtype is FLOAT32 or (WIDE and name != "erf") else 1
    assert worst(got, exact(name, dtype)) <= ULPS.get(name, 2) + slack


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_vectors_of_any_width_agree(name: str, dtype: DType) -> None:
    x = sample(dtype)[::40]
    results = [evaluate(partial(intrinsic, name), dtype, x, lanes=n) for n in LANES]
    for other in results[1:]:
        same_bits(other, results[0])


def test_nothing_depends_on_a_fused_multiply_add() -> None:
    """Every llvm.fmuladd is replaced by a multiplication and an addition, rounded twice."""
    twice = r"""define internal \1 @two_roundings.\2(\1 %a, \1 %b, \1 %c) {
  %product = fmul \1 %a, %b
  %sum = fadd \1 %product, %c
  ret \1 %sum
}"""
    for dtype in FLOATS:
        x = sample(dtype)
        for name in EXACT:
            f = program(partial(intrinsic, name), dtype, 1, len(x), 1)
            text = re.sub(r"declare (\w+) @llvm.fmuladd.(\w+).*", twice, emit_llvm(f))
            text = text.replace("llvm.fmuladd", "two_roundings")
            got = np.zeros_like(x)
            call(text, "main", (x, got))
            slack = 0 if dtype is FLOAT32 or (WIDE and name != "erf") else 1
            assert worst(got, exact(name, dtype)) <= ULPS.get(name, 2) + slack, name


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("lanes", LANES)
def test_powers_are_within_two_ulps(dtype: DType, lanes: int) -> None:
    rng = np.random.default_rng(0)
    top = math.log2(float(np.finfo(dtype.numpy).max))
    x = np.exp(rng.uniform(-5, 5, 8000)).astype(dtype.numpy)
    y = rng.uniform(-1, 1, 8000) * top / np.log2(abs(x))  # the result is a number of any size
    x[::4] *= -1
    y[::2] = np.round(y[::2])
    y = y.astype(dtype.numpy)
    with np.errstate(all="ignore"):
        reference = np.power(x.astype(Long), y.astype(Long))
    slack = 0 if WIDE or dtype is FLOAT32 else 1
    assert worst(evaluate(power, dtype, x, y, lanes=lanes), reference) <= 2 + slack


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["atan2", "hypot", "copysign"])
@pytest.mark.parametrize("lanes", LANES)
def test_functions_of_two_numbers_are_a_few_ulps_off_at_most(
    name: str, dtype: DType, lanes: int
) -> None:
    x = sample(dtype)[::4]
    y = np.random.default_rng(1).permutation(x)
    y[::3] = x[::3] * y.dtype.type(-0.75)
    f = {"atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign}[name]
    with np.errstate(all="ignore"):
        reference = f(x.astype(Long), y.astype(Long))
    slack = 0 if WIDE or dtype is FLOAT32 else 1
    assert (
        worst(evaluate(partial(intrinsic, name), dtype, x, y, lanes=lanes), reference) <= 4 + slack
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["atan2", "hypot", "copysign"])
def test_functions_of_two_special_numbers_give_what_numpy_gives(name: str, dtype: DType) -> None:
    numbers = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], dtype.numpy)
    x, y = (v.reshape(-1) for v in np.meshgrid(numbers, numbers))
    f = {"atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign}[name]
    expected = f(x.astype(np.float64), y.astype(np.float64)).astype(dtype.numpy)
    got = evaluate(partial(intrinsic, name), dtype, x, y)
    special = ~np.isfinite(expected) | (expected == 0)
    same_bits(got[special], expected[special])
    np.testing.assert_allclose(got, expected, rtol=np.finfo(dtype.numpy).eps)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_two_and_ten_are_exact(dtype: DType) -> None:
    exponents = range(-149, 128)  # from the smallest denormal float32 to the largest power
    n = np.array(exponents, dtype.numpy)
    two = np.array([2.0**k for k in exponents], dtype.numpy)
    np.testing.assert_array_equal(evaluate(partial(intrinsic, "exp2"), dtype, n), two)
    np.testing.assert_array_equal(evaluate(partial(intrinsic, "log2"), dtype, two), n)
    ten = np.array([10.0**k for k in range(11)], dtype.numpy)  # 10^11 is no float32
    np.testing.assert_array_equal(evaluate(partial(intrinsic, "log10"), dtype, ten), range(11))


# --- special values ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_zeros_infinities_and_nan_give_what_numpy_gives(name: str, dtype: DType) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype.numpy)
    with np.errstate(all="ignore"):
        expected = EXACT[name](x.astype(np.float64)).astype(dtype.numpy)
    same_bits(evaluate(partial(intrinsic, name), dtype, x), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_negative_numbers_have_no_logarithm(name: str, dtype: DType) -> None:
    x = np.array([-1, -1e-45, -1e30, -(2.0**-149)], dtype.numpy)
    assert np.isnan(evaluate(partial(intrinsic, name), dtype, x)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_special_numbers_are_those_of_c(dtype: DType) -> None:
    numbers = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e-30, 1e30, 2.0**24 + 1, np.inf]
    x, y = np.meshgrid([*numbers, *(-v for v in numbers), np.nan], np.array(numbers * 2 + [np.nan]))
    y[len(numbers) :] *= -1
    x, y = (v.reshape(-1).astype(dtype.numpy) for v in (x, y))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(Long), y.astype(Long)).astype(dtype.numpy)
    got = evaluate(power, dtype, x, y)
    special = ~np.isfinite(expected) | (expected == 0) | (abs(expected) == 1)
    same_bits(got[special], expected[special])
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(dtype.numpy).eps)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("lanes", LANES)
def test_huge_angles_are_right_and_do_not_disturb_others(
    name: str, dtype: DType, lanes: int
) -> None:
    x = np.tile(np.array([1.0, 1e7, -0.5, 1e30, 3.0, -4e6, np.inf, 2e22], dtype.numpy), 4)
    x[16:] = 0.75
    with np.errstate(all="ignore"):
        reference = EXACT[name](x.astype(Long))
    slack = 0 if WIDE or dtype is FLOAT32 else 1
    got = evaluate(partial(intrinsic, name), dtype, x, lanes=lanes)
    assert worst(got, reference) <= ULPS.get(name, 2) + slack


# --- what is emitted -----------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 16])
def test_no_function_is_called_but_instructions(lanes: int) -> None:
    instructions = r"@llvm\.(fma|fmuladd|fabs|floor|sqrt|vector\.reduce\.or)\."
    for name in EXACT:
        text = emit_llvm(program(partial(intrinsic, name), FLOAT32, lanes, 64, 1))
        declared = [s for s in text.splitlines() if s.startswith("declare")]
        turning = name in ("sin", "cos", "tan")  # huge angles are left to libm
        assert sum(re.search(instructions, s) is None for s in declared) == turning, name


def test_huge_angles_have_one_function_for_all_places() -> None:
    text = emit_llvm(
        program(lambda x: intrinsic("sin", x) + intrinsic("sin", x * 2.0), FLOAT32, 16, 64, 1)
    )
    assert text.count("define internal <16 x float> @sin.distant.v16f32") == 1
    assert text.count("call <16 x float> @sin.distant.v16f32") == 2


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("exponent", [0.0, 1.0, -1.0, 2.0, 3.0, 4.0, 0.5, -0.5])
def test_literal_exponents_are_multiplied_out(exponent: float, dtype: DType) -> None:
    x = np.array([3, 0.1, -7, 0.0, -0.0, np.inf, -np.inf, np.nan], dtype.numpy)
    formula = lambda v: Binary("pow", v, const(exponent, dtype), dtype)  # noqa: E731
    assert "lshr" not in emit_llvm(program(formula, dtype, 8, 8, 1))  # no exponent is taken apart
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(Long), np.full(8, exponent, Long)).astype(dtype.numpy)
    got = evaluate(formula, dtype, x)
    np.testing.assert_allclose(got, expected, rtol=2 * np.finfo(dtype.numpy).eps)
    special = ~np.isfinite(expected) | (expected == 0)
    same_bits(got[special], expected[special])


def test_the_coefficients_are_those_of_the_remez_exchange() -> None:
    script = ROOT / "benchmarks" / "_minimax.py"
    made = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    tables = (ROOT / "minitvm" / "codegen" / "llvm" / "coefficients.py").read_text(encoding="utf-8")
    assert tables.endswith(made.stdout)
