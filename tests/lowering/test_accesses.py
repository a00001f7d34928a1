"""record_accesses: the same program, which also writes down what it reads and writes."""

from collections.abc import Callable

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError
from minitvm.lowering import PASSES, known_stores, record_accesses
from minitvm.tir import PrimFunc, interpret, verify


def shifted() -> PrimFunc:
    """C[i] = A[i + 1] * 2.0"""
    A = te.placeholder((9,), name="A")
    C = te.compute((8,), lambda i: A[i + 1] * 2.0, name="C")
    return tvm.lower(te.create_schedule(C.op), [A, C], until="flatten")


def guarded() -> PrimFunc:
    """One arm of a choice reads A twice; a loop of 3 x 3 over 8 elements."""
    A = te.placeholder((9,), name="A")
    C = te.compute((8,), lambda i: te.if_then_else(i < 4, A[i + 1], A[i] + A[i]), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 3)
    return tvm.lower(s, [A, C], passes=PASSES["python"])


def run(f: PrimFunc, call: Callable[..., None], room: int) -> tuple[list, list, list, np.ndarray]:
    """events, values, counts and the output of `f`, which takes A of 9 and C of 8 elements."""
    a, c = np.arange(9, dtype="float32"), np.zeros(8, "float32")
    events, values, counts = (
        np.full(room, -99, "int32"),
        np.full(room, -99, "int64"),
        np.zeros(2, "int64"),
    )
    call(a, c, events, values, counts)
    return events.tolist(), values.tolist(), counts.tolist(), c


def test_before_and_after() -> None:
    recording = record_accesses(shifted())
    assert str(recording.func).splitlines()[1:] == [
        "  for i in range(8):",
        "    if counts[0] < room:",
        "      events[counts[0]] = -1",
        "      values[counts[0]] = int64(i)",
        "    counts[0] = counts[0] + int64(1)",
        "    if counts[0] < room:",
        "      events[counts[0]] = 0",
        "      values[counts[0]] = int64(i + 1)",
        "    counts[0] = counts[0] + int64(1)",
        "    if counts[0] < room:",
        "      events[counts[0]] = 1",
        "      values[counts[0]] = int64(i)",
        "    counts[0] = counts[0] + int64(1)",
        "    counts[1] = counts[1] + int64(1)",
        "    C[i] = A[i + 1] * 2.0",
    ]
    assert [(s.text, s.write) for s in recording.sites] == [("A[i + 1]", False), ("C[i]", True)]


@pytest.mark.parametrize("program", [shifted, guarded])
def test_what_it_makes_is_a_program_and_results_stay(program: Callable[[], PrimFunc]) -> None:
    before = program()
    after = record_accesses(before).func
    verify(after, "flat")
    a, c = np.arange(9, dtype="float32"), np.zeros(8, "float32")
    interpret(before, a, c, flat=True)
    slow = run(after, lambda *args: interpret(after, *args, flat=True), 40)
    fast = run(after, tvm.build(after), 40)
    assert slow[:3] == fast[:3]
    np.testing.assert_array_equal(slow[3], c)
    np.testing.assert_array_equal(fast[3], c)


def test_only_the_chosen_arm_is_written_down() -> None:
    f = guarded()
    after = record_accesses(f)
    events, values, counts, _ = run(after.func, tvm.build(after.func), 40)
    reads = [(e, v) for e, v in zip(events, values, strict=True) if 0 <= e < 3]
    assert reads == [(0, 1), (0, 2), (0, 3), (0, 4)] + [
        (site, n) for n in range(4, 8) for site in (1, 2)
    ]
    assert counts == [3 + 9 + 4 * 2 + 4 * 3, 4]  # iterations, accesses; additions


def test_without_room_events_are_counted_all_the_same() -> None:
    after = record_accesses(guarded()).func
    events, _, counts, c = run(after, tvm.build(after), 5)
    assert (len(events), counts[0]) == (5, 32)
    assert c.tolist() == [1, 2, 3, 4, 8, 10, 12, 14]


def test_sites_and_loops_say_where_they_are_in_the_text() -> None:
    f = guarded()
    found, lines = record_accesses(f), str(f).splitlines()
    for site in found.sites:
        assert site.text in lines[site.line]
        assert site.names == ("i_outer", "i_inner")
        assert [found.loops[k].name for k in site.loops] == ["i_outer", "i_inner"]
    for loop in found.loops:
        assert f"for {loop.name} in" in lines[loop.line]


def test_a_load_in_an_index_comes_before_the_load_it_serves() -> None:
    A = te.placeholder((9,), name="A")
    I = te.placeholder((8,), "int32", name="I")  # noqa: E741
    C = te.compute((8,), lambda i: A[I[i]], name="C")
    f = tvm.lower(te.create_schedule(C.op), [A, I, C], until="flatten")
    assert [s.text for s in record_accesses(f).sites] == ["I[i]", "A[max(0, min(I[i], 8))]", "C[i]"]


def test_stores_are_counted_before_anything_runs() -> None:
    assert known_stores(guarded().body) == 8


def test_vectors_are_refused() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    with pytest.raises(LoweringError, match="line 2, which has vectors"):
        record_accesses(tvm.lower(s, [A, C]))


def test_indices_that_are_not_flat_are_refused() -> None:
    A = te.placeholder((4, 4), name="A")
    C = te.compute((4, 4), lambda i, j: A[j, i], name="C")
    f = tvm.lower(te.create_schedule(C.op), [A, C], until="nest")
    with pytest.raises(LoweringError, match=r"A\[j, i\]: it has 2 indices, not one flat offset"):
        record_accesses(f)


def test_threads_are_refused() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(LoweringError, match=r"bound to 'threadIdx.x': threads that share memory"):
        record_accesses(tvm.lower(s, [A, C], until="flatten"))


def test_calls_that_are_given_memory_are_refused() -> None:
    A = te.placeholder((8,), name="A")
    C = te.extern(
        (8,), [A], lambda ins, outs: tvm.tir.call_packed("copy", ins[0], outs[0]), name="C"
    )
    f = tvm.lower(te.create_schedule(C.op), [A, C], until="flatten")
    with pytest.raises(LoweringError, match=r"accesses of copy\(...\): what it reads and writes"):
        record_accesses(f)
