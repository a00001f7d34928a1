"""No item of the course can be answered by copying lines of its notebook."""

import pytest

from minitvm.edu.transfer import MAX_SHARE, shapes, shares

from .course import EXERCISES, ROOT


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_most_of_each_solution_is_not_in_the_notebook(exercise) -> None:
    assert {item: s for item, s in shares(ROOT, exercise).items() if s >= MAX_SHARE} == {}


def test_names_and_numbers_do_not_count() -> None:
    assert list(shapes("xo, xi = s[C].split(x, 4)")) == list(shapes("a, b = t[D].split(y, 16)"))


def test_a_keyword_another_call_and_another_operator_count() -> None:
    texts = ("s[C].split(x, 4)", "s[C].split(x, factor=4)", "s[C].fuse(x, 4)", "a + b", "a - b")
    assert len({shape for text in texts for shape in shapes(text)}) == 5


def test_a_loop_counts_without_its_body() -> None:
    one, other = (list(shapes(f"for i in range(3):\n    {body}")) for body in ("f(i)", "x = 1"))
    assert one[0] == other[0]
    assert one[1] != other[1]


def test_imports_and_docstrings_do_not_count() -> None:
    assert list(shapes('"""Text."""\nimport numpy\nfrom numpy import exp')) == []
