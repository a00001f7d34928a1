"""course.predict in kernels that run no browser, and what it stores."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from minitvm import course
from minitvm.base import ArgumentError
from minitvm.course import capture, guesses, prediction, prompt, question

QUESTIONS = """
[turns]
kind = "number"
prompt = "iterations of `i`"
unit = "iterations"
answer = 3
why = "Three pieces & no more: `i < 3`."

[gain]
kind = "number"
prompt = "how many times faster"
factor = 1.5

[order]
kind = "choice"
prompt = "does the order change?"
options = ["yes", "no"]
answer = "no"

[misses]
kind = "curve"
prompt = "misses for each tile"
unit = "misses"
x = [1, 2, 4]
low = 10
high = 1000
log = true
answer = [800, 200, 50]
factor = 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a notebook that has questions, as the current one."""
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions/70.toml").write_text(QUESTIONS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def guessing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the guesses, which is read and written as in a live notebook."""
    monkeypatch.delenv("MINITVM_WIDGETS", raising=False)
    monkeypatch.setenv("MINITVM_GUESSES", "")
    return folder / "guesses.jsonl"


def executed(folder: Path, *cells: str, fails: bool = False) -> list[list[dict]]:
    """The outputs of cells that a batch run executes in `folder`."""
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, timeout=120)
    if fails:
        with pytest.raises(CellExecutionError):
            client.execute()
    else:
        client.execute()
    return [cell["outputs"] for cell in notebook.cells]


def test_a_batch_run_folds_the_outputs_in_their_order(folder: Path) -> None:
    cells = (
        "from minitvm import course, te, viz\nfrom IPython.display import HTML, clear_output",
        "with course.predict('70.turns'):\n    print('a < b')\n    display(HTML('<i>c</i>'))\n"
        "    print('d')\n    print('50 %\\r100 %')",
        "B = te.compute((4, 4), lambda i, j: i * 1.0, name='B')\n"
        "with course.predict('70.order'):\n    print('gone')\n    clear_output()\n"
        "    display(viz.NestPlayer(te.create_schedule(B.op), [B]))",
        "with course.predict('70.gain') as p:\n    p.answer = 7 / 3",
        "shown = display('0 trials', display_id=True)\n"
        "with course.predict('70.none'):\n    again = display('one trial', display_id=True)\n"
        "    again.update('two trials')\n    shown.update('2 trials')",
    )
    _, (turns,), (order,), (gain,), (_, none) = executed(folder, *cells)
    assert turns["data"] == {
        "text/html": '<details class="mtvm-answer"><summary>Answer (predict first): '
        "<b>iterations of <code>i</code></b></summary>\n"
        "<p>The answer: <b>3 iterations</b></p>\n"
        "<pre><code>a &lt; b</code></pre>\n<i>c</i>\n<pre><code>d\n100 %</code></pre>\n"
        "<p>Three pieces &amp; no more: <code>i &lt; 3</code>.</p>\n</details>",
        "text/plain": "Answer (predict first): 3 iterations\na < b\n<IPython.core.display.HTML "
        "object>\nd\n100 %\nThree pieces & no more: `i < 3`.",
    }
    page = order["data"]["text/html"]
    assert re.search(r'<img src="data:image/svg\+xml;base64,[\w+/=]+" alt="[^"]+">', page)
    assert "gone" not in page
    assert "step 0 of 0" in order["data"]["text/plain"]
    assert gain["data"]["text/plain"] == "Answer (predict first): 2.33"
    assert none["data"]["text/plain"] == "Answer (predict first):\n'two trials'"


def test_a_block_that_fails_shows_its_outputs_and_the_error(folder: Path) -> None:
    block = "with course.predict('70.turns'):\n    print('before')\n    display(1)\n    1 / 0"
    _, (text, shown, error) = executed(folder, "from minitvm import course", block, fails=True)
    assert text["text"] == "before\n"
    assert shown["data"]["text/plain"] == "1"
    assert error["ename"] == "ZeroDivisionError"


def test_outside_of_a_notebook_a_block_just_prints(folder: Path, capsys) -> None:
    with course.predict("70.turns") as p:
        print("three")
    assert capsys.readouterr().out == "three\n"
    assert p.answer == 3


