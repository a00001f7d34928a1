"""IndexLens: which cells light up, what is said, and formulas typed by hand."""

import io

import pytest
from PIL import Image

from minitvm import te, topi, viz
from minitvm.base import ArgumentError, ExprError
from minitvm.viz.formula import Source, made_from, names_of, source_of

from .programs import matmul


def conv():
    """A convolution with padding, as topi makes it of two stages; its inputs."""
    data = te.placeholder((1, 3, 6, 6), name="data")
    weight = te.placeholder((4, 3, 3, 3), name="weight")
    return topi.conv2d(data, weight, 2, 1, 1), [data, weight]


def frame(lens: viz.IndexLens, key: str) -> dict:
    """What pointing at a cell shows."""
    return next(f for f in lens.view["frames"] if f["at"] == key)


def test_as_text(golden) -> None:
    golden(repr(viz.IndexLens(matmul(4)[1][2], at=(1, 2))))


def drawn(lens: viz.IndexLens) -> dict[str, viz.Rect]:
    """The cells of a picture."""
    return {s.key: s for s in lens.picture().shapes if isinstance(s, viz.Rect) and s.key}


def test_the_picture_shows_what_one_element_reads() -> None:
    lens = viz.IndexLens(matmul(4)[1][2], at=(1, 2))
    found = {key: cell.kind for key, cell in drawn(lens).items() if cell.kind != "cell"}
    reads = [f"A/1/{k}" for k in range(4)] + [f"B/{k}/2" for k in range(4)]
    assert found == {"C/1/2": "write", **dict.fromkeys(reads, "read")}
    texts = [s.text for s in lens.picture().shapes if isinstance(s, viz.Text)]
    assert texts[-1] == "C[1, 2] reads A[1, 0..3] (4), B[0..3, 2] (4)"
    assert texts[1:6] == ["C[i, j]  4 × 4", "0", "3", "0", "3"]


def test_a_convolution_as_text(golden) -> None:
    y, inputs = conv()
    golden(repr(viz.IndexLens(y, inputs, at=(0, 1, 0, 1))))


def test_the_cells_of_a_tensor_are_slices_beside_and_below_each_other() -> None:
    y, inputs = conv()
    cells = drawn(viz.IndexLens(y, inputs, at=(0, 1, 0, 1)))
    places = {key: (cell.x, cell.y) for key, cell in cells.items()}
    assert len({*places.values()}) == len(places)
    for key, (x, y) in places.items():
        name, *at = key.split("/")
        for d, (right, down) in enumerate(((False, True), (True, False)), len(at) - 2):
            after = "/".join([name, *at[:d], str(int(at[d]) + 1), *at[d + 1 :]])
            if after in places:
                assert (places[after][0] > x, places[after][1] > y) == (right, down)


def test_png_is_small() -> None:
    data = viz.IndexLens(matmul(16)[1][2]).png()
    assert Image.open(io.BytesIO(data)).size[0] == 1616
    assert len(data) < 15_000


def test_pointing_at_a_cell_lights_up_what_it_reads() -> None:
    shown = frame(viz.IndexLens(matmul(2)[1][2]), "C/0/1")
    assert shown["marks"] == {
        "C/0/1": "write",
        "A/0/0": "read", "A/0/1": "read",
        "B/0/1": "read", "B/1/1": "read",
    }  # fmt: skip
    assert shown["caption"] == "C[0, 1] reads A[0, 0..1] (2), B[0..1, 1] (2)"


def test_arrows_go_from_row_to_row() -> None:
    view = viz.IndexLens(matmul(8)[1][2]).view
    assert view["columns"] == 8
    assert [f["at"] for f in view["frames"]][8] == "C/1/0"


def test_a_stride_is_said() -> None:
    A = te.placeholder((9,), name="A")
    k = te.reduce_axis((0, 3), name="k")
    lens = viz.IndexLens(te.compute((3,), lambda i: te.sum(A[i + 3 * k], axis=k), name="C"), at=1)
    assert repr(lens).splitlines()[1] == "C[1] reads A[1..7 by 3] (3)"


