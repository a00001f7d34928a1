"""tidy: what does nothing goes."""

import pytest

from minitvm.base import FLOAT32
from minitvm.lowering import tidy
from minitvm.tir import (
    NOTHING,
    Allocate,
    Buffer,
    For,
    If,
    Pragma,
    Seq,
    Stmt,
    Store,
    Var,
    compare,
    const,
    text,
)

A = Buffer("A", (8,), FLOAT32)
i, n = Var("i", 0, 7), Var("n", 0)
STORE = Store(A, (i,), const(1.0))
COND = compare("<", i, 3)


@pytest.mark.parametrize(
    "s",
    [
        For(i, 0, STORE),
        For(i, 8, NOTHING),
        For(i, n, NOTHING),
        If(COND, NOTHING),
        If(COND, NOTHING, NOTHING),
        Allocate(A, NOTHING),
        Pragma("auto_unroll_max_step", 4, NOTHING),
        Allocate(A, For(i, 8, If(COND, For(Var("j", 0, 0), 0, STORE)))),
        Seq((For(i, 0, STORE), NOTHING)),
    ],
    ids=["no iterations", "empty loop", "empty symbolic loop", "empty if", "empty else",
         "memory", "pragma", "nested", "sequence"],
)  # fmt: skip
def test_what_does_nothing_goes(s: Stmt) -> None:
    assert text(tidy(s)) == "pass"


def test_a_loop_of_one_iteration_is_its_body() -> None:
    assert text(tidy(For(Var("i", 0, 0), 1, STORE))) == "A[i] = 1.0"
    one = Var("i", 0, 0)
    assert text(tidy(For(one, 1, Store(A, (one,), const(1.0))))) == "A[0] = 1.0"


def test_a_sequence_loses_its_empty_parts() -> None:
    assert text(tidy(Seq((STORE, For(i, 0, STORE))))) == "A[i] = 1.0"


@pytest.mark.parametrize(
    "s",
    [For(i, 8, STORE), For(i, n, STORE), If(COND, STORE), If(COND, NOTHING, STORE),
     Allocate(A, STORE), Pragma("unroll_explicit", 1, STORE), Seq((STORE, STORE))],
)  # fmt: skip
def test_what_does_something_stays_the_same_object(s: Stmt) -> None:
    assert tidy(s) is s
