"""The order in which a program touches memory."""

import pytest

from minitvm import te, tir, viz
from minitvm.base import ArgumentError
from minitvm.viz.grids import corner_note

from .programs import blur, matmul, tiled


def order(s) -> viz.Order:
    return viz.order_of(viz.nest_of(s).body)


def writes(o: viz.Order) -> list[tuple[int, ...]]:
    return [at for t in o.ticks for _, at in t.writes]


def rows(n: int, m: int):
    A = te.placeholder((n, m), name="A")
    C = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="C")
    return te.create_schedule(C.op), C


def test_rows_are_visited_one_after_the_other() -> None:
    s, _ = rows(2, 3)
    assert writes(order(s)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_reordered_loops_visit_columns() -> None:
    s, C = rows(2, 3)
    s[C].reorder(C.op.axis[1], C.op.axis[0])
    assert writes(order(s)) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


def test_a_guarded_tail_writes_nothing_outside() -> None:
    s, C = rows(1, 5)
    s[C].split(C.op.axis[1], factor=3)
    o = order(s)
    assert writes(o) == [(0, j) for j in range(5)]
    assert o.total == 5
    assert corner_note(viz.nest_of(s), o) == ""


def test_a_program_cut_to_a_corner_counts_guarded_iterations_as_at_most() -> None:
    s, C = rows(100, 101)
    s[C].split(C.op.axis[1], factor=3)
    nest = viz.nest_of(s)
    o = viz.order_of(nest.body)
    assert corner_note(nest, o).startswith("a corner of at most 10200 ticks: ")


def test_a_call_is_no_tick() -> None:
    assert viz.order_of(tir.Evaluate(tir.const(0, "int32"))).total == 0


def test_a_vector_is_one_tick() -> None:
    s, C = rows(2, 4)
    s[C].vectorize(C.op.axis[1])
    assert [[at for _, at in t.writes] for t in order(s).ticks] == [
        [(i, j) for j in range(4)] for i in range(2)
    ]


def test_reads_behind_a_false_condition_do_not_happen() -> None:
    A = te.placeholder((3,), name="A")
    C = te.compute((3,), lambda i: te.if_then_else(i > 0, A[i - 1], 0.0), name="C")
    o = order(te.create_schedule(C.op))
    assert [[at for _, at in t.reads] for t in o.ticks] == [[], [(0,)], [(1,)]]


def test_the_ticks_of_a_matmul_are_its_stores() -> None:
    s, _ = matmul(8)
    assert order(s).total == len(order(s).ticks) == 8 * 8 + 8 * 8 * 8


def test_a_large_program_is_cut_to_a_corner() -> None:
    o = order(tiled(256)[0])
    assert len(o.ticks) <= 640 < o.total
    assert {v.name: n for v, n in o.cut.items()}["i.outer"] < 32


def test_the_corner_initialises_what_it_sums() -> None:
    o = order(tiled(64)[0])
    first = {at for t in o.ticks for _, at in t.writes if not t.reads}
    later = {at for t in o.ticks for _, at in t.writes if t.reads}
    assert first == later


def test_symbolic_sizes_have_no_order_yet() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1.0, name="C")
    with pytest.raises(ArgumentError, match="the number of iterations is not known"):
        order(te.create_schedule(C.op))


def test_places_that_data_decides_have_no_order() -> None:
    A = te.placeholder((4,), name="A")
    I = te.placeholder((4,), dtype="int32", name="I")  # noqa: E741  # an index tensor
    C = te.compute((4,), lambda i: A[I[i]], name="C")
    with pytest.raises(ArgumentError, match="data decide its value"):
        order(te.create_schedule(C.op))


def test_frames_mark_cells_and_the_line_that_runs() -> None:
    nest = viz.nest_of(rows(2, 3)[0])
    o = viz.order_of(nest.body)
    frame = viz.order_frames(nest, o, viz.grids_of(o))[4]
    assert frame.marks == {"cell:A/1/1": "read", "cell:C/1/1": "write", "line:2": "now"}
    assert frame.caption == "tick 5 of 6  i=1, j=1\nwrites C[1, 1], reads A[1, 1]"


def test_small_tensors_are_drawn_whole_and_large_ones_in_blocks() -> None:
    small = viz.grids_of(order(rows(2, 3)[0]))[0]
    assert (small.rows, small.columns, small.each) == (2, 3, 1)
    s, C = rows(2, 64)
    s[C].vectorize(C.op.axis[1])
    large = viz.grids_of(order(s))[0]
    assert (large.rows, large.columns, large.each) == (2, 32, 2)


def test_every_element_of_the_result_is_written_by_the_last_stage() -> None:
    o = order(blur()[0])
    assert {at for t in o.ticks for b, at in t.writes if b.name == "C"} == {(i,) for i in range(10)}


def test_long_vectors_are_cut_too() -> None:
    s, C = rows(2, 1024)
    s[C].vectorize(C.op.axis[1])
    assert [len(t.writes) for t in order(s).ticks] == [64, 64]
