"""Each step of a schedule: the loops before and after, what it refuses, how it is written down."""

from collections.abc import Callable
from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError, ScheduleError
from minitvm.schedule import (
    STEPS,
    Annotate,
    Bind,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    DoubleBuffer,
    Fuse,
    Pragma,
    Prefetch,
    Reorder,
    RFactor,
    SetScope,
    SetStorePredicate,
    Split,
    State,
    Step,
    StorageAlign,
    StoreAt,
    Tensorize,
    TransformLayout,
    apply,
    from_json,
    initial,
    legal_places,
    replay,
    to_json,
)


def vector(n: Any = 8) -> te.Schedule:
    """C[i] = A[i] + 1"""
    A = te.placeholder((n,), name="A")
    return te.create_schedule(te.compute((n,), lambda i: A[i] + 1.0, name="C").op)


def matrix() -> te.Schedule:
    """C[i, j] = A[i, j] + 1, 4 x 6"""
    A = te.placeholder((4, 6), name="A")
    return te.create_schedule(te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="C").op)


def rowsum() -> te.Schedule:
    """C[i] = sum over k of A[i, k], 4 x 6"""
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    return te.create_schedule(te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C").op)


def chain() -> te.Schedule:
    """B[i] = A[i] + 1; C[i] = B[i] * 2"""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    return te.create_schedule(te.compute((8,), lambda i: B[i] * 2.0, name="C").op)


def diamond() -> te.Schedule:
    """B[i] = A[i] + 1; C[i] = B[i] * 2; D[i] = B[i] + C[i]"""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    return te.create_schedule(te.compute((8,), lambda i: B[i] + C[i], name="D").op)


def loops(s: te.Schedule) -> str:
    """The loops of the schedule, without the line that declares the function."""
    tensors = [o.output(0) for o in (v.op for v in s.stages) if isinstance(o, te.PlaceholderOp)]
    func = tvm.lower(s, [*tensors, *(o.output(0) for o in s.outputs)], until="nest")
    return "\n".join(line[2:] for line in str(func).splitlines()[1:])


def after(s: te.Schedule, *steps: Step) -> str:
    for step in steps:
        s.apply(step)
    return loops(s)


def leaves(s: te.Schedule, stage: str) -> list[str]:
    return [a.name for a in s[stage].leaf_iter_vars]


def refusal(s: te.Schedule, *steps: Step) -> str:
    """What the last of `steps` is refused with; the state must stay as it was."""
    for step in steps[:-1]:
        s.apply(step)
    before, seen = s.state, repr(s)
    with pytest.raises(ScheduleError) as caught:
        s.apply(steps[-1])
    assert s.state is before
    assert repr(s) == seen
    return str(caught.value)


# --- split ---------------------------------------------------------------------------------------


def test_without_a_step_there_is_one_loop_for_each_axis() -> None:
    assert loops(matrix()) == (
        "for i in range(4):\n  for j in range(6):\n    C[i, j] = A[i, j] + 1.0"
    )


def test_split_by_a_factor_makes_an_inner_loop_of_that_length() -> None:
    assert after(vector(), Split("C", "i", factor=4)) == (
        "for i_outer in range(2):\n"
        "  for i_inner in range(4):\n"
        "    C[i_outer*4 + i_inner] = A[i_outer*4 + i_inner] + 1.0"
    )


def test_split_in_parts_makes_an_outer_loop_of_that_length() -> None:
    assert after(vector(12), Split("C", "i", nparts=4)) == (
        "for i_outer in range(4):\n"
        "  for i_inner in range(3):\n"
        "    C[i_outer*3 + i_inner] = A[i_outer*3 + i_inner] + 1.0"
    )


def test_a_split_that_does_not_divide_guards_the_last_part() -> None:
    assert after(vector(10), Split("C", "i", factor=4)) == (
        "for i_outer in range(3):\n"
        "  for i_inner in range(4):\n"
        "    if likely(i_outer*4 + i_inner < 10):\n"
        "      C[i_outer*4 + i_inner] = A[i_outer*4 + i_inner] + 1.0"
    )


def test_parts_that_do_not_divide_guard_the_last_one() -> None:
    assert after(vector(10), Split("C", "i", nparts=4)) == (
        "for i_outer in range(4):\n"
        "  for i_inner in range(3):\n"
        "    if likely(i_outer*3 + i_inner < 10):\n"
        "      C[i_outer*3 + i_inner] = A[i_outer*3 + i_inner] + 1.0"
    )


@pytest.mark.parametrize("step", [Split("C", "i", factor=16), Split("C", "i", nparts=16)])
def test_a_loop_shorter_than_the_size_stays_as_it_is(step: Split) -> None:
    name = "i_inner" if step.factor else "i_outer"
    assert after(vector(), step) == f"for {name} in range(8):\n  C[{name}] = A[{name}] + 1.0"


def test_a_split_by_one_leaves_the_outer_loop() -> None:
    assert after(vector(), Split("C", "i", factor=1)) == (
        "for i_outer in range(8):\n  C[i_outer] = A[i_outer] + 1.0"
    )


def test_the_parts_of_a_split_can_be_split() -> None:
    s = vector()
    s.apply(Split("C", "i", factor=4))
    s.apply(Split("C", "i.inner", factor=2))
    assert leaves(s, "C") == ["i.outer", "i.inner.outer", "i.inner.inner"]


def test_a_split_is_remembered_as_a_relation() -> None:
    s = vector()
    s.apply(Split("C", "i", factor=4))
    (r,) = s["C"].relations
    assert (r.parent.name, r.outer.name, r.inner.name, r.factor) == ("i", "i.outer", "i.inner", 4)  # type: ignore[union-attr]


def test_parts_of_a_reduce_axis_are_reduce_axes() -> None:
    s = rowsum()
    s.apply(Split("C", "k", factor=2))
    assert [a.kind for a in s["C"].leaf_iter_vars] == ["data", "reduce", "reduce"]


@pytest.mark.parametrize("size", [0, -2, "8", 2.0, True])
def test_a_size_is_an_integer_above_zero(size: Any) -> None:
    assert refusal(vector(), Split("C", "i", factor=size)) == (
        f"split of 'i' in C: the size of a part is an integer >= 1, not {size!r}"
    )


@pytest.mark.parametrize("sizes", [{}, {"factor": 2, "nparts": 4}])
def test_a_split_takes_one_size(sizes: dict[str, int]) -> None:
    assert refusal(vector(), Split("C", "i", **sizes)) == (
        "split of 'i' in C: exactly one of factor and nparts is needed"
    )


def test_a_loop_that_was_split_is_gone() -> None:
    assert refusal(matrix(), Split("C", "i", factor=2), Split("C", "i", factor=2)) == (
        "split of 'i' in C: 'i' was split into i.outer and i.inner\n"
        "  try: one of its loops now: i.outer, i.inner, j"
    )


def test_a_loop_that_was_fused_is_gone() -> None:
    assert refusal(matrix(), Fuse("C", ("i", "j")), Split("C", "j", factor=2)) == (
        "split of 'j' in C: 'j' was fused into i.j.fused\n  try: one of its loops now: i.j.fused"
    )


def test_an_axis_that_never_was_is_refused() -> None:
    assert refusal(matrix(), Split("C", "z", factor=2)) == (
        "split of 'z' in C: C has no axis 'z'\n  try: one of its loops now: i, j"
    )


def test_a_stage_that_is_not_there_is_refused() -> None:
    assert refusal(vector(), Split("Z", "i", factor=2)) == (
        "no stage called 'Z'\n  try: one of A, C"
    )


def test_an_input_has_no_loops() -> None:
    assert refusal(vector(), Split("A", "i", factor=2)) == (
        "split of 'i' in A: A is an input, nothing is computed there"
    )


def test_an_inlined_stage_has_no_loops() -> None:
    assert refusal(chain(), ComputeInline("B"), Split("B", "i", factor=2)) == (
        "split of 'i' in B: B is inlined, it has no loops\n  try: compute_root it first"
    )


def test_axes_of_one_name_are_told_apart_by_number() -> None:
    A = te.placeholder((8, 5), name="A")
    x, y = te.reduce_axis((0, 3)), te.reduce_axis((0, 5))
    C = te.compute((6,), lambda i: te.sum(A[i + x, y], axis=[x, y]), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(y, 2)
    assert s[C].leaf_iter_vars[2:] == [outer, inner]
    assert repr(s[C]) == "C: i, rv, rv_1.outer, rv_1.inner"


# --- fuse ----------------------------------------------------------------------------------------


def test_fuse_makes_one_loop_of_two() -> None:
    assert after(matrix(), Fuse("C", ("i", "j"))) == (
        "for i_j_fused in range(24):\n"
        "  C[i_j_fused // 6, i_j_fused % 6] = A[i_j_fused // 6, i_j_fused % 6] + 1.0"
    )


def test_fuse_takes_any_number_of_neighbours() -> None:
    s = matrix()
    s.apply(Split("C", "i", factor=2))
    s.apply(Fuse("C", ("i.outer", "i.inner", "j")))
    assert leaves(s, "C") == ["i.outer.i.inner.fused.j.fused"]


def test_fusing_a_reduce_axis_gives_a_reduce_axis() -> None:
    s = rowsum()
    s.apply(Fuse("C", ("i", "k")))
    assert [a.kind for a in s["C"].leaf_iter_vars] == ["reduce"]


def test_what_is_split_and_fused_again_has_the_first_index() -> None:
    assert after(vector(), Split("C", "i", factor=4), Fuse("C", ("i.outer", "i.inner"))) == (
        "for i_outer_i_inner_fused in range(8):\n"
        "  C[i_outer_i_inner_fused] = A[i_outer_i_inner_fused] + 1.0"
    )


def test_fuse_takes_neighbours_only() -> None:
    assert refusal(matrix(), Split("C", "i", factor=2), Fuse("C", ("i.outer", "j"))) == (
        "fuse in C: 'i.outer' and 'j' are not neighbours, outer before inner "
        "(loops: i.outer, i.inner, j)\n"
        "  try: reorder first, so that j comes right after i.outer"
    )


@pytest.mark.parametrize("axes", [("j", "i"), ("i", "i")])
def test_fuse_takes_the_outer_loop_first(axes: tuple[str, ...]) -> None:
    assert "are not neighbours, outer before inner (loops: i, j)" in refusal(
        matrix(), Fuse("C", axes)
    )


def test_fuse_of_one_loop_gives_that_loop() -> None:
    s = matrix()
    i = s["C"].leaf_iter_vars[0]
    assert s["C"].fuse(i) is i
    assert s.steps == ()
    s["C"].split(i, factor=2)
    with pytest.raises(ScheduleError, match="'i' was split into"):
        s["C"].fuse(i)


def test_fuse_does_not_take_one_loop() -> None:
    assert refusal(matrix(), Fuse("C", ("i",))) == (
        "fuse in C: it takes two or more neighbouring loops, or none"
    )


def scalar() -> te.Schedule:
    """Y = the sum of X"""
    X = te.placeholder((10,), name="X")
    k = te.reduce_axis((0, 10), name="k")
    return te.create_schedule(te.compute((), lambda: te.sum(X[k], axis=k), name="Y").op)


def test_fuse_of_no_loops_gives_a_scalar_a_loop_of_one() -> None:
    s = scalar()
    one = s["Y"].fuse(*s["Y"].op.axis)
    assert leaves(s, "Y") == ["singleton", "k"]
    outer, inner = s["Y"].split(one, nparts=20)
    s["Y"].unroll(inner)
    assert loops(s) == loops(scalar())
    s["Y"].bind(outer, te.thread_axis("blockIdx.x"))
    assert "if likely(singleton_outer < 1)" in loops(s)


def test_fuse_of_no_loops_is_outermost_and_a_place_to_compute_at() -> None:
    s = chain()
    one = s["C"].fuse()
    assert leaves(s, "C") == ["singleton", "i"]
    s["B"].compute_at(s["C"], one)
    assert loops(s) == loops(chain())
    assert str(s.explain_bound("C", one)) == "C.singleton = [0, 1]: 1 iteration, from fuse()"


def test_fuse_of_no_loops_is_written_down() -> None:
    s = scalar()
    s["Y"].vectorize(s["Y"].fuse())
    assert s.python().splitlines()[2:] == ["singleton = s[Y].fuse()", "s[Y].vectorize(singleton)"]
    Y = s.outputs[0]
    assert te.Schedule.from_json(s.to_json(), Y).steps == s.steps


def test_cache_write_after_a_fuse_has_one_axis_for_both_loops() -> None:
    s = matrix()
    C = s.outputs[0].output(0)
    s["C"].fuse(*s["C"].op.axis)
    CC = s.cache_write(C, "local")
    assert tuple(CC.shape) == (24,)
    assert leaves(s, "C") == ["i", "j"]
    assert loops(s) == (
        'C_local = allocate((24,), "float32", "local")\n'
        "for i_j_fused_c in range(24):\n"
        "  C_local[i_j_fused_c] = A[i_j_fused_c // 6, i_j_fused_c % 6] + 1.0\n"
        "for i in range(4):\n"
        "  for j in range(6):\n"
        "    C[i, j] = C_local[i*6 + j]"
    )
    again = te.Schedule.from_json(s.to_json(), C.op)
    assert loops(again) == loops(s)


def test_cache_write_after_a_fuse_in_another_order_transposes_the_copy() -> None:
    s = matrix()
    i, j = s["C"].op.axis
    s["C"].reorder(j, i)
    s["C"].fuse(j, i)
    s.cache_write(s.outputs[0].output(0), "local")
    assert "C[i_1, j_1] = C_local[j_1*4 + i_1]".replace("_1", "") in loops(s)


def test_cache_write_after_a_fuse_with_an_empty_loop_is_refused() -> None:
    A = te.placeholder((4, 0), name="A")
    C = te.compute((4, 0), lambda i, j: A[i, j] + 1.0, name="C")
    says = "cache_write of C: its loops have been changed already, and they would be lost"
    assert refusal(
        te.create_schedule(C.op), Fuse("C", ("i", "j")), CacheWrite("C", "local")
    ).startswith(says)


@pytest.mark.parametrize("last", [Fuse("C", ("i", "k")), Reorder("C", ("k", "i"))])
def test_cache_write_after_other_steps_would_lose_loops(last: Step) -> None:
    says = "cache_write of C: its loops have been changed already, and they would be lost"
    assert refusal(rowsum(), last, CacheWrite("C", "local")).startswith(says)


def test_cache_write_after_fuse_of_no_loops_would_lose_the_loop() -> None:
    says = "cache_write of C: its loops have been changed already, and they would be lost"
    assert refusal(matrix(), Fuse("C", ()), CacheWrite("C", "local")).startswith(says)


def test_a_loop_is_not_fused_where_another_stage_is_attached_between() -> None:
    steps = Split("C", "i", factor=4), ComputeAt("B", "C", "i.outer")
    assert refusal(chain(), *steps, Fuse("C", ("i.outer", "i.inner"))) == (
        "loop 'i.outer' of C: another stage is computed inside it, so this loop must stay\n"
        "  try: compute_root that stage first"
    )


@pytest.mark.parametrize(
    "step", [Fuse("C", ("i", "j")), Split("C", "j", factor=2)], ids=["fuse", "split"]
)
def test_a_marked_loop_is_not_cut_or_fused(step: Step) -> None:
    assert refusal(matrix(), Annotate("C", "j", "vectorize"), step) == (
        f"{step.what}: 'j' is marked vectorize\n"
        "  try: split and fuse first, then say how the new loops run"
    )


# --- reorder -------------------------------------------------------------------------------------


def test_reorder_permutes_loops() -> None:
    assert after(matrix(), Reorder("C", ("j", "i"))) == (
        "for j in range(6):\n  for i in range(4):\n    C[i, j] = A[i, j] + 1.0"
    )


def test_loops_that_reorder_does_not_name_stay_where_they_are() -> None:
    s = matrix()
    s.apply(Split("C", "i", factor=2))
    s.apply(Reorder("C", ("j", "i.outer")))
    assert leaves(s, "C") == ["j", "i.inner", "i.outer"]


def test_a_reduce_loop_may_come_before_a_data_loop() -> None:
    assert after(rowsum(), Reorder("C", ("k", "i"))) == (
        "for i_init in range(4):\n"
        "  C[i_init] = 0.0\n"
        "for k in range(6):\n"
        "  for i in range(4):\n"
        "    C[i] = C[i] + A[i, k]"
    )


def test_reorder_names_a_loop_once() -> None:
    assert refusal(matrix(), Reorder("C", ("i", "i"))) == (
        "reorder in C: the same axis is given twice"
    )


# --- how loops run -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vectorize", "unroll", "parallel"])
def test_a_loop_runs_as_it_is_marked(kind: Any) -> None:
    assert after(vector(), Annotate("C", "i", kind)) == (
        f"for i in {kind}(8):\n  C[i] = A[i] + 1.0"
    )


def test_a_reduce_loop_may_be_unrolled() -> None:
    assert after(rowsum(), Annotate("C", "k", "unroll")) == (
        "for i in range(4):\n  C[i] = 0.0\n  for k in unroll(6):\n    C[i] = C[i] + A[i, k]"
    )


def test_a_loop_runs_in_one_way_only() -> None:
    s = vector()
    s.apply(Annotate("C", "i", "unroll"))
    with pytest.raises(ScheduleError) as refused:
        s.apply(Annotate("C", "i", "parallel"))
    assert str(refused.value) == (
        "parallel of 'i' in C: it is unrolled already\n"
        "  try: use one of the two; undo() removes the unroll"
    )


def test_a_loop_may_be_marked_twice_alike() -> None:
    s = vector()
    s.apply(Annotate("C", "i", "unroll"))
    s.apply(Annotate("C", "i", "unroll"))
    assert repr(s["C"]) == "C: i (unroll)"


@pytest.mark.parametrize("kind", ["vectorize", "parallel"])
@pytest.mark.parametrize(
    ("steps", "axis"),
    [
        ((), "k"),
        ((Split("C", "k", factor=2),), "k.inner"),
        ((Fuse("C", ("i", "k")),), "i.k.fused"),
    ],
    ids=["itself", "a part", "fused"],
)
def test_a_reduce_loop_runs_in_turn(kind: Any, steps: tuple[Step, ...], axis: str) -> None:
    assert refusal(rowsum(), *steps, Annotate("C", axis, kind)) == (
        f"{kind} of {axis!r} in C: "
        "it is a reduce axis: its iterations all write the same element\n"
        "  try: a data axis; or rfactor the reduction first"
    )


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
def test_a_loop_to_unfold_has_a_constant_extent(kind: Any) -> None:
    assert refusal(vector(te.size_var("n")), Annotate("C", "i", kind)) == (
        f"{kind} of 'i' in C: its extent n is not a constant\n"
        f"  try: split it by a constant and {kind} the inner part"
    )


def test_a_parallel_loop_may_have_a_symbolic_extent() -> None:
    assert after(vector(te.size_var("n")), Annotate("C", "i", "parallel")) == (
        "for i in parallel(n):\n  C[i] = A[i] + 1.0"
    )


def test_one_loop_of_a_stage_is_vectorized() -> None:
    assert refusal(matrix(), Annotate("C", "j", "vectorize"), Annotate("C", "i", "vectorize")) == (
        "vectorize of 'i' in C: 'j' is vectorized already\n  try: fuse the two"
    )


def test_a_way_to_run_that_nobody_knows_is_refused() -> None:
    step = Annotate("C", "i", "bind")  # type: ignore[arg-type]
    assert refusal(vector(), step) == (
        "bind of 'i' in C: 'bind' is not a way to run a loop\n"
        "  try: one of vectorize, unroll, parallel"
    )


def test_a_pragma_is_a_remark_on_a_loop() -> None:
    assert after(vector(), Pragma("C", "i", "auto_unroll_max_step", 4)) == (
        "# pragma auto_unroll_max_step = 4\nfor i in range(8):\n  C[i] = A[i] + 1.0"
    )


@pytest.mark.parametrize("key", ["vectorize", "unroll"])
def test_a_pragma_that_is_called_as_a_step_is_that_step(key: Any) -> None:
    s = vector()
    s["C"].pragma(s["C"].leaf_iter_vars[0], key)
    assert s.steps == (Annotate("C", "i", key),)


def symbolic() -> te.Schedule:
    """B[i, j] = A[i, j] + 1; C[i, j] = B[i, j] * 2, n x n, C.j split by 4"""
    n = te.size_var("n")
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, n), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s.apply(Split("C", "j", factor=4))
    return s


@pytest.mark.parametrize(
    "step",
    [Annotate("B", "j", "vectorize"), Annotate("B", "j", "unroll"), Bind("B", "j", "vthread")],
    ids=["vectorize", "unroll", "vthread"],
)
def test_a_loop_that_compute_at_makes_constant_may_be_unfolded(step: Step) -> None:
    assert "its extent n is not a constant" in refusal(symbolic(), step)
    how = step.kind if isinstance(step, Annotate) else "bind"
    text = after(symbolic(), ComputeAt("B", "C", "j.outer"), step)
    assert f"for j in {how}(4" in text


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
def test_a_loop_that_compute_at_leaves_symbolic_is_not_unfolded(kind: Any) -> None:
    with pytest.raises(LoweringError) as caught:
        after(symbolic(), ComputeAt("B", "C", "i"), Annotate("B", "j", kind))
    assert str(caught.value) == (
        f"{kind} of 'j' in B: its extent n is not a constant where B is computed\n"
        f"  try: split it by a constant and {kind} the inner part"
    )


def test_a_pragma_that_no_pass_knows_is_kept() -> None:
    assert after(vector(), Pragma("C", "i", "my.mark", "fast")) == (
        "# pragma my.mark = 'fast'\nfor i in range(8):\n  C[i] = A[i] + 1.0"
    )


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("two words", 1, "pragma of 'i' in C: 'two words' is not made of letters, digits "
         "and underscores\n"
         "  try: a name, such as auto_unroll_max_step, unroll_explicit, async_copy, dma_copy, alu, "
         "coproc_sync, trim_loop, skip_dma_copy, skip_alu"),
        ("a\nb", 1, "pragma of 'i' in C: 'a\\nb' is not made of letters, digits and underscores\n"
         "  try: a name, such as auto_unroll_max_step, unroll_explicit, async_copy, dma_copy, alu, "
         "coproc_sync, trim_loop, skip_dma_copy, skip_alu"),
        ("prefetch", 1, "pragma of 'i' in C: another method sets 'prefetch'\n"
         "  try: s[C].prefetch(...)"),
        ("parallel", 1, "pragma of 'i' in C: another method sets 'parallel'\n"
         "  try: s[C].parallel(...)"),
        ("auto_unroll_max_step", -1, "pragma of 'i' in C: the value of 'auto_unroll_max_step' "
         "is -1, not an int >= 0"),
        ("auto_unroll_max_step", "x", "pragma of 'i' in C: the value of 'auto_unroll_max_step' "
         "is 'x', not an int >= 0"),
    ],
)  # fmt: skip
def test_a_pragma_that_means_nothing_is_refused(key: str, value: Any, says: str) -> None:
    assert refusal(vector(), Pragma("C", "i", key, value)) == says


