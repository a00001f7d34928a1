"""ComputeAtSlider: what each place costs, which are not legal, what is shown."""

import io
from fractions import Fraction

import pytest
from PIL import Image

from minitvm import te, viz
from minitvm.base import ArgumentError, ScheduleError
from minitvm.viz.compute_at import few_digits, share
from minitvm.viz.scene import walk_shapes

from .programs import matmul


def blur_2d(n: int = 16, tile: int = 4):
    """Halide's blur: rows blurred by blur_x, columns by out, which is tiled."""
    A = te.placeholder((n + 2, n + 2), name="A")
    B = te.compute(
        (n + 2, n), lambda y, x: (A[y, x] + A[y, x + 1] + A[y, x + 2]) / 3.0, name="blur_x"
    )
    C = te.compute((n, n), lambda y, x: (B[y, x] + B[y + 1, x] + B[y + 2, x]) / 3.0, name="out")
    s = te.create_schedule(C.op)
    s[C].tile(*C.op.axis, tile, tile)
    return s, B, C


def relu_of_matmul():
    """A reduction and what follows it."""
    _, (_, _, C) = matmul(8, split=False)
    D = te.compute((8, 8), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return te.create_schedule(D.op), C, D


def slider() -> viz.ComputeAtSlider:
    return viz.ComputeAtSlider(*blur_2d())


def test_as_text(golden) -> None:
    golden(repr(slider()))


def test_a_place_has_a_bar_for_each_cost() -> None:
    view = slider()
    view.event("place", 2)
    rows = [s for s in view.scene().shapes if s.key.startswith("place:")]
    assert [row.shapes[0].kind for row in rows] == ["line" if n == 2 else "paper" for n in range(6)]
    for kind, costs in (
        ("orange", [p.bytes for p in view.places]),
        ("sky", [float(p.recompute) for p in view.places]),
        ("pink", [p.distance for p in view.places]),
    ):
        wide = [sum(s.width for s in row.shapes if s.kind == kind) for row in rows]
        assert wide == pytest.approx([max(wide) * share(cost, max(costs)) for cost in costs])
    texts = [[s.text for s in row.shapes if isinstance(s, viz.Text)] for row in rows]
    assert texts[0] == ["root", "1152", "1×", "554", "73"]


def test_a_refusal_is_below_the_table() -> None:
    shapes = viz.ComputeAtSlider(*relu_of_matmul()).scene().shapes
    texts = " ".join(s.text for s in walk_shapes(shapes) if isinstance(s, viz.Text))
    assert "not inline: it is a reduction, which cannot stand inside another formula" in texts


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (5.0, "5"), (38.24, "38.2"), (999.6, "1000"), (24312.7, "24300")],
)
def test_distances_are_written_out(value, text) -> None:
    assert few_digits(value) == text


def test_as_png() -> None:
    made = slider().png()
    assert Image.open(io.BytesIO(made)).size[0] == 1780
    assert len(made) < 15_000


def test_from_root_over_each_loop_to_inline() -> None:
    names = [p.name for p in slider().places]
    assert names == ["root", "y.outer", "x.outer", "y.inner", "x.inner", "inline"]


def test_storage_shrinks_inwards() -> None:
    floats = [p.bytes // 4 for p in slider().places]
    assert floats == [18 * 16, 6 * 16, 6 * 4, 3 * 4, 3, 0]


def test_work_grows_inwards() -> None:
    found = [p.recompute for p in slider().places]
    tile, row = Fraction(4 * 6 * 16, 18 * 16), Fraction(16 * 16 * 3, 18 * 16)
    assert found == [1, tile, tile, row, row, row]


def test_values_are_used_sooner_inwards() -> None:
    found = [p.distance for p in slider().places]
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0


def test_the_distance_counts_what_is_touched_in_between() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((4,), lambda i: B[i] * 2.0, name="C")
    root, inside, _ = viz.ComputeAtSlider(te.create_schedule(C.op), B, C).places
    # after B[1]: A[2], A[3], B[2], B[3], B[0], C[0]; as many after each of the others
    assert root.distance == 6
    assert inside.distance == 0


def test_a_place_that_is_not_legal_is_listed_with_the_reason() -> None:
    (refused,) = viz.ComputeAtSlider(*relu_of_matmul()).refusals
    assert refused.name == "inline"
    assert refused.reason == "it is a reduction, which cannot stand inside another formula"


def test_the_slider_moves_the_producer() -> None:
    view = slider()
    view.event("place", 2)
    assert "compute_at" in view.schedule.python()
    assert view.message.startswith("blur_x in loop x.outer of out: it keeps 96 bytes")
    assert view.ascii().split("\n")[5].startswith("*   x.outer")


def test_a_click_on_a_row_is_the_same() -> None:
    view = slider()
    view.event("click", "place:5")
    assert view.schedule["blur_x"].is_inlined


def test_the_loops_of_the_producer_are_marked() -> None:
    view = slider()
    view.event("place", 2)
    (loops, _) = view.view["panels"]
    bold = [line["text"].strip() for line in loops["lines"] if line["note"] == "now"]
    assert bold[0] == "for y in range(6):"
    assert len(bold) == 3


def test_the_schedule_given_stays_as_it_is() -> None:
    s, B, C = blur_2d()
    before = s.python()
    viz.ComputeAtSlider(s, B, C).event("place", 3)
    assert s.python() == before


def test_an_output_has_one_place() -> None:
    s, B, C = blur_2d()
    view = viz.ComputeAtSlider(s, C, B)
    assert [p.name for p in view.places] == ["root"]
    assert {r.reason for r in view.refusals} == {
        "out is an output: it must be stored as a whole, at root"
    }
    assert view.view["controls"] == []


@pytest.mark.parametrize("value", [-1, 6, "x", None, True])
def test_a_place_that_is_not_there_is_refused(value) -> None:
    view = slider()
    view.event("place", value)
    assert view.message == f"place {value!r}: not a number from 0 to 5\n  try: 0"


def test_nonsense_is_refused() -> None:
    s, B, C = blur_2d()
    with pytest.raises(ArgumentError, match="not a schedule"):
        viz.ComputeAtSlider(C, B, C)
    with pytest.raises(ArgumentError, match="both are the same stage"):
        viz.ComputeAtSlider(s, B, B)
    with pytest.raises(ArgumentError, match="A: the stage has no loops to schedule"):
        viz.ComputeAtSlider(s, "A", C)
    with pytest.raises(ScheduleError, match="no stage called 'x'"):
        viz.ComputeAtSlider(s, "x", C)
    with pytest.raises(ArgumentError, match="not a Cache"):
        viz.ComputeAtSlider(s, B, C, cache=7)


def test_symbolic_sizes_are_refused() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((n,), lambda i: B[i] * 2.0, name="C")
    with pytest.raises(ArgumentError, match="sizes: 'n'"):
        viz.ComputeAtSlider(te.create_schedule(C.op), B, C)
