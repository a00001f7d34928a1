"""Explanations: derivations of bounds and guards, exact counts, and what is likely slow."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from minitvm import te, tir, topi
from minitvm.base import FLOAT32, ScheduleError, Target
from minitvm.explain import PerformanceWarning, explain, explain_bound, explain_guard, loops_of
from minitvm.explain.stages import compiled, performance_warnings
from minitvm.lowering import distinct, infer, runs, times
from minitvm.tir import (
    FALSE,
    TRUE,
    Buffer,
    Compare,
    For,
    If,
    Store,
    Var,
    add,
    all_of,
    compare,
    const,
    mul,
    rewrite,
    substitute,
)

Golden = Callable[[str], None]
FOUR = "llvm -num-cores=4"


def pair(n: int = 10, factor: int = 4) -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    """C[i] = B[i] + B[i + 2], B computed in tiles of C"""
    A = te.placeholder((n + 4,), name="A")
    B = te.compute((n + 2,), lambda i: A[i] + A[i + 1] + A[i + 2], name="B")
    C = te.compute((n,), lambda i: B[i] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=factor)
    s[B].compute_at(s[C], outer)
    return B, C, s


def matmul(n: int = 64) -> tuple[te.Tensor, te.Schedule]:
    """C = A @ B"""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return C, te.create_schedule(C.op)


def blur(height: int, width: int) -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    """The lecture's 3 x 3 blur of a padded image: three columns, then three rows."""
    A = te.placeholder((height + 2, width + 2), name="A")
    blurx = te.compute(
        (height + 2, width), lambda y, x: (A[y, x] + A[y, x + 1] + A[y, x + 2]) / 3.0, name="blurx"
    )
    blury = te.compute(
        (height, width),
        lambda y, x: (blurx[y, x] + blurx[y + 1, x] + blurx[y + 2, x]) / 3.0,
        name="blury",
    )
    return blurx, blury, te.create_schedule(blury.op)


# --- bounds ---------------------------------------------------------------------------------------


def test_a_bound_follows_from_what_the_readers_read() -> None:
    _, _, s = pair()
    assert str(explain_bound(s.state, "B", "i")) == (
        "B.i = [i_outer*4, 6]: elements i_outer*4 .. i_outer*4 + 5 of 12\n"
        "  because C reads B[i], B[i + 2]\n"
        "    with i = i_outer*4 + i_inner\n"
        "      i_outer fixed: B is computed inside that loop\n"
        "      i_inner in 0..3 (loop of split(i, factor=4), step 1)\n"
        "    B[i] is i_outer*4 .. i_outer*4 + 3\n"
        "    B[i + 2] is i_outer*4 + 2 .. i_outer*4 + 5\n"
        "  in each iteration of i_outer of C, where B is computed (compute_at, step 2)"
    )


def test_a_bound_at_root_sweeps_every_loop() -> None:
    _, _, s = pair()
    s[s.stages[1].name].compute_root()
    assert str(explain_bound(s.state, "B", "i")) == (
        "B.i = [0, 12]: elements 0 .. 11 of 12\n"
        "  because C reads B[i], B[i + 2]\n"
        "    with i = i_outer*4 + i_inner\n"
        "      i_outer in 0..2 (loop of split(i, factor=4), step 1)\n"
        "      i_inner in 0..3 (loop of split(i, factor=4), step 1)\n"
        "    B[i] is 0 .. 11\n"
        "    B[i + 2] is 2 .. 13\n"
        "  all of it: the part that is read is not smaller, or not known"
    )


def test_an_output_is_computed_as_a_whole() -> None:
    _, _, s = pair()
    assert str(explain_bound(s.state, "C", "i")) == (
        "C.i = [0, 10]: elements 0 .. 9 of 10\n"
        "  because C is an output: all of it is computed"
    )  # fmt: skip