# --- where stages are computed -------------------------------------------------------------------


def test_stages_are_computed_one_after_another() -> None:
    assert loops(chain()) == (
        'B = allocate((8,), "float32", "global")\n'
        "for i in range(8):\n"
        "  B[i] = A[i] + 1.0\n"
        "for i_1 in range(8):\n"
        "  C[i_1] = B[i_1] * 2.0"
    )


def test_compute_at_computes_what_one_iteration_needs() -> None:
    assert after(chain(), ComputeAt("B", "C", "i")) == (
        "for i in range(8):\n"
        '  B = allocate((1,), "float32", "global")\n'
        "  B[0] = A[i] + 1.0\n"
        "  C[i] = B[0] * 2.0"
    )


def test_compute_inline_puts_the_formula_into_its_reader() -> None:
    assert after(chain(), ComputeInline("B")) == ("for i in range(8):\n  C[i] = (A[i] + 1.0) * 2.0")


@pytest.mark.parametrize("step", [ComputeAt("B", "C", "i"), ComputeInline("B")])
def test_compute_root_undoes_the_place(step: Step) -> None:
    assert after(chain(), step, ComputeRoot("B")) == loops(chain())


def test_a_stage_moves_with_the_loop_that_is_split() -> None:
    s = chain()
    s.apply(ComputeAt("B", "C", "i"))
    s.apply(Split("C", "i", factor=4))
    assert "i_inner" in loops(s).split("B = allocate")[0]


