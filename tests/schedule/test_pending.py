"""compute_at in any order: a stage may be placed before the stages that read it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError, ScheduleError
from minitvm.schedule import (
    CacheRead,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    Fuse,
    Reorder,
    Split,
    Step,
    legal_places,
)


def chain(*names: str) -> te.Schedule:
    """Each stage adds one to the stage before it: A -> B -> C -> D, 4 x 6."""
    t = te.placeholder((4, 6), name="A")
    for name in names or ("B", "C", "D"):
        t = total([t], name)
    return te.create_schedule(t.op)


def total(sources: list[te.Tensor], name: str) -> te.Tensor:
    """The sum of the sources and one."""
    return te.compute((4, 6), lambda i, j: sum((t[i, j] for t in sources), te.const(1.0)), name)


def graph(reads: list[list[int]]) -> te.Schedule:
    """Stage n adds up the earlier stages reads[n]; 0 is the input, the last one is the output."""
    tensors = [te.placeholder((4, 6), name="T0")]
    for n, inputs in enumerate(reads, start=1):
        tensors.append(total([tensors[k] for k in inputs], f"T{n}"))
    return te.create_schedule(tensors[-1].op)


def loops(s: te.Schedule) -> str:
    inputs = [v.op.output(0) for v in s.stages if isinstance(v.op, te.PlaceholderOp)]
    return str(tvm.lower(s, [*inputs, *(o.output(0) for o in s.outputs)], until="nest"))


def take(s: te.Schedule, *steps: Step) -> te.Schedule:
    for step in steps:
        s.apply(step)
    return s


def waiting(s: te.Schedule) -> list[str]:
    return [str(p) for p in s.state.pending]


# --- what waits ----------------------------------------------------------------------------------


def test_a_producer_waits_for_its_reader() -> None:
    s = take(chain(), ComputeAt("B", "D", "i"))
    assert waiting(s) == ["B in D.i waits for C"]
    assert [tuple(p) for p in s.state.pending] == [("B", "D", "i", ("C",))]


def test_the_reader_ends_the_wait() -> None:
    s = take(chain(), ComputeAt("B", "D", "i"), ComputeAt("C", "D", "i"))
    assert waiting(s) == []
    assert loops(s) == loops(take(chain(), ComputeAt("C", "D", "i"), ComputeAt("B", "D", "i")))


def test_an_inlined_reader_ends_the_wait() -> None:
    s = take(chain(), ComputeAt("B", "D", "j"), ComputeInline("C"))
    assert waiting(s) == []
    assert loops(s) == loops(take(chain(), ComputeInline("C"), ComputeAt("B", "D", "j")))


def test_a_producer_waits_for_the_stage_that_its_reader_is_computed_in() -> None:
    s = chain("B", "C", "E", "D")
    take(s, ComputeAt("C", "E", "j"), ComputeAt("B", "D", "i"))
    assert waiting(s) == ["B in D.i waits for E"]
    assert waiting(take(s, ComputeAt("E", "D", "i"))) == []


def test_each_stage_waits_for_its_own_readers() -> None:
    s = chain("B", "C", "E", "D")
    take(s, ComputeAt("B", "D", "j"), ComputeAt("C", "D", "j"))
    assert waiting(s) == ["C in D.j waits for E"]


def test_a_schedule_prints_what_is_pending() -> None:
    s = take(chain(), ComputeAt("B", "D", "i"))
    assert repr(s).splitlines()[-2:] == ["  D: i, j", "  pending: B in D.i waits for C"]


def test_explain_says_what_is_pending() -> None:
    s = take(chain(), ComputeAt("B", "D", "i"))
    assert s.explain()["B"].place == ("pending: B in D.i waits for C; this report shows it at root")
    assert s.explain()["D"].place == "at root: an output is stored as a whole"


def test_lowering_refuses_what_is_pending_and_names_its_line() -> None:
    s = chain()
    s["B"].compute_at(s["D"], s["D"].op.axis[0])
    with pytest.raises(LoweringError) as caught:
        loops(s)
    assert str(caught.value) == (
        "compute_at of B at D, loop 'i': it waits for C, computed outside that loop\n"
        "  try: compute_at of C at D.i, or compute_inline of C"
    )
    assert caught.value.__notes__[-1].startswith("B was placed at test_pending.py line ")
    assert caught.value.__notes__[-1].endswith('s["B"].compute_at(s["D"], s["D"].op.axis[0])')


def test_undo_takes_back_the_wait() -> None:
    s = take(chain(), ComputeAt("B", "D", "i"))
    s.undo()
    assert waiting(s) == []


def test_a_pending_schedule_is_written_down_and_replayed() -> None:
    s = take(chain(), ComputeAt("B", "D", "i"))
    again = te.Schedule.from_json(s.to_json(), s.outputs)
    assert waiting(again) == waiting(s)
    assert "s[B].compute_at(s[D], i)" in s.python()


# --- what is refused at once ---------------------------------------------------------------------

DIAMOND = [[0], [1], [1, 2]]  # T2 and T3 read T1


@pytest.mark.parametrize(
    ("reads", "steps", "why"),
    [
        (DIAMOND, [ComputeAt("T1", "T2", "i")], "T3 reads T1 outside that loop"),
        (DIAMOND, [ComputeAt("T2", "T3", "j"), ComputeAt("T1", "T2", "i")],
         "T3 reads T1 outside that loop"),
        ([[0], [1], [2], [2, 3]], [ComputeAt("T1", "T3", "i")],
         "T2, which needs it, cannot move there: T4 reads T2 outside that loop"),
        ([[0], [1], [2]], [ComputeAt("T2", "T3", "i"), ComputeAt("T1", "T3", "j")],
         "T2 reads T1 outside that loop"),
        ([[0], [1], [2], [3]], [ComputeAt("T2", "T4", "i"), ComputeAt("T1", "T3", "i")],
         "T2 reads T1 outside that loop"),
        ([[0], [1], [2]], [ComputeAt("T2", "T1", "i")], "T3 reads T2 outside that loop"),
    ],
    ids=["not upstream", "placed around", "its reader cannot follow", "placed further out",
         "placed elsewhere", "into its producer"],
)  # fmt: skip
def test_what_could_never_become_legal_is_refused_at_once(
    reads: list[list[int]], steps: list[Step], why: str
) -> None:
    s = take(graph(reads), *steps[:-1])
    before = s.state
    with pytest.raises(ScheduleError) as caught:
        s.apply(steps[-1])
    assert why in str(caught.value)
    assert s.state is before


def test_a_stage_does_not_wait_for_an_output() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    D = te.compute((8,), lambda i: C[i] + 1.0, name="D")
    with pytest.raises(ScheduleError, match="C reads B outside that loop"):
        take(te.create_schedule([C.op, D.op]), ComputeAt("B", "D", "i"))


def test_a_step_after_which_what_waits_could_not_become_legal_is_refused() -> None:
    s = take(chain(), ComputeAt("B", "D", "j"))
    before = s.state
    with pytest.raises(ScheduleError) as caught:
        s.apply(ComputeAt("C", "D", "i"))
    assert str(caught.value) == (
        "compute_at of B at D, loop 'j': C reads B outside that loop (readers: C)\n"
        "  try: one of C.i, C.j, D.i"
    )
    assert any(note.startswith("B was placed at") for note in caught.value.__notes__)
    assert s.state is before


# --- steps that come while a stage waits ---------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "loop"),
    [
        (Split("D", "j", factor=2), "j.inner"),
        (Fuse("D", ("i", "j")), "i.j.fused"),
        (Reorder("D", ("j", "i")), "j"),
    ],
    ids=["split", "fuse", "reorder"],
)
def test_a_stage_waits_at_the_loop_that_a_step_makes(step: Step, loop: str) -> None:
    s = take(chain(), ComputeAt("B", "D", "j"), step)
    assert waiting(s) == [f"B in D.{loop} waits for C"]


def test_a_new_reader_makes_a_stage_wait() -> None:
    s = take(chain(), ComputeAt("C", "D", "i"), CacheRead("C", 0, "local", ("D",)))
    assert waiting(s) == ["C in D.i waits for C.local"]
    assert waiting(take(s, ComputeAt("C.local", "D", "j"))) == []


def test_a_reader_that_goes_back_to_root_makes_a_stage_wait() -> None:
    s = take(chain(), ComputeAt("C", "D", "i"), ComputeAt("B", "D", "i"), ComputeRoot("C"))
    assert waiting(s) == ["B in D.i waits for C"]
    assert waiting(take(s, ComputeRoot("B"))) == []


def test_a_stage_waits_inside_a_scan() -> None:
    X = te.placeholder((5, 4), name="X")
    state = te.placeholder((5, 4), name="state")
    first = te.compute((1, 4), lambda t, i: X[0, i], name="first")
    a = te.compute((5, 4), lambda t, i: state[t - 1, i] * 2.0, name="a")
    b = te.compute((5, 4), lambda t, i: a[t, i] + 1.0, name="b")
    u = te.compute((5, 4), lambda t, i: b[t, i] + X[t, i], name="u")
    s = te.create_schedule(te.scan(first, u, state, inputs=[X], name="S").op)
    take(s, ComputeAt("a", "u", "i"))
    assert waiting(s) == ["a in u.i waits for b"]
    assert waiting(take(s, ComputeAt("b", "u", "i"))) == []


# --- any order -----------------------------------------------------------------------------------


def placements(rng: np.random.Generator) -> tuple[list[list[int]], list[Step]]:
    """A program and a legal list of placements for it, readers first."""
    count = int(rng.integers(4, 8))
    reads = [sorted({n, int(rng.integers(max(0, n - 2), n + 1))}) for n in range(count)]
    s, steps = graph(reads), list[Step]()
    for stage in reversed(s.state.stages[1:-1]):
        choices = [*legal_places(s.state, stage.name), "inline"]
        where = str(rng.choice(choices))
        target, _, axis = where.partition(".")
        inline = where == "inline"
        steps.append(ComputeInline(stage.name) if inline else ComputeAt(stage.name, target, axis))
        s.apply(steps[-1])
    return reads, steps


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_placements_give_the_same_loops_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reads, steps = placements(rng)
    s = graph(reads)
    for n in rng.permutation(len(steps)):
        s.apply(steps[int(n)])
    assert waiting(s) == []
    assert loops(s) == loops(take(graph(reads), *steps))


def convolution(order: Callable[[list[Callable[[], None]]], list[Callable[[], None]]]) -> Any:
    """A tiled 1x1 convolution on a GPU; `order` arranges its placements."""
    A = te.placeholder((8, 8, 16), name="A")
    W = te.placeholder((16, 16), name="W")
    rc = te.reduce_axis((0, 16), name="rc")
    pad = te.compute((8, 8, 16), lambda y, x, c: A[y, x, c] * 2.0, name="pad")
    B = te.compute((8, 8, 16), lambda y, x, f: te.sum(pad[y, x, rc] * W[rc, f], axis=rc), name="B")
    s = te.create_schedule(B.op)
    AA, WW = s.cache_read(pad, "shared", [B]), s.cache_read(W, "shared", [B])
    AL, WL = s.cache_read(AA, "local", [B]), s.cache_read(WW, "local", [B])
    BL = s.cache_write(B, "local")
    y, x, f = s[B].op.axis
    s[B].bind(y, te.thread_axis("blockIdx.x"))
    tx, fi = s[B].split(f, nparts=4)
    s[B].reorder(y, tx, x, fi)
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    ro, ri = s[BL].split(s[BL].op.reduce_axis[0], factor=4)
    s[BL].reorder(ro, ri, *s[BL].op.axis)
    places = [
        lambda: s[AA].compute_at(s[BL], ro),
        lambda: s[WW].compute_at(s[BL], ro),
        lambda: s[AL].compute_at(s[BL], ri),
        lambda: s[WL].compute_at(s[BL], ri),
        lambda: s[BL].compute_at(s[B], tx),
        s[pad].compute_inline,
    ]
    for place in order(places):
        place()
    return s, [A, W, B]


def test_the_tiles_of_a_convolution_are_placed_before_their_readers() -> None:
    s, args = convolution(lambda places: places)
    again, theirs = convolution(lambda places: places[::-1])
    assert str(tvm.lower(s, args)) == str(tvm.lower(again, theirs))


def test_the_result_is_right_whatever_the_order() -> None:
    s = take(chain(), ComputeAt("B", "D", "j"), ComputeAt("C", "D", "j"))
    D = s.outputs[0].output(0)
    f = tvm.build(s, [s.stages[0].op.output(0), D])
    a, d = np.arange(24, dtype="float32").reshape(4, 6), np.empty((4, 6), "float32")
    f(a, d)
    np.testing.assert_array_equal(d, a + 3.0)
