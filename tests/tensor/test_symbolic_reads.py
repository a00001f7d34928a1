"""Reads of tensors of symbolic size: what is certainly inside is accepted, and runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import te, tir, topi
from minitvm.base import ArgumentError, ExprError, as_tuple
from minitvm.tensor import Tensor, evaluate
from minitvm.tir import Index, prove_nonnegative

Make = Callable[[str], tir.Var]
TARGETS = ("python", "numba", "llvm")
BOTH = pytest.mark.parametrize("var", [te.var, te.size_var])


def read(shape: tuple[Any, ...], out: tuple[Any, ...], at: Callable[..., Any]) -> Tensor:
    """B[i, ...] = A[at(i, ...)]"""
    A = te.placeholder(shape, name="A")
    return te.compute(out, lambda *i: A(*as_tuple(at(*i))), name="B")


@BOTH
@pytest.mark.parametrize(
    "case",
    [
        lambda n, m: ((n,), (n,), lambda i: 0),
        lambda n, m: ((n,), (8,), lambda i: 0),
        lambda n, m: ((n,), (8,), lambda i: n - 1),
        lambda n, m: ((n + 3,), (n,), lambda i: 2),
        lambda n, m: ((n, 4), (n * 4,), lambda i: (i // 4, i % 4)),
        lambda n, m: ((n, m), (n * m,), lambda i: (i // m, i % m)),
        lambda n, m: ((n * m,), (n, m), lambda i, j: i * m + j),
        lambda n, m: ((n * m,), (n,), lambda i: i * m),
        lambda n, m: ((n * m * 4,), (n, m, 4), lambda i, j, k: (i * m + j) * 4 + k),
        lambda n, m: ((n,), (n // m,), lambda i: i),
        lambda n, m: ((n,), (n // 2,), lambda i: 2 * i + 1),
        lambda n, m: ((n,), ((n + 1) // 2,), lambda i: i),
        lambda n, m: ((n,), (n // m, m), lambda i, j: i * m + j),
        lambda n, m: ((n,), (100,), lambda i: i % n),
        lambda n, m: ((n,), (n,), lambda i: te.max(i - 1, 0)),
        lambda n, m: ((n,), (n,), lambda i: te.min(i + 1, n - 1)),
    ],
)
def test_a_read_that_is_certainly_inside_is_accepted(var: Make, case: Any) -> None:
    read(*case(var("n"), var("m")))


@BOTH
@pytest.mark.parametrize(
    "case",
    [
        lambda n, m: ((n,), (8,), lambda i: 1),
        lambda n, m: ((n,), (n,), lambda i: i + 1),
        lambda n, m: ((n,), (n,), lambda i: n),
        lambda n, m: ((n,), (m,), lambda i: i),
        lambda n, m: ((n, 4), (n * 4 + 1,), lambda i: (i // 4, i % 4)),
        lambda n, m: ((n * m,), (n, m), lambda i, j: i * m + j + 1),
        lambda n, m: ((n * m,), (n, m), lambda i, j: i * n + j),
        lambda n, m: ((n,), ((n + 3) // 2,), lambda i: i),
        lambda n, m: ((n,), (n // m + 1, m), lambda i, j: i * m + j),
        lambda n, m: ((n,), (n,), lambda i: te.min(i + 1, n)),
        lambda n, m: ((n // m,), (n,), lambda i: i),
    ],
)
def test_a_read_that_may_leave_is_refused_and_the_hint_helps(var: Make, case: Any) -> None:
    n, m = var("n"), var("m")
    with pytest.raises(ExprError, match="may leave A") as info:
        read(*case(n, m))
    shape, out, _at = case(n, m)
    A = te.placeholder(shape, name="A")
    hint = str(info.value).partition("try: ")[2]
    names = {"te": te, "A": A, "n": n, "m": m, "max": te.max, "min": te.min}

    def as_hinted(*i: Any) -> Any:
        axes = {a.name: a for a in i}
        return eval(hint, names | axes)  # the text of our own error

    te.compute(out, as_hinted)


def test_a_condition_on_a_quotient_implies_one_on_what_is_divided() -> None:
    n, m, x = te.size_var("n"), te.size_var("m"), te.size_var("x")
    A = te.placeholder((n,), name="A")
    te.compute((m,), lambda i: te.if_then_else(i < n // x, A[i], 0.0))
    with pytest.raises(ExprError, match="may leave A"):
        te.compute((m,), lambda i: te.if_then_else(i <= n // x, A[i], 0.0))


def test_what_a_sum_starts_from_is_read_even_if_nothing_is_summed() -> None:
    n = te.size_var("n")
    A, k = te.placeholder((n,), name="A"), te.reduce_axis((0, n), name="k")
    B = te.compute((4,), lambda i: te.sum(A[k] + A[0], axis=k, init=A[0]), name="B")
    assert [tir.text(e) for e in B.op.needs] == ["n - 1"]
    C = te.compute((4,), lambda i: te.sum(A[k] + A[0], axis=k), name="C")
    assert C.op.needs == ()


# --- at the call ---------------------------------------------------------------------------------


def first() -> tuple[te.Schedule, list[Tensor]]:
    """B[i] = A[0] + i, for any size of A but 0."""
    A = te.placeholder((te.size_var("n"),), name="A")
    B = te.compute((4,), lambda i: A[0] + i, name="B")
    return te.create_schedule(B.op), [A, B]


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_without_the_elements_that_are_read_is_refused(target: str) -> None:
    s, args = first()
    f, b = tvm.build(s, args, target), np.zeros(4, "float32")
    f(np.full(1, 5, "float32"), b)
    assert b.tolist() == [5, 6, 7, 8]
    with pytest.raises(ArgumentError, match=r"n = 0.*the program needs n >= 1"):
        f(np.zeros(0, "float32"), b)
    assert b.tolist() == [5, 6, 7, 8]


def test_the_program_says_what_it_needs() -> None:
    s, args = first()
    assert str(tvm.lower(s, args)).splitlines()[1] == "  assert n >= 1"


def test_the_interpreter_and_the_evaluator_refuse_it_too() -> None:
    s, args = first()
    empty = np.zeros(0, "float32")
    with pytest.raises(ArgumentError, match="n = 0"):
        tir.interpret(tvm.lower(s, args), empty, np.zeros(4, "float32"))
    with pytest.raises(ArgumentError, match="n = 0"):
        evaluate([args[1]], {args[0]: empty})


def test_a_stored_function_refuses_it_too(tmp_path: Path) -> None:
    s, args = first()
    tvm.build(s, args).export(tmp_path / "f")
    f = tvm.load(tmp_path / "f")
    f(np.full(3, 5, "float32"), np.zeros(4, "float32"))
    with pytest.raises(ArgumentError, match="n = 0"):
        f(np.zeros(0, "float32"), np.zeros(4, "float32"))


def test_a_stage_that_was_rewritten_needs_what_it_needed() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((4,), lambda i: B[0] + i, name="C")
    s = te.create_schedule(C.op)
    s.cache_write(C, "local")
    s.cache_read(A, "local", [B])
    s[B].compute_inline()
    with pytest.raises(ArgumentError, match="n = 0"):
        tvm.build(s, [A, C])(np.zeros(0, "float32"), np.zeros(4, "float32"))


def test_where_nothing_is_computed_nothing_is_needed() -> None:
    A = te.placeholder((te.size_var("n"),), name="A")
    B = te.compute(A.shape, lambda i: A[i] - A[0], name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B])
    f(np.zeros(0, "float32"), np.zeros(0, "float32"))
    b = np.zeros(3, "float32")
    f(np.arange(3, 6, dtype="float32"), b)
    assert b.tolist() == [0, 1, 2]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 5), (1, 4), (0, 4), (4, 0)])
def test_a_symbolic_matrix_is_reshaped(target: str, shape: tuple[int, int]) -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m, 2), name="A")
    B = topi.reshape(A, (n * m * 2,))
    C = topi.reshape(B, (n, m * 2))
    f = tvm.build(te.create_schedule([B.op, C.op]), [A, B, C], target)
    a = np.random.default_rng(0).random((*shape, 2), "float32")
    b, c = np.zeros(a.size, "float32"), np.zeros((shape[0], shape[1] * 2), "float32")
    f(a, b, c)
    np.testing.assert_array_equal(b, a.ravel())
    np.testing.assert_array_equal(c, a.reshape(c.shape))


def test_a_reshape_to_another_number_of_elements_is_refused() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    with pytest.raises(ExprError, match=r"to \[n\*n\].*\[n, m\]"):
        topi.reshape(A, (n * n,))


# --- proofs --------------------------------------------------------------------------------------

n, m = tir.Var("n"), tir.Var("m")
i, j = tir.Var("i", 0, tir.INF, n - 1), tir.Var("j", 0, tir.INF, m - 1)
PARTS: list[Index] = [n, m, i, j, i * m, n * m, i // m, n // m, i // 2, n // 3, te.min(i, j),
                      te.max(i - 1, 0), i % 3]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(range(len(PARTS))), st.integers(-3, 3)), max_size=4),
    st.integers(-3, 3),
    st.sampled_from([(), (n - 1,), (n - 1, m - 1), (n - m,), (n // m - 1,), (n * m - 1, n, m)]),
)
def test_a_proof_never_lies(
    terms: list[tuple[int, int]], const: int, facts: tuple[Index, ...]
) -> None:
    e: Any = const
    for k, c in terms:
        e = e + PARTS[k] * c
    if not prove_nonnegative(e, facts):
        return
    for a in range(-1, 5):
        for b in range(-1, 5):
            for x in range(a):
                for y in range(b):
                    env = {n: a, m: b, i: x, j: y}
                    if all(tir.substitute(f, env) >= 0 for f in facts):
                        assert tir.substitute(e, env) >= 0, (tir.text(e), env)


@pytest.mark.parametrize(
    ("e", "facts"),
    [
        (n * m - 1 - i * m - j, (m,)),
        (n - 1 - i // 2, (n,)),
        (n - n // m, (n,)),
        (n - n // m * m, (m - 1,)),
        (n - (n + 1) // 2, (n,)),
        (i - i // m * m, (m - 1,)),
        (n * m - n, (n, m - 1)),
    ],
)
def test_what_is_proven(e: Index, facts: tuple[Index, ...]) -> None:
    assert prove_nonnegative(e, facts)