def test_an_error_passes_outside_of_a_notebook() -> None:
    with pytest.raises(ZeroDivisionError), course.predict("70.turns"):
        print(1 // 0)


# --- questions -----------------------------------------------------------------------------------


def test_questions_are_found_beside_above_and_in_the_checkout(folder: Path, monkeypatch) -> None:
    assert question.question_of("70.turns").answer == 3
    (folder / "work/deep").mkdir(parents=True)
    monkeypatch.chdir(folder / "work/deep")
    assert question.question_of("70.order").options == ("yes", "no")
    assert question.question_of("03.inner-of-four").kind == "number"


@pytest.mark.parametrize("text", ["[turns", "turns = 1", "[turns]\nkind = 'essay'\nprompt = 'i'"])
def test_a_file_that_cannot_be_read_leaves_show_me(folder: Path, text: str) -> None:
    (folder / "predictions/70.toml").write_text(text, encoding="utf-8")
    assert question.question_of("70.turns") == course.Question()
    assert question.question_of("71.turns") == course.Question()
    assert question.question_of("70") == course.Question()


def test_good_questions_are_read() -> None:
    read = course.check_questions(QUESTIONS)
    assert list(read) == ["turns", "gain", "order", "misses"]
    assert read["misses"].x == ("1", "2", "4")
    assert read["misses"].answer == (800.0, 200.0, 50.0)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('kind = "choice"', 'kind = "essay"', "kind is none of number, choice, curve"),
        ('prompt = "does the order change?"', "", "no prompt"),
        ('options = ["yes", "no"]', 'options = ["no"]', "needs two different options"),
        ('answer = "no"', 'answer = "perhaps"', "not one of the options"),
        ("answer = 3", 'answer = "three"', "not a number"),
        ("answer = 3", "answer = true", "answer = True"),
        ("answer = [800, 200, 50]", 'answer = ["a", "b", "c"]', "not a number for each x"),
        ("answer = [800, 200, 50]", "answer = [800]", "not a number for each x"),
        ("answer = [800, 200, 50]", "answer = [8000, 200, 50]", "outside of low and high"),
        ("x = [1, 2, 4]", "x = [1]", "not a number for each x"),
        ("low = 10", "low = 0", "low > 0 if log = true"),
        ("factor = 1.5", "factor = 0.5", "factor is at least 1"),
        ("factor = 1.5", "points = 2", "unknown key 'points'"),
        ("factor = 1.5", 'factor = "2"', "factor = '2'"),
    ],
)
def test_a_mistake_in_a_question_is_named(old: str, new: str, fault: str) -> None:
    assert QUESTIONS.count(old) == 1
    with pytest.raises(ArgumentError, match=re.escape(fault)):
        course.check_questions(QUESTIONS.replace(old, new))


@pytest.mark.parametrize(
    ("name", "answer", "guess", "right"),
    [
        ("turns", 3.0, 3.0, True),
        ("turns", 3.0, 4.0, False),
        ("gain", 2.0, 3.0, True),
        ("gain", 2.0, 1.3, False),
        ("order", "no", "no", True),
        ("order", "no", "yes", False),
        ("misses", (800.0, 200.0, 50.0), (400.0, 400.0, 50.0), True),
        ("misses", (800.0, 200.0, 50.0), (300.0, 200.0, 50.0), False),
        ("misses", (800.0, 200.0, 50.0), 800.0, False),
    ],
)
def test_a_guess_is_right_within_its_bounds(name, answer, guess, right: bool) -> None:
    assert course.check_questions(QUESTIONS)[name].is_right(answer, guess) is right


# --- guesses -------------------------------------------------------------------------------------


def test_guesses_are_appended_and_the_latest_counts(guessing: Path) -> None:
    guesses.store(course.Guess("70.turns", 4.0, 3.0))
    guesses.store(course.Guess("70.turns", 3.0, 3.0))
    with guessing.open("a", encoding="utf-8") as file:
        file.write('no json\n[1]\n{"id": 3, "guess": 1}\n{"id": "70.order", "guess": null}\n')
    guesses.store(course.Guess("70.misses", (1.0, 2.0, 3.0)))
    first = json.loads(guessing.read_text(encoding="utf-8").splitlines()[0])
    assert first["guess"] == 4.0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", first["time"])
    assert guesses.stored() == {
        "70.turns": course.Guess("70.turns", 3.0, 3.0),
        "70.misses": course.Guess("70.misses", (1.0, 2.0, 3.0)),
    }


