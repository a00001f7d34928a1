"""AcceleratorView: what the memories hold after each instruction, and what it reads and writes."""

import numpy as np
import pytest

from minitvm import viz
from minitvm.accel import Memory, parse, vta_pynq
from minitvm.base import ArgumentError
from minitvm.viz.accelerator_run import STEPS, occupancy, runs, span
from minitvm.viz.accelerator_use import piece, uses

from .accelerator_programs import numbers, talk

STRIDED = """
area A inp 4 8
area C out 8
uop 0 0 0
uop 2 5 1
ld  inp[8] = A[9] y=2 x=3 stride=8 pad=1,0,1,1   push ex
ex  uop[4] = uops[0] x=2
ex  reset u[4:6] outer=2 dst=4,0
ex  gemm u[4:6] outer=2 inner=3 dst=4,0 src=0,1   pop ld
ex  add u[5:6] src=0,0   push st
st  C[1] = acc[2] y=2 x=1 stride=4   pop ex   push ex
ex  nop   pop st
ex  finish
"""


@pytest.fixture
def view() -> viz.AcceleratorView:
    return viz.AcceleratorView(talk())


def used(n: int) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """What the n-th instruction of STRIDED reads and writes, by memory."""
    program = parse(STRIDED)
    use = uses(program, vta_pynq)[n]
    return tuple({m.name: e.tolist() for m, e in d.items()} for d in (use.reads, use.writes))


# --- pictures -------------------------------------------------------------------------------------


def test_as_text(golden) -> None:
    golden(repr(viz.AcceleratorView(talk())))


def test_the_picture_shows_the_memories_after_a_step() -> None:
    view = viz.AcceleratorView(talk(2))
    layout = view.layout()
    frame = layout.frames[layout.first]
    shapes = view.picture().shapes
    written = {s.key: s.shapes[0].kind for s in shapes if s.key.startswith("w:")}
    assert written == {k: kind for k, kind in frame.marks.items() if k.startswith("w:")}
    units = {s.key: s.shapes[0].kind for s in shapes if s.key.startswith("unit:")}
    assert units == {"unit:gemm": "now", "unit:alu": ""}
    arrows = {s.key: s.kind for s in shapes if isinstance(s, viz.Line)}
    assert {key for key, kind in arrows.items() if kind == "orange"} == {
        "read:gemm:INP", "read:gemm:WGT", "read:gemm:ACC", "write:gemm:ACC"
    }  # fmt: skip
    texts = [s.text for s in shapes if isinstance(s, viz.Text)]
    assert texts[-3:] == frame.caption.split("\n")


def test_written_elements_are_marked_above_a_strip_and_read_ones_below() -> None:
    view = viz.AcceleratorView(talk(2))
    shapes = {s.key: s for s in view.picture().shapes if isinstance(s, viz.Group)}
    step = view.layout().first
    memory = max(
        (s for key, s in shapes.items() if key.startswith("w:")), key=lambda s: s.shapes[0].y
    )
    assert {s.kind for s in shapes[f"write:{step}"].shapes} == {"red"}
    assert {s.kind for s in shapes[f"read:{step}"].shapes} == {"blue"}
    strip = memory.shapes[0]
    assert max(s.y for s in shapes[f"read:{step}"].shapes) > strip.y + strip.height
    assert all(s.y != strip.y for s in shapes[f"write:{step}"].shapes)


def test_its_png_is_not_large(view) -> None:
    assert len(view.png()) < 22_000


# --- what is used ---------------------------------------------------------------------------------


def test_a_load_writes_its_rows_and_their_padding() -> None:
    assert used(0) == ({}, {"INP": list(range(8, 8 + 3 * 5))})


def test_a_load_reads_its_rows_from_an_area() -> None:
    moved = piece(parse(STRIDED), vta_pynq, 0)
    assert (moved.area, moved.elements.tolist()) == ("A", [9, 10, 11, 17, 18, 19])


def test_a_load_from_int8_writes_accumulators() -> None:
    program = parse("area R acc_8bit 4\nex acc_8bit[2] = R[1] x=3\nex finish")
    (use, _) = uses(program, vta_pynq)
    written = {m.name: e.tolist() for m, e in use.writes.items()}
    assert written == {"ACC": [2, 3, 4], "OUT": [2, 3, 4]}
    view = viz.AcceleratorView(program)
    assert "c load acc_8bit" in repr(view)
    assert view.svg()


def test_a_reset_reads_only_micro_operations() -> None:
    assert used(2) == ({"UOP": [4, 5]}, {"ACC": [0, 2, 4, 6], "OUT": [0, 2, 4, 6]})


def test_a_gemm_reads_inputs_weights_and_what_it_adds_to() -> None:
    reads, writes = used(3)
    assert reads == {
        "INP": [0, 1, 2, 5, 6, 7],
        "WGT": [0, 1],
        "ACC": [0, 2, 4, 6],
        "UOP": [4, 5],
    }
    assert writes == {"ACC": [0, 2, 4, 6], "OUT": [0, 2, 4, 6]}


def test_an_alu_operation_on_two_registers_reads_both() -> None:
    reads, writes = used(4)
    assert reads["ACC"] == [2, 5]
    assert writes["ACC"] == [2]


