"""The interpreter gives the loop IR its meaning: it is compared with numpy and Python only."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.base import (
    FLOAT32,
    INT32,
    INT64,
    DType,
    VerifyError,
)
from minitvm.tir import (
    Buffer,
    Call,
    Evaluate,
    For,
    If,
    Index,
    LoopKind,
    Pragma,
    PrimFunc,
    Stmt,
    Store,
    Var,
    all_of,
    cast_to,
    compare,
    const,
    floordiv,
    floormod,
    if_then_else,
    interpret,
    lane,
    load,
    maximum,
    minimum,
    select,
    seq,
    substitute,
)

BOTH = pytest.mark.parametrize("vector", [False, True], ids=["loop", "vector"])
KINDS: tuple[LoopKind, ...] = ("serial", "parallel", "vectorize", "unroll", "bind")


def buffer(name: str, *shape: Index, type_: DType = FLOAT32, **more: Any) -> Buffer:
    return Buffer(name, shape, type_, **more)


def loop(n: Index, body: Callable[[Any], Stmt], kind: LoopKind = "serial", name: str = "i") -> For:
    last = n - 1
    v = Var(name, 0, last) if isinstance(last, int) else Var(name, 0, math.inf, last)
    return For(v, n, body(v), kind)


# --- indices -------------------------------------------------------------------------------------


@given(st.integers(-40, 40), st.integers(1, 9))
def test_indices_compute_as_python_integers(x: int, d: int) -> None:
    X, D = Var("x"), Var("d", 1)
    out = buffer("out", 8, type_=INT64)
    formulas = [X * D - 3, X // 3, X % 3, floordiv(X, D), floormod(X, D), X * X, minimum(X, D), maximum(X, D)]  # fmt: skip  # noqa: E501
    body = seq(*[Store(out, (k,), cast_to(e, "int64")) for k, e in enumerate(formulas)])
    result = np.zeros(8, "i8")
    interpret(PrimFunc("f", (X, D, out), body, (out,)), x, d, result)
    assert result.tolist() == [x * d - 3, x // 3, x % 3, x // d, x % d, x * x, min(x, d), max(x, d)]


def test_data_may_be_an_index() -> None:
    where = np.array([3, 0, 2], "i4")
    A, K, out = buffer("A", 4), buffer("K", 3, type_=INT32), buffer("out", 3)
    gather = loop(3, lambda i: Store(out, (i,), load(A, load(K, i))))
    vector = Store(out, (lane(3),), load(A, load(K, lane(3))))
    for body in (gather, vector):
        result = np.zeros(3, "f4")
        interpret(PrimFunc("f", (A, K, out), body, (out,)), np.arange(4, dtype="f4"), where, result)
        assert result.tolist() == [3, 0, 2]


def test_an_index_divided_by_a_size_that_is_zero_is_divided_by_one() -> None:
    n, out = Var("n"), buffer("out", 4)
    f = PrimFunc("f", (n, out), Store(out, (3 // n,), const(1.0)), (out,))
    found = np.zeros(4, "f4")
    interpret(f, 0, found)
    assert found.tolist() == [0, 0, 0, 1]


# --- statements ----------------------------------------------------------------------------------


def matmul(n: int, m: int, k: int) -> PrimFunc:
    A, B, C = buffer("A", n, k), buffer("B", k, m), buffer("C", n, m)
    multiply = lambda i, j, r: Store(C, (i, j), load(C, i, j) + load(A, i, r) * load(B, r, j))  # noqa: E731
    body = loop(n, lambda i: loop(m, lambda j: seq(
        Store(C, (i, j), const(0.0)),
        loop(k, lambda r: multiply(i, j, r), name="r"),
    ), name="j"))  # fmt: skip
    return PrimFunc("matmul", (A, B, C), body, (C,))


def test_a_matmul_multiplies_matrices() -> None:
    a, b = np.arange(12.0, dtype="f4").reshape(3, 4), np.ones((4, 5), "f4")
    c = np.empty((3, 5), "f4")
    interpret(matmul(3, 5, 4), a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("kind", KINDS)
def test_loops_of_every_kind_run_all_their_iterations(kind: LoopKind) -> None:
    out = buffer("out", 5, type_=INT32)
    f = PrimFunc(
        "f", (out,), loop(5, lambda i: Store(out, (i,), cast_to(i, "int32")), kind), (out,)
    )
    result = np.zeros(5, "i4")
    interpret(f, result, rng=np.random.default_rng(0))
    assert result.tolist() == [0, 1, 2, 3, 4]


def running_sum(kind: LoopKind) -> PrimFunc:
    """Iteration i reads what iteration i - 1 wrote: a race if the loop is parallel."""
    out = buffer("out", 9)
    body = loop(8, lambda i: Store(out, (i + 1,), load(out, i) + 1), kind)
    return PrimFunc("f", (out,), body, (out,))


def test_a_race_shows_when_parallel_loops_are_shuffled() -> None:
    in_order, shuffled = np.zeros(9, "f4"), np.zeros(9, "f4")
    interpret(running_sum("parallel"), in_order)
    interpret(running_sum("parallel"), shuffled, rng=np.random.default_rng(0))
    assert in_order.tolist() == list(range(9))
    assert shuffled.tolist() != in_order.tolist()


def test_only_parallel_loops_are_shuffled() -> None:
    result = np.zeros(9, "f4")
    interpret(running_sum("serial"), result, rng=np.random.default_rng(0))
    assert result.tolist() == list(range(9))


def test_branches_pragmas_and_effects() -> None:
    out = buffer("out", 4)
    odd = lambda i: compare("==", i % 2, 1)  # noqa: E731
    body = loop(4, lambda i: Pragma("note", 1, seq(
        If(odd(i), Store(out, (i,), const(1.0)), Store(out, (i,), const(-1.0))),
        If(odd(i), Evaluate(load(out, i))),
    )))  # fmt: skip
    result = np.zeros(4, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [-1, 1, -1, 1]


def test_an_effect_without_a_meaning_here_is_refused() -> None:
    f = PrimFunc("f", (), Evaluate(Call("dma_copy", (), INT32)))
    with pytest.raises(VerifyError, match=r"dma_copy\(\.\.\.\): no Python function of that name"):
        interpret(f)


# --- vectors and masks ---------------------------------------------------------------------------


def tail(n: int) -> PrimFunc:
    """out[i] = A[i] + 1 in blocks of 8 lanes, of which the last may be partly outside."""
    A, out = buffer("A", n), buffer("out", n)
    inside = lambda o: compare("<", o * 8 + lane(8), n)  # noqa: E731
    move = lambda o: Store(out, (o * 8 + lane(8),), load(A, o * 8 + lane(8)) + 1)  # noqa: E731
    body = loop((n + 7) // 8, lambda o: If(inside(o), move(o)), name="o")
    return PrimFunc("f", (A, out), body, (out,))


@pytest.mark.parametrize("n", [1, 7, 8, 13, 16])
def test_masked_lanes_touch_nothing(n: int) -> None:
    space = np.full(n + 16, -1, "f4")
    interpret(tail(n), np.arange(n, dtype="f4"), space[8 : 8 + n])
    assert space[8 : 8 + n].tolist() == list(range(1, n + 1))
    assert (space[:8] == -1).all()
    assert (space[8 + n :] == -1).all()


def test_an_else_branch_runs_on_the_other_lanes() -> None:
    out = buffer("out", 8)
    at = (lane(8),)
    body = If(compare("<", lane(8), 3), Store(out, at, const(1.0)), Store(out, at, const(2.0)))
    result = np.zeros(8, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [1, 1, 1, 2, 2, 2, 2, 2]


def test_masks_nest() -> None:
    out = buffer("out", 8)
    inner = If(compare(">", lane(8), 3), Store(out, (lane(8),), const(1.0)))
    body = seq(If(compare("<", lane(8), 6), inner), Store(out, (lane(8),), load(out, lane(8)) + 1))
    result = np.zeros(8, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [1, 1, 1, 1, 2, 2, 1, 1]


@pytest.mark.parametrize("least", [0, 8])
def test_a_scalar_load_under_a_mask_happens_only_if_a_lane_is_active(least: int) -> None:
    A, out = buffer("A", 0), buffer("out", 8)
    n = Var("n")
    masked = If(compare("<", lane(8), n), Store(out, (lane(8),), load(A, n)))
    f = PrimFunc("f", (n, A, out), masked, (out,))
    if least == 0:
        interpret(f, 0, np.zeros(0, "f4"), np.zeros(8, "f4"))
    else:
        with pytest.raises(VerifyError, match="not in 0"):
            interpret(f, least, np.zeros(0, "f4"), np.zeros(8, "f4"))


@BOTH
def test_if_then_else_guards_a_load(vector: bool) -> None:
    A, out = buffer("A", 6), buffer("out", 8)
    padded = lambda i: if_then_else(  # noqa: E731
        all_of(compare(">=", i, 1), compare("<", i, 7)), load(A, i - 1), -1.0
    )
    everywhere = loop(8, lambda i: Store(out, (i,), padded(i)))
    body = Store(out, (lane(8),), padded(lane(8))) if vector else everywhere
    result = np.zeros(8, "f4")
    interpret(PrimFunc("f", (A, out), body, (out,)), np.arange(6, dtype="f4"), result)
    assert result.tolist() == [-1, 0, 1, 2, 3, 4, 5, -1]


def test_an_arm_of_no_lane_is_not_computed() -> None:
    A, out, n = buffer("A", 0), buffer("out", 4), Var("n")
    e = if_then_else(compare("<", lane(4), n), load(A, n), 5.0)
    result = np.zeros(4, "f4")
    interpret(
        PrimFunc("f", (n, A, out), Store(out, (lane(4),), e), (out,)), 0, np.zeros(0, "f4"), result
    )
    assert result.tolist() == [5, 5, 5, 5]


def test_a_scalar_condition_may_choose_between_a_vector_and_a_scalar() -> None:
    A, out, n = buffer("A", 4), buffer("out", 4), Var("n")
    e = if_then_else(compare("<", n, 3), load(A, lane(4)), 7.0)
    f = PrimFunc("f", (n, A, out), Store(out, (lane(4),), e), (out,))
    for number, wanted in ((0, [0, 1, 2, 3]), (5, [7, 7, 7, 7])):
        result = np.zeros(4, "f4")
        interpret(f, number, np.arange(4, dtype="f4"), result)
        assert result.tolist() == wanted


def test_select_computes_both_arms() -> None:
    A, out = buffer("A", 4), buffer("out", 4)
    body = loop(4, lambda i: Store(out, (i,), select(load(A, i) > 1, load(A, i + 1), 0.0)))
    with pytest.raises(VerifyError, match="index 0 is 4"):
        interpret(PrimFunc("f", (A, out), body, (out,)), np.zeros(4, "f4"), np.zeros(4, "f4"))


def test_substituting_a_lane_vectorizes_a_loop() -> None:
    A, out = buffer("A", 4, 8), buffer("out", 8, 4)
    row, i = Var("row", 0, 3), Var("i", 0, 7)
    body = Store(out, (i, row), load(A, row, i) * cast_to(i, "float32"))
    serial = PrimFunc("f", (A, out), For(row, 4, For(i, 8, body)), (out,))
    vector = PrimFunc("f", (A, out), For(row, 4, substitute(body, {i: lane(8)})), (out,))
    a = np.random.default_rng(0).random((4, 8)).astype("f4")
    results = [np.zeros((8, 4), "f4") for _ in range(2)]
    for f, result in zip((serial, vector), results, strict=True):
        interpret(f, a, result)
    np.testing.assert_array_equal(results[0], (a * np.arange(8, dtype="f4")).T)
    np.testing.assert_array_equal(results[1], results[0])
