"""Every operator, conversion and intrinsic against numpy: scalar code, vector code, Python."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, DType
from minitvm.tir import (
    INTRINSICS,
    Binary,
    Buffer,
    Cast,
    Expr,
    For,
    PrimFunc,
    Store,
    Var,
    all_of,
    any_of,
    cast_to,
    compare,
    const,
    if_then_else,
    intrinsic,
    lane,
    load,
    negate,
    select,
)

from .conftest import run_llvm, run_python

LANES = 8
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
FLOATS = [FLOAT32, FLOAT64]
Formula = Callable[..., Expr]


def scalar_loop(formula: Formula, to: DType, *inputs: np.ndarray[Any, Any]) -> PrimFunc:
    """for i in range(n): C[i] = formula(A[i], B[i], ...)."""
    n = len(inputs[0])
    return _program(formula, to, Var("i", 0, n - 1), n, lambda i: i, inputs)


def vector_loop(formula: Formula, to: DType, *inputs: np.ndarray[Any, Any]) -> PrimFunc:
    """The same, eight elements at a time."""
    n = len(inputs[0]) // LANES
    i = Var("i", 0, n - 1)
    return _program(formula, to, i, n, lambda i: i * LANES + lane(LANES), inputs)


def _program(
    formula: Formula, to: DType, i: Var, n: int, at: Callable[[Var], Any], inputs: tuple[Any, ...]
) -> PrimFunc:
    size = (len(inputs[0]),)
    buffers = [Buffer(f"A{k}", size, DTYPES[x.dtype.name]) for k, x in enumerate(inputs)]
    C = Buffer("C", size, to)
    value = formula(*(load(b, at(i)) for b in buffers))
    return PrimFunc("main", (*buffers, C), For(i, n, Store(C, (at(i),), value)), (C,))


WAYS = [(run_llvm, scalar_loop), (run_llvm, vector_loop), (run_python, scalar_loop)]


@pytest.fixture(params=WAYS, ids=["scalar", "vector", "python"])
def evaluate(request: pytest.FixtureRequest) -> Callable[..., np.ndarray[Any, Any]]:
    """evaluate(formula, dtype, *inputs): the formula over arrays."""
    way, program = request.param

    def over(formula: Formula, to: DType, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        result = np.zeros(len(inputs[0]), to.numpy)
        assert way(program(formula, to, *inputs), *inputs, result) == 0
        return result

    return over


def corners(dtype: DType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All pairs of the numbers where integer arithmetic goes wrong; a multiple of eight pairs."""
    if dtype.kind == "int":
        numbers = [dtype.low, dtype.low + 1, -7, -2, -1, 0, 1, 2, 5, 6, dtype.high - 1, dtype.high]
    else:
        numbers = [0, 1, 2, 5, 7, 8, 31, 100, 127, 128, 254, 255]
    a, b = np.meshgrid(np.array(numbers, dtype.numpy), np.array(numbers, dtype.numpy))
    return a.reshape(-1), b.reshape(-1)


def trunc_div(a: Any, b: Any) -> Any:
    """a / b rounded to zero, with x / 0 = 0."""
    return a // b + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


ON_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "floordiv": np.floor_divide, "floormod": np.mod, "truncdiv": trunc_div, "truncmod": np.fmod,
    "min": np.minimum, "max": np.maximum,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
ON_FLOATS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "min": np.minimum, "max": np.maximum, "pow": np.power,
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ON_INTEGERS)
def test_integer_operators_wrap_and_never_trap(evaluate: Any, op: Any, dtype: DType) -> None:
    a, b = corners(dtype)
    with np.errstate(all="ignore"):
        expected = ON_INTEGERS[op](a, b)
    got = evaluate(lambda x, y: Binary(op, x, y, dtype), dtype, a, b)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("divisor", [1, 2, 7, 8, -1, -2, -7])
@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
def test_division_by_a_constant_equals_general_division(
    evaluate: Any, op: Any, divisor: int
) -> None:
    a, _ = corners(INT32)
    with np.errstate(all="ignore"):
        expected = ON_INTEGERS[op](a, np.int32(divisor))
    got = evaluate(lambda x: Binary(op, x, const(divisor, INT32), INT32), INT32, a)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ON_FLOATS)
