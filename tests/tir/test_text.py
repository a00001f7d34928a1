"""Printing is exact: Python-like, unambiguous, and the same every time."""

import pytest

from minitvm.base import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8
from minitvm.tir import (
    NOTHING,
    Allocate,
    Buffer,
    Call,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    Index,
    Pragma,
    PrimFunc,
    Printer,
    Store,
    Var,
    binary,
    cast_to,
    const,
    floordiv,
    if_then_else,
    lane,
    load,
    minimum,
    seq,
    text,
)

A, B = Buffer("A", (8, 8), FLOAT32), Buffer("B", (64,), FLOAT32)
K, F = Buffer("K", (8,), INT32), Buffer("F", (8,), BOOL)
i, j = Var("i", 0, 7), Var("j", 0, 7)
x, y = Var("x"), Var("y")
a, k, f = load(A, i, j), load(K, i), load(F, i)


@pytest.mark.parametrize(
    ("e", "written"),
    [
        (3, "3"),
        (x * 4 + y - 3, "x*4 + y - 3"),
        (x - y, "x - y"),
        (-y + x, "x - y"),
        (7 - x, "7 - x"),
        (-x - 3, "-x - 3"),
        (-(x // 4), "-(x // 4)"),
        (5 - x % 4, "5 - x % 4"),
        (-(x * y), "-(x*y)"),
        ((x + y) // 4 * 2, "(x + y) // 4*2"),
        (-x // 4, "(-x) // 4"),
        (x * (y // 2), "x*(y // 2)"),
        (floordiv(x, y + 1), "x // max(y + 1, 1)"),
        (minimum(x, y) + 1, "min(x, y) + 1"),
        (x + k, "x + K[i]"),
    ],
)
def test_indices_print_as_python(e: Index, written: str) -> None:
    assert text(e) == written


@pytest.mark.parametrize(
    ("e", "written"),
    [
        (a - (a - a), "A[i, j] - (A[i, j] - A[i, j])"),
        (a - a - a, "A[i, j] - A[i, j] - A[i, j]"),
        ((a + 1) * 2, "(A[i, j] + 1.0) * 2.0"),
        (a / (a * a), "A[i, j] / (A[i, j] * A[i, j])"),
        ((a**2) ** 3, "(A[i, j] ** 2.0) ** 3.0"),
        (a ** (a**3), "A[i, j] ** A[i, j] ** 3.0"),
        ((-1.0) ** a, "(-1.0) ** A[i, j]"),
        (k & 3 | 1, "K[i] & 3 | 1"),
        (k & (k | 1), "K[i] & (K[i] | 1)"),
        (k << 1 + k, "K[i] << 1 + K[i]"),
        ((k & 1) > 0, "K[i] & 1 > 0"),
        ((k | 1) > 0, "(K[i] | 1) > 0"),
        ((a < 1) == f, "(A[i, j] < 1.0) == F[i]"),
        (~(f & (a < 1)), "not (F[i] and A[i, j] < 1.0)"),
        (~f & (a < 1), "not F[i] and A[i, j] < 1.0"),
        (f & ((a < 1) | (k < 1)), "F[i] and (A[i, j] < 1.0 or K[i] < 1)"),
        (binary("truncdiv", k, 2), "truncdiv(K[i], 2)"),
        (if_then_else(f, a, 0) + 1, "(A[i, j] if F[i] else 0.0) + 1.0"),
        (cast_to(k, "float64"), "float64(K[i])"),
        (cast_to(i, "int32"), "i"),
        (cast_to(i, "int64"), "int64(i)"),
    ],
)
def test_values_print_with_the_parentheses_they_need_and_no_others(e: Expr, written: str) -> None:
    assert text(e) == written


@pytest.mark.parametrize(
    ("e", "written"),
    [
        (const(1.5), "1.5"),
        (const(2), "2"),
        (const(True), "True"),
        (Const(1.5, FLOAT64), "float64(1.5)"),
        (Const(3, UINT8), "uint8(3)"),
        (Const(-3, INT64), "int64(-3)"),
    ],
)
def test_literals_show_every_type_but_the_usual_ones(e: Const, written: str) -> None:
    assert text(e) == written


@pytest.mark.parametrize(
    ("at", "written"),
    [
        (x + lane(8), "B[x : x + 8]"),
        (lane(8), "B[0 : 8]"),
        (x + lane(8) * 2, "B[x : x + 16 : 2]"),
        (x - lane(8), "B[x - lane(8)]"),
        ((x + lane(8)) // 3, "B[(x + lane(8)) // 3]"),
    ],
)
def test_consecutive_lanes_print_as_a_slice(at: Index, written: str) -> None:
    assert text(load(B, at)) == written


def test_an_element_of_a_scalar_buffer_has_an_empty_subscript() -> None:
    assert text(load(Buffer("s", (), FLOAT32))) == "s[()]"


def test_things_with_one_name_are_told_apart() -> None:
    assert text(Var("i") + Var("i") * 2) == "i + i_1*2"


def test_dots_in_names_become_underscores() -> None:
    assert text(Var("i.outer")) == "i_outer"


def test_statements_print_one_a_line() -> None:
    tile = Buffer("T", (4, 8), FLOAT32, scope="local")
    body = seq(
        Allocate(tile, Store(tile, (0, j), a)),
        If(x > 3, Store(B, (j,), const(0.0)), NOTHING, likely=True),
        Pragma("unroll", 4, Evaluate(Call("barrier", (), INT32))),
    )
    s = For(i, 8, For(j, x, body, "parallel"), "bind", "threadIdx.x")
    assert text(s) == (
        "for i in bind(8, 'threadIdx.x'):\n"
        "  for j in parallel(x):\n"
        '    T = allocate((4, 8), "float32", "local")\n'
        "    T[0, j] = A[i, j]\n"
        "    if likely(3 < x):\n"
        "      B[j] = 0.0\n"
        "    else:\n"
        "      pass\n"
        "    # pragma unroll = 4\n"
        "    barrier()"
    )


def test_a_function_prints_its_parameters_with_their_types() -> None:
    n = Var("n", 1)
    C = Buffer("C", (n, 4), FLOAT32)
    c = Buffer("c", (), INT64)
    f = PrimFunc("fill", (C, c, n), For(i, n, Store(C, (i, 0), const(0.0))), (C,), (n,))
    assert str(f) == (
        "def fill(C: float32[n, 4], c: int64[], n: int32):\n  for i in range(n):\n    C[i, 0] = 0.0"
    )
    assert f._repr_markdown_() == f"```python\n{f}\n```"


def test_a_printer_of_a_function_quotes_parts_with_the_names_of_the_whole() -> None:
    first, second = Var("i", 0, 7), Var("i", 0, 7)
    store = Store(B, (second,), const(0.0))
    f = PrimFunc("f", (B,), For(first, 8, For(second, 8, store)), (B,))
    assert list(f.printer().lines(store)) == ["B[i_1] = 0.0"]
    assert list(Printer().lines(store)) == ["B[i] = 0.0"]
