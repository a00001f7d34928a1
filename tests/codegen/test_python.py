"""The Python source of a loop program: how it reads, and that it needs nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import BOOL, FLOAT32, FLOAT64, INT8, INT32, BuildError
from minitvm.codegen import clean, emit_python
from minitvm.tir import (
    NOTHING,
    Allocate,
    Buffer,
    Call,
    Cast,
    Evaluate,
    Expr,
    For,
    If,
    Pragma,
    PrimFunc,
    Store,
    Var,
    all_of,
    any_of,
    binary,
    cast_to,
    const,
    if_then_else,
    index,
    intrinsic,
    lane,
    load,
    negate,
    seq,
)

i, j, n = Var("i", 0, 63), Var("j.inner", 0, 7), Var("n", 0)
A, B, C = (Buffer(name, (64,), FLOAT32) for name in "ABC")
D = Buffer("D", (64,), INT32)


def body(f: PrimFunc) -> str:
    """The lines of a function, without head and indentation."""
    lines = emit_python(f).split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith("def main")) + 1
    return "\n".join(line[4:] for line in lines[start:]).rstrip()


def assigned(value: Expr, to: Buffer = C) -> str:
    """What is assigned in  C[i] = value."""
    return body(PrimFunc("main", (A, B, C), Store(to, (i,), value), (to,))).partition(" = ")[2]


def test_a_whole_program(golden: Callable[[str], None]) -> None:
    t = Buffer("t", (64,), FLOAT32, "local")
    work = seq(
        Store(t, (0,), const(0.0)),
        For(j, 8, Store(t, (0,), load(t, 0) + load(A, i * 8 + j) * 2.0)),
        If(load(t, 0) > 0.0, Store(C, (i,), intrinsic("erf", load(t, 0))), NOTHING),
        Store(C, (i + 8,), cast_to(binary("truncdiv", load(D, i), 3), FLOAT32)),
        Store(D, (i,), cast_to(load(t, 0), INT32)),
    )
    rows = Pragma("note", 1, For(i, 8, Allocate(t, work), "parallel"))
    golden(emit_python(PrimFunc("main", (A, C, D), rows, (C, D))).rstrip("\n"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (load(A, i) * 2.0 - 1.0, "A[i] * 2.0 - 1.0"),
        (load(A, i) - (load(B, i) - 1.0), "A[i] - (B[i] - 1.0)"),
        ((load(A, i) + load(B, i)) * load(A, i), "(A[i] + B[i]) * A[i]"),
        (load(A, i) * -2.0, "A[i] * (-2.0)"),
        (2.0 ** load(A, i), "2.0 ** A[i]"),
        (const(0.5), "0.5"),
        (const(1.0) + const(2.0), "np.float32(1.0) + np.float32(2.0)"),
        (const(float("-inf")), "-np.inf"),
        (load(A, i) + float("nan"), "A[i] + np.nan"),
        (cast_to(i, FLOAT32), "np.float32(i)"),
        (cast_to(load(D, i), FLOAT32), "np.float32(D[i])"),
        (load(A, index(load(D, i)) + 1), "A[int(D[i]) + 1]"),
        (binary("max", load(A, i), 0.0), "max(A[i], np.float32(0.0))"),
        (intrinsic("sigmoid", load(A, i)), "(1 / (1 + np.exp(-(A[i]))))"),
        (if_then_else(i >= 1, load(A, i - 1), 0.0), "A[i - 1] if 1 <= i else np.float32(0.0)"),
        (
            if_then_else(any_of(i >= 8, negate(load(A, i) > 0.0)), load(A, i), 1.0) + 1.0,
            "(A[i] if 8 <= i or not A[i] > 0.0 else np.float32(1.0)) + 1.0",
        ),
    ],
)
def test_values_read_like_formulas(value: Any, text: str) -> None:
    assert assigned(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (load(D, i) // 4 % 3, "D[i] // 4 % 3"),
        ((load(D, i) & 7) | load(D, 0) << 2, "(D[i] & 7) | (D[0] << 2)"),
        (cast_to(load(A, i), INT8), "to_integer(A[i], np.int8)"),
        (cast_to(load(D, i), INT8), "np.int8(D[i])"),
        (cast_to(i, INT8), "np.int8(i)"),
        (cast_to(i * 8, INT8), "np.int8(np.int64(i*8))"),
        (cast_to(all_of(i < 8, load(D, i) > 0), INT32), "np.int32(i < 8 and D[i] > 0)"),
        (Cast(load(A, i), BOOL), "bool(A[i])"),
        (const(2.5, FLOAT64), "2.5"),
    ],
)
def test_other_types_are_named_where_they_matter(value: Any, text: str) -> None:
    assert assigned(value, D) == text


def test_parameters_keep_their_order_and_sizes_come_last() -> None:
    f = PrimFunc("main", (n, A, C), NOTHING, (C,), (n, Var("m")))
    assert "\ndef main(n, A, C, m):\n    pass\n" in emit_python(f)


def test_only_what_is_used_comes_along() -> None:
    text = emit_python(PrimFunc("main", (C,), Store(C, (0,), const(1.0)), (C,)))
    assert "import math" not in text
    assert text.count("def ") == 1


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("i.outer", "i_outer"), ("my tensor", "my_tensor"), ("2nd", "v2nd"), ("", "v"),
        ("lambda", "lambda_"), ("max", "max_"), ("np", "np_"), ("exp", "exp_"), ("expf", "expf_"),
        ("größe", "gr__e"), ("C_local", "C_local"),
        ("x" * 5000, "x" * 200),
    ],
)  # fmt: skip
def test_names_become_identifiers_that_hide_nothing(name: str, word: str) -> None:
    assert clean(name) == word


def test_equal_names_are_numbered() -> None:
    x, y = Buffer("x", (4,), FLOAT32), Buffer("x", (4,), FLOAT32)
    f = PrimFunc("main", (x, y), Store(y, (0,), load(x, 0)), (y,))
    assert body(f) == "x_1[0] = x[0]"


def test_a_program_called_like_a_builtin_still_runs() -> None:
    f = PrimFunc("max", (A, C), Store(C, (0,), binary("max", load(A, 0), 0.0)), (C,))
    space: dict[str, Any] = {}
    exec(emit_python(f), space)
    c = np.ones(64, np.float32)
    space["max_"](np.full(64, -3, np.float32), c)
    assert c[0] == 0


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        (Store(C, (lane(8),), const(1.0)), "a vector of 8 lanes: Python code has no vectors"),
        (For(i, 4, NOTHING, "bind", "blockIdx.x"), "loop 'i' bound to 'blockIdx.x'"),
        (Store(Buffer("M", (4, 4), FLOAT32), (0, 1), const(1.0)), "2 indices on buffer 'M'"),
        (Evaluate(Call("sync", (), INT32)), "sync(...): Python code cannot express it"),
    ],
)
def test_what_python_code_cannot_express_is_refused(stmt: Any, message: str) -> None:
    with pytest.raises(BuildError) as error:
        emit_python(PrimFunc("main", (C,), stmt, (C,)))
    assert message in str(error.value)