def test_a_scan_reads_the_current_row_of_its_update() -> None:
    X, S = te.placeholder((5, 4), name="X"), te.placeholder((5, 4), name="S")
    first = te.compute((1, 4), lambda _, j: X[0, j], name="first")
    update = te.compute((5, 4), lambda t, j: S[t - 1, j] + X[t, j], name="update")
    s = te.create_schedule(te.scan(first, update, S, inputs=[X], name="R").op)
    assert str(explain_bound(s.state, "update", "t")) == (
        "update.t = [t + 1, 1]: elements t + 1 .. t + 1 of 5\n"
        "  because R reads update[t, j]\n"
        "    with t = t + 1\n"
        "      t fixed: update is computed inside that loop\n"
        "    update[t, j] is t + 1\n"
        "  in each iteration of t of R, where update is computed"
    )


def test_the_extent_of_a_made_loop_follows_from_its_parent() -> None:
    _, _, s = pair()
    assert str(explain_bound(s.state, "C", "i.outer")) == (
        "C.i_outer = [0, 3]: 3 iterations\n"
        "  because 10 / 4 rounded up is 3, from split(i, factor=4), step 1\n"
        "  C.i = [0, 10]: elements 0 .. 9 of 10\n"
        "    because C is an output: all of it is computed"
    )


def test_a_fused_loop_has_the_product_of_its_parts() -> None:
    C, s = matmul(8)
    s[C].fuse(*C.op.axis)
    found = explain_bound(s.state, "C", "i.j.fused")
    assert found.claim == "C.i_j_fused = [0, 64]: 64 iterations"
    assert found.because[0].claim == "because 8 * 8 = 64, from fuse(i, j), step 1"


def test_an_index_from_data_may_be_any() -> None:
    A, at = te.placeholder((8,), name="A"), te.placeholder((4,), "int32", name="at")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((4,), lambda i: B[at[i]], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert ": its index comes from data, so it may be any element" in str(
        explain_bound(s.state, "B", "i")
    )


def copied() -> te.Schedule:
    """H is what a statement of one's own makes of G."""
    A = te.placeholder((10,), name="A")
    G = te.compute((10,), lambda i: A[i] + 1.0, name="G")
    H = te.extern((10,), [G], lambda i, o: tir.call_packed("copy", i[0], o[0]), name="H")
    return te.create_schedule(H.op)


def test_an_extern_operation_reads_all_of_its_inputs() -> None:
    assert str(explain_bound(copied().state, "G", "i")) == (
        "G.i = [0, 10]: elements 0 .. 9 of 10\n  because H reads all of it"
    )


def test_the_loops_of_an_extern_operation_are_its_own() -> None:
    assert explain(copied().state)["H"].place == (
        "at root: an output is stored as a whole; its loops are written by hand, not scheduled"
    )


def test_nothing_is_derived_for_an_inlined_stage() -> None:
    B, _, s = pair()
    s[B].compute_inline()
    assert str(explain_bound(s.state, "B", "i")) == (
        "B.i: nothing is stored, B is inlined in C"
    )  # fmt: skip


def test_an_unknown_axis_is_refused_with_the_known_ones() -> None:
    _, _, s = pair()
    with pytest.raises(
        ScheduleError, match=r"axis 'k' of C: there is no such axis\n  try: one of i"
    ):
        explain_bound(s.state, "C", "k")


# --- guards ---------------------------------------------------------------------------------------


def test_a_guard_names_the_split_that_does_not_divide() -> None:
    _, _, s = pair()
    assert str(explain_guard(s.state, "C", "i.inner")) == (
        "i_inner of C: 1 guard\n"
        "  i_outer*4 + i_inner < 10\n"
        "    because 10 % 4 != 0 from split(i, factor=4), step 1\n"
        "    certain for i_outer in 0..1 of 0..2\n"
        "    certain for i_inner in 0..1 of 0..3\n"
        "    after partition: i_inner + 8 < 10, around 1 of 2 stores\n"
        "    after tighten: nothing is left\n"
        "    after vectorize: nothing is left"
    )


def test_a_region_that_sticks_out_is_guarded_by_the_tensor() -> None:
    _, _, s = pair()
    (guard,) = explain_guard(s.state, "B", "i").because
    assert guard.claim == "i_outer*4 + i < 12"
    assert (
        guard.because[0].claim
        == "because the loops take i through 0 .. 13, 6 at a time, and B ends at 11"
    )


def test_a_loop_without_a_guard_says_why() -> None:
    _, _, s = pair(12)
    assert str(explain_guard(s.state, "C", "i.inner")) == (
        "i_inner of C: 0 guards\n"
        "  because split(i, factor=4), step 1 cuts 12 into whole parts of 4, and stays in bounds"
    )


def test_a_guard_that_becomes_a_mask_is_called_one() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].vectorize(inner)
    (guard,) = explain_guard(s.state, "C", "i.inner").because
    assert guard.because[-1].claim == (
        "after vectorize: i_outer_1*8 + n // 8*8 + lane(8) < n (a mask), around 1 of 2 stores"
    )


