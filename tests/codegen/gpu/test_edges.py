"""Edges that threads do not divide, and memory that only some of them share: found by fuzzing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError

from .programs import barriers, bind, in_registers, product


def run(s: te.Schedule, args: list[te.Tensor], *arrays: Any) -> np.ndarray[Any, Any]:
    f = tvm.build(s, args, target="cuda -sim")
    out = np.zeros(args[-1].shape, np.float32)
    f(*arrays, out)  # raises KernelError for races and for reads of unwritten memory
    return out


def lowered(s: te.Schedule, args: list[te.Tensor]) -> str:
    return str(tvm.lower(s, args, target="cuda -sim"))


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(-9, 0, shape).astype(np.float32)


# --- guards of reduce axes -----------------------------------------------------------------------


def staged(reduce: Any, scope: str) -> tuple[te.Schedule, list[te.Tensor]]:
    """Reduce rows of 13 numbers, 8 at a time, which the threads fetch together."""
    A = te.placeholder((12, 13), name="A")
    k = te.reduce_axis((0, 13), name="k")
    B = te.compute((12,), lambda i: reduce(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    local = s.cache_write(B, "local")
    tile = s.cache_read(A, scope, [local])
    outer, inner = s[B].split(s[B].op.axis[0], 8)
    bind(s, B, bx=outer, tx=inner)
    s[local].compute_at(s[B], inner)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], 8)
    s[tile].compute_at(s[local], ko)
    if scope == "shared":
        bind(s, tile, tx=s[tile].op.axis[1])
    return s, [A, B]


@pytest.mark.parametrize("scope", ["shared", "local"])
@pytest.mark.parametrize(("reduce", "meaning"), [(te.max, np.max), (te.sum, np.sum)])
def test_a_ragged_reduction_does_not_count_the_zeros_of_its_tile(
    reduce: Any, meaning: Any, scope: str
) -> None:
    a = numbers(12, 13)  # all of them negative: zero is not their largest
    np.testing.assert_array_equal(run(*staged(reduce, scope), a), meaning(a, axis=1))


def test_threads_beyond_a_ragged_reduction_add_nothing() -> None:
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((4,), lambda i: te.sum(te.const(2.0, "float32"), axis=k), name="B")
    s = te.create_schedule(B.op)
    bind(s, B, bx=B.op.axis[0], tx=s[B].split(k, 4)[1])
    np.testing.assert_array_equal(run(s, [B]), np.full(4, 6))


def test_a_reduction_in_shared_memory_keeps_its_guard() -> None:
    A = te.placeholder((6, 13), name="A")
    k = te.reduce_axis((0, 13), name="k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((6,), lambda i: B[5 - i] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].split(k, 8)
    s[B].set_scope("shared")
    outer, inner = s[C].split(C.op.axis[0], 6)
    bind(s, C, bx=outer, tx=inner)
    s[B].compute_at(s[C], outer)
    bind(s, B, tx=B.op.axis[0])
    a = numbers(6, 13)
    np.testing.assert_array_equal(run(s, [A, C], a), a.sum(axis=1)[::-1] * 2)


# --- guards of data axes -------------------------------------------------------------------------


def test_registers_at_an_edge_are_not_read_before_they_are_written() -> None:
    A = te.placeholder((13,), name="A")
    B = te.compute((13,), lambda i: A[i] + 1, name="B")
    C = te.compute((13,), lambda i: B[i] * 2, name="C")
    D = te.compute((13,), lambda i: C[i] - 3, name="D")
    s = te.create_schedule(D.op)
    outer, inner = s[D].split(D.op.axis[0], 8)
    bind(s, D, bx=outer, tx=inner)
    for t in (C, B):  # B keeps its guard: it reads A; so C, which reads B, keeps it as well
        s[t].set_scope("local")
        s[t].compute_at(s[D], inner)
    a = numbers(13)
    np.testing.assert_array_equal(run(s, [A, D], a), (a + 1) * 2 - 3)


def test_the_products_of_a_ragged_tile_have_no_guard_on_rows_and_columns() -> None:
    program = in_registers(50)
    lines = lowered(program.schedule, list(program.args)).splitlines()
    (at,) = (n for n, line in enumerate(lines) if "C_local[i_c*4 + j_c] =" in line)
    around = [line.strip() for line in lines[at - 3 : at]]
    assert around == [
        "if likely(k_outer*8 + k_inner < 50):",
        "for i_c in range(4):",
        "for j_c in range(4):",
    ]


def test_threads_that_reduce_together_store_inside_the_tensor() -> None:
    A = te.placeholder((5, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((5,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 4)
    bind(s, B, bx=outer, tx=inner, ty=s[B].split(k, 4)[1])
    ko = s[B].leaf_iter_vars[2]
    copy = s.cache_read(A, "local", [B])  # inside the reduction, so each part has its own guard
    s[copy].compute_at(s[B], ko)
    a = numbers(5, 8)
    np.testing.assert_array_equal(run(s, [A, B], a), a.sum(axis=1))


# --- memory --------------------------------------------------------------------------------------


def test_each_warp_fills_its_own_memory() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8, 2, 32), lambda i, j, k: A[i] + j + k, name="B")
    s = te.create_schedule(B.op)
    warp = s.cache_read(A, "warp", [B])
    i, j, k = B.op.axis
    bind(s, B, bx=i, ty=j, tx=k)
    s[warp].compute_at(s[B], i)
    a = numbers(8)
    expected = a[:, None, None] + np.arange(2)[:, None] + np.arange(32)
    np.testing.assert_array_equal(run(s, [A, B], a), expected)


@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (2, 16)])
def test_warp_memory_of_a_row_that_is_not_a_warp(rows: int, columns: int) -> None:
    A = te.placeholder((4, rows, columns), name="A")
    B = te.compute(A.shape, lambda i, j, k: A[i, j, columns - 1 - k], name="B")
    s = te.create_schedule(B.op)
    warp = s.cache_read(A, "warp", [B])
    i, j, k = B.op.axis
    bind(s, B, bx=i, ty=j, tx=k)
    s[warp].compute_at(s[B], j)
    bind(s, warp, tx=s[warp].op.axis[2])
    with pytest.raises(LoweringError) as error:
        lowered(s, [A, B])
    assert f"threadIdx.x has {columns} threads, but the 32 of a warp share A.warp" in str(
        error.value
    )
    assert 'try: 32 threads along threadIdx.x, or set_scope("shared")' in str(error.value)


def test_a_stage_in_global_memory_inside_a_kernel() -> None:
    A = te.placeholder((4, 64), name="A")
    B = te.compute((4, 64), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((4, 64), lambda i, j: B[i, 63 - j] * 2, name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    bind(s, C, bx=s[C].split(j, 16)[0])
    s[B].compute_at(s[C], i)  # outside the loop over blocks
    with pytest.raises(LoweringError, match="its blocks would share B, which is in global memory"):
        lowered(s, [A, C])


def test_a_double_buffer_in_global_memory_that_all_blocks_would_fill() -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((4, 8), lambda i, j: B[i, 7 - j] * 2, name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    outer, inner = s[C].split(j, 4)
    bind(s, C, bx=outer, tx=inner)
    s[B].compute_at(s[C], i)
    s[B].double_buffer()  # its first fill becomes a kernel, so its memory outlives both
    bind(s, B, tx=s[B].split(B.op.axis[1], 4)[1])
    with pytest.raises(LoweringError, match="all its blocks would store to B, which is in global"):
        lowered(s, [A, C])


def test_an_empty_loop_beside_the_fill_of_a_double_buffer() -> None:
    A = te.placeholder((4, 8, 2), name="A")
    k = te.reduce_axis((0, 2), name="k")
    never = te.const(False, "bool")
    B = te.compute((4, 8), lambda i, j: te.sum(A[i, j, k], axis=k, where=never), name="B")
    C = te.compute((4, 8), lambda i, j: B[i, 7 - j] + 1, name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    bind(s, C, tx=j)
    s[C].reorder(j, i)
    s[B].set_scope("shared")
    s[B].compute_at(s[C], i)
    s[B].double_buffer()
    bind(s, B, tx=B.op.axis[1])
    np.testing.assert_array_equal(run(s, [A, C], numbers(4, 8, 2)), np.ones((4, 8)))


# --- barriers ------------------------------------------------------------------------------------


def test_no_barrier_between_accesses_of_the_same_block() -> None:
    A, B, C = product(16)
    s = te.create_schedule(C.op)
    (i, j), k = C.op.axis, C.op.reduce_axis[0]
    s[C].reorder(i, k, j)
    bind(s, C, bx=j, tx=i)  # the loop of the init has another variable over blockIdx.x
    assert barriers(tvm.lower(s, [A, B, C], target="cuda -sim")) == 0
    a = numbers(16, 16)
    np.testing.assert_array_equal(run(s, [A, B, C], a, a), a @ a)


def exchanged(index: object, when: object = None) -> tuple[te.Schedule, list[te.Tensor]]:
    """Copy rows of 8 to shared memory, by a thread each; read them at another index."""
    A = te.placeholder((6, 8), name="A")

    def formula(i: te.IterVar, j: te.IterVar) -> object:
        value = A[i, index(i, j)]
        return value if when is None else te.if_then_else(when(i, j), value, 0.0)

    B = te.compute((6, 8), formula, name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    bind(s, B, bx=B.op.axis[0], tx=B.op.axis[1])
    s[shared].compute_at(s[B], B.op.axis[0])
    bind(s, shared, tx=s[shared].op.axis[1])
    return s, [A, B]


@pytest.mark.parametrize(
    ("index", "when", "needed"),
    [
        (lambda i, j: 7 - j, None, True),
        (lambda i, j: te.max(j, i * 0), None, False),
        (lambda i, j: (i * 8 + j) % 8, None, False),
        (lambda i, j: (i + j) % 8, None, True),  # in blocks other than the first
        (lambda i, j: 7 - j, lambda i, j: te.all(j > 3, j < 4), False),  # no thread reads
        (lambda i, j: te.min(j + i, 7), lambda i, j: i < 1, False),  # only in the first block
        (lambda i, j: te.min(j + i, 7), lambda i, j: i > 4, True),
    ],
)
def test_blocks_and_conditions_of_values_decide_on_a_barrier(
    index: object, when: object, needed: bool
) -> None:
    s, args = exchanged(index, when)
    assert barriers(tvm.lower(s, args, target="cuda -sim")) == needed
    run(s, args, numbers(6, 8))


def test_one_thread_waits_for_no_other() -> None:
    A = te.placeholder((te.var("n"), 4), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    bind(s, B, bx=B.op.axis[1])
    assert barriers(tvm.lower(s, [A, B], target="cuda -sim")) == 0


# --- printed source ------------------------------------------------------------------------------


def test_printed_kernels_bring_the_functions_that_they_call() -> None:
    A = te.placeholder((8,), "int64", name="A")
    B = te.compute((8,), lambda i: A[i] * A[7 - i], name="B")
    s = te.create_schedule(B.op)
    bind(s, B, tx=B.op.axis[0])
    f = tvm.build(s, [A, B], target="cuda -sim")
    assert "@cuda.jit(device=True)\ndef wrap_mul(a, b):" in f.source("cuda")


def test_an_unrolled_step_gets_the_shared_memory_that_it_uses() -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, 7 - j], name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    shared = s.cache_read(A, "shared", [B])
    outer, inner = s[B].split(j, 4)
    bind(s, B, tx=inner)
    s[B].reorder(i, inner, outer)
    s[B].unroll(i)
    s[shared].compute_at(s[B], i)
    text = tvm.build(s, [A, B], target="cuda -sim").source("cuda")
    step = next(line for line in text.splitlines() if line.startswith("def step0("))
    assert "A_shared" in step


def test_the_steps_of_two_kernels_have_different_names() -> None:
    A = te.placeholder((4, 4, 8), name="A")
    B = te.compute(A.shape, lambda i, j, k: A[i, j, k] + 1, name="B")
    C = te.compute(A.shape, lambda i, j, k: B[i, j, k] * 2, name="C")
    s = te.create_schedule(C.op)
    for t in (B, C):
        i, j, k = t.op.axis
        s[t].reorder(k, i, j)
        bind(s, t, tx=k)
        s[t].unroll(i)
    text = tvm.build(s, [A, C], target="cuda -sim").source("cuda")
    assert text.count("def step") == text.count("def step0(") + text.count("def step1(") == 2


def test_a_vectorized_loop_with_a_barrier_stays_one_loop() -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[7 - i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    bind(s, B, tx=i)
    s[B].vectorize(j)
    shared = s.cache_read(A, "shared", [B])
    s[shared].compute_at(s[B], j)
    bind(s, shared, tx=s[shared].op.axis[0])
    text = tvm.build(s, [A, B], target="cuda -sim").source("cuda")
    assert text.count("in range(4):") == 1
    assert text.index("in range(4):") < text.index("cuda.syncthreads()")