@pytest.mark.parametrize(("name", "value"), [("GUESSES", "off"), ("WIDGETS", "static")])
def test_tests_and_static_notebooks_keep_no_guesses(
    guessing: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    guessing.write_text('{"id": "70.turns", "guess": 4}\n', encoding="utf-8")
    monkeypatch.setenv(f"MINITVM_{name}", value)
    guesses.store(course.Guess("70.order", "no"))
    assert guesses.stored() == {}
    assert guessing.read_text(encoding="utf-8").count("\n") == 1


def test_guesses_that_cannot_be_written_or_read_are_lost(folder: Path, monkeypatch) -> None:
    monkeypatch.delenv("MINITVM_WIDGETS", raising=False)
    monkeypatch.setenv("MINITVM_GUESSES", str(folder))
    guesses.store(course.Guess("70.turns", 4.0))
    assert guesses.stored() == {}


def test_without_guesses_the_calibration_says_so(guessing: Path) -> None:
    shown = course.calibration("70")
    assert repr(shown) == "No guesses yet. Guess above, then run this cell again."
    assert "<table>" not in shown._repr_html_()
    assert repr(course.calibration("no such notebook")) == repr(shown)


def test_the_calibration_compares_guesses_with_answers(guessing: Path) -> None:
    lines = [
        {"id": "70.turns", "guess": 4, "answer": 3},
        {"id": "70.gain", "guess": 2.5, "answer": 2.4},
        {"id": "70.order", "guess": "yes"},
        {"id": "70.misses", "guess": [100, 200, 50]},
        {"id": "70.gone", "guess": 1},
        {"id": "71.turns", "guess": 1},
    ]
    guessing.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    shown = course.calibration("70")
    *table, sentence = repr(shown).splitlines()
    assert table == [
        "prediction              your guess    the answer",
        "iterations of `i`       4 iterations  3 iterations  a factor of 1.3 off",
        "how many times faster   2.5           2.4           right",
        "does the order change?  yes           no",
        "misses for each tile    a curve       a curve       a factor of 1 off",
    ]
    right = "You guessed 4 of 4, and 1 of 4 were right"
    assert sentence == f"{right}; in the median, numbers were a factor of 1.04 off."
    assert "<td>iterations of <code>i</code></td><td>4 iterations</td>" in shown._repr_html_()


# --- the live prompt -----------------------------------------------------------------------------


@pytest.fixture
def live(guessing: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """live("70.turns", print_three) -> (the prompt, what is shown) as in a live notebook."""
    shown: list[dict] = []
    made: list[prompt.Prompt] = []

    class Shown(prompt.Prompt):
        def show(self) -> None:
            made.append(self)
            self.replace_stored = shown.append

    class Block:
        def __init__(self, outputs: list) -> None:
            self.outputs = outputs

        def __enter__(self) -> None:
            self.outputs += [{"output_type": "stream", "name": "stdout", "text": "three\n"}]

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(prediction, "front_end", lambda: "notebook")
    monkeypatch.setattr(prediction, "captured", Block)
    monkeypatch.setattr(prediction, "Prompt", Shown)
    monkeypatch.setattr(prediction, "show_again", shown.extend)

    def run(name: str, block: Callable[[], None] = lambda: None, answer: object = None):
        with course.predict(name) as p:
            block()
            if answer is not None:
                p.answer = answer
        return made[-1], shown

    run.made, run.shown = made, shown
    return run


def test_a_prompt_hides_the_outputs_and_knows_the_bounds(live: Callable) -> None:
    asked, shown = live("70.turns")
    assert asked.outputs.layout.display == "none"
    assert [o["output_type"] for o in asked.outputs.outputs] == ["stream", "display_data"]
    assert asked.result["text"] == "3 iterations"
    (bounds,) = asked.result["bounds"]
    assert bounds == pytest.approx((3, 3))
    assert "answer" not in asked.question
    assert "why" not in asked.question
    assert shown[-1]["text/plain"].startswith("Answer (predict first): 3 iterations\nthree")


def test_a_guess_is_kept_and_shown_the_next_time(live: Callable, guessing: Path) -> None:
    asked, _ = live("70.gain", answer=2.4)
    asked.guess = 2
    assert json.loads(guessing.read_text())["answer"] == 2.4
    again, _ = live("70.gain", answer=2.5)
    assert again.guess == 2
    assert again.outputs.layout.display == "block"


def test_a_guess_while_the_block_runs_is_kept_at_its_end(live: Callable, guessing: Path) -> None:
    def guess() -> None:
        live.made[-1].guess = "yes"
        assert not guessing.exists()

    live("70.order", guess)
    row = json.loads(guessing.read_text())
    assert (row["id"], row["guess"], row["answer"]) == ("70.order", "yes", "no")


def test_show_me_keeps_nothing(live: Callable, guessing: Path) -> None:
    asked, _ = live("70.turns")
    asked.answer_display = "block"
    asked.guess = None
    assert not guessing.exists()


def test_a_guess_of_another_kind_is_forgotten(live: Callable, guessing: Path) -> None:
    guessing.write_text('{"id": "70.turns", "guess": "yes"}\n', encoding="utf-8")
    asked, _ = live("70.turns")
    assert asked.guess is None


def test_a_failing_block_hides_the_prompt(live: Callable) -> None:
    with pytest.raises(ZeroDivisionError):
        live("70.turns", lambda: 1 // 0)
    assert live.made[-1].failed
    assert live.shown == [{"output_type": "stream", "name": "stdout", "text": "three\n"}]


def test_an_answer_of_another_kind_is_left_out(live: Callable) -> None:
    asked, _ = live("70.turns", answer="three")
    assert asked.result == {"answer": None, "text": "", "bounds": []}


def test_a_printed_line_that_is_overwritten_is_gone() -> None:
    outputs: list[dict] = []
    stream = capture.Printed(outputs)
    stream.write("1 of 2\r")
    stream.write("2 of 2")
    stream.write("\r\nend\n")
    assert outputs[0]["text"] == "2 of 2\r\nend\n"
