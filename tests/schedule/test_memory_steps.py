"""Steps about threads and memory: the loops after them, and what they refuse."""

from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError, ScheduleError
from minitvm.schedule import (
    Annotate,
    Bind,
    CacheWrite,
    ComputeAt,
    ComputeRoot,
    DoubleBuffer,
    Prefetch,
    SetStorePredicate,
    Split,
    Step,
    StorageAlign,
    StoreAt,
    TransformLayout,
)


def chain() -> te.Schedule:
    """B[i, j] = A[i, j] + 1; C[i, j] = B[i, j] * 2, 8 x 6"""
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] + 1.0, name="B")
    return te.create_schedule(te.compute((8, 6), lambda i, j: B[i, j] * 2.0, name="C").op)


def rowsum(n: Any = 4) -> te.Schedule:
    """C[i] = sum over k of A[i, k]"""
    A, k = te.placeholder((n, 6), name="A"), te.reduce_axis((0, 6), name="k")
    return te.create_schedule(te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="C").op)


def loops(s: te.Schedule, *steps: Step) -> list[str]:
    """The loops after the steps, without the line that declares the function."""
    for step in steps:
        s.apply(step)
    tensors = [o.output(0) for o in (v.op for v in s.stages) if isinstance(o, te.PlaceholderOp)]
    func = tvm.lower(s, [*tensors, *(o.output(0) for o in s.outputs)], until="nest")
    return [line[2:] for line in str(func).splitlines()[1:]]


def refusal(s: te.Schedule, *steps: Step) -> str:
    """What the last of `steps` is refused with; the state must stay as it was."""
    for step in steps[:-1]:
        s.apply(step)
    before = s.state
    with pytest.raises(ScheduleError) as caught:
        s.apply(steps[-1])
    assert s.state is before
    return str(caught.value)


# --- bind ----------------------------------------------------------------------------------------


def test_a_bound_loop_is_a_thread() -> None:
    assert loops(rowsum(), Bind("C", "i", "threadIdx.x"))[0] == "for i in bind(4, 'threadIdx.x'):"


def test_a_reduce_loop_may_be_the_threads_of_a_block() -> None:
    printed = loops(rowsum(), Bind("C", "k", "threadIdx.x"))
    assert printed[1:4] == [
        "  # pragma cross_thread = sum over threadIdx.x",
        "  C[i] = 0.0",
        "  for k in bind(6, 'threadIdx.x'):",
    ]


def test_what_is_parallel_is_no_thread_any_more() -> None:
    s = rowsum()
    assert loops(s, Bind("C", "i", "blockIdx.x"), Annotate("C", "i", "parallel"))[0] == (
        "for i in parallel(4):"
    )


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([Bind("C", "i", "threadIdx.w")],
         "bind of 'i' in C: there is no thread 'threadIdx.w'\n"
         "  try: one of blockIdx.x, blockIdx.y, blockIdx.z, "
         "threadIdx.x, threadIdx.y, threadIdx.z, vthread, vthread.x, vthread.y, vthread.z, "
         "cthread"),
        ([Bind("C", "k", "blockIdx.x")],
         "bind of 'k' in C: it is a reduce axis: its iterations all write the same "
         "element\n  try: a data axis; or rfactor the reduction first; or threadIdx, whose threads "
         "can combine"),
        ([Bind("C", "i", "threadIdx.x"), Bind("C", "k", "threadIdx.x")],
         "bind of 'k' in C: 'i' is bound to threadIdx.x already: both would have the same "
         "index\n  try: fuse the two, or bind one to another thread"),
        ([Bind("C", "i", "threadIdx.x", 32)],
         "bind of 'i' in C: 32 threads for 4 iterations; each runs one\n"
         "  try: split(..., nparts=32) and bind the outer loop"),
        ([Bind("C", "i", "threadIdx.x", 0)],
         "bind of 'i' in C: the number of threads is 0, not an integer >= 1"),
        ([Bind("C", "i", "vthread"), Split("C", "i", factor=2)],
         "split of 'i' in C: 'i' is marked bind\n"
         "  try: split and fuse first, then say how the new loops run"),
    ],
    ids=["unknown", "reduce", "twice", "extent", "none", "marked"],
)  # fmt: skip
def test_what_cannot_be_a_thread_is_refused(steps: list[Step], says: str) -> None:
    assert refusal(rowsum(), *steps) == says


def test_a_virtual_thread_has_a_constant_number() -> None:
    assert refusal(rowsum(te.size_var("n")), Bind("C", "i", "vthread")) == (
        "bind of 'i' in C: its extent n is not a constant\n  try: split it by nparts first"
    )