def test_a_stage_moves_with_the_loop_that_is_fused() -> None:
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 6), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    assert after(s, ComputeAt("B", "C", "j"), Fuse("C", ("i", "j"))) == (
        "for i_j_fused in range(24):\n"
        '  B = allocate((1, 1), "float32", "global")\n'
        "  B[0, 0] = A[i_j_fused // 6, i_j_fused % 6] + 1.0\n"
        "  C[i_j_fused // 6, i_j_fused % 6] = B[0, 0] * 2.0"
    )


def test_two_readers_are_served_in_a_loop_around_both() -> None:
    s = diamond()
    assert after(s, ComputeAt("C", "D", "i"), ComputeAt("B", "D", "i")) == (
        "for i in range(8):\n"
        '  B = allocate((1,), "float32", "global")\n'
        "  B[0] = A[i] + 1.0\n"
        '  C = allocate((1,), "float32", "global")\n'
        "  C[0] = B[0] * 2.0\n"
        "  D[i] = B[0] + C[0]"
    )


def test_an_inlined_reader_leaves_its_place_to_its_own_readers() -> None:
    s = diamond()
    assert after(s, ComputeInline("C"), ComputeAt("B", "D", "i")) == (
        "for i in range(8):\n"
        '  B = allocate((1,), "float32", "global")\n'
        "  B[0] = A[i] + 1.0\n"
        "  D[i] = B[0] + B[0] * 2.0"
    )


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([ComputeAt("B", "C", "i")],
         "compute_at of B at C, loop 'i': D reads B outside that loop (readers: C, D)\n"
         "  try: compute_root, or attach the readers first"),
        ([ComputeAt("C", "D", "i"), ComputeAt("B", "C", "i")],
         "compute_at of B at C, loop 'i': D reads B outside that loop (readers: C, D)\n"
         "  try: one of D.i"),
        ([ComputeAt("C", "B", "i")],
         "compute_at of C at B, loop 'i': D reads C outside that loop (readers: D)\n"
         "  try: one of D.i"),
    ],
    ids=["the other is elsewhere", "one loop too deep", "into its producer"],
)  # fmt: skip
def test_every_reader_runs_inside_the_loop(steps: list[Step], says: str) -> None:
    assert refusal(diamond(), *steps) == says


