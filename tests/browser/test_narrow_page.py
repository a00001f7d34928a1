"""Widgets in a window of 900 pixels."""

from collections.abc import Callable

from .conftest import SETUP
from .pages import run_all

SMALLEST = """() => [...document.querySelectorAll('.mtvm-stage svg')].map((svg) =>
  svg.getBoundingClientRect().width / svg.viewBox.baseVal.width
  * Math.min(...[...svg.querySelectorAll('text')].map((e) => e.getAttribute('font-size'))))"""


def test_no_text_of_a_picture_is_smaller_than_11_pixels(open_page: Callable) -> None:
    widgets = "display(viz.CacheLens(*matmul(16)), viz.TripleView(*matmul(4)))"
    page, errors = open_page("narrow.ipynb", SETUP, widgets, width=900)
    run_all(page)
    sizes = page.evaluate(SMALLEST)
    assert len(sizes) == 2
    assert min(sizes) >= 11 - 1e-3
    assert errors == []
    page.close()