def test_a_store_reads_out_and_writes_an_area() -> None:
    assert used(5) == ({"OUT": [2, 3]}, {})
    moved = piece(parse(STRIDED), vta_pynq, 5)
    assert (moved.area, moved.elements.tolist()) == ("C", [1, 5])


def test_what_is_written_last_is_what_is_there() -> None:
    program = talk(2)
    o = occupancy(program, vta_pynq)
    *_, last = o.states(0, len(o.order))
    loads = numbers(program, "load inp")
    assert [o.order[s] for s in last[Memory.INP]] == loads[-2:]
    assert {o.order[s] for s in last[Memory.ACC][:8]} == set(numbers(program, "shr"))


def test_stretches_are_named_shortly() -> None:
    assert runs(np.array([0, 1, 2, 7])) == [(0, 3), (7, 8)]
    assert span(np.array([4])) == "4"
    assert span(np.array([0, 1, 2, 7])) == "0:3, 7"
    assert span(np.arange(0, 20, 2)) == "0:19:2"
    assert span(np.array([0, 2, 4, 7])) == "0:8 (4 of them)"


def test_a_memory_that_no_instruction_touches_is_called_unused() -> None:
    view = viz.AcceleratorView(parse("area A acc 2\nex  acc[0] = A[0] x=2\nex  finish"))
    assert "INP  unused" in view.ascii()
    assert ">unused: 2048 elements of 1×16 int8<" in view.svg()


# --- frames ---------------------------------------------------------------------------------------


def test_each_step_is_a_frame_with_its_line(view) -> None:
    frames = view.layout().frames
    assert len(frames) == len(view.program.instructions)
    gemm = numbers(view.program, "gemm")[0]
    frame = frames[gemm]
    assert frame.marks[f"line:{gemm}"] == "now"
    assert frame.caption.split("\n")[1] == "reads   INP[0], WGT[0], ACC[0:4], UOP[0]"
    assert frame.caption.split("\n")[2] == "writes  ACC[0:4], OUT[0:4]"


def test_a_frame_lights_the_ways_of_its_numbers(view) -> None:
    gemm, load = (numbers(view.program, name)[0] for name in ("gemm", "load inp"))
    frames = view.layout().frames
    lit = {k for k in frames[gemm].marks if ":gemm" in k}
    assert lit == {"read:gemm:INP", "read:gemm:WGT", "read:gemm:ACC", "write:gemm:ACC", "unit:gemm"}
    assert frames[load].marks["load:A:INP"] == "orange"


def test_what_is_overwritten_is_marked_no_more(view) -> None:
    first, _, third = numbers(view.program, "load inp")[:3]  # the third goes where the first went
    frames = view.layout().frames
    assert f"w:{first}:INP" in frames[third - 1].marks
    assert f"w:{first}:INP" not in frames[third].marks


def test_all_that_frames_mark_is_in_the_picture(view) -> None:
    marks = {key for frame in view.layout().frames for key in frame.marks}
    there = set(viz.keys_of(view.scene())) | {
        line["key"] for line in view.view["panels"][0]["lines"]
    }
    unseen = {key for key in marks - there if not key.startswith(("read:", "write:"))}
    assert unseen == set()


def test_a_long_program_is_shown_through_windows() -> None:
    view = viz.AcceleratorView(talk(60))
    assert len(view.view["frames"]) == STEPS
    view.event("window", 1)
    assert view.view["frames"][0]["caption"].startswith(f"step {STEPS + 1} of ")


def test_a_window_begins_with_what_the_one_before_it_left() -> None:
    view = viz.AcceleratorView(talk(60))
    view.event("window", 1)
    weights = numbers(view.program, "load wgt")[0]
    assert f"w:{weights}:WGT" in view.view["frames"][0]["marks"]


def test_a_deadlock_ends_the_steps() -> None:
    view = viz.AcceleratorView(parse("ld nop pop ex\nex finish"))
    assert "deadlock after 1" in view.scene().title


# --- clicks and refusals --------------------------------------------------------------------------


def test_a_clicked_piece_says_who_wrote_it(view) -> None:
    load = numbers(view.program, "load inp")[0]
    view.event("click", f"w:{load}:INP")
    assert view.message == f"INP: A[0], written in step {load + 1}"


def test_a_clicked_instruction_says_what_it_moves(view) -> None:
    load = numbers(view.program, "load inp")[0]
    view.event("click", f"line:{load}")
    assert view.message.endswith("reads   A[0]\nwrites  INP[0]")


@pytest.mark.parametrize(("name", "value"), [("window", 9), ("window", "1"), ("shout", None)])
def test_nonsense_is_refused(view, name: str, value) -> None:
    view.event(name, value)
    assert view.refused
    assert "Error" not in view.message


def test_only_programs_are_drawn() -> None:
    with pytest.raises(ArgumentError, match=r"AcceleratorView: program=.*: not a Program"):
        viz.AcceleratorView("ex finish")  # type: ignore[arg-type]


def test_addresses_outside_dram_are_refused() -> None:
    with pytest.raises(ArgumentError, match="is not inside an area"):
        viz.AcceleratorView(parse("ld inp[0] = DRAM[0] x=2\nex finish"))


@pytest.mark.parametrize("text", ["ex finish", "ex nop pop ld\nex finish"])
def test_a_program_that_moves_nothing_has_a_picture(text: str) -> None:
    view = viz.AcceleratorView(parse(text))
    assert view.png()
    assert repr(view)