def test_virtual_threads_may_be_bound_twice() -> None:
    s = chain()
    text = loops(s, Bind("C", "i", "vthread"), Bind("C", "j", "vthread"))
    assert text[-3:-1] == ["for i_1 in bind(8, 'vthread'):", "  for j_1 in bind(6, 'vthread'):"]


def test_a_thread_axis_is_made_as_in_tvm() -> None:
    tx = te.thread_axis((0, 32), "threadIdx.x")
    assert (tx.thread_tag, tx.extent, te.thread_axis("vthread").extent) == ("threadIdx.x", 32, None)


@pytest.mark.parametrize("dom", [(1, 4), 0, (0, 0)])
def test_threads_are_counted_from_zero(dom: Any) -> None:
    with pytest.raises(ScheduleError) as caught:
        te.thread_axis(dom, "threadIdx.x")
    assert str(caught.value) == (
        f"thread_axis({dom!r}, 'threadIdx.x'): the range starts at 0 and ends at a constant\n"
        "  try: thread_axis((0, 32), ...)"
    )


def test_a_loop_is_bound_to_a_thread_axis() -> None:
    s = rowsum()
    with pytest.raises(ScheduleError) as caught:
        s["C"].bind(s["C"].op.axis[0], "threadIdx.x")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "bind of 'i' in C to 'threadIdx.x': not a thread\n  try: te.thread_axis(\"threadIdx.x\")"
    )


# --- storage_align -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "factor", "offset", "strides"),
    [("i", 2, 1, (7, 1)), ("i", 8, 0, (8, 1)), ("i", 6, 0, (6, 1)), ("j", 2, 0, (12, 2))],
)
def test_rows_are_padded(axis: str, factor: int, offset: int, strides: tuple[int, int]) -> None:
    s = chain()
    s.apply(StorageAlign("B", axis, factor, offset))
    A, _, C = (v.op.output(0) for v in s.stages)
    f = tvm.lower(s, [A, C], until="flatten")
    at = {(8, 1): "i*8 + j", (7, 1): "i*7 + j", (6, 1): "i*6 + j", (12, 2): "i*12 + j*2"}[strides]
    assert f"B[{at}] = " in str(f)
    assert f'B = allocate((8, 6), "float32", "global", strides={strides})' in str(f)


def test_rows_of_a_transposed_stage_are_padded() -> None:
    s = chain()
    A, B, C = (v.op.output(0) for v in s.stages)
    s[B].transform_layout(lambda i, j: (j, i))
    s[B].storage_align(B.op.axis[1], 16, 1)
    f = tvm.lower(s, [A, C], until="flatten")
    assert "B[j*17 + i] = " in str(f)
    assert 'B = allocate((6, 8), "float32", "global", strides=(17, 1))' in str(f)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([StorageAlign("B", "k", 8)],
         "storage_align of 'k' in B: it is not a dimension of the result\n  try: one of i, j"),
        ([StorageAlign("B", "i", 8, 8)],
         "storage_align of 'i' in B: offset 8 is not in 0 .. 7\n"
         "  try: strides are offset, offset + factor, offset + 2*factor, ..."),
        ([StorageAlign("B", "i", 0)],
         "storage_align of 'i' in B: factor 0 is not >= 1"),
        ([TransformLayout("B", ("i", "j"), ("i // 2", "j", "i % 2")), StorageAlign("B", "i", 8)],
         "storage_align of 'i' in B: it has a layout that does more than permute\n"
         "  try: pad in transform_layout"),
        ([StorageAlign("B", "i", 8), TransformLayout("B", ("i", "j"), ("j", "i"))],
         "transform_layout of B: storage_align has set its strides already\n"
         "  try: pad in the layout: lambda i, j: (i*33 + j,)"),
        ([StorageAlign("C", "i", 8)],
         "storage_align of 'i' in C: C is an output: it must be stored as a whole, at root"),
    ],
    ids=["axis", "offset", "factor", "layout", "aligned", "output"],
)  # fmt: skip
def test_strides_that_cannot_be_are_refused(steps: list[Step], says: str) -> None:
    assert refusal(chain(), *steps) == says


# --- set_store_predicate -------------------------------------------------------------------------


def test_only_some_elements_are_stored() -> None:
    step = SetStorePredicate("C", ("i", "j"), ("i < 4", "j >= 1"))
    assert loops(chain(), step)[-5:] == [
        "for i_1 in range(8):",
        "  if likely(i_1 < 4):",
        "    for j_1 in range(6):",
        "      if likely(1 <= j_1):",
        "        C[i_1, j_1] = B[i_1, j_1] * 2.0",
    ]


def test_the_loop_of_a_thread_stands_for_it() -> None:
    s = rowsum()
    tx = te.thread_axis("threadIdx.x")
    s["C"].bind(s["C"].op.axis[0], tx)
    s["C"].set_store_predicate(tx.var < 2)
    assert s.steps[-1] == SetStorePredicate("C", ("i",), ("i < 2",))


