"""The recorder: what users type, what it records, how it is undone and written down."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import ExprError, ScheduleError
from minitvm.schedule import Annotate, Fuse, Pragma, Reorder, Split


def matmul() -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Schedule]:
    """C = A @ B, 8 x 6 x 4"""
    A, B = te.placeholder((8, 6), name="A"), te.placeholder((6, 4), name="B")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((8, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C, te.create_schedule(C.op)


def chain() -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Schedule]:
    """B[i, j] = A[i, j] + 1; C[i, j] = B[i, j] * 2, 8 x 6"""
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 6), lambda i, j: B[i, j] * 2.0, name="C")
    return A, B, C, te.create_schedule(C.op)


def refused(act: Callable[[], Any]) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        act()
    return caught.value


# --- making one ----------------------------------------------------------------------------------


def test_a_schedule_is_made_of_an_operation() -> None:
    _, _, C, _ = chain()
    assert te.create_schedule(C.op).outputs == [C.op]


def test_a_schedule_is_made_of_several_operations() -> None:
    _, B, C, _ = chain()
    assert te.create_schedule([B.op, C.op]).outputs == [B.op, C.op]


def test_a_tensor_will_do_for_its_operation() -> None:
    _, _, C, _ = chain()
    assert te.create_schedule(C).outputs == [C.op]


@pytest.mark.parametrize(
    ("ops", "says"),
    [
        ([], "create_schedule([]): there is nothing to compute"),
        (5, "create_schedule(5): not an operation\n  try: pass C.op"),
    ],
)
def test_a_schedule_of_nothing_is_refused(ops: Any, says: str) -> None:
    assert str(refused(lambda: te.create_schedule(ops))) == says


# --- looking -------------------------------------------------------------------------------------


def test_a_schedule_prints_its_stages_and_their_loops() -> None:
    _, B, C, s = chain()
    s[B].parallel(B.op.axis[0])
    s[C].split(C.op.axis[1], 2)
    assert repr(s) == (
        "schedule of C\n  A: no loops\n  B: i (parallel), j\n  C: i, j.outer, j.inner"
    )


def test_a_stage_is_found_by_tensor_operation_name_and_view() -> None:
    _, B, _, s = chain()
    assert {s[key].name for key in (B, B.op, "B", s[B])} == {"B"}


def test_a_tensor_from_elsewhere_has_no_stage() -> None:
    _, _, _, s = chain()
    Q = te.placeholder((1,), name="Q")
    assert str(refused(lambda: s[Q])).startswith(
        "s[Q]: it is not part of this schedule\n  try: one of its stages: A, B, C"
    )


def test_a_stage_shows_its_operation_and_loops() -> None:
    _, _, C, s = matmul()
    assert s[C].op is C.op
    assert s[C].leaf_iter_vars == [*C.op.axis, *C.op.reduce_axis]


def test_the_steps_are_recorded() -> None:
    _, _, C, s = matmul()
    i, j = C.op.axis
    s[C].fuse(i, j)
    assert s.steps == s.trace == (Fuse("C", ("i", "j")),)


# --- steps by method -----------------------------------------------------------------------------


def test_split_returns_the_outer_and_the_inner_loop() -> None:
    _, _, C, s = matmul()
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    assert s[C].leaf_iter_vars[:2] == [outer, inner]


def test_the_factor_of_split_may_be_positional() -> None:
    _, _, C, s = matmul()
    s[C].split(C.op.axis[0], 4)
    assert s.steps == (Split("C", "i", factor=4),)


def test_fuse_returns_the_loop_it_made() -> None:
    _, _, C, s = matmul()
    assert s[C].fuse(*C.op.axis) is s[C].leaf_iter_vars[0]


def test_tile_is_two_splits_and_a_reorder() -> None:
    _, _, C, s = matmul()
    i, j = C.op.axis
    s[C].tile(i, j, 4, 2)
    assert s.steps == (
        Split("C", "i", factor=4),
        Split("C", "j", factor=2),
        Reorder("C", ("i.outer", "j.outer", "i.inner", "j.inner")),
    )


def test_tile_takes_factors_by_name() -> None:
    _, _, C, s = matmul()
    made = s[C].tile(*C.op.axis, x_factor=4, y_factor=2)
    assert [a.name for a in made] == ["i.outer", "j.outer", "i.inner", "j.inner"]


def test_tile_takes_three_loops() -> None:
    _, _, C, s = matmul()
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    assert [a.name for a in s[C].tile(i, j, k, 4, 2, 3)] == [
        "i.outer", "j.outer", "k.outer", "i.inner", "j.inner", "k.inner"]  # fmt: skip


def test_a_tile_happens_as_a_whole_or_not_at_all() -> None:
    _, _, C, s = matmul()
    i, j = C.op.axis
    assert str(refused(lambda: s[C].tile(i, j, 4, 0))) == (
        "split of 'j' in C: the size of a part is an integer >= 1, not 0"
    )
    assert s.steps == ()
    assert s[C].leaf_iter_vars == [i, j, *C.op.reduce_axis]


def test_tile_takes_as_many_factors_as_loops() -> None:
    _, _, C, s = matmul()
    assert str(refused(lambda: s[C].tile(*C.op.axis, 4))) == (
        "tile in C: 2 axes and 1 factors are given\n"
        "  try: tile(y, x, fy, fx) or tile(y, x, k, fy, fx, fk)"
    )


def test_a_pragma_has_the_value_one_if_none_is_given() -> None:
    _, _, C, s = matmul()
    s[C].pragma(C.op.axis[0], "unroll_explicit")
    assert s.steps == (Pragma("C", "i", "unroll_explicit", 1),)


def test_cache_write_of_a_list_gives_a_list() -> None:
    A = te.placeholder((8,), name="A")
    outs = te.compute((8,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="C")
    s = te.create_schedule(outs[0].op)
    assert [t.name for t in s.cache_write(outs, "local")] == ["C.local.v0", "C.local.v1"]


def test_a_tensor_may_be_given_by_the_name_of_its_stage() -> None:
    _, _, _, s = chain()
    assert s.cache_read("A", "local", ["B"]).name == "A.local"


def test_rfactor_gives_the_partial_results_and_new_axes() -> None:
    _, _, C, s = matmul()
    _, inner = s[C].split(C.op.reduce_axis[0], 3)
    partial = s.rfactor(C, inner)
    assert partial.shape == (3, 8, 4)
    assert [a.name for a in s[C].op.reduce_axis] == ["k.inner.v"]


def test_the_tensor_that_cache_read_returns_can_be_scheduled() -> None:
    A, B, C, s = chain()
    copy = s.cache_read(A, "local", [B])
    s[B].compute_at(s[C], C.op.axis[0])
    s[copy].compute_at(s[C], C.op.axis[0])
    assert "A_local = allocate((1, 6)" in str(tvm.lower(s, [A, C], until="nest"))


def test_the_target_of_compute_at_may_be_a_tensor() -> None:
    _, B, C, s = chain()
    s[B].compute_at(C, C.op.axis[0])
    assert [type(step).__name__ for step in s.steps] == ["ComputeAt"]


def test_a_layout_is_given_as_a_function_of_the_index() -> None:
    _, B, _, s = chain()
    s[B].transform_layout(lambda y, x: (x // 2, y, x % 2))
    assert s.python().splitlines()[-1] == (
        "s[B].transform_layout(lambda y, x: (x // 2, y, x % 2,))"
    )


def test_old_handles_keep_their_meaning() -> None:
    """After cache_write, the tensor means the stage that copies, and its axes are still loops."""
    _, _, C, s = matmul()
    (i, j) = C.op.axis
    local = s.cache_write(C, "local")
    s[C].tile(i, j, 4, 2)
    assert [a.name for a in s[local].leaf_iter_vars] == ["i.c", "j.c", "k"]
    assert [a.name for a in s[C].leaf_iter_vars] == ["i.outer", "j.outer", "i.inner", "j.inner"]


def test_the_tensors_that_were_there_first_are_still_arguments() -> None:
    A, B, C, s = chain()
    s.cache_write(C, "local")
    s.cache_read(A, "shared", [B])
    head = str(tvm.lower(s, [A, C], until="nest")).splitlines()[0]
    assert head == "def main(A: float32[8, 6], C: float32[8, 6]):"


# --- refusals ------------------------------------------------------------------------------------


def test_an_axis_of_another_stage_is_refused_with_its_owner() -> None:
    _, B, C, s = chain()
    assert str(refused(lambda: s[C].split(B.op.axis[0], 2))) == (
        "split of 'i' in C: that axis belongs to B\n  try: one of its loops: i, j"
    )


def test_an_axis_from_elsewhere_is_refused() -> None:
    _, _, C, s = chain()
    stray = te.reduce_axis((0, 4), name="r")
    assert str(refused(lambda: s[C].unroll(stray))) == (
        "unroll of 'r' in C: that axis belongs to no stage of this schedule\n"
        "  try: one of its loops: i, j"
    )


def test_an_axis_of_another_schedule_is_refused() -> None:
    """The loops that a step makes belong to one schedule."""
    _, _, C, s = chain()
    other = te.create_schedule(C.op)
    outer, _ = other[C].split(C.op.axis[0], 4)
    s[C].split(C.op.axis[0], 4)
    assert "that axis belongs to no stage of this schedule" in str(
        refused(lambda: s[C].unroll(outer))
    )


def test_an_input_has_no_axes_to_name() -> None:
    A, _, C, s = chain()
    assert str(refused(lambda: s[A].split(C.op.axis[0], 2))).endswith("one of its loops: none")


@pytest.mark.parametrize("what", ["i", 0, None])
def test_what_is_no_axis_is_refused(what: Any) -> None:
    _, _, C, s = chain()
    assert str(refused(lambda: s[C].vectorize(what))) == (
        f"vectorize of {what!r} in C: not an axis\n"
        "  try: s[C].op.axis, or what split, fuse and tile return"
    )


@pytest.mark.parametrize(
    ("pick", "what"), [(lambda B, C: [B, C], "B, C"), (lambda B, C: [], "nothing")]
)
def test_cache_write_takes_outputs_of_one_operation(pick: Callable[..., Any], what: str) -> None:
    _, B, C, s = chain()
    assert str(refused(lambda: s.cache_write(pick(B, C), "local"))) == (
        f"cache_write of {what}: it takes one tensor, or several outputs of one operation\n"
        "  try: one cache_write for each"
    )


def test_a_layout_that_is_no_function_is_refused() -> None:
    _, B, _, s = chain()
    assert str(refused(lambda: s[B].transform_layout(5))) == (  # type: ignore[arg-type]
        "transform_layout of B: 5: not a function\n  try: lambda i, j: ..."
    )


@pytest.mark.parametrize("size", [2.5, True, "4"])
def test_a_size_that_is_no_integer_is_refused(size: Any) -> None:
    _, _, C, s = chain()
    assert str(refused(lambda: s[C].split(C.op.axis[0], size))) == (
        f"split of 'i' by {size!r}: the size of a part is an integer >= 1"
    )


def test_a_size_that_is_a_loop_is_refused_by_its_name() -> None:
    _, _, C, s = chain()
    assert str(refused(lambda: s[C].split(C.op.axis[0], C.op.axis[0] + 1))) == (
        "split of 'i' by i + 1: the size of a part is an integer >= 1, or an expression of sizes "
        "(te.var, te.size_var) with names of their own"
    )


@pytest.mark.parametrize(
    "act",
    [
        lambda s, C, i: s[C].split(i, 0),  # one line of the user's
        lambda s, C, i: s[C].split(i, 2.5),  # one line of the user's
        lambda s, C, i: s[C].vectorize("i"),  # one line of the user's
        lambda s, C, i: s[C].tile(i, 4),  # one line of the user's
        lambda s, C, i: s[te.placeholder((1,), name="Q")],  # one line of the user's
    ],
    ids=["step", "size", "axis", "tile", "stage"],
)
def test_an_error_points_at_the_line_of_the_user(act: Callable[..., Any]) -> None:
    _, _, C, s = chain()
    (note,) = refused(lambda: act(s, C, C.op.axis[0])).__notes__
    assert note.startswith("at test_schedule.py line ")
    assert note.endswith("# one line of the user's")


def test_an_error_survives_pickling() -> None:
    _, _, C, s = chain()
    e = refused(lambda: s[C].split(C.op.axis[0], 0))
    assert str(pickle.loads(pickle.dumps(e))) == str(e)


def test_a_refused_step_is_not_recorded() -> None:
    _, _, C, s = chain()
    refused(s[C].compute_inline)
    assert s.steps == ()


# --- undo and copy -------------------------------------------------------------------------------


def test_undo_takes_the_last_step_back() -> None:
    _, _, C, s = matmul()
    i, j = C.op.axis
    s[C].split(i, 4)
    s[C].unroll(j)
    assert s.undo() == Annotate("C", "j", "unroll")
    assert repr(s[C]) == "C: i.outer, i.inner, j, k"


def test_undo_brings_stages_and_handles_back() -> None:
    _, _, C, s = matmul()
    i, _ = C.op.axis
    s.cache_write(C, "local")
    s.undo()
    s[C].split(i, 4)
    assert [v.name for v in s.stages] == ["A", "B", "C"]


def test_undo_of_nothing_is_refused() -> None:
    _, _, _, s = matmul()
    assert str(refused(s.undo)) == "undo: no step has been taken"


def test_a_copy_goes_its_own_way() -> None:
    _, _, C, s = matmul()
    other = s.copy()
    other[C].unroll(C.op.axis[0])
    assert (len(s.steps), len(other.steps)) == (0, 1)


def test_a_copy_can_undo_what_its_original_did() -> None:
    _, _, C, s = matmul()
    s[C].unroll(C.op.axis[0])
    other = s.copy()
    other.undo()
    assert (len(s.steps), len(other.steps)) == (1, 0)


# --- written down --------------------------------------------------------------------------------


def everything() -> tuple[te.Schedule, dict[str, te.Tensor]]:
    """A schedule with a step of every kind."""
    A, B = te.placeholder((16, 24), name="A"), te.placeholder((24, 32), name="B")
    k = te.reduce_axis((0, 24), name="k")
    D = te.compute((24, 32), lambda i, j: B[i, j] * 2.0, name="D")
    E = te.compute((16, 24), lambda i, j: A[i, j] + 1.0, name="E")
    C = te.compute((16, 32), lambda i, j: te.sum(E[i, k] * D[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    local = s.cache_write(C, "local")
    shared = s.cache_read(A, "shared", [E])
    io, jo, ii, ji = s[C].tile(i, j, 4, 8)
    outer = s[C].fuse(io, jo)
    s[C].parallel(outer)
    s[local].compute_at(s[C], outer)
    ko, ki = s[local].split(k, nparts=6)
    ic, jc = s[local].op.axis
    s[local].reorder(ko, ic, ki, jc)
    s[local].unroll(ki)
    s[local].pragma(ko, "auto_unroll_max_step", 16)
    s[C].vectorize(ji)
    s[C].unroll(ii)
    s[D].transform_layout(lambda k, j: (j // 8, k, j % 8))
    s[D].set_scope("global")
    s[E].compute_inline()
    s[shared].compute_at(s[local], ko)
    s[D].compute_at(s[C], outer)
    s[D].compute_root()
    return s, {"A": A, "B": B, "C": C, "D": D, "E": E}


def test_a_schedule_is_written_down_as_python(golden: Callable[[str], None]) -> None:
    golden(everything()[0].python())


def test_the_python_of_a_schedule_makes_the_same_steps() -> None:
    s, tensors = everything()
    space: dict[str, Any] = {"te": te, **tensors}
    exec(s.python(), space)
    assert space["s"].steps == s.steps


def test_the_python_of_a_schedule_makes_the_same_loops() -> None:
    s, tensors = everything()
    space: dict[str, Any] = {"te": te, **tensors}
    exec(s.python(), space)
    args = [tensors[name] for name in "ABC"]
    assert str(tvm.lower(space["s"], args)) == str(tvm.lower(s, args))


def test_python_fetches_the_axes_that_rfactor_made() -> None:
    _, _, C, s = matmul()
    _, inner = s[C].split(C.op.reduce_axis[0], 3)
    s.rfactor(C, inner)
    s[C].unroll(s[C].op.reduce_axis[0])
    assert s.python().splitlines()[-2:] == [
        "k_inner_v, = s[C].op.reduce_axis",
        "s[C].unroll(k_inner_v)",
    ]


def test_python_of_several_outputs_lists_them() -> None:
    _, B, C, _ = chain()
    assert te.create_schedule([B.op, C.op]).python() == "s = te.create_schedule([B.op, C.op])"


def test_python_names_axes_of_one_name_apart() -> None:
    A = te.placeholder((8, 5), name="A")
    x, y = te.reduce_axis((0, 3)), te.reduce_axis((0, 5))
    C = te.compute((6,), lambda i: te.sum(A[i + x, y], axis=[x, y]), name="C")
    s = te.create_schedule(C.op)
    s[C].unroll(y)
    assert s.python() == (
        "s = te.create_schedule(C.op)\n"
        "i, = s[C].op.axis\n"
        "rv, rv_1 = s[C].op.reduce_axis\n"
        "s[C].unroll(rv_1)"
    )


def test_the_steps_of_a_schedule_are_taken_again_from_json() -> None:
    s, tensors = everything()
    again = te.Schedule.from_json(s.to_json(), tensors["C"].op)
    assert (again.steps, repr(again)) == (s.steps, repr(s))


def test_steps_from_json_that_do_not_fit_are_refused() -> None:
    _, _, C, _ = chain()
    steps = '[["compute_inline", {"stage": "E"}]]'
    assert str(refused(lambda: te.Schedule.from_json(steps, C.op))) == (
        "no stage called 'E'\n  try: one of A, B, C"
    )


@pytest.mark.parametrize("made_by", ["compute", "cache_write", "rfactor"])
def test_attrs_stay_with_the_formula(made_by: str) -> None:
    A, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), name="k")
    given: dict[str, Any] = {"layout_free_placeholders": [A]}
    C = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="C", attrs=given)
    s = te.create_schedule(C.op)
    if made_by == "cache_write":
        assert s.cache_write(C, "local").op.attrs == given
    elif made_by == "rfactor":
        s.rfactor(C, k)
    assert s[C].op.attrs == given


def test_attrs_are_a_copy_of_what_is_given() -> None:
    given = {"key": 1}
    C = te.compute((8,), lambda i: 1.0, name="C", attrs=given)
    given["key"] = 2
    assert C.op.attrs == {"key": 1}


def test_attrs_are_a_table() -> None:
    with pytest.raises(ExprError, match=r"compute C: attrs=\[1\]: not a mapping\n  try: attrs=\{"):
        te.compute((8,), lambda i: 1.0, name="C", attrs=[1])  # type: ignore[arg-type]
