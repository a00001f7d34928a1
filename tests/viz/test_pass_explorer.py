"""PassExplorer: what a pass changed, line by line, and which passes changed nothing."""

import io

import pytest
from PIL import Image

from minitvm import lowering, te, viz
from minitvm.base import ArgumentError, LoweringError
from minitvm.lowering import PASSES
from minitvm.tir import Seq
from minitvm.viz import diff
from minitvm.viz.scene import walk_shapes

from .programs import blur, matmul, tiled


def panel(view: viz.PassExplorer, n: int) -> list[tuple[str, str]]:
    """The marked lines of a panel: (text, note)."""
    lines = view.view["panels"][n]["lines"]
    return [(line["text"], line["note"]) for line in lines if line["note"]]


NAMES = [run.__name__ for run in PASSES["llvm"]]


def place(name: str) -> str:
    """Say which pass this is: "pass 5 of 10: vectorize"."""
    return f"pass {NAMES.index(name) + 1} of {len(NAMES)}: {name}"


def test_as_text(golden) -> None:
    shown = repr(viz.PassExplorer(*tiled(), at="vectorize"))
    assert shown.startswith(place("vectorize"))
    golden(shown.partition(": ")[2])


def test_each_pass_is_a_box_that_says_what_it_changed() -> None:
    view = viz.PassExplorer(*blur(), at="partition")
    boxes = [s for s in view.scene().shapes if isinstance(s, viz.Group) and s.key]
    assert [(box.key, box.tip) for box in boxes] == [
        (f"pass:{s.name}", s.about) for s in view.stages
    ]
    kinds = [box.shapes[0].kind for box in boxes]
    effects = [box.shapes[2].text for box in boxes]
    for stage, kind, effect in zip(view.stages, kinds, effects, strict=True):
        assert kind == ("now" if stage is view.now else "pale_sky" if stage.changed else "faint")
        sizes = "{} → {} statements".format(*stage.statements)
        assert effect == (sizes if stage.changed else "=")


def test_the_picture_shows_the_code_with_the_changed_lines_marked() -> None:
    view = viz.PassExplorer(*blur(), at="partition")
    _, _, *code = view.ascii().splitlines()
    shapes = [s for s in walk_shapes(view.picture().shapes) if isinstance(s, viz.Rect | viz.Text)]
    texts = [s.text for s in shapes if isinstance(s, viz.Text) and s.mono]
    assert texts == code
    grounds = [s.kind for s in shapes if s.kind in ("pale_red", "pale_green")]
    signs = [line[0] for line in code if line[0] != " "]
    assert grounds == [{"-": "pale_red", "+": "pale_green"}[sign] for sign in signs]


def test_long_lines_are_folded_in_the_picture_and_whole_in_the_text() -> None:
    view = viz.PassExplorer(*tiled(), at="vectorize")
    line = next(text for text, note in panel(view, 1) if "A[" in text)
    assert line in repr(view).split("\n")
    parts = viz.folded_code(line, 780, 4)
    assert len(parts) > 1
    assert all(f">{part}</text>" in view.svg() for part in parts)


def test_png_is_small() -> None:
    data = viz.PassExplorer(*matmul()).png()
    assert Image.open(io.BytesIO(data)).size[0] == 1616
    assert len(data) < 20_000


def test_it_begins_at_the_first_pass_that_changed_something() -> None:
    assert repr(viz.PassExplorer(*matmul())).startswith(f"{place('flatten')}, 6 -> 6 ")


def test_a_pass_is_described_by_its_first_sentence() -> None:
    second = repr(viz.PassExplorer(*matmul(), at="tidy")).splitlines()[1]
    assert (
        second == "Remove code without effect: loops that never run, empty branches, unused memory."
    )


def test_what_went_and_what_came_stand_in_two_panels() -> None:
    view = viz.PassExplorer(*blur(), at="tighten")
    assert panel(view, 0) == [
        ("-   for i in range(6):", "removed"),
        ("-     if likely(i + 8 < 12):", "removed"),
        ("-       B[i] = A[i + 8] * 2.0", "removed"),
        ("-   for i_inner in range(4):", "removed"),
        ("-     if likely(i_inner + 8 < 10):", "removed"),
        ("-       C[i_inner + 8] = B[i_inner] + B[i_inner + 1] + B[i_inner + 2]", "removed"),
    ]
    assert panel(view, 1) == [
        ("+   for i_1 in range(4):", "added"),
        ("+     B[i_1] = A[i_1 + 8] * 2.0", "added"),
        ("+   for i_inner_1 in range(2):", "added"),
        ("+     C[i_inner_1 + 8] = B[i_inner_1] + B[i_inner_1 + 1] + B[i_inner_1 + 2]", "added"),
    ]


