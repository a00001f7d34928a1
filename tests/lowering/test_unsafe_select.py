"""rewrite_unsafe_select: arms that are not certain to read inside."""

from collections.abc import Callable

import numpy as np

from minitvm.base import dtype
from minitvm.lowering import rewrite_unsafe_select
from minitvm.tir import (
    Buffer,
    Expr,
    For,
    If,
    Load,
    PrimFunc,
    Select,
    Store,
    Var,
    interpret,
)

F32 = dtype("float32")
A, C = Buffer("A", (8,), F32), Buffer("C", (8,), F32)
i = Var("i", 0, 7)


def read(at: Expr) -> Load:
    return Load(A, (at,), F32)


def program(value: Expr, guard: Expr | None = None) -> PrimFunc:
    """for i in range(8): C[i] = value"""
    body = Store(C, (i,), value)
    return PrimFunc("main", (A, C), For(i, 8, body if guard is None else If(guard, body)), (C,))


def after(run: Callable, f: PrimFunc) -> PrimFunc:
    return PrimFunc(f.name, f.params, run(f.body), f.outputs)


def lines(f: PrimFunc) -> list[str]:
    return [line.strip() for line in str(f).splitlines()[2:]]


def test_an_arm_that_may_read_outside_is_computed_only_if_chosen() -> None:
    f = program(Select(i < 7, read(i + 1), 0.0))
    lazy = after(rewrite_unsafe_select, f)
    assert lines(f) == ["C[i] = select(i < 7, A[i + 1], 0.0)"]
    assert lines(lazy) == ["C[i] = (A[i + 1] if i < 7 else 0.0)"]
    a, c = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    interpret(lazy, a, c)
    np.testing.assert_array_equal(c, [*a[1:], 0])


def test_safe_arms_are_left_alone() -> None:
    f = program(Select(i < 4, read(i), 0.0))
    assert rewrite_unsafe_select(f.body) is f.body


def test_a_condition_around_makes_an_arm_safe() -> None:
    f = program(Select(i < 4, read(i + 1), 0.0), guard=i < 7)
    assert rewrite_unsafe_select(f.body) is f.body