def test_float_operators_round_in_their_own_type(evaluate: Any, op: Any, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.1, 4, (2, 64)).astype(dtype.numpy)
    got = evaluate(lambda x, y: Binary(op, x, y, dtype), dtype, a, b)
    tolerance = 4 * np.finfo(dtype.numpy).eps if op == "pow" else 0
    np.testing.assert_allclose(got, ON_FLOATS[op](a, b), rtol=tolerance)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons_follow_the_sign_of_their_type(evaluate: Any, op: Any, dtype: DType) -> None:
    a, b = corners(INT32 if dtype.is_float else dtype)
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    meaning = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
               "==": np.equal, "!=": np.not_equal}  # fmt: skip
    got = evaluate(lambda x, y: compare(op, x, y), BOOL, a, b)
    np.testing.assert_array_equal(got, meaning[op](a, b))


def test_nan_differs_from_everything(evaluate: Any) -> None:
    a = np.array([np.nan, 1, np.inf, np.nan] * 2, np.float32)
    np.testing.assert_array_equal(evaluate(lambda x, y: x != y, BOOL, a, a), np.isnan(a))
    np.testing.assert_array_equal(evaluate(lambda x: x < 2.0, BOOL, a), a < 2)


@pytest.mark.parametrize("to", DTYPES.values(), ids=str)
@pytest.mark.parametrize("dtype", [BOOL, *INTEGERS], ids=str)
def test_integers_convert_by_wrapping(evaluate: Any, dtype: DType, to: DType) -> None:
    a = np.arange(8) % 3 == 0 if dtype is BOOL else corners(dtype)[0]
    with np.errstate(over="ignore"):  # int64 has numbers that float16 has not
        expected = a.astype(to.numpy)
    np.testing.assert_array_equal(evaluate(lambda x: Cast(x, to), to, a), expected)


