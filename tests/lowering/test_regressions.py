"""Programs that once went wrong, as small as they get: the result under a schedule is the value."""

from typing import Any

import numpy as np
import pytest

from minitvm import te
from minitvm.base import ExprError
from minitvm.driver import build, lower
from minitvm.tensor import Tensor, evaluate
from minitvm.tir import FALSE, Buffer, For, If, Store, Var, const, interpret, rewrite, seq, text


def check(s: te.Schedule, out: Tensor, inputs: dict[Tensor, Any]) -> None:
    """Interpreter and machine code compute what the formula says."""
    (want,) = evaluate([out], inputs)
    args = [*inputs, out]
    loops, lanes = lower(s, args, until="nest"), lower(s, args)
    runs = (
        lambda *a: interpret(loops, *a),
        lambda *a: interpret(lanes, *a, flat=True),
        build(s, args),
    )
    for call in runs:
        got = np.full(want.shape, 77, want.dtype)
        call(*inputs.values(), got)
        np.testing.assert_array_equal(got, want)


def test_a_rule_meets_each_statement_once_though_a_decided_branch_vanishes_around_it() -> None:
    C, i = Buffer("C", (4,), const(0).dtype), Var("i", 0, 3)
    store = Store(C, (i,), const(1))
    body = If(const(1) < const(2), seq(store, If(FALSE, Store(C, (0,), const(2)))))
    seen: list[Any] = []

    def rule(s: Any) -> Any:
        seen.append(s)
        return Store(C, (s.indices[0] + 4,), s.value) if isinstance(s, Store) else s

    assert "C[i + 4] = 1" in text(rewrite(For(i, 4, body), rule, lambda e: e))
    assert sum(isinstance(s, Store) for s in seen) == 1


def test_a_reduction_of_nothing_with_a_layout_is_its_identity() -> None:
    A = te.placeholder((4, 1), "int32", name="A")
    k = te.reduce_axis((0, 1), name="k")
    B = te.compute((4, 1), lambda i, j: te.max(A[i, j], axis=k, where=False), name="B")
    C = te.compute((4,), lambda i: B[3 - i, 0] + 1, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j: (j, i // 2, i % 2))
    check(s, C, {A: np.ones((4, 1), "int32")})


def test_the_region_of_a_stage_names_no_loop_that_is_not_around_it() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, n), "int32", name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((n, n), lambda i, j: B[i, n - 1 - j] * 2, name="C")
    s = te.create_schedule(C.op)
    s[C].split(s[C].fuse(*s[C].op.axis), factor=4)
    check(s, C, {A: np.arange(49, dtype="int32").reshape(7, 7)})
    check(s, C, {A: np.zeros((0, 0), "int32")})


def test_what_only_an_empty_loop_reads_takes_no_memory() -> None:
    A = te.placeholder((8, 4), "int32", name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j] + 1, name="B")
    k, r = te.reduce_axis((0, 4), name="k"), te.reduce_axis((3, 3), name="r")
    C = te.compute((5,), lambda i: te.sum(B[r * 2, k], axis=[k, r]), name="C")
    s = te.create_schedule(C.op)
    check(s, C, {A: np.ones((8, 4), "int32")})


def test_a_tensor_read_at_an_index_from_data_is_no_larger_than_itself() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), "int32", name="A")
    B = te.compute((n,), lambda i: A[i] * 3, name="B")
    C = te.compute((6,), lambda i: te.if_then_else(i < n, B[A[0]] + B[i], 0), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].op.axis[0])
    assert 'B = allocate((n,), "int32", "global")' in str(lower(s, [A, C], until="nest"))
    check(s, C, {A: np.array([2, 5, 9, 1], "int32")})


def test_the_python_text_of_a_schedule_names_the_output_that_is_cached() -> None:
    A = te.placeholder((4,), "int32", name="A")
    low, high = te.compute((4,), lambda i: (A[i] - 1, A[i] + 1), name="B")
    C = te.compute((4,), lambda i: low[i] * high[3 - i], name="C")
    s = te.create_schedule(C.op)
    s.cache_read(high, "local", [C])
    assert "B_local = s.cache_read(B.op.output(1), 'local', [C])" in s.python()


