"""GridView: a block step by step, what a warp's access costs, and a race with both its threads."""

import io
import re

import numpy as np
import pytest
from PIL import Image

import minitvm as tvm
from minitvm import te, tir, viz
from minitvm.base import ArgumentError, dtype
from minitvm.runtime import GpuFunction
from minitvm.viz.grid_run import passes_of, sectors_of
from tests.codegen.gpu.programs import PROGRAMS, Program, in_registers, tiled

SIMULATED = tvm.target.Target("cuda -sim")


def built(name: str) -> GpuFunction:
    program = PROGRAMS[name]()
    return tvm.build(program.schedule, program.args, "cuda -sim")


def reversing() -> GpuFunction:
    """64 threads of two blocks turn rows around in shared memory."""
    A = te.placeholder((2, 32), name="A")
    B = te.compute((2, 32), lambda i, j: A[i, 31 - j], name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
    s[shared].compute_at(s[B], B.op.axis[0])
    s[shared].bind(s[shared].op.axis[1], te.thread_axis("threadIdx.x"))
    return tvm.build(s, [A, B], "cuda -sim")


@pytest.fixture
def view() -> viz.GridView:
    return viz.GridView(reversing())


def shown(view: viz.GridView) -> list[str]:
    return [s.text for s in viz.scene.walk_shapes(view.scene().shapes) if isinstance(s, viz.Text)]


def marked(view: viz.GridView, n: int, prefix: str) -> dict[str, str]:
    """The kinds that frame `n` gives to keys with a prefix."""
    marks = view.layout().frames[n].marks
    return {key: kind for key, kind in marks.items() if key.startswith(prefix)}


# --- pictures -------------------------------------------------------------------------------------


def test_as_text(golden) -> None:
    view = viz.GridView(reversing(), access=2)
    before = repr(view)
    view.event("barrier_1")
    golden(f"{before}\n\n{view!r}")


def test_png_is_small() -> None:
    program = tiled(32, 8, 8)
    data = viz.GridView(tvm.build(program.schedule, program.args, "cuda -sim")).png()
    assert Image.open(io.BytesIO(data)).size[0] > 1600
    assert len(data) < 40_000


def test_a_padded_row_is_drawn_with_its_gap() -> None:
    program = tiled(32, 8, 8)
    s = program.schedule
    s["A.shared"].storage_align(s["A.shared"].op.axis[0], 32, 1)
    view = viz.GridView(tvm.build(s, program.args, "cuda -sim"))
    assert "A_shared: shared 8 x 33" in shown(view)


# --- what is counted ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        PROGRAMS["ragged"](),
        PROGRAMS["halo"](),
        tiled(32, 8, 8),
        in_registers(32, tile=16, each=2, depth=8),
        in_registers(16, tile=16, each=4, depth=8, wide=4),
        in_registers(16, tile=16, each=4, depth=8, wide=4, turned="stage"),
    ],
    ids=["ragged", "halo", "tiled", "in registers", "wide", "padded"],
)
def test_sectors_and_passes_add_up_to_what_the_simulator_counts(program: Program) -> None:
    view = viz.GridView(tvm.build(program.schedule, program.args, "cuda -sim"))
    sums = dict.fromkeys(range(len(view.run.report.accesses)), 0)
    for block in range(view.run.report.launch.blocks):
        if block:
            view.event("block", block)
        assert view.run.total == len(view.run.steps)
        for step in view.run.steps:
            parts = sectors_of if step.buffer.scope == "global" else passes_of
            for warp in range(view.run.report.launch.warps):
                sums[step.access] += len(parts(step, warp))
    counts = enumerate(view.run.report.accesses)
    assert sums == {n: c.sectors if c.space == "global" else c.wavefronts for n, c in counts}


def test_threads_of_one_sector_have_one_letter(view: viz.GridView) -> None:
    letters = [text for text in shown(view) if re.fullmatch("[a-z]", text)]
    assert letters[:32] == [c for c in "abcd" for _ in range(8)]
    assert "4 sectors of 32 bytes; 32 of 32 elements used" in shown(view)


def test_blocks_that_read_the_same_elements_are_pale() -> None:
    program = tiled(32, 8, 8)
    view = viz.GridView(tvm.build(program.schedule, program.args, "cuda -sim"))
    groups = [s for s in view.scene().shapes if isinstance(s, viz.Group)]
    kinds = [s.shapes[0].kind for s in groups if s.key.startswith("block:")]
    assert kinds[:8] == ["now", *["seen"] * 3, *["cell"] * 4]  # a row of blocks reads rows of A


# --- steps and races ------------------------------------------------------------------------------


def test_each_step_marks_its_threads_elements_and_line(view: viz.GridView) -> None:
    assert [s.phase for s in view.run.steps] == [0, 0, 1, 1]
    assert set(marked(view, 0, "thread:").values()) == {"read"}
    assert set(marked(view, 1, "at:A.shared").values()) == {"write"}
    assert len(marked(view, 2, "at:A.shared")) == 32
    (line,) = marked(view, 1, "line:")
    lines = {x.key: x.text.strip() for x in view.layout().panels[1].lines}
    assert lines[line].startswith("A_shared[")