def test_a_guard_of_a_symbolic_split_may_be_needed() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=8)
    (guard,) = explain_guard(s.state, "C", "i").because
    assert guard.because[0].claim == "because n % 8 may not be 0, from split(i, factor=8), step 1"


def test_every_guard_has_a_cause() -> None:
    blurx, blury, s = blur(10, 12)
    yo, _, _, _ = s[blury].tile(*blury.op.axis, 4, 5)
    s[blurx].compute_at(s[blury], yo)
    for r in explain(s.state).stages:
        assert len(r.guards) == len(infer(s.state)[r.name].guards if r.name != "A" else ())


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 3, 4, 7, 20])
def test_counts_agree_with_going_through_all_iterations(factor: int) -> None:
    blurx, blury, s = blur(7, 5)
    y, x = blury.op.axis
    outer, _ = s[blury].split(s[blury].fuse(y, x), factor=factor)
    s[blurx].compute_at(s[blury], outer)
    for r in runs(loops_of(s.state).body):
        ranges = [range(loop.extent) for loop in r.loops if isinstance(loop.extent, int)]
        names = [loop.var for loop in r.loops]
        held = [
            substitute(all_of(*r.conditions), dict(zip(names, at, strict=True))) is TRUE
            for at in product(*ranges)
        ]
        assert times(r) == sum(held)


def test_different_values_are_counted_once() -> None:
    i, j = Var("i", 0, 2), Var("j", 0, 5)
    assert distinct([add(mul(i, 4), j)], {i: 3, j: 6}, []) == 14


def test_different_values_are_counted_where_conditions_hold() -> None:
    i, j = Var("i", 0, 2), Var("j", 0, 5)
    cond = compare("<", add(mul(i, 4), j), 10)
    assert isinstance(cond, Compare)
    assert distinct([add(mul(i, 4), j)], {i: 3, j: 6}, [cond]) == 10


def test_what_never_runs_is_counted_as_such() -> None:
    i = Var("i", 0, 3)
    never = If(FALSE, Store(Buffer("B", (4,), FLOAT32), (i,), const(0.0, FLOAT32)))
    (run,) = runs(For(i, 4, never))
    assert times(run) == 0


def test_a_large_nest_is_counted_without_being_run() -> None:
    C, s = matmul(1000)
    s[C].tile(*C.op.axis, *C.op.reduce_axis, 16, 48, 7)
    work = explain(s.state)["C"].work
    assert (work.stores, work.elements) == (10**6, 10**6)


def test_a_symbolic_size_is_not_counted() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1.0, name="C")
    report = explain(te.create_schedule(C.op).state)["C"]
    assert report.recompute is None
    assert "not counted" in str(report)


# --- recompute factors ----------------------------------------------------------------------------


def test_nothing_is_computed_twice_at_root() -> None:
    _, _, s = blur(16, 16)
    assert explain(s.state)["blurx"].recompute == 1