def test_a_stage_does_not_run_inside_itself() -> None:
    assert refusal(chain(), ComputeAt("B", "B", "i")) == (
        "compute_at of B at B, loop 'i': a stage cannot run inside itself\n  try: one of C.i"
    )


def test_two_stages_do_not_run_inside_each_other() -> None:
    steps = ComputeAt("C", "D", "i"), ComputeAt("B", "D", "i"), ComputeAt("C", "B", "i")
    assert "D reads C outside that loop" in refusal(diamond(), *steps)
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(te.compute((8,), lambda i: C[i], name="D").op)
    assert refusal(s, ComputeAt("B", "C", "i"), ComputeAt("C", "B", "i")) == (
        "compute_at of B: C and B would each be computed inside the other\n"
        "  try: attach the producer inside the consumer, not the other way round"
    )


def test_what_a_reduction_starts_from_is_computed_outside_it() -> None:
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((4,), lambda i: A[i, 0] * 2.0, name="B")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=B[i]), name="C")
    assert refusal(te.create_schedule(C.op), ComputeAt("B", "C", "k")) == (
        "compute_at of B at C, loop 'k': C reads B outside that loop (readers: C)\n"
        "  try: one of C.i"
    )


def test_a_reorder_that_leaves_a_reader_outside_is_refused() -> None:
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((4,), lambda i: A[i, 0] * 2.0, name="B")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=B[i]), name="C")
    s = te.create_schedule(C.op)
    assert "C reads B outside that loop" in refusal(
        s, ComputeAt("B", "C", "i"), Reorder("C", ("k", "i"))
    )


