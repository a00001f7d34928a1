"""ScoreBars: a bar and a number for each answer."""

import pytest

from minitvm import viz
from minitvm.base import ArgumentError


def test_each_answer_has_a_bar_as_long_as_its_number() -> None:
    text = viz.ScoreBars({"yours": 20, "best": 10}, "misses").ascii()
    assert text == f"misses\n  yours  {'#' * 40} 20\n  best   {'#' * 20} 10"


def test_long_fractions_are_rounded() -> None:
    text = viz.ScoreBars({"yours": 67.2666667, "best": 12345.0}, "misses").ascii()
    assert text.endswith(f"{'#' * 40} 12,345")
    assert text.split("\n")[1].endswith("# 67.27")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1234567.0, "1,234,567"),
        (1234567.5, "1,234,567.5"),
        (-1234.5, "-1,234.5"),
        (0.00012345, "0.0001234"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_of_all_sizes_have_a_text(number: float, text: str) -> None:
    assert viz.number_text(number) == text


def test_bars_of_nothing_but_zeros_can_be_drawn() -> None:
    assert "0" in viz.ScoreBars({"yours": 0}, "misses").svg()


@pytest.mark.parametrize("scores", [{}, {"yours": -1}])
def test_no_bars_and_negative_ones_are_refused(scores) -> None:
    with pytest.raises(ArgumentError, match="ScoreBars"):
        viz.ScoreBars(scores, "misses")


def test_the_first_bar_is_bold_unless_all_are_alike() -> None:
    scores = {"A": 20, "B": 10}
    pictures = [viz.ScoreBars(scores, "misses", bold=b).scene() for b in (True, False)]
    kinds = [{s.key: s.kind for s in picture.shapes if s.key} for picture in pictures]
    assert kinds == [
        {"score:A": "blue", "score:B": "faint"},
        {"score:A": "blue", "score:B": "blue"},
    ]
