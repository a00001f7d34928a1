"""`verify` finds exercises that a grader cannot be trusted with, and passes those it can."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from minitvm.base import ArgumentError
from minitvm.edu import failed
from minitvm.edu.grader import Graded
from minitvm.edu.score import mark, unmarked
from minitvm.edu.trials import QUICK, Trial, expected, mutant_files, trial_faults, trials
from minitvm.edu.verify import run, still_faults

from .course import CHECKS, EX00, EXERCISES, ROOT

FIRST = EX00.items[0]


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
    mutant_files(checkout, EX00)[0].unlink()
    assert still_faults(checkout, EX00) == [
        "M3 2 wrong answers in solutions/wrong, at least 3 are needed"
    ]


def test_a_wrong_answer_says_what_it_expects(tmp_path: Path) -> None:
    path = tmp_path / "ex00_start_here__x.py"
    path.write_text("EXPECT = {'ex00.1': 'raises'}\nx = 1", encoding="utf-8")
    assert expected(path) == {"ex00.1": "raises"}
    path.write_text("x = 1", encoding="utf-8")
    with pytest.raises(ArgumentError, match="it has no EXPECT"):
        expected(path)


def trial(**changes) -> Trial:
    return replace(Trial(EX00, "M3", "a trial", b"", {}, failed=False), **changes)


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
        (trial(messages={"ex00.1": "wrong-value"}), FIRST_WRONG, []),
        (
            trial(messages={"ex00.1": "raises"}),
            FIRST_WRONG,
            ["ex00.1: the message is wrong-value, not raises"],
        ),
        (
            trial(messages={"ex00.1": "raises"}),
            ALL_RIGHT,
            ["ex00.1: the message is none, not raises"],
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
def test_the_first_exercise_cannot_be_fooled() -> None:
    """Those that hang are among the notebooks of test_submissions.py."""
    todo = [t for t in trials(ROOT, EX00) if t.limits is not QUICK]
    assert [(t.name, wrong) for t, wrong in run(todo, CHECKS, 2) if wrong] == []


@pytest.mark.slow
def test_a_wrong_answer_that_is_right_is_found(checkout: Path) -> None:
    path = mutant_files(checkout, EX00)[0]
    path.write_text('EXPECT = {"ex00.1": "wrong-value"}', encoding="utf-8")
    todo = [
        t
        for t in trials(checkout, EX00)
        if t.name == path.stem.partition("__")[2].replace("_", " ")
    ]
    (only,) = run(todo, CHECKS, 1)
    assert only[1] == ["ex00.1: the message is none, not wrong-value"]