@pytest.mark.parametrize("step", [ComputeAt("A", "C", "i"), ComputeInline("A"),
                                  SetScope("A", "local")])  # fmt: skip
def test_an_input_has_its_place(step: Step) -> None:
    assert refusal(chain(), step) == (
        f"{step.what}: A is an input\n  try: cache_read(A, ...) makes a copy that can be moved"
    )


@pytest.mark.parametrize("step", [ComputeAt("C", "B", "i"), ComputeInline("C"),
                                  SetScope("C", "shared"),
                                  TransformLayout("C", ("i",), ("i",))])  # fmt: skip
def test_an_output_has_its_place(step: Step) -> None:
    assert refusal(chain(), step) == (
        f"{step.what}: C is an output: it must be stored as a whole, at root"
    )


def test_a_reduction_is_not_inlined() -> None:
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda i: B[i] * 2.0, name="C")
    assert refusal(te.create_schedule(C.op), ComputeInline("B")) == (
        "compute_inline of B: it is a reduction, which cannot stand inside another formula\n"
        "  try: compute_at"
    )


def test_a_stage_that_another_is_attached_to_is_not_inlined() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(te.compute((8,), lambda i: C[i], name="D").op)
    assert refusal(s, ComputeAt("B", "C", "i"), ComputeInline("C")) == (
        "compute_at of B: C is inlined, it has no loops"
    )