def test_a_predicate_stays_where_a_window_slides() -> None:
    """store_at computes new elements only, all of them in the tensor: no guard but the user's."""
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] * 2, name="B")
    C = te.compute((18,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 3)
    s[B].compute_at(s[C], ii)
    s[B].store_at(s[C], io)
    s[B].set_store_predicate(B.op.axis[0] < 10)
    nest = str(tvm.lower(s, [A, C], until="nest"))
    assert nest.count("likely") == 1
    assert "if likely(i_outer*3 + i_inner + min(i_inner, 1)*2 + i < 10):" in nest


def test_which_thread_stores_a_sum_makes_no_difference() -> None:
    s = rowsum()
    tx = te.thread_axis("threadIdx.x")
    s["C"].bind(s["C"].op.reduce_axis[0], tx)
    before = loops(s)
    s["C"].set_store_predicate(tx.var == 0)
    assert loops(s) == before


@pytest.mark.parametrize(
    ("conds", "says"),
    [
        (("k < 3", "k > 3"), "k < 3 and 3 < k is false for all threads 0 .. 5: no thread "
         "would store the result\n  try: k == 0"),
        (("k < i",), "k < i mixes a thread of the reduction with other axes: all threads of the "
         "reduction have the same result, so any one of them can store it\n  try: k == 0, and a "
         "second condition on the data axes"),
    ],
    ids=["none", "mixed"],
)  # fmt: skip
def test_a_thread_that_folds_must_be_there_to_store(conds: tuple[str, ...], says: str) -> None:
    s = rowsum()
    s["C"].bind(s["C"].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    step = SetStorePredicate("C", ("i", "k"), conds)
    assert refusal(s, step) == f"set_store_predicate of C: {says}"


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (SetStorePredicate("C", ("x",), ("x < 1",)),
         "set_store_predicate of C: it has no axis 'x'\n  try: one of i, k"),
        (SetStorePredicate("C", ("i",), ("i + 1",)),
         "condition 'i + 1' in a step: it is not a comparison\n  try: te.all(i < 4, j >= 1)"),
        (SetStorePredicate("C", ("i",), ()), "set_store_predicate of C: no condition is given"),
        (SetStorePredicate("C", ("i",), ("i < 4",)),
         "set_store_predicate of C: the condition is always True\n  try: leave it out"),
        (SetStorePredicate("C", ("k",), ("k < 1",)),
         "set_store_predicate of C: 'k' is a reduce axis: all its iterations compute the same "
         "element\n  try: use data axes; to skip terms of the sum, te.sum(..., where=...)"),
    ],
    ids=["axis", "value", "nothing", "always", "reduce"],
)  # fmt: skip
def test_conditions_that_make_no_sense_are_refused(step: Step, says: str) -> None:
    assert refusal(rowsum(), step) == says


@pytest.mark.parametrize(("limit", "always"), [(4, True), (0, False)])
def test_a_condition_that_folds_to_a_constant_is_refused(limit: int, always: bool) -> None:
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: A[i] + 1, name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match=f"C: the condition is always {always}"):
        s[C].set_store_predicate(C.op.axis[0] < limit)


def test_a_cache_takes_no_condition_along() -> None:
    s = rowsum()
    says = refusal(s, SetStorePredicate("C", ("i",), ("i < 2",)), CacheWrite("C", "local"))
    assert says.startswith("cache_write of C: its loops have been changed already")


# --- prefetch ------------------------------------------------------------------------------------


def test_a_prefetch_is_a_remark() -> None:
    assert loops(rowsum(), Prefetch("C", "A", "k", 2))[2] == "  # pragma prefetch = ('A', 2)"


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Prefetch("C", "A", "i"), "prefetch of 'i' in C: C does not read A\n  try: it reads B"),
        (
            Prefetch("C", "B", "i", -1),
            "prefetch of 'i' in C: the offset is -1\n  try: an integer >= 0",
        ),
    ],
)
def test_a_prefetch_is_of_what_is_read(step: Step, says: str) -> None:
    assert refusal(chain(), step) == says


# --- double_buffer and store_at ------------------------------------------------------------------


def test_what_is_double_buffered_is_marked() -> None:
    s = chain()
    assert (
        loops(s, ComputeAt("B", "C", "i"), DoubleBuffer("B"))[2] == "  # pragma double_buffer = 1"
    )


def test_what_is_kept_is_stored_outside() -> None:
    s = chain()
    assert loops(s, ComputeAt("B", "C", "j"), StoreAt("B", "C", "i"))[:3] == [
        "for i in range(8):",
        '  B = allocate((1, 1), "float32", "global")',
        "  for j in range(6):",
    ]