def test_the_blur_in_strips_of_4_rows_computes_6_rows_for_4() -> None:
    blurx, blury, s = blur(64, 32)
    outer, _ = s[blury].split(blury.op.axis[0], factor=4)
    s[blurx].compute_at(s[blury], outer)
    report = explain(s.state)["blurx"]
    assert report.per_tile == Fraction(6, 4)
    assert report.recompute == Fraction(64 // 4 * 6, 64 + 2)  # the first and last rows count once
    assert (
        "recompute factor 1.4545: 3072 stores for 2112 elements; 1.5 away from the edges"
    ) in str(report)


def test_the_blur_in_tiles_of_256_by_32_computes_34_rows_for_32() -> None:
    blurx, blury, s = blur(2048, 1024)
    y, x = blury.op.axis
    _, xo, _, _ = s[blury].tile(y, x, 32, 256)
    s[blurx].compute_at(s[blury], xo)
    report = explain(s.state)["blurx"]
    assert report.per_tile == Fraction(34, 32)
    assert report.recompute == Fraction(2048 // 32 * 34, 2048 + 2)


def test_the_blur_row_by_row_computes_every_row_three_times() -> None:
    blurx, blury, s = blur(64, 32)
    _, inner = s[blury].split(blury.op.axis[0], factor=4)
    s[blurx].compute_at(s[blury], inner)
    assert explain(s.state)["blurx"].per_tile == 3


def test_a_loop_that_moves_nothing_computes_all_again() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((5, 8), lambda i, j: B[j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    report = explain(s.state)["B"]
    assert report.recompute == report.per_tile == 5


def test_a_reduction_counts_its_output_points() -> None:
    A = te.placeholder((8, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((3, 8), lambda i, j: B[j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert (explain(s.state)["B"].work.stores, explain(s.state)["B"].work.elements) == (24, 8)


# --- the report -----------------------------------------------------------------------------------


def test_the_report_of_a_tiled_blur(golden: Golden) -> None:
    blurx, blury, s = blur(70, 128)
    y, x = blury.op.axis
    yo, _, _, xi = s[blury].tile(y, x, 32, 64)
    s[blurx].compute_at(s[blury], yo)
    s[blurx].set_scope("local")
    s[blury].vectorize(xi)
    golden(str(explain(s.state, FOUR)))


def test_the_report_of_a_matmul_with_caches(golden: Golden) -> None:
    C, s = matmul(64)
    CL = s.cache_write(C, "local")
    _, jo, _, ji = s[C].tile(*C.op.axis, 8, 16)
    s[CL].compute_at(s[C], jo)
    i, j = s[CL].op.axis
    s[CL].reorder(*s[CL].op.reduce_axis, i, j)
    s[CL].vectorize(j)
    s[CL].unroll(i)
    s[C].vectorize(ji)
    golden(str(explain(s.state, FOUR)))


def test_a_paragraph_is_found_by_name() -> None:
    _, _, s = pair()
    assert explain(s.state)["B"].name == "B"
    with pytest.raises(ScheduleError, match="no stage called 'Z'\n  try: one of A, B, C"):
        explain(s.state)["Z"]


def test_a_tensorized_loop_names_its_intrinsic_and_is_not_counted() -> None:
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] * 2.0, name="b")
    twice = te.decl_tensor_intrin(
        b.op, lambda i, o: tir.call_packed("twice", i[0], o[0]), name="twice"
    )
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], 16)
    s[B].tensorize(inner, twice)
    report = explain(s.state)["B"]
    assert str(report.loops[1]) == "i_inner (16, tensorize twice)"
    assert report.recompute is None


def test_an_inlined_stage_and_an_input_take_one_line_each() -> None:
    B, _, s = pair()
    s[B].compute_inline()
    report = explain(s.state)
    assert str(report["A"]) == "A\n  where    an input"
    assert str(report["B"]) == "B\n  where    inlined in C: never stored"


def test_markdown_leaves_signs_alone() -> None:
    _, _, s = pair()
    assert r"| region | i = i\_outer\*4 .. i\_outer\*4 + 5, 6 of 12 |" in (
        explain(s.state)._repr_markdown_()
    )


# --- what is likely slow --------------------------------------------------------------------------


def warned(s: te.Schedule, about: str, target: str = FOUR) -> PerformanceWarning:
    """The only warning with `about` in its reason, however small the program."""
    (found,) = [w for r in s.explain(target).stages for w in r.warnings if about in w.why]
    return found


def test_a_strided_vector_store_names_stride_and_tensor() -> None:
    C, s = matmul(64)
    i, j = C.op.axis
    s[C].reorder(j, *C.op.reduce_axis, i)
    s[C].vectorize(i)
    found = warned(s, "stores of C")
    assert str(found) == (
        "vectorized loop i of C: stores of C have stride 64: each lane is fetched by itself\n"
        "  try: vectorize the loop that runs along the last dimension of C"
    )
    assert warned(s, "loads of A").why.startswith("loads of A have stride 64")


def test_a_gathered_load_is_told_from_a_strided_one() -> None:
    A, at = te.placeholder((8,), name="A"), te.placeholder((64,), "int32", name="at")
    C = te.compute((64,), lambda i: A[at[i]], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    assert (
        warned(s, "loads of A").why
        == "loads of A are gathered: their lanes have no constant stride"
    )


def test_a_broadcast_load_is_no_reason_to_warn() -> None:
    C, s = matmul(64)
    i, j = C.op.axis
    s[C].reorder(i, *C.op.reduce_axis, j)
    s[C].vectorize(j)
    assert s.warnings(FOUR) == ()


def test_a_vectorized_loop_around_another_one() -> None:
    C, s = matmul(64)
    s[C].vectorize(C.op.axis[1])
    assert warned(s, "not innermost").fix == "reorder(..., k, j)"


def test_a_vector_of_a_few_lanes() -> None:
    C, s = matmul(63)
    i, j = C.op.axis
    s[C].reorder(i, *C.op.reduce_axis, j)
    s[C].vectorize(j)
    assert "63 lanes of float32 are not a multiple" in warned(s, "lanes of").why


def test_a_vectorized_loop_of_one_iteration() -> None:
    C, s = matmul(64)
    _, inner = s[C].split(C.op.axis[1], factor=1)
    s[C].vectorize(inner)
    assert str(warned(s, "one iteration")) == (
        "vectorize of j_inner of C: it has one iteration (from split(j, factor=1), step 1)\n"
        "  try: vectorize a longer loop"
    )


def test_a_vectorized_loop_around_a_vector() -> None:
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((64, 64), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    i, _ = C.op.axis
    s[B].compute_at(s[C], i)
    s[B].vectorize(B.op.axis[1])
    s[C].vectorize(i)
    assert str(warned(s, "plain loop")) == (
        "vectorized loop i of C: it stays a plain loop: loop j inside it is vectorized\n"
        "  try: vectorize only one of the two"
    )


def test_a_vectorized_loop_whose_iterations_share_an_element() -> None:
    A = te.placeholder((64,), name="A")
    C = te.compute((64,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    loops = loops_of(s.state)
    body = rewrite(loops.body, lambda n: replace(n, indices=(0,)) if isinstance(n, Store) else n)
    stuck = replace(loops, body=body)
    (found,) = performance_warnings(stuck, compiled(stuck), Target(FOUR))
    assert "its iterations store to one element" in found.why


def test_a_guard_in_the_innermost_loop() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].reorder(inner, outer)
    found = warned(s, "innermost loop")
    assert found.what == "guard i_outer*8 + i_inner < n of C"
    assert found.why == "it is tested in the innermost loop, i_outer, in every iteration"


def test_a_guard_that_passes_remove_is_no_reason_to_warn() -> None:
    _, _, s = pair()
    assert s.warnings(FOUR) == ()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize("size", [8, 14, 33, 64])
def test_convolutions_have_schedules_without_warnings(size: int, kernel: int, stride: int) -> None:
    # Vectors of 64 bytes, as lines: with 32, two of these tiles read half lines, and are warned of.
    machine = Target(FOUR).on(vector_bytes=64, vector_registers=32)
    x = te.placeholder((1, 64, size, size), name="x")
    for channels, groups in ((64, 1), (1, 64)):
        w = te.placeholder((64, channels, kernel, kernel), name="w")
        s = topi.schedule(topi.conv2d(x, w, stride, kernel // 2, groups=groups), machine)
        assert [str(c) for r in s.explain(machine).stages for c in r.warnings] == []


@pytest.mark.parametrize("size", [8, 64, 512])
def test_a_tile_transposed_in_registers_is_not_strided_memory(size: int) -> None:
    s = topi.schedule(topi.transpose(te.placeholder((size, size), name="A")), FOUR)
    assert s.warnings(FOUR) == ()


def test_a_small_program_is_told_only_of_steps_without_effect() -> None:
    C, s = matmul(16)
    s[C].vectorize(C.op.axis[0])
    assert all(w.factor > 0 for w in s.explain(FOUR)["C"].warnings)
    assert len(s.explain(FOUR)["C"].warnings) == 4
    assert s.warnings(FOUR) == ()
    C, s = matmul(512)
    s[C].vectorize(C.op.axis[0])
    factors = [w.factor for w in s.warnings(FOUR)]
    assert len(factors) == 3 < len(s.explain(FOUR)["C"].warnings)
    assert factors == sorted(factors, reverse=True)


def test_a_loop_too_long_to_unroll() -> None:
    C, s = matmul(128)
    i, j = C.op.axis
    s[C].unroll(i)
    s[C].unroll(j)
    assert warned(s, "stays a loop").why == (
        "it stays a loop: 901120 operations, and at most 12288 are written out"  # 128 * 128 * 55
    )


def test_a_parallel_loop_with_fewer_iterations_than_threads() -> None:
    C, s = matmul(64)
    outer, _ = s[C].split(C.op.axis[0], nparts=2)
    s[C].parallel(outer)
    assert warned(s, "threads: some").why == "2 iterations for 4 threads: some have nothing to do"
    assert not [w for w in s.warnings("llvm -num-cores=2") if "threads: some" in w.why]


def test_a_parallel_loop_with_little_to_do() -> None:
    _, C, s = pair(64)
    s[C].parallel(s[C].leaf_iter_vars[0])
    assert warned(s, "waking").why == "160 stores in all: waking the threads takes longer"


def test_a_stage_computed_more_than_twice_as_often_as_needed() -> None:
    blurx, blury, s = blur(64, 32)
    s[blurx].compute_at(s[blury], blury.op.axis[0])
    assert str(warned(s, "each element")) == (
        "compute_at of blurx: each element is computed 2.9091 times\n"
        "  try: a loop further out, or larger tiles of the reader"
    )


def test_a_copy_that_is_loaded_again_is_no_reason_to_warn() -> None:
    C, s = matmul(64)
    A = s.stages[0].op.output(0)
    AL = s.cache_read(A, "local", [C])
    s[AL].compute_at(s[C], s[C].op.axis[1])
    assert not [w for w in s.warnings(FOUR) if "each element" in w.why]


# --- memory that is kept --------------------------------------------------------------------------


def sliding() -> te.Schedule:
    """The lecture's schedule of the blur: rows of blurx are kept while a tile is computed."""
    blurx, blury, s = blur(64, 32)
    _, xo, yi, _ = s[blury].tile(*blury.op.axis, 4, 4)
    s[blurx].compute_at(s[blury], yi)
    s[blurx].store_at(s[blury], xo)
    return s


def test_rows_that_are_kept_are_computed_once_a_tile() -> None:
    report = explain(sliding().state)["blurx"]
    assert report.per_tile == Fraction(6, 4)
    assert report.recompute == Fraction(64 // 4 * 6, 64 + 2)


def test_a_bound_of_memory_that_is_kept_says_that_only_what_is_new_is_computed() -> None:
    assert str(explain_bound(sliding().state, "blurx", "y")).endswith(
        "\n  what earlier iterations computed is kept: only what is new is computed"
    )


def test_the_report_says_for_how_long_memory_is_kept() -> None:
    assert explain(sliding().state)["blurx"].place == (
        "in loop y_inner of blury, around all that reads it (blury); "
        "kept throughout loop x_outer of blury"
    )


def test_threads_that_share_memory_are_said_to_widen_what_is_computed() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((64,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    bx, tx = s[C].split(C.op.axis[0], 8)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], tx)
    s[B].set_scope("shared")
    assert str(explain_bound(s.state, "B", "i")).splitlines()[-3:] == [
        "    B[i] is i_outer*8 .. i_outer*8 + 7",
        "  in each iteration of i_inner of C, where B is computed (compute_at, step 4)",
        "  for all iterations of i_inner: they share the shared memory",
    ]


def test_a_pragma_that_no_pass_knows_is_reported() -> None:
    C, s = matmul(8)
    s[C].pragma(C.op.axis[0], "auto_unrol_max_step", 16)
    found = warned(s, "no pass knows it")
    assert found.what == "pragma auto_unrol_max_step on loop i of C"