def test_the_legal_places_are_the_loops_around_all_readers() -> None:
    s = diamond()
    assert legal_places(s.state, "B") == []
    s.apply(ComputeAt("C", "D", "i"))
    assert legal_places(s.state, "B") == ["D.i"]


# --- memory --------------------------------------------------------------------------------------


def test_set_scope_chooses_the_memory() -> None:
    assert after(chain(), SetScope("B", "local")).splitlines()[0] == (
        'B = allocate((8,), "float32", "local")'
    )


def test_an_unknown_memory_is_refused() -> None:
    assert refusal(chain(), SetScope("B", "fast")) == (
        "scope 'fast': no such memory\n  try: "
        "one of global, shared, local, warp, warp.mma, amx.tile; "
        "of an accelerator: inp_buffer, wgt_buffer, acc_buffer"
    )


def test_cache_read_copies_for_its_readers() -> None:
    assert after(vector(), CacheRead("A", 0, "local", ("C",))) == (
        'A_local = allocate((8,), "float32", "local")\n'
        "for ax0 in range(8):\n"
        "  A_local[ax0] = A[ax0]\n"
        "for i in range(8):\n"
        "  C[i] = A_local[i] + 1.0"
    )


def test_cache_read_leaves_other_readers_alone() -> None:
    text = after(diamond(), CacheRead("B", 0, "local", ("D",)))
    assert "C[i_1] = B[i_1] * 2.0" in text
    assert text.splitlines()[-1] == "  D[i_2] = B_local[i_2] + C[i_2]"


def test_a_second_copy_gets_a_number() -> None:
    s = diamond()
    s.apply(CacheRead("B", 0, "local", ("C",)))
    s.apply(CacheRead("B", 0, "local", ("D",)))
    assert [v.name for v in s.stages] == ["A", "B", "B.local_1", "B.local", "C", "D"]


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (CacheRead("A", 0, "local", ("C",)),
         "cache_read of A: C does not read A\n  try: its readers: B"),
        (CacheRead("A", 0, "local", ("A",)),
         "cache_read of A: A does not read A\n  try: its readers: B"),
        (CacheRead("A", 0, "local", ()), "cache_read of A: no reader is named"),
        (CacheRead("A", 1, "local", ("B",)), "cache_read of A: it has no output 1"),
        (CacheRead("A", 0, "fast", ("B",)),
         "scope 'fast': no such memory\n  try: "
         "one of global, shared, local, warp, warp.mma, amx.tile; "
         "of an accelerator: inp_buffer, wgt_buffer, acc_buffer"),
    ],
    ids=["wrong reader", "itself", "nobody", "no output", "scope"],
)  # fmt: skip
def test_a_copy_that_nobody_reads_is_refused(step: Step, says: str) -> None:
    assert refusal(chain(), step) == says


def test_cache_write_moves_the_computation() -> None:
    assert after(vector(), CacheWrite("C", "local")) == (
        'C_local = allocate((8,), "float32", "local")\n'
        "for i_c in range(8):\n"
        "  C_local[i_c] = A[i_c] + 1.0\n"
        "for i in range(8):\n"
        "  C[i] = C_local[i]"
    )