def test_a_diagonal_is_no_box() -> None:
    A = te.placeholder((3, 3), name="A")
    k = te.reduce_axis((0, 3), name="k")
    lens = viz.IndexLens(te.compute((1,), lambda i: te.sum(A[k, k], axis=k), name="trace"))
    assert repr(lens).splitlines()[1] == "trace[0] reads 3 of A[0..2, 0..2]"


def test_what_data_decide_is_said_and_looks_different() -> None:
    P, W = te.placeholder((4,), "int32", name="P"), te.placeholder((3, 2), name="W")
    shown = frame(viz.IndexLens(te.compute((4, 2), lambda i, j: W[P[i], j], name="E")), "E/2/1")
    assert shown["caption"] == "E[2, 1] reads data decide which of W[0..2, 1] (3), P[2] (1)"
    assert shown["marks"]["W/0/1"] == "seen"
    assert shown["marks"]["P/2"] == "read"


def test_of_a_large_tensor_a_window_is_shown() -> None:
    lens = viz.IndexLens(matmul(256)[1][2], at=(100, 200))
    assert [c["label"] for c in lens.view["controls"][2:]] == ["i from", "j from"]
    assert repr(lens).splitlines()[1] == (
        "C[100, 200] reads A[100, 0..255] (256), B[0..255, 200] (256)"
    )
    assert "a cell: 1 × 16" in lens.svg()


def test_a_slider_moves_the_window() -> None:
    lens = viz.IndexLens(matmul(256)[1][2])
    lens.event("from 0", 240)
    assert lens.view["frames"][0]["caption"].startswith("C[240, 0] reads A[240, 0..255]")


def test_a_tensor_is_followed_to_its_inputs() -> None:
    y, inputs = conv()
    assert frame(viz.IndexLens(y, inputs), "T_conv2d/0/1/0/0")["caption"] == (
        "T_conv2d[0, 1, 0, 0] reads data[0, 0..2, 0..1, 0..1] (12), "
        "weight[1, 0..2, 0..2, 0..2] (27)"
    )


def test_the_arguments_of_lower_will_do() -> None:
    _, (A, B, C) = matmul(4)
    assert repr(viz.IndexLens(C, [A, B, C])) == repr(viz.IndexLens(C))


# --- editing -----------------------------------------------------------------------------------


def test_another_formula_reads_other_cells() -> None:
    lens = viz.IndexLens(matmul(4)[1][2])
    lens.event("formula", "lambda i, j: te.sum(A[k, i] * B[k, j], axis=k)")
    assert not lens.refused
    assert frame(lens, "C/1/2")["caption"] == "C[1, 2] reads A[0..3, 1] (4), B[0..3, 2] (4)"


@pytest.mark.parametrize(
    ("formula", "shape"),
    [
        ("lambda i, j: A[j, i]", (6, 8)),
        ("lambda i, j: A[i, j + 1]", (8, 5)),
        ("lambda i: A[i, 2*i]", (3,)),
        ("lambda i: te.sum(A[i, r], axis=r)", (8,)),
        ("lambda i, j: te.if_then_else(i > 0, A[i - 1, j], 0.0)", (8, 6)),
        ("te.compute((2, 2), lambda y, x: A[y, x], name='corner')", (2, 2)),
    ],
)
def test_the_shape_follows_the_reads(formula: str, shape: tuple[int, ...]) -> None:
    A = te.placeholder((8, 6), name="A")
    r = te.reduce_axis((0, 6), name="r")
    like = te.compute((8, 6), lambda i, j: A[i, j], name="C")
    assert made_from(formula, like, {"A": A, "r": r}).shape == shape


