"""Loop nests as blocks, text and pictures."""

import io

import pytest
from PIL import Image

import minitvm as tvm
from minitvm import viz
from minitvm.base import ArgumentError

from .programs import blur, matmul, tiled


def test_a_tiled_matmul_as_text(golden) -> None:
    golden(viz.nest_ascii(viz.nest_of(tiled()[0])))


def test_a_tiled_matmul_as_svg(golden) -> None:
    golden(viz.svg(viz.nest_scene(tiled()[0])))


def test_a_stage_inside_a_loop_as_svg(golden) -> None:
    golden(viz.svg(viz.nest_scene(blur()[0])))


def test_a_long_statement_takes_more_lines_of_its_block() -> None:
    drawn = viz.svg(viz.nest_scene(tiled()[0], width=330))
    assert ">C[…] = C[…] + A[…] *</text>" in drawn
    assert ">    B[…]</text>" in drawn


def test_what_three_lines_do_not_hold_is_shown_where_the_mouse_rests() -> None:
    s, _ = tiled()
    drawn = viz.svg(viz.nest_scene(s, width=230))
    statement = next(line for line in viz.nest_of(s).lines if "A[" in line).strip()
    assert "…</text>" in drawn
    assert f"<title>{statement}</title>" in drawn


def test_its_png_is_small() -> None:
    data = viz.png(viz.nest_scene(tiled()[0]))
    assert Image.open(io.BytesIO(data)).size[0] == 860
    assert len(data) < 15_000


def test_blocks_know_their_lines() -> None:
    nest = viz.nest_of(matmul()[0])
    firsts = [nest.lines[b.first].strip() for b in nest.all() if b.key.startswith("loop:")]
    assert firsts == [
        "for i in range(8):",
        "for j_outer in range(2):",
        "for j_inner in range(4):",
        "for k in range(8):",
    ]


@pytest.mark.parametrize("make", [matmul, tiled, blur])
def test_the_lines_of_a_block_hold_those_inside(make) -> None:
    for block in viz.nest_of(make()[0]).all():
        lines = [n for inner in block.inside for n in range(inner.first, inner.last + 1)]
        assert lines == list(range(block.first + 1, block.last + 1))


def test_loops_of_equal_name_have_keys_of_their_own() -> None:
    s, _ = blur()
    nest = viz.nest_of(s)
    assert nest.owners["loop:i"] == ("B", "i")
    assert nest.owners["loop:i_outer"] == ("C", "i.outer")


def test_a_lowered_program_has_a_nest_too() -> None:
    s, args = tiled()
    text = viz.nest_ascii(viz.nest_of(tvm.lower(s, args)))
    assert text.splitlines()[0] == "P i_outer: parallel × 8"


def test_a_tensor_has_no_nest() -> None:
    with pytest.raises(ArgumentError, match="nest of Tensor"):
        viz.nest_of(matmul()[1][0])


def test_long_nests_are_cut() -> None:
    text = viz.nest_ascii(viz.nest_of(tiled()[0]), most=4)
    assert text.splitlines()[-1] == "  … 7 more lines"