def test_cache_write_takes_the_reduction_along() -> None:
    s = rowsum()
    s.apply(CacheWrite("C", "local"))
    assert (leaves(s, "C.local"), leaves(s, "C")) == (["i.c", "k"], ["i"])


@pytest.mark.parametrize("step", [Split("C", "k", factor=2), Reorder("C", ("k", "i")),
                                  Annotate("C", "i", "parallel")])  # fmt: skip
def test_cache_write_comes_before_changes_of_loops(step: Step) -> None:
    assert refusal(rowsum(), step, CacheWrite("C", "local")) == (
        "cache_write of C: its loops have been changed already, and they would be lost\n"
        "  try: call cache_write before split, fuse, reorder, vectorize, ..."
    )


def test_cache_write_comes_before_compute_at() -> None:
    assert refusal(chain(), ComputeAt("B", "C", "i"), CacheWrite("C", "local")) == (
        "cache_write of C: B is attached to it\n  try: call cache_write before compute_at"
    )


def test_an_input_is_not_written() -> None:
    assert refusal(chain(), CacheWrite("A", "local")) == (
        "cache_write of A: it is an input, nothing is computed"
    )


def test_rfactor_folds_in_two_stages() -> None:
    assert after(rowsum(), RFactor("C", "k")) == (
        'C_rf = allocate((6, 4), "float32", "global")\n'
        "for k in range(6):\n"
        "  for i in range(4):\n"
        "    C_rf[k, i] = 0.0\n"
        "    C_rf[k, i] = C_rf[k, i] + A[i, k]\n"
        "for i_1 in range(4):\n"
        "  C[i_1] = 0.0\n"
        "  for k_v in range(6):\n"
        "    C[i_1] = C[i_1] + C_rf[k_v, i_1]"
    )


def test_rfactor_of_a_part_leaves_the_other_part_to_the_first_stage() -> None:
    s = rowsum()
    s.apply(Split("C", "k", factor=3))
    s.apply(RFactor("C", "k.inner", -1))
    assert (leaves(s, "C.rf"), leaves(s, "C")) == (
        ["i", "k.inner", "k.outer"],
        ["i", "k.inner.v"],
    )


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([RFactor("C", "i")],
         "rfactor of 'i' in C: it is not a reduce loop of the stage\n  try: one of k"),
        ([Split("C", "k", factor=2), RFactor("C", "k")],
         "rfactor of 'k' in C: it is not a reduce loop of the stage\n"
         "  try: one of k.outer, k.inner"),
        ([Split("C", "i", factor=2), RFactor("C", "k")],
         "rfactor of 'k' in C: its loops have been changed in other ways, which would be lost\n"
         "  try: split the reduce axis, rfactor, and only then change other loops"),
        ([Annotate("C", "i", "parallel"), RFactor("C", "k")],
         "rfactor of 'k' in C: its loops have been changed in other ways, which would be lost\n"
         "  try: split the reduce axis, rfactor, and only then change other loops"),
        ([RFactor("C", "k", 2)],
         "rfactor of 'k' in C: factor_axis=2 is not a position among the axes"),
        ([RFactor("A", "k")], "rfactor of 'k' in A: it is not a reduction"),
    ],
    ids=["data", "gone", "data split", "data parallel", "place", "input"],
)  # fmt: skip
def test_what_rfactor_cannot_take_apart_is_refused(steps: list[Step], says: str) -> None:
    assert refusal(rowsum(), *steps) == says


def packed() -> te.Schedule:
    """B[i, j] = A[i, j] + 1; C[i, j] = B[i, j] * 2, 4 x 6"""
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
    return te.create_schedule(te.compute((4, 6), lambda i, j: B[i, j] * 2.0, name="C").op)


def test_a_layout_says_where_elements_live() -> None:
    assert after(packed(), TransformLayout("B", ("i", "j"), ("j // 2", "i", "j % 2"))) == (
        'B = allocate((3, 4, 2), "float32", "global")\n'
        "for i in range(4):\n"
        "  for j in range(6):\n"
        "    B[j // 2, i, j % 2] = A[i, j] + 1.0\n"
        "for i_1 in range(4):\n"
        "  for j_1 in range(6):\n"
        "    C[i_1, j_1] = B[j_1 // 2, i_1, j_1 % 2] * 2.0"
    )


@pytest.mark.parametrize(
    ("axes", "layout", "says"),
    [
        (("i",), ("i",), "transform_layout of B: it has 2 dimensions, the layout takes 1 axes"),
        (("i", "j"), (), "transform_layout of B: the layout has no dimensions"),
        (("i", "j"), ("i // 2", "j"),
         "transform_layout of B: [i // 2, j] gives two elements the same index, or a negative one\n"
         "  try: use each axis completely: k, j -> j // 16, k, j % 16"),
        (("i", "j"), ("i - 1", "j"),
         "transform_layout of B: [i - 1, j] gives two elements the same index, or a negative one\n"
         "  try: use each axis completely: k, j -> j // 16, k, j % 16"),
        (("i", "j"), ("print(i)", "j"),
         "formula 'print(i)': it is not made of i, j, integers, + - * // and %"),
        (("i", "j"), ("z", "j"), "formula 'z': it is not made of i, j, integers, + - * // and %"),
    ],
    ids=["rank", "nothing", "shared", "before", "call", "unknown"],
)  # fmt: skip
def test_a_layout_gives_each_element_its_place(
    axes: tuple[str, ...], layout: tuple[str, ...], says: str
) -> None:
    assert refusal(packed(), TransformLayout("B", axes, layout)) == says


