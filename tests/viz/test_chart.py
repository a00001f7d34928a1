"""The parts that charts share."""

import pytest

from minitvm.viz.boxes import legend
from minitvm.viz.chart import NAMED, Labels, Scale, label_box, overlap, short
from minitvm.viz.controls import both_ways, index_in
from minitvm.viz.scene import Text, text_width


def test_a_scale_maps_values_to_pixels_and_stops_at_its_ends() -> None:
    scale = Scale(0, 10, 100, 0)
    assert [scale.at(v) for v in (-1, 0, 5, 10, 99)] == [100, 100, 50, 0, 0]


def test_on_a_logarithmic_scale_equal_ratios_are_equal_distances() -> None:
    scale = Scale(1, 16, 0, 400, log=True)
    assert [scale.at(v) for v in (1, 2, 4, 8, 16)] == pytest.approx([0, 100, 200, 300, 400])


def test_a_label_takes_the_free_side_of_a_point() -> None:
    labels = Labels((0, 0, 400, 400))
    right, left = label_box(110, 100, "name"), label_box(90, 100, "name", -1)
    assert labels.best([(right, 0), (left, 1)]) == right
    labels.avoid(right, NAMED)
    assert labels.best([(right, 0), (left, 1)]) == left
    assert not overlap(left, right)


def test_a_label_stays_inside_the_frame() -> None:
    labels = Labels((0, 0, 100, 100))
    outside, inside = label_box(90, 50, "name"), label_box(80, 50, "name", -1)
    assert labels.best([(outside, 0), (inside, 1)]) == inside


def test_a_legend_breaks_into_rows() -> None:
    box = legend({f"read box {n}": f"entry {n}" for n in range(5)}, 300)
    texts = [s for s in box.draw(0, 0) if isinstance(s, Text) and s.text.startswith("entry")]
    assert max(s.x + text_width(s.text, 12) for s in texts) <= box.width <= 300
    assert len({s.y for s in texts}) > 1


@pytest.mark.parametrize(
    ("key", "found"),
    [("dot:0", 0), ("dot:2", 2), ("dot:3", None), ("row:1", None), ("dot:-1", None), ("", None)],
)
def test_a_key_has_an_index_if_it_is_one_of_them(key: str, found: int | None) -> None:
    assert index_in(key, "dot", 3) == found


def test_links_lead_both_ways() -> None:
    assert both_ways([("a", "b")]) == {"a": ("b",), "b": ("a",)}


def test_a_long_text_is_cut() -> None:
    assert (short("matmul", 6), short("matmuls", 6)) == ("matmul", "matmu…")
