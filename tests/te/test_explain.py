"""Questions to a schedule: explanations by tensor and axis, and what each step changed."""

from collections.abc import Callable
from typing import Any

import pytest

from minitvm import te
from minitvm.base import ScheduleError


def tiled() -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    """C[i] = B[i] + B[i + 2], B computed in tiles of C; two steps"""
    A = te.placeholder((14,), name="A")
    B = te.compute((12,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((10,), lambda i: B[i] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    return B, C, s


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises(ScheduleError) as caught:
        act()
    return str(caught.value)


# --- explain --------------------------------------------------------------------------------------


def test_explain_reports_on_every_stage() -> None:
    _, _, s = tiled()
    assert [r.name for r in s.explain().stages] == ["A", "B", "C"]


def test_explain_changes_nothing() -> None:
    _, _, s = tiled()
    before = s.state
    s.explain()
    assert s.state is before


def test_a_report_says_where_a_stage_runs_and_what_it_takes() -> None:
    _, _, s = tiled()
    assert str(s.explain()["B"]) == (
        "B\n"
        "  where    in loop i_outer of C, around all that reads it (C)\n"
        "  region   i = i_outer*4 .. i_outer*4 + 5, 6 of 12\n"
        "  memory   global float32[6], 24 bytes\n"
        "  loops    i (6)\n"
        "  work     recompute factor 1.3333: 16 stores for 12 elements; 1.5 away from the edges\n"
        "  loads    1 a store (A 1)\n"
        "  guard    i_outer*4 + i < 12, because the loops take i through 0 .. 13, 6 at a time, "
        "and B ends at 11"
    )


def test_warnings_are_those_of_the_explanation() -> None:
    _, C, s = tiled()
    s[C].parallel(s[C].leaf_iter_vars[0])
    target = "llvm -num-cores=4"
    assert s.warnings(target) == s.explain(target).warnings != ()


def test_warnings_print_as_text() -> None:
    _, C, s = tiled()
    s[C].parallel(s[C].leaf_iter_vars[0])
    assert repr(s.warnings("llvm -num-cores=4")[0]) == (
        "parallel loop i_outer of C: 26 stores in all: waking the threads takes longer\n"
        "  try: a loop further out, or none"
    )


# --- bounds and guards ----------------------------------------------------------------------------


def test_a_bound_is_asked_for_by_axis_name_or_dimension() -> None:
    B, _, s = tiled()
    texts = {str(s.explain_bound(B, axis)) for axis in (B.op.axis[0], "i", 0)}
    (only,) = texts
    assert only.startswith("B.i = [i_outer*4, 6]: elements i_outer*4 .. i_outer*4 + 5 of 12")


def test_a_bound_of_an_axis_of_another_stage_is_refused() -> None:
    B, C, s = tiled()
    assert refused(lambda: s.explain_bound(B, C.op.axis[0])) == (
        "axis 'i' of B: it has no such axis\n  try: one of i"
    )


def test_a_bound_of_an_input_is_refused() -> None:
    _, _, s = tiled()
    assert refused(lambda: s.explain_bound("A", 0)) == (
        "axis 0 of A: no formula computes it, so it has no axes"
    )


def test_guards_are_asked_for_by_loop_or_by_the_axis_it_came_from() -> None:
    _, C, s = tiled()
    outer, inner = s[C].leaf_iter_vars
    for a in (outer, inner, C.op.axis[0]):
        assert s.explain_guard(a).because[0].claim == "i_outer*4 + i_inner < 10"


def test_guards_on_a_foreign_axis_are_refused() -> None:
    _, _, s = tiled()
    assert refused(lambda: s.explain_guard(te.reduce_axis((0, 3), name="k"))) == (
        "guards on reduce axis k in [0, 3): it is not an axis of A, B, C"
    )


def test_derivations_show_as_text_in_a_notebook() -> None:
    B, _, s = tiled()
    assert s.explain_bound(B, 0)._repr_markdown_().startswith("```text\nB.i = ")


# --- diff -----------------------------------------------------------------------------------------


def test_diff_shows_what_a_step_did_to_the_loops() -> None:
    _, _, s = tiled()
    assert (
        str(s.diff(1))
        == """\
--- before step 1
+++ after i_outer, i_inner = s[C].split(i, factor=4)
@@ -1,5 +1,7 @@
 B = allocate((12,), "float32", "global")
 for i in range(12):
   B[i] = A[i] + 1.0
-for i_1 in range(10):
-  C[i_1] = B[i_1] + B[i_1 + 2]
+for i_outer in range(3):
+  for i_inner in range(4):
+    if likely(i_outer*4 + i_inner < 10):
+      C[i_outer*4 + i_inner] = B[i_outer*4 + i_inner] + B[i_outer*4 + i_inner + 2]"""
    )


def test_negative_steps_count_from_the_end() -> None:
    _, _, s = tiled()
    assert s.diff(-1) == s.diff(2) == s.diff()
    assert s.diff(-2) == s.diff(1)


def test_a_step_that_leaves_the_loops_alone_says_so() -> None:
    B, _, s = tiled()
    s[B].compute_at(s["C"], s["C"].leaf_iter_vars[0])
    assert str(s.diff()) == "s[B].compute_at(s[C], i_outer): the loops stay as they are"


def test_diff_of_a_step_that_needs_another_one_says_why_there_are_no_loops() -> None:
    B, C, s = tiled()
    s[B].compute_root()
    s[B].double_buffer()
    assert "+no loops: double_buffer of B: it is computed once, outside all loops" in str(s.diff())
    s[B].compute_at(s[C], s[C].leaf_iter_vars[0])
    assert "-no loops: double_buffer of B: it is computed once, outside all loops" in str(s.diff())


def test_diff_is_coloured_in_a_notebook() -> None:
    _, _, s = tiled()
    assert s.diff()._repr_markdown_().startswith("```diff\n--- before step 2\n")


def test_diff_forgets_a_step_that_was_undone() -> None:
    _, _, s = tiled()
    s.undo()
    assert s.diff() == s.diff(1)


@pytest.mark.parametrize("step", [0, 3, -3])
def test_a_step_that_was_not_taken_is_refused(step: int) -> None:
    _, _, s = tiled()
    assert refused(lambda: s.diff(step)) == f"step {step}: steps 1 to 2 were taken"


def test_diff_of_nothing_is_refused() -> None:
    _, C, _ = tiled()
    s = te.create_schedule(C.op)
    assert refused(s.diff) == "step -1: no step has been taken"


def test_a_step_is_written_as_python() -> None:
    _, _, s = tiled()
    assert s.step_text(1) == "i_outer, i_inner = s[C].split(i, factor=4)"
    assert s.step_text() == "s[B].compute_at(s[C], i_outer)"


# --- refused attachments --------------------------------------------------------------------------


def test_a_refused_compute_at_shows_the_loops_around_the_readers() -> None:
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2.0, name="C")
    D = te.compute((8, 8), lambda i, j: B[i, j] + C[i, j], name="D")
    s = te.create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[0])
    with pytest.raises(ScheduleError) as caught:
        s[B].compute_at(s[C], C.op.axis[1])
    assert caught.value.__notes__[-1] == (
        "where B is read:\n"
        "  for D.i:    <- B can be computed here\n"
        "    for C.i:\n"
        "      for C.j:\n"
        "        C reads B\n"
        "    for D.j:\n"
        "      D reads B"
    )
