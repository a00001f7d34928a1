"""Functions, loops, conditions and memory as machine code; some of it as Python, too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import FLOAT32, INT32, INT64, BuildError
from minitvm.codegen import emit_llvm
from minitvm.tir import (
    NOTHING,
    Allocate,
    Buffer,
    Call,
    Cast,
    Const,
    Evaluate,
    For,
    If,
    Pragma,
    PrimFunc,
    Select,
    Store,
    Var,
    all_of,
    const,
    floordiv,
    floormod,
    if_then_else,
    index,
    interpret,
    lane,
    load,
    maximum,
    minimum,
    mul,
    seq,
)

from .conftest import Run, floats, numbers, variable

i, j, n = variable("i", 1000), variable("j", 1000), Var("n", 0)
A, C, where = floats("A", 64), floats("C", 64), Buffer("where", (64,), INT32)


# --- functions -----------------------------------------------------------------------------------


def test_parameters_say_what_is_written_and_that_nothing_overlaps() -> None:
    f = PrimFunc("main", (A, n, C), NOTHING, (C,))
    head = emit_llvm(f).splitlines()[0]
    assert head == (
        "define i32 @main(ptr noalias readonly align 4 %A, i64 %n, ptr noalias align 4 %C) #0 {"
    )


def test_sizes_that_are_no_parameters_come_last() -> None:
    f = PrimFunc("main", (floats("A", n),), NOTHING, (), (n,))
    assert "%A, i64 %n)" in emit_llvm(f)


def test_the_preferred_vector_width_is_an_attribute() -> None:
    f = PrimFunc("main", (A,), NOTHING)
    assert '"prefer-vector-width"="512"' in emit_llvm(f, vector_bytes=64)
    assert "prefer-vector-width" not in emit_llvm(f)


def test_a_small_loop_reads_like_the_program(golden: Callable[[str], None]) -> None:
    f = PrimFunc("main", (A, C), For(i, 64, Store(C, (i,), load(A, i) * 2.0 + 1.0)), (C,))
    golden(emit_llvm(f))


def test_odd_names_are_spelled_so_that_llvm_accepts_them(machine: Run) -> None:
    x, y = floats("my tensor", 4), floats("my.tensor", 4)
    v, w = variable("i.outer", 2), variable("i.outer", 2)
    body = For(v, 2, For(w, 2, Store(y, (v * 2 + w,), load(x, v * 2 + w))))
    result = np.zeros(4, np.float32)
    machine(PrimFunc("2nd main", (x, y), body, (y,)), numbers(4), result)
    np.testing.assert_array_equal(result, numbers(4))


def test_pragmas_and_evaluated_values_change_nothing(machine: Run) -> None:
    store = Store(C, (0,), const(1.0))
    body = seq(Evaluate(load(C, 1)), Pragma("note", 3, store))
    result = np.zeros(64, np.float32)
    assert machine(PrimFunc("main", (C,), body, (C,)), result) == 0
    assert result[0] == 1


# --- loops and conditions, as machine code and as Python ------------------------------------------


def test_matrix_product(run: Run) -> None:
    x, y, z = floats("X", 5, 7), floats("Y", 7, 6), floats("Z", 5, 6)
    k = variable("k", 7)
    at = i * 6 + j
    add = Store(z, (at,), load(z, at) + load(x, i * 7 + k) * load(y, k * 6 + j))
    body = For(i, 5, For(j, 6, seq(Store(z, (at,), const(0.0)), For(k, 7, add))))
    a, b, c = numbers(5, 7), numbers(7, 6), np.empty((5, 6), np.float32)
    run(PrimFunc("main", (x, y, z), body, (z,)), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_symbolic_extents_may_be_empty(run: Run, size: int) -> None:
    f = PrimFunc("main", (n, C), For(i, n, Store(C, (i,), const(1.0))), (C,))
    result = np.zeros(64, np.float32)
    run(f, size, result)
    assert result.sum() == size


@pytest.mark.parametrize(("least", "guarded"), [(0, True), (1, False)])
def test_a_loop_that_certainly_runs_is_not_guarded(least: int, guarded: bool) -> None:
    size = Var("n", least)
    body = For(i, size, Store(C, (i,), const(1.0)))
    assert ("icmp sgt" in emit_llvm(PrimFunc("main", (size, C), body, (C,)))) == guarded


def test_extents_may_depend_on_outer_loops(run: Run) -> None:
    body = For(i, 8, For(j, i, Store(C, (i * 8 + j,), const(1.0))))
    result = np.zeros(64, np.float32)
    run(PrimFunc("main", (C,), body, (C,)), result)
    np.testing.assert_array_equal(result.reshape(8, 8), np.tri(8, k=-1))


def test_if_with_else(run: Run) -> None:
    body = For(i, 64, If(load(A, i) > 0.0, Store(C, (i,), const(1.0)), Store(C, (i,), const(2.0))))
    a, c = numbers(64), np.zeros(64, np.float32)
    run(PrimFunc("main", (A, C), body, (C,)), a, c)
    np.testing.assert_array_equal(c, np.where(a > 0, 1, 2))


def test_a_guard_protects_the_load_behind_it(run: Run) -> None:
    inside = all_of(i >= 1, load(A, i - 1) > 0.0)
    body = For(i, 64, Store(C, (i,), Select(inside, const(1.0), const(0.0), FLOAT32)))
    a, c = numbers(64), np.zeros(64, np.float32)
    run(PrimFunc("main", (A, C), body, (C,)), a, c)
    np.testing.assert_array_equal(c[1:], a[:-1] > 0)


def test_padding_reads_only_inside(run: Run) -> None:
    padded = if_then_else(all_of(i >= 2, i < 62), load(A, i - 2), const(-1.0))
    a, c = numbers(64), np.zeros(64, np.float32)
    run(PrimFunc("main", (A, C), For(i, 64, Store(C, (i,), padded)), (C,)), a, c)
    np.testing.assert_array_equal(c, np.pad(a[:60], 2, constant_values=-1))


def test_index_arithmetic_rounds_down_below_zero(run: Run) -> None:
    D = Buffer("D", (64,), INT32)
    x, y = 7 - i, (7 - i) * (n - 3)
    values = [floordiv(x, 3), floormod(x, 3), floordiv(x, 4), floormod(x, 4), floordiv(x, n),
              floormod(y, n), minimum(x, 2), maximum(x, n), mul(x, i)]  # fmt: skip
    stores = (Store(D, (i + 16 * k,), Const(0, INT32) + v) for k, v in enumerate(values[:4]))
    f = PrimFunc("main", (n, D), For(i, 16, seq(*stores)), (D,))
    rest = (Store(D, (i + 16 * k,), Const(0, INT32) + v) for k, v in enumerate(values[4:8]))
    g = PrimFunc("main", (n, D), For(i, 16, seq(*rest)), (D,))
    for each in (f, g):
        got, expected = np.zeros(64, np.int32), np.zeros(64, np.int32)
        run(each, 5, got)
        interpret(each, 5, expected)
        np.testing.assert_array_equal(got, expected)


def test_remainders_of_32_bits_are_not_negative(run: Run) -> None:
    D, long = Buffer("D", (2,), INT64), 1 << 31
    value = floormod(i * (long // 2) + long, long + 11)
    f = PrimFunc("main", (D,), For(i, 2, Store(D, (i,), Cast(value, INT64))), (D,))
    got = np.zeros(2, np.int64)
    run(f, got)
    assert got.tolist() == [long, long // 2 - 11]


def test_data_can_be_an_index(run: Run) -> None:
    body = For(i, 64, Store(C, (index(load(where, i)),), load(A, 63 - index(load(where, i)))))
    order = np.random.default_rng(0).permutation(64).astype(np.int32)
    a, c = numbers(64), np.zeros(64, np.float32)
    run(PrimFunc("main", (A, where, C), body, (C,)), a, order, c)
    np.testing.assert_array_equal(c, a[::-1])


@pytest.mark.parametrize("size", [100, 100_000], ids=["stack", "heap"])
def test_local_memory(run: Run, size: int) -> None:
    t = floats("t", size, scope="local")
    fill = For(i, 64, Store(t, (i * (size // 64),), load(A, i)))
    empty = For(i, 64, Store(C, (i,), load(t, (63 - i) * (size // 64))))
    a, c = numbers(64), np.zeros(64, np.float32)
    run(PrimFunc("main", (A, C), Allocate(t, seq(fill, empty)), (C,)), a, c)
    np.testing.assert_array_equal(c, a[::-1])


def test_memory_of_a_symbolic_size(run: Run) -> None:
    t = floats("t", n, 2)
    fill = For(i, n, Store(t, (i * 2 + 1,), load(A, i)))
    empty = For(i, n, Store(C, (i,), load(t, i * 2 + 1)))
    body = For(j, 3, Allocate(t, seq(fill, empty)))
    a, c = numbers(64), np.zeros(64, np.float32)
    run(PrimFunc("main", (n, A, C), body, (C,)), 64, a, c)
    np.testing.assert_array_equal(c, a)


def test_parallel_loops_are_serial_where_nobody_can_launch_them(run: Run) -> None:
    f = PrimFunc("main", (C,), For(i, 64, Store(C, (i,), const(1.0)), "parallel"), (C,))
    result = np.zeros(64, np.float32)
    run(f, result)
    assert result.all()


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (For(i, 4, NOTHING, "bind", "threadIdx.x"), "loop 'i' bound to 'threadIdx.x'"),
        (Store(floats("M", 4, 4), (0, 1), const(1.0)), "2 indices on buffer 'M'"),
        (Evaluate(Call("sync", (), INT32)), "sync(...): the LLVM target has no such function"),
        (Store(C, (0,), load(A, lane(4))), "a store of 4 lanes to one element"),
        (Store(C, (i,), const(1.0)), "variable 'i': no enclosing loop or parameter defines it"),
        (For(i, lane(4), NOTHING), "loop 'i': its extent differs between lanes"),
        (Store(C, (lane(4),), load(A, lane(8))), "8 lanes"),
    ],
)
def test_what_llvm_code_cannot_express_is_refused(body: Any, message: str) -> None:
    with pytest.raises(BuildError) as error:
        emit_llvm(PrimFunc("main", (A, C), body, (C,)))
    assert message in str(error.value)
