"""Predictions in JupyterLab: answers stay hidden until a guess, also while the kernel is busy."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .pages import (
    DONE,
    KERNEL,
    command,
    illegible,
    reopen_without_kernel,
    run_all,
    save,
    use_theme,
)

NAME = "predictions.ipynb"
QUESTIONS = """
[turns]
kind = "number"
prompt = "iterations of `i_outer`"
answer = 3
why = "Two blocks of `4` are not enough."

[order]
kind = "choice"
prompt = "does a split change the order of the visits?"
options = ["yes", "no"]
answer = "no"

[misses]
kind = "curve"
prompt = "the misses for each tile size"
unit = "misses"
x = [1, 2, 4, 8]
low = 100
high = 100_000
log = true
factor = 2
"""
CELLS = (
    "import time\nfrom pathlib import Path\nimport matplotlib.pyplot as plt\n"
    "from minitvm import course, te, viz",
    "with course.predict('80.turns'):\n    print('th' + 'ree')",
    "B = te.compute((4, 4), lambda i, j: i * 1.0, name='B')\n"
    "with course.predict('80.order'):\n    print('bef' + 'ore')\n"
    "    display(viz.NestPlayer(te.create_schedule(B.op), [B]))",
    "with course.predict('80.misses') as p:\n    p.answer = [20_000, 5_000, 1_000, 9_000]\n"
    "    plt.plot(p.answer)\n    plt.show()\n    print('pict' + 'ured')",
    "while not Path('go').exists():\n    time.sleep(0.05)",
    "course.calibration('80')",
)
WAITS = (
    f"() => {KERNEL}?.status === 'busy' && document.querySelectorAll('.mtvm-predict').length === 3"
)
READY = "() => document.querySelectorAll('.jp-OutputArea-output .mtvm-visual svg').length === 1"


@pytest.fixture(scope="module")
def page(lab: tuple[str, Path], open_page: Callable) -> Iterator:
    """A notebook with three predictions; the kernel is busy with a cell after them."""
    (lab[1] / "predictions").mkdir()
    (lab[1] / "predictions/80.toml").write_text(QUESTIONS, encoding="utf-8")
    page, errors = open_page(NAME, *CELLS, width=1024)
    run(page)
    page.wait_for_function(READY)
    yield page
    assert errors == []
    page.close()


def run(page) -> None:
    """Start to run all cells, and wait for the prompts, not those of an earlier run."""
    command(page, "notebook:clear-all-cell-outputs")
    # in braces: returning the promise would wait for the last cell
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    page.wait_for_function(WAITS)


def prompt(page, number: int):
    return page.locator(".mtvm-predict").nth(number)


def seen(page) -> str:
    return page.locator(".jp-Notebook").inner_text()


def test_answers_are_hidden_at_first(page) -> None:
    assert not [
        word for word in ("three", "before", "pictured", "not enough") if word in seen(page)
    ]
    assert not page.locator(".mtvm-visual").is_visible()


def test_enter_guesses_a_number_and_asks_for_one_if_there_is_none(page) -> None:
    field = prompt(page, 0).locator("input")
    field.fill("some")
    field.press("Enter")
    assert "Type a number first" in prompt(page, 0).inner_text()
    assert "three" not in seen(page)
    field.fill("4")
    field.press("Enter")
    verdict = "Your guess 4, the answer 3: a factor of 1.3 off."
    assert verdict in prompt(page, 0).inner_text()
    assert "three" in seen(page)
    assert "Two blocks of 4 are not enough." in seen(page)


def test_show_me_reveals_a_live_widget_without_a_guess(page) -> None:
    prompt(page, 1).locator("[data-name=show]").click()
    assert "No guess. The answer: no." in prompt(page, 1).inner_text()
    assert page.locator(".mtvm-visual").is_visible()
    assert "before" in seen(page)


def test_a_curve_is_drawn_with_the_keys_and_the_mouse(page) -> None:
    first = prompt(page, 2).locator("[role=slider]").first
    first.focus()
    for _ in range(10):
        page.keyboard.press("ArrowUp")
    assert first.get_attribute("aria-valuenow") == "17800"
    svg = prompt(page, 2).locator("svg")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    last = prompt(page, 2).locator("[role=slider]").last
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 4)
    page.mouse.up()
    assert float(last.get_attribute("aria-valuenow")) > 5_000
    prompt(page, 2).locator("[data-name=go]").click()
    assert "the answer dashed: a factor of" in prompt(page, 2).inner_text()
    assert prompt(page, 2).locator("rect.mtvm-answer-mark").count() == 4
    assert "pictured" in seen(page)


def test_the_kernel_was_busy_all_the_time_and_keeps_the_guesses_later(page, lab) -> None:
    assert page.evaluate(f"() => {KERNEL}.status") == "busy"
    assert "No guesses yet" not in seen(page)
    (lab[1] / "go").touch()
    page.wait_for_function(DONE)
    page.wait_for_function(f"() => {KERNEL}.status === 'idle'")
    lines = (lab[1] / "guesses.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    assert set(rows) == {"80.turns", "80.misses"}
    assert (rows["80.turns"]["guess"], rows["80.turns"]["answer"]) == (4, 3)


def test_prompts_and_verdicts_are_legible_in_both_themes(page) -> None:
    assert illegible(page) == []
    use_theme(page, "Dark")
    assert illegible(page) == []
    use_theme(page, "Light")


def test_a_second_run_remembers_the_guesses(page, lab) -> None:
    (lab[1] / "go").unlink()
    run(page)
    page.wait_for_function(READY)
    assert "Your guess 4, the answer 3" in prompt(page, 0).inner_text()
    assert "three" in seen(page)
    assert "before" not in seen(page)
    prompt(page, 0).locator("[data-name=again]").click()
    assert "three" not in seen(page)
    (lab[1] / "go").touch()
    page.wait_for_function(DONE)
    assert "You guessed 2 of 3, and 0 of 2 were right" in seen(page)


def test_a_saved_notebook_folds_its_answers(page, lab) -> None:
    (lab[1] / "go").touch()
    run_all(page, seconds=60)
    save(page)
    reopen_without_kernel(page, f"{lab[0]}/lab/tree/{NAME}?reset", 2)
    assert page.locator("details.mtvm-answer").count() == 3
    assert not [
        word for word in ("three", "before", "pictured", "model not found") if word in seen(page)
    ]
    page.locator("details.mtvm-answer summary").first.click()
    assert "three" in seen(page)
