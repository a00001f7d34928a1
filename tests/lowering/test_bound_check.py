"""bound_check and rewrite_unsafe_select: accesses that are not certain to stay inside."""

from collections.abc import Callable

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import BuildError, VerifyError, dtype
from minitvm.lowering import PASSES, bound_check, insert, rewrite_unsafe_select
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
    if_then_else,
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


# --- bound_check ---------------------------------------------------------------------------------


def test_an_access_that_may_leave_its_buffer_is_checked_first() -> None:
    assert lines(after(bound_check, program(read(i + 1)))) == [
        "assert_in_bounds(int64(i + 1), int64(8))",
        "C[i] = A[i + 1]",
    ]


def test_what_is_certain_is_not_checked() -> None:
    f = program(read(i))
    assert after(bound_check, f).body is f.body


def test_the_chosen_arm_is_checked_where_it_is_chosen() -> None:
    f = program(if_then_else(i < 7, read(i + 1), 0.0))
    checked = after(bound_check, f)
    assert lines(checked)[:3] == [
        "if i < 7:",
        "assert_in_bounds(int64(i + 1), int64(8))",
        "else:",
    ]
    a, c = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    interpret(checked, a, c)
    np.testing.assert_array_equal(c, [*a[1:], 0])


def test_the_interpreter_stops_at_the_access() -> None:
    a = np.zeros(8, "float32")
    with pytest.raises(VerifyError, match=r"element 8 is not in 0 \.\. 7"):
        interpret(after(bound_check, program(read(i + 1))), a, a.copy())


def test_python_code_stops_at_the_access() -> None:
    a = np.zeros(8, "float32")
    f = tvm.build(after(bound_check, program(read(i - 1))), target="python")
    with pytest.raises(IndexError, match=r"element -1 is not in 0 \.\. 7"):
        f(a, a.copy())


def test_machine_code_cannot_stop() -> None:
    with pytest.raises(BuildError) as caught:
        tvm.build(after(bound_check, program(read(i + 1))))
    assert str(caught.value) == (
        "a bound check: machine code cannot stop with an error\n  try: target='python'"
    )


def test_a_right_program_runs_with_checks_as_without() -> None:
    X = te.placeholder((10,), name="X")
    Y = te.compute((10,), lambda i: te.if_then_else(i > 0, X[i - 1], 0.0), name="Y")
    s = te.create_schedule(Y.op)
    s[Y].vectorize(s[Y].split(Y.op.axis[0], 4)[1])
    f = tvm.lower(s, [X, Y], passes=insert(PASSES["llvm"], 3, bound_check))
    x, y = np.arange(10, dtype="float32"), np.zeros(10, "float32")
    interpret(f, x, y, flat=True)
    np.testing.assert_array_equal(y, [0, *x[:-1]])


# --- rewrite_unsafe_select -----------------------------------------------------------------------


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