@pytest.mark.parametrize("to", INTEGERS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_convert_by_truncating_and_saturate(evaluate: Any, dtype: DType, to: DType) -> None:
    a = np.array([0, 0.5, -0.9, 1.9, 100.7, np.nan, np.inf, -np.inf], dtype.numpy)
    expected = [0, 0, 0, 1, 100, 0, to.high, to.low]
    got = evaluate(lambda x: Cast(x, to), to, a)
    assert [int(v) for v in got] == expected


def test_every_float_but_zero_is_true(evaluate: Any) -> None:
    a = np.array([0, -0.0, 0.5, -0.9, np.nan, np.inf, -np.inf, 1e-45], np.float32)
    np.testing.assert_array_equal(evaluate(lambda x: Cast(x, BOOL), BOOL, a), a.astype(bool))


def test_floats_widen_exactly_and_narrow_by_rounding(evaluate: Any) -> None:
    a = np.array([0.1, 1e-40, 3e38, 1 / 3] * 2)
    got = evaluate(lambda x: Cast(x, FLOAT32), FLOAT32, a)
    np.testing.assert_array_equal(got, a.astype(np.float32))
    b = a.astype(np.float32)
    np.testing.assert_array_equal(evaluate(lambda x: Cast(x, FLOAT64), FLOAT64, b), b)


def test_float32_arithmetic_with_literals_stays_float32(evaluate: Any) -> None:
    a = np.linspace(0, 1, 8, dtype=np.float32)
    got = evaluate(lambda x: (x + 0.1) / 3.0, FLOAT32, a)
    np.testing.assert_array_equal(got, (a + np.float32(0.1)) / np.float32(3))


def test_conditions_combine(evaluate: Any) -> None:
    a, b = corners(INT32)
    got = evaluate(lambda x, y: any_of(all_of(x > 1, y < 5), negate(x < y)), BOOL, a, b)
    np.testing.assert_array_equal(got, ((a > 1) & (b < 5)) | ~(a < b))


@pytest.mark.parametrize("choose", [select, if_then_else])
def test_choices_pick_an_arm_for_every_element(evaluate: Any, choose: Any) -> None:
    a, b = corners(INT32)
    got = evaluate(lambda x, y: choose(x < y, x, y + 1), INT32, a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.where(a < b, a, b + np.int32(1)))


def test_an_arm_with_a_function_call_is_lazy_but_equal(evaluate: Any) -> None:
    a = np.linspace(-2, 2, 8, dtype=np.float32)
    got = evaluate(lambda x: if_then_else(x > 0.0, intrinsic("sqrt", x), x), FLOAT32, a)
    np.testing.assert_array_equal(got, np.where(a > 0, np.sqrt(abs(a)), a))


DOMAINS = {
    "log": (0.1, 9), "log2": (0.1, 9), "log10": (0.1, 9), "log1p": (-0.9, 9), "sqrt": (0, 9),
    "rsqrt": (0.1, 9), "asin": (-1, 1), "acos": (-1, 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [n for n, k in INTRINSICS.items() if not (k.gives or k.takes)])
def test_intrinsics_agree_with_numpy(evaluate: Any, name: str, dtype: DType) -> None:
    low, high = DOMAINS.get(name, (-4, 4))
    known = INTRINSICS[name]
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(low, high, 64).astype(dtype.numpy) for _ in range(known.args)]
    got = evaluate(lambda *x: intrinsic(name, *x), dtype, *inputs)
    tolerance = 16 * np.finfo(dtype.numpy).eps
    np.testing.assert_allclose(got, known.meaning(*inputs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [n for n, known in INTRINSICS.items() if known.gives is BOOL])
def test_float_classes_are_recognised(evaluate: Any, name: str, dtype: DType) -> None:
    a = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, -np.nan, 1e-45], dtype.numpy)
    got = evaluate(lambda x: intrinsic(name, x), BOOL, a)
    np.testing.assert_array_equal(got, INTRINSICS[name].meaning(a))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_abs_of_integers_wraps_at_the_lowest(evaluate: Any, dtype: DType) -> None:
    a, _ = corners(dtype)
    got = evaluate(lambda x: intrinsic("abs", x), dtype, a)
    np.testing.assert_array_equal(got, np.abs(a))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_leading_zeros_are_counted_in_every_integer_type(evaluate: Any, dtype: DType) -> None:
    powers = [1 << n for n in range(dtype.bits - 1)]
    numbers = [0, *powers, *(p - 1 for p in powers), dtype.low, dtype.high, 5, 6, 7]
    a = np.array([*numbers, *[9] * (-len(numbers) % LANES)], dtype.numpy)
    mask = (1 << dtype.bits) - 1
    expected = [dtype.bits - (int(x) & mask).bit_length() for x in a]
    got = evaluate(lambda x: intrinsic("clz", x), INT32, a)
    assert got.tolist() == expected


@pytest.mark.parametrize("number", [0.1, -0.0, 1e-45, 3.4e38, math.inf, -math.inf, math.nan])
def test_float_literals_are_exact(evaluate: Any, number: float) -> None:
    a = np.zeros(8, np.float32)
    got = evaluate(lambda _: const(number, FLOAT32), FLOAT32, a)
    expected = np.full(8, number, np.float32)
    assert got.tobytes() == expected.tobytes()


def test_an_index_counts_as_int32_and_converts_to_floats(evaluate: Any) -> None:
    a = np.zeros(16, np.float32)

    def formula(x: Any) -> Expr:
        return x + cast_to(x.indices[0] * 3 - 1, FLOAT32)

    np.testing.assert_array_equal(evaluate(formula, FLOAT32, a), np.arange(16) * 3 - 1)


def test_a_large_index_wraps_when_it_becomes_a_narrow_value(evaluate: Any) -> None:
    a = np.zeros(16, np.int8)
    got = evaluate(lambda x: x + cast_to(x.indices[0] * 100, "int8"), DTYPES["int8"], a)
    np.testing.assert_array_equal(got, (np.arange(16) * 100).astype(np.int8))