def test_threads_that_take_no_part_are_faint() -> None:
    view = viz.GridView(built("ragged"), block=2)  # 77 elements: 13 threads of the last block work
    kinds = list(marked(view, 0, "thread:").values())
    assert kinds == ["read"] * 13 + ["faint"] * 19


def test_all_that_frames_mark_is_in_the_picture(view: viz.GridView) -> None:
    marks = {key for frame in view.layout().frames for key in frame.marks}
    lines = {line.key for panel in view.layout().panels for line in panel.lines}
    assert marks <= set(viz.keys_of(view.scene())) | lines


def test_without_its_barrier_a_race_is_shown_with_both_threads(view: viz.GridView) -> None:
    assert view.run.clash is None
    view.event("barrier_1")
    assert view.message.startswith("read after write: A_shared[")
    clash = view.run.clash
    assert clash is not None
    assert (clash.first, clash.second, clash.threads, clash.element) == (1, 2, (31, 0), 31)
    assert marked(view, 2, "thread:0")["thread:0"] == "race"
    assert marked(view, 2, "thread:31")["thread:31"] == "race"
    assert view.layout().first == 2
    view.event("restore")
    assert (view.message, view.run.clash) == ("no fault", None)


def test_each_barrier_is_removed_alone() -> None:
    program = tiled(32, 8, 8)
    view = viz.GridView(tvm.build(program.schedule, program.args, "cuda -sim"))
    view.event("barrier_1")  # between the copies and the products
    assert view.message.startswith("read after write: A_shared[")
    view.event("barrier_2")  # between the products and the next copies
    assert view.message.startswith("write after read: A_shared[")
    clash = view.run.clash
    assert clash is not None
    early, late = view.run.steps[clash.first], view.run.steps[clash.second]
    assert (early.write, late.write, early.phase, late.phase) == (False, True, 1, 1)
    assert clash.element in late.lanes.values()


def test_the_arguments_stay_as_they_are() -> None:
    a, b = np.ones((2, 32), np.float32), np.zeros((2, 32), np.float32)
    viz.GridView(reversing(), [a, b])
    assert not b.any()


# --- controls and clicks --------------------------------------------------------------------------


def test_a_click_chooses_a_block_an_access_or_a_line(view: viz.GridView) -> None:
    view.event("click", "block:1")
    assert view.run.block == 1
    view.event("click", "access:2")
    assert view.access == 2
    assert "1 wavefront: banks 0 to 31, with how many lanes each serves" in shown(view)
    view.event("click", view._lines[0])
    assert view.access == 0


def test_a_click_on_a_thread_chooses_its_warp() -> None:
    view = viz.GridView(built("in registers"))
    view.event("click", "thread:63")
    assert view.warp == 1
    assert any("of warp 1" in words for words in shown(view))


def test_a_program_of_two_kernels_shows_one_of_them() -> None:
    view = viz.GridView(built("two kernels"))
    first = view.run.report.name
    view.event("kernel", 1)
    assert view.run.report.name != first
    assert view.png()


@pytest.mark.parametrize(("name", "value"), [("block", 9), ("access", -1), ("barrier_7", None)])
def test_nonsense_is_refused(view: viz.GridView, name: str, value) -> None:
    view.event(name, value)
    assert view.refused
    assert "Error" not in view.message


def test_what_is_not_for_a_gpu_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not a GpuFunction"):
        viz.GridView("main")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="accesses 0 to 3"):
        viz.GridView(reversing(), access=4)
    with pytest.raises(ArgumentError, match="blocks 0 to 1"):
        viz.GridView(reversing(), block=2)
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], 32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [A, B], "cuda -sim")
    with pytest.raises(ArgumentError, match="size of A is not known"):
        viz.GridView(f)
    a = np.ones(40, np.float32)
    assert viz.GridView(f, [a, a.copy()]).run.report.launch.blocks == 2


def test_loads_in_conditions_have_no_line() -> None:
    A, tx = tir.Buffer("A", (32,), dtype("float32")), tir.Var("tx", 0, 31)
    first, again = tir.Load(A, (tx,), A.dtype), tir.Load(A, (tx,), A.dtype)
    store = tir.If(first < 3.0, tir.Store(A, (tx,), again))
    body = tir.For(tx, 32, store, "bind", "threadIdx.x")
    view = viz.GridView(GpuFunction(tir.PrimFunc("f", (A,), body, (A,)), SIMULATED, {}))
    assert [len(s.lanes) for s in view.run.steps] == [32, 3, 3]
    assert not marked(view, 0, "line:")
    assert marked(view, 2, "line:")


def test_a_program_that_faults_at_once_has_a_picture() -> None:
    A, tx = tir.Buffer("A", (32,), dtype("float32")), tir.Var("tx", 0, 31)
    load = tir.Load(A, (tir.add(tx, 1),), A.dtype)
    body = tir.For(tx, 32, tir.Store(A, (tx,), load), "bind", "threadIdx.x")
    view = viz.GridView(GpuFunction(tir.PrimFunc("f", (A,), body, (A,)), SIMULATED, {}))
    assert "out of bounds" in view.ascii()
    assert view.png()