# --- steps as data -------------------------------------------------------------------------------

EVERY = (
    Split("C", "i", factor=4),
    Split("C", "i", nparts=2),
    Fuse("C", ("i", "j")),
    Reorder("C", ("j", "i")),
    Annotate("C", "i", "vectorize"),
    Pragma("C", "i", "auto_unroll_max_step", 16),
    ComputeAt("B", "C", "i"),
    ComputeInline("B"),
    ComputeRoot("B"),
    SetScope("B", "local"),
    CacheRead("A", 0, "local", ("B", "C")),
    CacheWrite("C", "local"),
    RFactor("C", "k.inner", 1),
    Tensorize("C", "i", "gemm"),
    TransformLayout("B", ("i", "j"), ("j", "i")),
    Bind("C", "i", "threadIdx.x", 32),
    DoubleBuffer("B"),
    StorageAlign("B", "i", 32, 1),
    SetStorePredicate("C", ("i.outer", "j"), ("i_outer < 4", "j >= 1")),
    Prefetch("C", "A", "i", 2),
    StoreAt("B", "C", "i.outer"),
)


@pytest.mark.parametrize("step", EVERY, ids=lambda s: s.primitive)
def test_a_step_survives_being_written_down(step: Step) -> None:
    assert from_json(to_json((step,))) == (step,)


def test_every_kind_of_step_is_tested_above() -> None:
    assert {type(s) for s in EVERY} == set(STEPS.values())


def test_steps_are_written_one_a_line() -> None:
    assert to_json((Reorder("C", ("j", "i")), ComputeInline("B"))) == (
        '[\n["reorder", {"stage": "C", "axes": ["j", "i"]}],\n["compute_inline", {"stage": "B"}]\n]'
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "Expecting value: line 1 column 1 (char 0)"),
        ('[["foo", {}]]', "no step is called 'foo'"),
        ('[["split", {"a": 1}]]', "split has no a"),
        ('[["reorder", {"stage": "C", "axes": "ij"}]]', "axes of reorder is 'ij'"),
        ('[["compute_root", {"stage": ["C"]}]]', "stage of compute_root is ['C']"),
        ('[["split", {"stage": "C"}]]',
         "Split.__init__() missing 1 required positional argument: 'axis'"),
    ],
)  # fmt: skip
def test_text_that_is_no_list_of_steps_is_refused(text: str, why: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        from_json(text)
    assert str(caught.value) == f"steps from JSON: not a list of steps ({why})"


def test_the_same_steps_lead_to_the_same_state() -> None:
    s = matrix()
    steps = Split("C", "i", factor=2), Reorder("C", ("j", "i.inner")), Annotate(
        "C", "i.inner", "unroll")  # fmt: skip
    start: State = s.state
    assert repr([v.leaves for v in replay(start, steps).stages]) == repr(
        [v.leaves for v in replay(start, steps).stages]
    )


def test_applying_a_step_leaves_the_old_state_as_it_was() -> None:
    start = matrix().state
    apply(start, Split("C", "i", factor=2))
    assert [a.name for a in start.stage("C").leaves] == ["i", "j"]
    assert start.steps == ()


def test_a_stage_is_never_changed_and_equals_only_itself() -> None:
    stage = matrix().state.stage("C")
    with pytest.raises(AttributeError):
        stage.scope = "local"  # type: ignore[misc]
    assert [stage].index(stage) == 0
    assert stage.change() != stage


def test_a_state_knows_the_steps_that_led_to_it() -> None:
    step = Split("C", "i", factor=2)
    assert apply(matrix().state, step).steps == (step,)


# --- the first state -----------------------------------------------------------------------------


def test_stages_come_in_the_order_they_are_computed() -> None:
    assert [v.name for v in diamond().stages] == ["A", "B", "C", "D"]


def test_operations_of_one_name_are_numbered() -> None:
    A = te.placeholder((8,), name="T")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="T")
    assert [s.name for s in initial((te.compute((8,), lambda i: B[i], name="T").op,)).stages] == [
        "T", "T_1", "T_2"]  # fmt: skip


def test_a_reduce_axis_belongs_to_one_operation() -> None:
    A = te.placeholder((8, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    P = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="P")
    Q = te.compute((8,), lambda i: te.max(A[i, k], axis=k), name="Q")
    with pytest.raises(ScheduleError) as caught:
        initial((P.op, Q.op))
    assert str(caught.value) == (
        "reduce axis 'k' is used by P and Q: an axis belongs to one compute\n"
        "  try: one te.reduce_axis for each"
    )


def test_an_input_alone_has_no_schedule() -> None:
    with pytest.raises(ScheduleError) as caught:
        initial((te.placeholder((8,), name="A").op,))
    assert str(caught.value) == (
        "a schedule of A: it is an input: nothing is computed\n  try: pass C.op"
    )


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((80000,), lambda i: (i % 70000,)),
        ((40, 4096), lambda i, j: (i % 16, j)),
        ((70000,), lambda i: (66000 - i,)),
        ((1 << 11, 1 << 11), lambda i, j: (i + j,)),
    ],
)
def test_a_layout_that_is_not_shown_to_keep_elements_apart_is_refused(
    shape: tuple[int, ...], layout: Callable[..., Any]
) -> None:
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A(*i) + 1.0, name="B")
    C = te.compute(shape, lambda *i: B(*i) + 1.0, name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="the same index"):
        s[B].transform_layout(layout)
    assert s.steps == ()