def test_a_shape_can_be_typed() -> None:
    lens = viz.IndexLens(matmul(4)[1][2])
    lens.event("shape", "2, 3")
    assert lens.tensor.shape == (2, 3)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("lambda i, j: A[i, j", "SyntaxError"),
        ("lambda i, j: Z[i, j]", "NameError: name 'Z' is not defined"),
        ("lambda i, j: A[i]", "1 index(es) given"),
        ("lambda i, j: A[i + j, 0]", "may leave"),
        ("A[0, 0]", "not a function of the indices"),
    ],
)
def test_a_formula_without_meaning_is_answered_and_changes_nothing(formula, said) -> None:
    lens = viz.IndexLens(matmul(4)[1][2])
    before = lens.view["svg"]
    lens.event("formula", formula)
    assert lens.refused
    assert said in lens.message
    assert lens.view["svg"] == before


def test_edit_raises_what_the_text_field_says() -> None:
    lens = viz.IndexLens(matmul(4)[1][2])
    with pytest.raises(ExprError):
        lens.edit("lambda i, j: A[i]")


def test_inputs_of_earlier_formulas_stay_known() -> None:
    lens = viz.IndexLens(matmul(4)[1][2])
    lens.edit("lambda i, j: A[i, j]")
    lens.edit("lambda i, j: B[i, j]")
    assert frame(lens, "C/0/1")["caption"] == "C[0, 1] reads B[0, 1] (1)"


def test_inputs_that_were_looked_through_to_are_known() -> None:
    y, inputs = conv()
    lens = viz.IndexLens(y, inputs)
    lens.edit("lambda y, x: data[0, 0, y, x]")
    assert lens.tensor.shape == (6, 6)


def test_the_formula_of_a_scalar_has_no_arguments() -> None:
    A, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), name="k")
    lens = viz.IndexLens(te.compute((), lambda: te.sum(A[k], axis=k), name="S"))
    assert repr(lens).splitlines()[:2] == [
        "S = lambda: te.sum(A[k], axis=k)",
        "S[()] reads A[0..3] (4)",
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda A: lambda i, j: te.if_then_else(te.any(i < 1, i >= 7), 0.0, A[i, j]),
        lambda A: lambda i, j: te.max(te.exp(-A[i, j]), A[j, i]) / 3.0,
        lambda A: lambda i, j: te.if_then_else(A[i, j] > 0.0, 1.0, A[i, j]).astype("float64"),
        lambda A: lambda i, j: A[i // 2, (i + j) % 8],
        lambda A: lambda i, j: i.astype("float32") * A[i, j],
    ],
)
def test_the_text_of_a_formula_makes_it_again(make) -> None:
    A = te.placeholder((8, 8), name="A")
    t = te.compute((8, 8), make(A), name="C")
    again = made_from(source_of(t), t, names_of(t, Source()), t.shape)
    assert source_of(again) == source_of(t)


# --- refusals ----------------------------------------------------------------------------------


def test_a_schedule_is_no_tensor() -> None:
    with pytest.raises(ArgumentError, match="Schedule as a formula: not a tensor"):
        viz.IndexLens(matmul()[0])


def test_an_argument_that_is_not_read_is_refused() -> None:
    other = te.placeholder((3,), name="X")
    with pytest.raises(ArgumentError, match="IndexLens: X: C reads no element of this tensor"):
        viz.IndexLens(matmul()[1][2], [other])


@pytest.mark.parametrize("at", [(8, 0), (0,), (-1, 0), ("a", 0), 3])
def test_an_element_that_does_not_exist_is_refused(at) -> None:
    with pytest.raises(ArgumentError, match="C has 8 × 8 elements"):
        viz.IndexLens(matmul(8)[1][2], at=at)


def test_too_long_a_sum_is_refused() -> None:
    A, k = te.placeholder((10**7,), name="A"), te.reduce_axis((0, 10**7), name="k")
    with pytest.raises(ArgumentError, match="a smaller shape"):
        viz.IndexLens(te.compute((1,), lambda i: te.sum(A[k], axis=k), name="C"))
