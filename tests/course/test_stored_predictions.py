"""The predictions of stored notebooks: each is asked, and each answer is folded.

A notebook takes part as soon as it has a file in notebooks/predictions. The second half shows each
rule a notebook that breaks it.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from minitvm import course

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "notebooks/predictions").glob("*.toml"))
ASKED = re.compile(r'course\.predict\("([^"]*)"\)')
MARK = "**Predict"
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
TOLD = re.compile(r"\.answer = ([-+\d._]+|[\"'].*|[\[(][-+\d._, ]*[\])])$", re.M)  # a literal

Cell = dict[str, Any]


def source(cell: Cell) -> str:
    return "".join(cell["source"])


def names(cell: Cell) -> list[str]:
    return ASKED.findall(source(cell)) if cell["cell_type"] == "code" else []


def stored(cell: Cell, kind: str) -> list[str]:
    return ["".join(output.get("data", {}).get(kind, "")) for output in cell["outputs"]]


def id_faults(number: str, questions: dict[str, course.Question], cells: list[Cell]) -> list[str]:
    """Questions that no cell asks, or that are asked twice; names without a question."""
    asked = [name for cell in cells for name in names(cell)]
    known = [f"{number}.{key}" for key in questions]
    return [] if asked == known else [f"the cells ask {asked}, the file has {known}"]


def mark_faults(number: str, questions: dict[str, course.Question], cells: list[Cell]) -> list[str]:
    """Predictions in the text without a prompt or a folded answer, and prompts without a text."""
    faults: list[str] = []
    before = {"cell_type": "", "id": "", "source": ""}
    for cell in [*cells, before]:
        is_marked = before["cell_type"] == "markdown" and MARK in source(before)
        folded = "<details>" in source(before).rpartition(MARK)[2]
        if is_marked and not names(cell) and not folded:
            faults.append(f"cell {before['id']}: a prediction without course.predict")
        if names(cell) and not is_marked:
            faults.append(f"cell {cell['id']}: course.predict without {MARK} in the cell before")
        before = cell
    return faults


def folded_faults(
    number: str, questions: dict[str, course.Question], cells: list[Cell]
) -> list[str]:
    """Answers that are stored in the open, or not at all."""
    faults: list[str] = []
    for cell in filter(names, cells):
        texts, pages = stored(cell, "text/plain"), stored(cell, "text/html")
        if len(pages) != 1 or not pages[0].startswith('<details class="mtvm-answer"><summary>'):
            faults.append(f"cell {cell['id']}: the answer is not folded")
        elif not texts[0].startswith("Answer (predict first):"):
            faults.append(f"cell {cell['id']}: no answer as text")
    return faults


def answer_faults(
    number: str, questions: dict[str, course.Question], cells: list[Cell]
) -> list[str]:
    """Questions without an answer, or with two; answers that the outputs do not show."""
    faults: list[str] = []
    for cell in filter(names, cells):
        question = questions[names(cell)[0].removeprefix(f"{number}.")]
        told = ".answer = " in source(cell)
        if told == (question.answer is not None):
            faults.append(f"cell {cell['id']}: an answer in the file, or from the block")
        if TOLD.search(source(cell)):
            faults.append(f"cell {cell['id']}: the source tells the answer")
        lines = "\n".join(stored(cell, "text/plain")).split("\n")[1:]
        shown = "\n".join(lines).removesuffix(question.why)
        numbers = {float(n.replace(",", "")) for n in NUMBER.findall(shown)}
        if isinstance(question.answer, float) and question.answer not in numbers:
            faults.append(f"cell {cell['id']}: no {question.answer:g} in the outputs")
    return faults


def calibration_faults(
    number: str, questions: dict[str, course.Question], cells: list[Cell]
) -> list[str]:
    """Notebooks that do not end with their calibration."""
    last = next(cell for cell in reversed(cells) if cell["cell_type"] == "code")
    if source(last).strip() != f'course.calibration("{number}")':
        return ["the last code cell is not course.calibration"]
    no_guesses = "No guesses yet" in "".join(stored(last, "text/plain"))
    return [] if no_guesses else ["someone's guesses are stored"]


RULES = (id_faults, mark_faults, folded_faults, answer_faults, calibration_faults)


def test_there_are_predictions() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_predictions_of_a_notebook_keep_the_rules(file: Path, rule) -> None:
    (notebook,) = (ROOT / "notebooks").glob(f"{file.stem}_*.ipynb")
    questions = course.check_questions(file.read_text(encoding="utf-8"))
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert rule(file.stem, questions, cells) == []


# --- the rules can fail --------------------------------------------------------------------------


def asking(text: str, said: str = "Answer (predict first): 3\n3 loops", html: str = "") -> Cell:
    page = html or '<details class="mtvm-answer"><summary>Answer</summary></details>'
    data = {"text/html": page, "text/plain": said}
    return {"cell_type": "code", "id": "c", "source": [text], "outputs": [{"data": data}]}


def prose(text: str) -> Cell:
    return {"cell_type": "markdown", "id": "m", "source": [text]}


ASK = 'with course.predict("03.a"):\n    print(3)'
LAST = asking('course.calibration("03")', "No guesses yet.")
THREE = {"a": course.Question(kind="number", prompt="loops", answer=3.0)}


def test_good_predictions_have_no_faults() -> None:
    cells = [prose("**Predict.** How many?"), asking(ASK), LAST]
    assert [fault for rule in RULES for fault in rule("03", THREE, cells)] == []
    told = [prose("**Predict.** How many? <details>3</details>"), prose("Next.")]
    assert mark_faults("03", THREE, told) == []


@pytest.mark.parametrize(
    ("rule", "cells", "fault"),
    [
        (id_faults, [LAST], "the cells ask []"),
        (id_faults, [asking(ASK), asking(ASK)], "the cells ask ['03.a', '03.a']"),
        (mark_faults, [prose("Look:"), asking(ASK)], "without **Predict"),
        (mark_faults, [prose("**Predict.** How many?"), LAST], "without course.predict"),
        (folded_faults, [asking(ASK, html="<pre>3</pre>")], "not folded"),
        (folded_faults, [asking(ASK, "3")], "no answer as text"),
        (answer_faults, [asking(ASK, "Answer (predict first): 3\n4 loops")], "no 3 in the outputs"),
        (answer_faults, [asking(f"{ASK}\n    p.answer = n")], "in the file, or from the block"),
        (calibration_faults, [asking(ASK)], "is not course.calibration"),
        (calibration_faults, [asking('course.calibration("03")', "loops 3 3")], "are stored"),
    ],
)
def test_a_prediction_that_breaks_a_rule_is_found(rule, cells: list[Cell], fault: str) -> None:
    (found,) = rule("03", THREE, cells)
    assert fault in found


def test_a_literal_answer_in_the_source_is_found() -> None:
    measured = {"a": course.Question(kind="number", prompt="loops")}
    cells = [asking(f"{ASK}\n    p.answer = 3")]
    assert answer_faults("03", measured, cells) == ["cell c: the source tells the answer"]
