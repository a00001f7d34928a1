"""Slides show the predictions of a notebook: the question, and on the next slide the answer."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs"))  # scripts there import each other by name

import make_slides  # noqa: E402

NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_deck_has_questions_with_answers(path: Path) -> None:
    slides = make_slides.slides(json.loads(path.read_text(encoding="utf-8"))["cells"])
    pairs = [s for s in slides if s.pair]
    questions, answers = pairs[::2], pairs[1::2]
    assert questions
    assert all("**Predict" in s.text for s in questions)
    assert [s.pair for s in questions] == [s.pair for s in answers]
    assert all(s.output or s.picture for s in answers)
    assert not any(s.text.startswith(("**Predict", "**Puzzle")) for s in answers)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_slide_reads_without_the_notebook(path: Path) -> None:
    slides = make_slides.slides(json.loads(path.read_text(encoding="utf-8"))["cells"])
    assert all(s.text for s in slides if s.picture and not s.pair)
    page = make_slides.deck(path)
    assert "](" not in page
    assert "The next cell" not in page


def test_a_folded_explanation_is_on_the_slide_of_the_answer() -> None:
    folded = "<details><summary>Why</summary>\n\nThe last letter decides.\n\n</details>"
    cell = {"cell_type": "markdown", "source": folded + "\n\nDoes it hold for other sizes?"}
    assert make_slides.explained(cell) == "The last letter decides."
    assert make_slides.explained({**cell, "source": "**Puzzle.** Draw it."}) == ""


def test_a_folded_answer_is_read() -> None:
    html = '<details class="mtvm-answer"><img src="data:image/png;base64,AA" alt="x"></details>'
    text = "Answer (predict first): 3 iterations\n  a row\n" + "word " * 30
    printed, picture = make_slides.answered({"text/html": html, "text/plain": text})
    assert printed.split("\n")[:2] == ["3 iterations", "  a row"]
    assert max(map(len, printed.split("\n"))) <= 80
    assert picture == "data:image/png;base64,AA"
