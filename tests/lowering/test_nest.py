"""Loop nests: where reductions start, where guards stand, where attached stages run.

The texts are golden; every program is also run and compared with numpy.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.tir import interpret

Golden = Callable[[str], None]
Array = np.ndarray[Any, Any]


def data(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(len(shape) + sum(shape))
    return rng.integers(-8, 9, shape).astype(dtype)


def nest(s: te.Schedule, args: list[Any], want: Array, *given: Array) -> str:
    """The loops of `s` as text, after running them: the last argument is the output."""
    f = tvm.lower(s, args, until="nest")
    got = np.full_like(want, 99)
    interpret(f, *given, got)
    np.testing.assert_array_equal(got, want)
    return str(f)


def matmul(n: int = 8, m: int = 4, depth: int = 6) -> tuple[te.Schedule, list[te.Tensor]]:
    """C = A @ B"""
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), [A, B, C]


def matmul_nest(s: te.Schedule, args: list[te.Tensor]) -> str:
    a, b = (data(tuple(map(int, t.shape))) for t in args[:2])
    return nest(s, args, a @ b, a, b)


# --- reductions: init and update -----------------------------------------------------------------


def test_a_reduction_starts_before_its_reduce_loop(golden: Golden) -> None:
    golden(matmul_nest(*matmul()))


def test_data_loops_inside_the_reduce_loop_get_an_init_loop_of_their_own(golden: Golden) -> None:
    s, args = matmul()
    C = args[2]
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    s[C].reorder(i, k, j)
    golden(matmul_nest(s, args))


def test_a_reduce_loop_outside_puts_the_whole_init_first(golden: Golden) -> None:
    s, args = matmul()
    C = args[2]
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    s[C].reorder(k, j, i)
    golden(matmul_nest(s, args))


def test_a_tile_inside_a_split_reduce_loop(golden: Golden) -> None:
    s, args = matmul()
    C = args[2]
    io, jo, ko, ii, ji, ki = s[C].tile(*C.op.axis, *C.op.reduce_axis, 4, 2, 3)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    s[C].vectorize(ji)
    s[C].unroll(ki)
    golden(matmul_nest(s, args))


def test_a_data_loop_fused_with_a_reduce_loop_starts_along_the_fused_loop(golden: Golden) -> None:
    s, args = matmul()
    C = args[2]
    _, j = C.op.axis
    (k,) = C.op.reduce_axis
    s[C].fuse(j, k)
    golden(matmul_nest(s, args))


def test_a_reduce_loop_that_does_not_divide_guards_the_update_only(golden: Golden) -> None:
    s, args = matmul()
    s[args[2]].split(args[2].op.reduce_axis[0], 4)
    golden(matmul_nest(s, args))


def test_a_data_loop_that_does_not_divide_guards_init_and_update(golden: Golden) -> None:
    s, args = matmul(10)
    C = args[2]
    _, ii = s[C].split(C.op.axis[0], 4)
    s[C].reorder(*C.op.reduce_axis, ii)
    golden(matmul_nest(s, args))


@pytest.mark.parametrize("make", [te.var, te.size_var])
def test_a_symbolic_data_loop_guards_init_and_update(make: Any, golden: Golden) -> None:
    n = make("n")
    A = te.placeholder((n, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 8)
    a = data((13, 6))
    golden(nest(s, [A, C], a.sum(axis=1), a))


def test_a_reduction_over_several_axes(golden: Golden) -> None:
    A = te.placeholder((4, 5, 6), name="A")
    x, y = te.reduce_axis((0, 5), name="x"), te.reduce_axis((0, 6), name="y")
    C = te.compute((4,), lambda i: te.max(A[i, x, y], axis=[x, y]), name="C")
    a = data((4, 5, 6))
    golden(nest(te.create_schedule(C.op), [A, C], a.max(axis=(1, 2)), a))


def test_a_reduction_of_everything_has_no_data_loop(golden: Golden) -> None:
    A = te.placeholder((6,), name="A")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((), lambda: te.sum(A[k], axis=k), name="C")
    a = data((6,))
    golden(nest(te.create_schedule(C.op), [A, C], np.array(a.sum()), a))


def test_a_reduce_axis_that_starts_late_is_counted_from_zero(golden: Golden) -> None:
    A = te.placeholder((8,), name="A")
    k = te.reduce_axis((2, 5), name="k")
    C = te.compute((4,), lambda i: te.sum(A[i + k - 1], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(k, 2)
    a = data((8,))
    golden(nest(s, [A, C], np.array([a[i + 1 : i + 4].sum() for i in range(4)]), a))


def test_a_reduction_of_one_step_has_no_reduce_loop() -> None:
    A = te.placeholder((4, 1), name="A")
    k = te.reduce_axis((0, 1), name="k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    a = data((4, 1))
    assert nest(te.create_schedule(C.op), [A, C], a[:, 0], a) == (
        "def main(A: float32[4, 1], C: float32[4]):\n"
        "  for i in range(4):\n"
        "    C[i] = 0.0\n"
        "    C[i] = C[i] + A[i, 0]"
    )


def test_an_empty_reduction_gives_the_identity() -> None:
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((3, 3), name="k")
    C = te.compute((4,), lambda i: te.prod(A[i, k], axis=k), name="C")
    nest(te.create_schedule(C.op), [A, C], np.ones(4, "float32"), data((4, 6)))


def test_where_guards_the_update(golden: Golden) -> None:
    A = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute((8,), lambda i: te.sum(A[i - k], axis=k, where=i >= k), name="C")
    a = data((8,))
    want = np.array([a[max(0, i - 3) : i + 1].sum() for i in range(8)], "float32")
    golden(nest(te.create_schedule(C.op), [A, C], want, a))


def test_a_reduction_starts_from_a_value(golden: Golden) -> None:
    A, B = te.placeholder((4, 6), name="A"), te.placeholder((4,), name="B")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=B[i]), name="C")
    s = te.create_schedule(C.op)
    s[C].reorder(k, C.op.axis[0])
    a, b = data((4, 6)), data((4,))
    golden(nest(s, [A, B, C], a.sum(axis=1) + b, a, b))


def test_a_reduction_starts_from_a_stage_computed_beside_it(golden: Golden) -> None:
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4,), lambda i: A[i, 0] * 2.0, name="B")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=B[i]), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a = data((4, 6))
    golden(nest(s, [A, C], a.sum(axis=1) + a[:, 0] * 2, a))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_reduction_of_tuples_stores_its_values_together(
    order: tuple[int, int], golden: Golden
) -> None:
    """Each new value is computed from the old ones, whichever is stored first."""
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    at, value = order

    def larger(x: Any, y: Any) -> tuple[Any, ...]:
        return tuple(te.if_then_else(x[value] >= y[value], x[n], y[n]) for n in range(2))

    def nothing(*types: str) -> tuple[Any, ...]:
        return tuple(te.min_value(t) if n == value else 0 for n, t in enumerate(types))

    pair = te.comm_reducer(larger, nothing, name="argmax")

    def body(i: Any) -> Any:
        both = (k, A[i, k]) if at == 0 else (A[i, k], k)
        return pair(both, axis=k)

    C = te.compute((4,), body, name="C")
    s = te.create_schedule(C[0].op)
    a, index, most = data((4, 6)), np.zeros(4, "int32"), np.zeros(4, "float32")
    f = tvm.lower(s, [A, C[at], C[value]], until="nest")
    interpret(f, a, index, most)
    np.testing.assert_array_equal(index, a.argmax(axis=1))
    np.testing.assert_array_equal(most, a.max(axis=1))
    golden(str(f))


# --- guards --------------------------------------------------------------------------------------


def ragged(n: int, factor: int) -> tuple[te.Schedule, list[te.Tensor], Any]:
    """B = row sums of A, computed inside the inner loop of C, which is split by `factor`."""
    A = te.placeholder((n, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], factor)
    s[B].compute_at(s[C], inner)
    return s, [A, C], data((n, 6))


def test_a_reduction_attached_in_a_ragged_loop_is_guarded_from_its_init_on(golden: Golden) -> None:
    """101 rows in parts of 100: rows 101 .. 199 are neither read nor written."""
    s, args, a = ragged(101, 100)
    golden(nest(s, args, a.sum(axis=1) + 1, a))


def test_a_reduction_attached_in_a_ragged_tile_is_guarded(golden: Golden) -> None:
    A = te.placeholder((10, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((10,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((10,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    a = data((10, 6))
    golden(nest(s, [A, C], a.sum(axis=1) + 1, a))


def test_an_inner_split_that_does_not_divide_has_a_guard_of_its_own(golden: Golden) -> None:
    """8 in parts of 3 is 9 steps: without the guard every eighth row would be done twice."""
    A = te.placeholder((16,), name="A")
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((), lambda: te.sum(A[k], axis=k), name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(k, 8)
    s[C].split(inner, 3)
    a = data((16,))
    golden(nest(s, [A, C], np.array(a.sum()), a))


def test_a_fused_and_split_loop_has_one_guard(golden: Golden) -> None:
    s, args = matmul(5, 3)
    C = args[2]
    s[C].split(s[C].fuse(*C.op.axis), 4)
    golden(matmul_nest(s, args))


def test_a_guard_stands_as_far_out_as_it_can(golden: Golden) -> None:
    A = te.placeholder((10, 6), name="A")
    C = te.compute((10, 6), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 4)
    a = data((10, 6))
    golden(nest(s, [A, C], a + 1, a))


def test_a_guard_stands_inside_attached_stages(golden: Golden) -> None:
    A = te.placeholder((10, 6), name="A")
    B = te.compute((10, 6), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((10, 6), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    _, ii = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], ii)
    a = data((10, 6))
    golden(nest(s, [A, C], (a + 1) * 2, a))


def test_a_tile_that_leaves_on_both_sides_is_guarded_twice(golden: Golden) -> None:
    s, args = matmul(10, 7)
    C = args[2]
    s[C].tile(*C.op.axis, 4, 4)
    golden(matmul_nest(s, args))


# --- stages --------------------------------------------------------------------------------------


def test_a_window_is_computed_once_a_tile(golden: Golden) -> None:
    A = te.placeholder((18,), name="A")
    B = te.compute((18,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((16,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    s[B].set_scope("local")
    a = data((18,))
    golden(nest(s, [A, C], 2 * (a[:-2] + a[1:-1] + a[2:]), a))


def test_padding_is_inlined_into_the_convolution(golden: Golden) -> None:
    A, W = te.placeholder((8,), name="A"), te.placeholder((3,), name="W")
    P = te.compute((10,), lambda i: te.if_then_else(te.all(i >= 1, i < 9), A[i - 1], 0.0), name="P")
    k = te.reduce_axis((0, 3), name="k")
    C = te.compute((8,), lambda i: te.sum(P[i + k] * W[k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    a, w = data((8,)), data((3,))
    golden(nest(s, [A, W, C], np.convolve(a, w[::-1], "same"), a, w))


def test_several_outputs_of_one_operation_are_stored_together(golden: Golden) -> None:
    A = te.placeholder((8,), name="A")
    B, D = te.compute((8,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    C = te.compute((8,), lambda i: B[i] + D[i], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a = data((8,))
    golden(nest(s, [A, C], a + 1 + a * 2, a))


def test_two_outputs_of_which_one_reads_the_other(golden: Golden) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    f = tvm.lower(te.create_schedule([B.op, C.op]), [A, B, C], until="nest")
    a, b, c = data((8,)), np.zeros(8, "float32"), np.zeros(8, "float32")
    interpret(f, a, b, c)
    np.testing.assert_array_equal((b, c), (a + 1, (a + 1) * 2))
    golden(str(f))


def test_a_write_cache_is_computed_inside_the_loop_that_copies(golden: Golden) -> None:
    s, args = matmul()
    C = args[2]
    local = s.cache_write(C, "local")
    io, jo, _, ji = s[C].tile(*C.op.axis, 4, 2)
    s[local].compute_at(s[C], jo)
    (k,) = s[local].op.reduce_axis
    s[local].reorder(k, *s[local].op.axis)
    s[C].vectorize(ji)
    s[C].parallel(io)
    golden(matmul_nest(s, args))


def test_a_read_cache_is_filled_where_it_is_needed(golden: Golden) -> None:
    s, args = matmul()
    A, _, C = args
    shared = s.cache_read(A, "shared", [C])
    s[shared].compute_at(s[C], C.op.axis[0])
    golden(matmul_nest(s, args))


def test_a_packed_layout_is_written_and_read_at_the_same_place(golden: Golden) -> None:
    s, args = matmul(8, 8)
    _, B, C = args
    packed = s.cache_read(B, "global", [C])
    s[packed].transform_layout(lambda k, j: (j // 4, k, j % 4))
    outer, _ = s[C].split(C.op.axis[1], 4)
    s[C].reorder(outer, C.op.axis[0])
    s[packed].compute_at(s[C], outer)
    golden(matmul_nest(s, args))


def test_loops_of_one_iteration_are_left_out() -> None:
    A = te.placeholder((1, 4, 1), name="A")
    C = te.compute((1, 4, 1), lambda i, j, k: A[i, j, k] + 1.0, name="C")
    a = data((1, 4, 1))
    assert nest(te.create_schedule(C.op), [A, C], a + 1, a) == (
        "def main(A: float32[1, 4, 1], C: float32[1, 4, 1]):\n"
        "  for j in range(4):\n"
        "    C[0, j, 0] = A[0, j, 0] + 1.0"
    )


def test_a_tensor_of_no_elements_has_loops_that_never_run() -> None:
    A = te.placeholder((0, 4), name="A")
    C = te.compute((0, 4), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].split(s[C].fuse(*C.op.axis), 8)
    a = data((0, 4))
    nest(s, [A, C], a, a)


def test_an_index_from_data_is_clipped(golden: Golden) -> None:
    A = te.placeholder((8,), name="A")
    I = te.placeholder((6,), "int32", name="I")  # noqa: E741
    C = te.compute((6,), lambda i: A[I[i]], name="C")
    a, at = data((8,)), np.array([-5, 0, 3, 7, 8, 99], "int32")
    golden(nest(te.create_schedule(C.op), [A, I, C], a.take(at, mode="clip"), a, at))
