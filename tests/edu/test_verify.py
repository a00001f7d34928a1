"""`verify` finds exercises that a grader cannot be trusted with, and passes those it can."""

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from minitvm.base import ArgumentError
from minitvm.edu import failed
from minitvm.edu.build import exercise_file
from minitvm.edu.grader import Graded
from minitvm.edu.live import call_in_process
from minitvm.edu.notebook import code_cells, parsed, source
from minitvm.edu.score import mark, unmarked
from minitvm.edu.trials import QUICK, Trial, expected, mutant_files, trial_faults, trials
from minitvm.edu.verify import MIN_WRONG, run, still_faults

from .course import CHECKS, EX00, EXERCISES, ROOT

FIRST = EX00.items[0]

IMPORT = re.compile(r"(import|from) [^(]*$")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of exercises and solutions."""
    for name in ("exercises", "solutions"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_every_exercise_comes_with_wrong_answers(exercise) -> None:
    assert still_faults(ROOT, exercise) == []


def test_too_few_wrong_answers_are_a_fault(checkout: Path) -> None:
    mutant_files(checkout, EX00)[0].write_text('EXPECT = {"ex01.1": ("x", 0)}', encoding="utf-8")
    for path in mutant_files(checkout, EX00)[1:]:
        path.unlink()
    assert still_faults(checkout, EX00) == [
        *(
            f"M3 {item.id}: 0 wrong answers in solutions/wrong, at least 3 are needed"
            for item in EX00.items
        ),
        "M9 00.challenge: no wrong answer in solutions/wrong",
    ]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_every_item_has_three_wrong_answers_with_a_stated_score(exercise) -> None:
    stated = [expected(path) for path in mutant_files(ROOT, exercise)]
    for item in exercise.items:
        points = [marks[item.id][1] for marks in stated if item.id in marks]
        assert len(points) >= MIN_WRONG, item.id
        assert all(0 <= n < item.points for n in points), item.id


@pytest.mark.parametrize("kind", ["copied_from_the_notebook", "ready_made", "nothing_done"])
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_little_is_earned_without_an_answer_of_ones_own(exercise, kind: str) -> None:
    """A cell of a notebook, a function of the library or next to nothing earns 40 % at most."""
    files = {path.stem.partition("__")[2]: path for path in mutant_files(ROOT, exercise)}
    stated = expected(files[kind])
    assert stated.keys() == {item.id for item in exercise.items}
    for item in exercise.items:
        assert stated[item.id][1] <= 0.4 * item.points, item.id


@pytest.mark.parametrize("item", ["ex03.1", "ex03.2", "ex05.1", "ex05.2", "ex05.3", "ex06.2"])
def test_an_untouched_schedule_earns_nothing(item: str) -> None:
    (path,) = (ROOT / "solutions" / "wrong").glob(f"{item[:4]}_*__nothing_done.py")
    assert "create_schedule" in path.read_text(encoding="utf-8")
    assert expected(path)[item][1] == 0


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_an_unchanged_stub_earns_nothing(exercise) -> None:
    notebook = parsed(exercise_file(ROOT, exercise).read_bytes(), exercise.stem)
    texts = [source(cell) for _, cell in code_cells(notebook)]
    imports = [line for line in "\n".join(texts).splitlines() if IMPORT.match(line)]
    scope: dict = {}
    exec("\n".join(imports), scope)
    for item in exercise.items:
        (stub,) = (text for text in texts if f"\ndef {item.answer}(" in f"\n{text}")
        exec(stub, scope)
        answer = partial(call_in_process, scope[item.answer])
        found = mark(item, lambda *arguments, answer=answer: answer(arguments))
        assert (found.points, found.verdict) == (0, "not started")


def test_a_wrong_answer_says_what_it_expects(tmp_path: Path) -> None:
    path = tmp_path / "ex00_start_here__x.py"
    path.write_text("EXPECT = {'ex00.1': ('raises', 0)}\nx = 1", encoding="utf-8")
    assert expected(path) == {"ex00.1": ("raises", 0)}
    path.write_text("x = 1", encoding="utf-8")
    with pytest.raises(ArgumentError, match="it has no EXPECT"):
        expected(path)


def trial(**changes) -> Trial:
    return replace(Trial(EX00, "M3", "a trial", b"", {}), **changes)


def graded(*marks) -> Graded:
    return Graded("ann", "a.ipynb", "", "ex00", marks)


def right(item):
    passing = replace(item, parts=(replace(item.parts[0], check=lambda a, r: PASSED),))
    return mark(passing, lambda *args: None)


PASSED = failed("", score=1.0)
PASSED = replace(PASSED, status="passed")
ALL_RIGHT = graded(*(right(item) for item in EX00.items))
FIRST_WRONG = graded(unmarked(FIRST, failed("wrong-value")), right(EX00.items[1]))


@pytest.mark.parametrize(
    ("asked", "got", "faults"),
    [
        (trial(), ALL_RIGHT, []),
        (trial(), FIRST_WRONG, ["ex00.1: 0 of 1 points, wrong-value"]),
        (trial(marks={"ex00.1": ("wrong-value", 0)}), FIRST_WRONG, []),
        (
            trial(marks={"ex00.1": ("raises", 0)}),
            FIRST_WRONG,
            ["ex00.1: the message is wrong-value, not raises"],
        ),
        (
            trial(marks={"ex00.1": ("raises", 0)}),
            ALL_RIGHT,
            ["ex00.1: the message is none, not raises"],
        ),
        (
            trial(marks={"ex00.1": ("wrong-value", 0.5)}),
            FIRST_WRONG,
            ["ex00.1: 0 of 1 points, not 0.5"],
        ),
        (
            trial(marks={"ex00.1": ("wrong-value", 0.5)}, timed=frozenset({"ex00.1"})),
            FIRST_WRONG,
            [],
        ),
        (
            trial(marks={"ex00.1": ("wrong-value", 0.5)}, timed=frozenset({"ex00.2"})),
            FIRST_WRONG,
            ["ex00.1: 0 of 1 points, not 0.5"],
        ),
        (trial(), graded(right(FIRST)), ["not every item has a mark"]),
        (trial(cells=("time is up",)), ALL_RIGHT, ["no cell is reported with 'time is up'"]),
    ],
)
def test_marks_that_are_not_as_expected_are_faults(asked, got, faults) -> None:
    assert trial_faults(asked, got) == faults


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_every_exercise_is_broken_and_the_first_one_also_hangs(exercise) -> None:
    broken = {"syntax error", "deleted cell", "sys.exit in an answer", "patched, unsolved"}
    hanging = {"endless loop", "endless cell"} if exercise is EX00 else set()
    tried = [t for t in trials(ROOT, exercise, lost=exercise is EX00) if t.check == "M4"]
    assert broken <= {t.name for t in tried}
    assert hanging == {t.name for t in tried if t.limits is QUICK}


@pytest.mark.slow
def test_a_wrong_answer_that_is_right_is_found(checkout: Path) -> None:
    path = mutant_files(checkout, EX00)[0]
    path.write_text('EXPECT = {"ex00.1": ("wrong-value", 0)}', encoding="utf-8")
    todo = [
        t
        for t in trials(checkout, EX00)
        if t.name == path.stem.partition("__")[2].replace("_", " ")
    ]
    (only,) = run(todo, CHECKS, 1)
    assert only[1] == ["ex00.1: the message is none, not wrong-value"]