def test_both_panels_stand_level() -> None:
    left, right = viz.PassExplorer(*tiled(), at="unroll").view["panels"]
    rows = zip(left["lines"], right["lines"], strict=False)
    same = [(a["text"], b["text"]) for a, b in rows if not a["note"] and not b["note"]]
    assert all(a == b for a, b in same if a and b)


def test_the_buttons_go_to_the_next_change_and_back() -> None:
    view = viz.PassExplorer(*tiled())
    seen = []
    for name in ("next", "next", "next", "back"):
        view.event(name)
        seen.append(view.ascii().split(",")[0])
    assert seen == [*map(place, ("vectorize", "unroll", "unroll", "vectorize"))]


def test_slider_and_click_choose_a_pass() -> None:
    view = viz.PassExplorer(*tiled())
    view.event("pass", NAMES.index("unroll") + 1)
    assert view.selected == "pass:unroll"
    view.event("click", "pass:tighten")
    assert repr(view).splitlines()[0] == f"{place('tighten')}, nothing changed"


def test_time_is_shown_in_the_live_widget_only() -> None:
    view = viz.PassExplorer(*tiled())
    assert view.view["panels"][1]["title"].endswith(" ms")
    assert " ms" not in repr(view) + view.svg()


def test_two_explorers_of_one_program_are_alike() -> None:
    assert viz.PassExplorer(*tiled()).svg() == viz.PassExplorer(*tiled()).svg()


def test_the_passes_are_those_of_the_target() -> None:
    view = viz.PassExplorer(*tiled(), target="python")
    assert [s.name for s in view.stages] == [p.__name__ for p in PASSES["python"]]


def test_a_pass_of_ones_own() -> None:
    def vectorize(s):
        """Forget the program."""
        return Seq(())

    mine = lowering.swap(PASSES["python"], flatten=vectorize)
    text = repr(viz.PassExplorer(*matmul(), "python", passes=mine, at="flatten"))
    assert text.splitlines()[-1] == "+   pass"


def test_a_pass_without_a_description() -> None:
    def nothing(s):
        return s

    text = repr(viz.PassExplorer(*matmul(), passes=(nothing,)))
    assert text == "pass 1 of 1: nothing, nothing changed\na pass without a description"


# --- rows --------------------------------------------------------------------------------------


def test_rows_pair_equal_lines() -> None:
    rows = diff.rows_of(["a", "b", "c"], ["a", "x", "c"])
    assert rows == [("a", "a"), ("b", None), (None, "x"), ("c", "c")]


def test_long_equal_parts_are_folded() -> None:
    old = [str(n) for n in range(100)]
    new = [*old[:50], "new", *old[50:]]
    texts = [line.text for line in diff.unified(diff.folded(diff.rows_of(old, new), 40))]
    assert texts == [
        "  … 47 lines", "  47", "  48", "  49", "+ new", "  50", "  51", "  52", "  … 47 lines",
    ]  # fmt: skip


def test_what_does_not_fit_is_counted() -> None:
    rows = diff.rows_of([], [str(n) for n in range(100)])
    assert diff.folded(rows, 10)[-1] == 91


def test_large_programs_are_compared_by_their_ends() -> None:
    old, new = [f"a{n}" for n in range(2000)], [f"b{n}" for n in range(2000)]
    rows = diff.rows_of(["head", *old, "tail"], ["head", *new, "tail"])
    assert [row for row in rows if row[0] == row[1]] == [("head", "head"), ("tail", "tail")]


# --- refusals ----------------------------------------------------------------------------------


def test_a_tensor_is_no_schedule() -> None:
    with pytest.raises(ArgumentError, match=r"PassExplorer\(Tensor\): not a schedule"):
        viz.PassExplorer(matmul()[1][0])


@pytest.mark.parametrize("at", ["fuse", 0, len(NAMES) + 1, 2.5j, True])
def test_an_unknown_pass_is_refused(at) -> None:
    with pytest.raises(ArgumentError, match=f"pass {at!r}".replace("(", r"\(").replace(")", r"\)")):
        viz.PassExplorer(*matmul(), at=at)


def test_no_passes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no pass to look at"):
        viz.PassExplorer(*matmul(), passes=())


def test_what_lowering_refuses_is_refused() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    C = te.compute((4,), lambda i: B[i], name="C")
    s = te.create_schedule(C.op)
    with pytest.raises((ArgumentError, LoweringError), match="args"):
        viz.PassExplorer(s, [A])
