"""Operators on typed values: what converts to what, and what is refused with which words."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
    DType,
    ExprError,
    dtype,
    promote,
)
from minitvm.tir import (
    FALSE,
    TRUE,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    IfThenElse,
    Load,
    Select,
    Var,
    all_of,
    any_of,
    binary,
    cast_to,
    const,
    if_then_else,
    index,
    intrinsic,
    is_index,
    load,
    lower_bound,
    negate,
    select,
    text,
    upper_bound,
    value,
)

i = Var("i", 0, 7)


def element(name: str, type_: DType) -> Load:
    return load(Buffer(name, (8,), type_), i)


a, d = element("A", FLOAT32), element("D", FLOAT64)
k, m, u, h = element("K", INT32), element("M", INT64), element("U", UINT8), element("H", INT8)
b = element("B", BOOL)


# --- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (FLOAT32, FLOAT64, FLOAT64),
        (FLOAT32, INT32, FLOAT32),  # numpy says float64
        (FLOAT32, INT64, FLOAT32),
        (FLOAT64, INT8, FLOAT64),
        (INT8, INT32, INT32),
        (INT32, INT64, INT64),
        (UINT8, INT8, DTYPES["int16"]),
        (UINT8, INT32, INT32),
        (BOOL, FLOAT32, FLOAT32),
        (BOOL, INT8, INT8),
        (BOOL, BOOL, BOOL),
    ],
)
def test_two_types_meet_in_one(one: DType, other: DType, both: DType) -> None:
    assert promote(one, other) is both
    assert promote(other, one) is both


def test_a_dtype_is_found_by_any_of_its_names() -> None:
    assert dtype("float32") is dtype(np.dtype("f4")) is dtype(np.float32) is FLOAT32
    assert FLOAT32 == "float32"


def test_a_copied_dtype_is_the_same_object() -> None:
    assert pickle.loads(pickle.dumps(FLOAT32)) is FLOAT32
    assert copy.deepcopy(INT8) is INT8


def test_an_unknown_dtype_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ExprError, match="'float8': there is no such type\n  try: one of bool, "):
        dtype("float8")


def test_a_dtype_knows_its_range() -> None:
    assert (INT8.low, INT8.high) == (-128, 127)
    assert (UINT8.low, UINT8.high) == (0, 255)
    assert FLOAT32.high == np.inf


# --- operators convert their operands ------------------------------------------------------------


@pytest.mark.parametrize(
    ("e", "written", "type_"),
    [
        (a + 1, "A[i] + 1.0", FLOAT32),
        (2 - a, "2.0 - A[i]", FLOAT32),
        (d + 0.1, "D[i] + float64(0.1)", FLOAT64),
        (k + 1.5, "float32(K[i]) + 1.5", FLOAT32),
        (k + a, "float32(K[i]) + A[i]", FLOAT32),
        (a * d, "float64(A[i]) * D[i]", FLOAT64),
        (u + h, "int16(U[i]) + int16(H[i])", DTYPES["int16"]),
        (u - 1, "U[i] - uint8(1)", UINT8),
        (u + 300, "int32(U[i]) + 300", INT32),
        (m + k, "M[i] + int64(K[i])", INT64),
        (a + True, "A[i] + 1.0", FLOAT32),
        (a + i, "A[i] + float32(i)", FLOAT32),
        (k + i, "K[i] + i", INT32),
        (i + 2.5, "float32(i) + 2.5", FLOAT32),
        (-a, "A[i] * (-1.0)", FLOAT32),
        (-k, "0 - K[i]", INT32),
        (abs(h), "abs(H[i])", INT8),
        (k % 3, "K[i] % 3", INT32),
        (1 << k, "1 << K[i]", INT32),
        (7 & k, "7 & K[i]", INT32),
        (7 ^ k, "7 ^ K[i]", INT32),
        (a < k, "A[i] < float32(K[i])", BOOL),
        (a == 0, "A[i] == 0.0", BOOL),
        (u < -1, "int32(U[i]) < -1", BOOL),
        ((a < 1) & (k > 2), "A[i] < 1.0 and K[i] > 2", BOOL),
        ((a < 1) | b, "A[i] < 1.0 or B[i]", BOOL),
        (~b, "not B[i]", BOOL),
        (a + np.float64(0.5), "A[i] + 0.5", FLOAT32),
        (k + np.float32(1), "float32(K[i]) + 1.0", FLOAT32),
        (a + np.int8(1), "A[i] + 1.0", FLOAT32),
    ],
)
def test_operators_convert_to_the_common_type(e: Expr, written: str, type_: DType) -> None:
    assert text(e) == written
    assert e.dtype is type_


def test_integers_that_are_indices_stay_indices() -> None:
    for e in (i + 1, i * 3, i // 2, i % 2, -i, binary("min", i, 3)):
        assert is_index(e)


def test_and_with_false_is_false_and_or_with_true_is_true() -> None:
    assert all_of() is TRUE
    assert all_of(b, False) is FALSE
    assert all_of(b, True) is b
    assert any_of() is FALSE
    assert any_of(b, True) is TRUE
    assert any_of(b, False) is b


def test_not_undoes_itself() -> None:
    assert negate(negate(b)) is b
    assert negate(True) is FALSE


def test_a_decided_choice_is_the_chosen_arm() -> None:
    assert select(i < 8, a, 0.0) is a
    assert text(if_then_else(i > 8, a, 0)) == "0.0"
    assert isinstance(select(i < 4, a, 0), Select)
    assert isinstance(if_then_else(i < 4, a, 0), IfThenElse)


def test_the_arms_of_a_choice_get_one_type() -> None:
    assert text(select(b, u, 1.5)) == "select(B[i], float32(U[i]), 1.5)"


# --- literals and conversions --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "number", "type_"),
    [
        (const(2), 2, INT32),
        (const(2.0), 2.0, FLOAT32),
        (const(True), True, BOOL),
        (const(1, "bool"), True, BOOL),
        (const(3, "float64"), 3.0, FLOAT64),
        (const(255, "uint8"), 255, UINT8),
        (cast_to(1.7, "int32"), 1, INT32),
        (cast_to(const(3), "float32"), 3.0, FLOAT32),
        (cast_to(const(0.1), "float64"), float(np.float32(0.1)), FLOAT64),
    ],
)
def test_literals_have_an_exact_value_and_type(made: Const, number: float, type_: DType) -> None:
    assert made.value == number
    assert type(made.value) is type(number)
    assert made.dtype is type_


def test_an_index_becomes_a_value_by_a_cast() -> None:
    as_value = value(i)
    assert isinstance(as_value, Cast)
    assert as_value.dtype is INT32
    assert index(as_value) is i


def test_converting_to_the_type_it_has_changes_nothing() -> None:
    assert cast_to(a, "float32") is a


def test_data_as_an_index_is_as_wide_as_its_type() -> None:
    assert (lower_bound(index(u)), upper_bound(index(u))) == (0, 255)
    assert (
        lower_bound(index(if_then_else(b, i, 9))),
        upper_bound(index(if_then_else(b, i, 9))),
    ) == (0, 9)


def test_intrinsics_keep_the_type_and_tests_give_bool() -> None:
    assert intrinsic("exp", a).dtype is FLOAT32
    assert intrinsic("isnan", d).dtype is BOOL
    assert text(intrinsic("fmod", a, 2)) == "fmod(A[i], 2.0)"
    assert isinstance(intrinsic("abs", k), Call)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: i / 2, "/ on integers: it does not say how to round\n  try: //, or cast first"),
        (lambda: k / 2, "div on int32: it is defined on floats"),
        (lambda: k**2, "pow on int32: it is defined on floats"),
        (lambda: a // 2, "floordiv on float32: it is defined on integers"),
        (lambda: a & 1, "bitand on float32"),
        (lambda: b ^ b, "bitxor on bool"),
        (lambda: abs(b), "abs of bool"),
        (lambda: ~k, "not of a int32: it takes conditions"),
        (lambda: select(a, a, a), "select of a float32: it takes conditions"),
        (lambda: a + "x", "str in a formula: only expressions"),
        (lambda: a + np.zeros(3), "a numpy array in a formula: data .* try: A = te.placeholder"),
        (lambda: load(Buffer("A", (8,), FLOAT32), a), "an index of type float32"),
        (lambda: load(Buffer("A", (8,), FLOAT32), 1.0), "an index of type float"),
        (lambda: const(300, "uint8"), "uint8 holds 0 .. 255"),
        (lambda: const(1.5, "int32"), "not an integer\n  try: const(1, int32)"),
        (lambda: intrinsic("expp", a), "expp(...): no such intrinsic\n  try: one of exp, exp2"),
        (lambda: intrinsic("exp", a, a), "exp(...): takes 1 arguments, 2 given"),
        (lambda: intrinsic("exp", k), "exp of int32: it takes floats\n  try: x.astype('float32')"),
    ],
)
def test_what_has_no_meaning_is_refused(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(ExprError) as refused:
        build()
    for part in words.split(" .* "):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda: bool(a),
        lambda: 1 if i == 3 else 0,
        lambda: a and b,
        lambda: not b,
        lambda: 0 < i < 3,
        lambda: i in [k],
    ],
)
def test_python_control_flow_on_an_expression_says_what_to_use_instead(
    use: Callable[[], Any],
) -> None:
    with pytest.raises(ExprError, match=r"no truth value(?s:.)*te\.if_then_else\(cond, a, b\)"):
        use()


def test_refusals_survive_pickling() -> None:
    with pytest.raises(ExprError) as refused:
        const(300, "uint8")
    again = pickle.loads(pickle.dumps(refused.value))
    assert str(again) == str(refused.value)
    assert isinstance(again, TypeError)