def test_compute_root_takes_the_memory_along() -> None:
    s, t = chain(), chain()
    steps = (ComputeAt("B", "C", "j"), StoreAt("B", "C", "i"), ComputeRoot("B"))
    assert loops(s, *steps) == loops(t)


def test_where_a_stage_is_kept_may_be_said_before_where_it_is_computed() -> None:
    first, second = ComputeAt("B", "C", "j"), StoreAt("B", "C", "i")
    assert loops(chain(), second, first) == loops(chain(), first, second)


def test_a_stage_that_is_kept_and_not_computed_anywhere_has_no_loops_yet() -> None:
    with pytest.raises(LoweringError) as caught:
        loops(chain(), StoreAt("B", "C", "i"))
    assert str(caught.value) == (
        "store_at of B: it is not yet computed inside that loop\n"
        "  try: compute_at that loop or one inside it; or compute_root, which undoes store_at"
    )


def test_the_memory_moves_with_the_loop_that_is_split() -> None:
    s = chain()
    steps = (ComputeAt("B", "C", "j"), StoreAt("B", "C", "i"), Split("C", "i", factor=2))
    assert loops(s, *steps)[2].strip() == 'B = allocate((1, 1), "float32", "global")'


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([StoreAt("B", "B", "i")],
         "store_at of B at B, loop 'i': a stage cannot be stored inside its own loop\n"
         "  try: a loop of a stage that reads it"),
        ([ComputeAt("B", "C", "i"), StoreAt("B", "C", "j")],
         "store_at of B at C, loop 'j': B is not computed inside that loop\n"
         "  try: compute_at a loop inside it"),
        ([StoreAt("B", "C", "j"), ComputeAt("B", "C", "i")],
         "store_at of B at C, loop 'j': B is not computed inside that loop\n"
         "  try: compute_at a loop inside it"),
        ([ComputeAt("B", "C", "j"), Annotate("C", "j", "parallel"), StoreAt("B", "C", "i")],
         "store_at of B at C, loop 'i': loop 'j' of C in between is marked parallel: its "
         "iterations would share the memory\n  try: a serial loop, or store it inside that loop"),
        ([ComputeAt("B", "C", "j"), StoreAt("B", "C", "i"), Annotate("C", "j", "vectorize")],
         "store_at of B at C, loop 'i': loop 'j' of C in between is marked vectorize: its "
         "iterations would share the memory\n  try: a serial loop, or store it inside that loop"),
        ([ComputeAt("B", "C", "j"), StoreAt("B", "C", "i"), DoubleBuffer("B")],
         "double_buffer of B: store_at keeps its elements from one iteration to the next\n"
         "  try: use only one of store_at and double_buffer"),
        ([ComputeAt("B", "C", "j"), DoubleBuffer("B"), StoreAt("B", "C", "i")],
         "store_at of B at C, loop 'i': it is double-buffered already\n"
         "  try: use only one of store_at and double_buffer"),
        ([DoubleBuffer("C")],
         "double_buffer of C: C is an output: it must be stored as a whole, at root"),
    ],
    ids=["itself", "inside", "before", "parallel", "later", "double", "stored", "output"],
)  # fmt: skip
def test_memory_that_cannot_be_kept_is_refused(steps: list[Step], says: str) -> None:
    assert refusal(chain(), *steps) == says


# --- written down --------------------------------------------------------------------------------


def test_the_steps_are_written_as_python() -> None:
    s = chain()
    B, C = s["B"], s["C"]
    i, j = C.op.axis
    o, n = C.split(i, factor=3)
    C.bind(o, te.thread_axis((0, 3), "vthread"))
    B.compute_at(C, j)
    B.store_at(C, n)
    B.storage_align(B.op.axis[0], 8, 1)
    C.set_store_predicate(te.all(o * 3 + n < 7, j > 1))
    C.prefetch(B, n, 2)
    assert s.python().splitlines()[2:] == [
        "i_outer, i_inner = s[C].split(i, factor=3)",
        "s[C].bind(i_outer, te.thread_axis((0, 3), 'vthread'))",
        "s[B].compute_at(s[C], j)",
        "s[B].store_at(s[C], i_inner)",
        "i_1, j_1 = s[B].op.axis",
        "s[B].storage_align(i_1, 8, 1)",
        "s[C].set_store_predicate(te.all(i_outer*3 + i_inner < 7, 1 < j))",
        "s[C].prefetch(B, i_inner, 2)",
    ]


def test_double_buffering_is_written_as_python() -> None:
    s = chain()
    s["B"].double_buffer()
    assert s.python().splitlines()[-1] == "s[B].double_buffer()"