def test_an_empty_reduction_fused_with_a_data_loop_is_its_identity_everywhere() -> None:
    A = te.placeholder((4, 6), "int32", name="A")
    k = te.reduce_axis((0, 0), name="k")
    B = te.compute((7,), lambda i: te.sum(A[0, k] + i, axis=k, init=i + 5), name="B")
    s = te.create_schedule(B.op)
    (i,) = s[B].op.axis
    _, inner = s[B].split(i, factor=2)
    fused = s[B].fuse(inner, k)
    s[B].split(fused, factor=3)
    check(s, B, {A: np.ones((4, 6), "int32")})


def test_a_reduction_fused_with_a_data_loop_begins_once_for_each_element() -> None:
    A = te.placeholder((7, 6), "int32", name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((7,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    (i,) = s[B].op.axis
    outer, inner = s[B].split(i, factor=2)
    fused, _ = s[B].split(s[B].fuse(inner, k), factor=5)
    s[B].reorder(fused, outer)
    check(s, B, {A: np.arange(42, dtype="int32").reshape(7, 6)})


def test_lanes_that_all_take_the_branch_without_data_share_one_index() -> None:
    A = te.placeholder((8,), "int32", name="A")
    B = te.placeholder((4, 3), "int32", name="B")
    C = te.compute((4, 3), lambda i, j: A[te.if_then_else(i < 2, B[i, j], 1)], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].op.axis[1])
    check(s, C, {A: np.arange(8, dtype="int32"), B: np.full((4, 3), 5, "int32")})


def test_the_python_text_of_a_schedule_fetches_the_new_axes_after_rfactor() -> None:
    A = te.placeholder((4, 6), "int32", name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s.rfactor(B, k)
    s[B].unroll(s[B].op.reduce_axis[0])
    assert s.python().splitlines()[-3:] == [
        "i, = s[B].op.axis",
        "k_v, = s[B].op.reduce_axis",
        "s[B].unroll(k_v)",
    ]


def test_a_symbolic_tensor_read_at_an_index_from_data_may_be_empty() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), "int32", name="A")
    B = te.placeholder((3,), "int32", name="B")
    C = te.compute((3,), lambda i: A[B[i]] + 1, name="C")
    s = te.create_schedule(C.op)
    check(s, C, {A: np.zeros(0, "int32"), B: np.array([0, 5, -5], "int32")})
    check(s, C, {A: np.array([4, 7], "int32"), B: np.array([0, 5, -5], "int32")})


def test_nothing_is_read_from_a_tensor_without_elements() -> None:
    A = te.placeholder((0,), "int32", name="A")
    B = te.placeholder((3,), "int32", name="B")
    with pytest.raises(ExprError, match="may leave A"):
        te.compute((3,), lambda i: A[B[i]], name="C")


def test_a_layout_of_nothing_has_room_for_it() -> None:
    k = te.reduce_axis((0, 0), name="k")
    A = te.compute((2, 1), lambda i, j: te.sum(k + i, axis=k), name="A")
    s = te.create_schedule(A.op)
    partial = s.rfactor(A, k, factor_axis=2)
    s[partial].transform_layout(lambda i, j, k: (i, k * 32 + j))
    s[partial].compute_at(s[A], s[A].op.axis[1])
    check(s, A, {})


def test_a_tensor_without_elements_may_have_any_layout() -> None:
    A = te.placeholder((0,), "int32", name="A")
    B = te.compute((0,), lambda i: A[i] + 1, name="B")
    C = te.compute((0,), lambda i: B[i] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i: (i // 4, i % 4))
    check(s, C, {A: np.zeros(0, "int32")})


def test_an_equation_holds_at_one_iteration_not_from_there_on() -> None:
    k = te.reduce_axis((0, 3), name="k")
    A = te.compute((13,), lambda i: te.sum(k + i, axis=k, where=i == 5), name="A")
    s = te.create_schedule(A.op)
    s[A].parallel(A.op.axis[0])
    check(s, A, {})


def test_a_ragged_rfactor_guards_the_reads_of_its_condition() -> None:
    A = te.placeholder((5,), "int32", name="A")
    k = te.reduce_axis((0, 5), name="k")
    B = te.compute((), lambda: te.sum(A[k], axis=k, where=A[k] > 1), name="B")
    s = te.create_schedule(B.op)
    s.rfactor(B, s[B].split(k, factor=3)[1])
    check(s, B, {A: np.array([4, 1, 0, 2, 9], "int32")})
