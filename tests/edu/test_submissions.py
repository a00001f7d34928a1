"""Good, broken and cheating notebooks, graded as an instructor would, get what they must get."""

import csv
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from minitvm.edu.__main__ import main
from minitvm.edu.score import mark

from . import make_submissions
from .course import EX00

FOLDER = make_submissions.FOLDER
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
OPTIONS = ["--jobs", "2", "--seconds", "3", "--seed", "tests"]
SOME = ("good", "failing_cell", "wrong")
FAKES = ("fake_frame", "fake_score", "no_notebook", "old_format")
ANSWERS = (  # submissions whose answers do all there is to see, and leave the process as it is
    *("good", "half", "wrong", "raises", "wrong_type", "object", "hard_coded", "always_equal"),
    *("endless_recursion", "huge_result", "huge_formula", "memory_bomb", "exit_in_an_answer"),
    *("searches_memory", "opens_the_checks", "imports_the_checks", "reads_the_grader"),
    *("writes_files", "forks", "starts_a_program", "asks_the_network"),
)


def results(grades: Path, name: str) -> dict:
    """results.json of one student."""
    (path,) = (grades / name).rglob("results.json")
    return json.loads(path.read_text(encoding="utf-8"))


def marks(grades: Path, name: str) -> dict | str:
    """What a student got, written as in expected.json."""
    found = results(grades, name)["extra_data"]
    if found["problem"]:
        assert found["points"] == 0
        return "not a notebook" if "not a notebook" in found["problem"] else found["problem"]
    return {m["item"]: [m["points"], first_message(m)] for m in found["marks"]}


def first_message(mark: dict) -> str:
    messages = (part["outcome"]["message"] for part in mark["parts"])
    return next(filter(None, messages), "")


def test_the_stored_notebooks_are_those_of_the_script() -> None:
    stored = {
        path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8")
        for path in FOLDER.rglob("*")
        if path.is_file()
    }
    assert stored == make_submissions.files()


def test_answers_get_what_they_must_get(started) -> None:
    """All of them in one process, under names of their own."""
    cells = {
        name: [re.sub(r"(def |return )(matmul|refusal)\b", rf"\1\2_{name}", c) for c in some]
        for name, (some, _) in make_submissions.SUBMISSIONS.items()
        if name in ANSWERS
    }
    student = started(*(c for some in cells.values() for c in some if "edu.check" not in c))
    assert student.failed == []

    def marked(item, name: str) -> list:
        found = mark(item, lambda *args: student.call(f"{item.answer}_{name}", args), (None, 7))
        return [found.points, next(iter(found.messages), "")]

    got = {name: {item.id: marked(item, name) for item in EX00.items} for name in ANSWERS}
    assert got == {name: EXPECTED[name] for name in ANSWERS}


def test_fakes_get_what_they_must_get(tmp_path: Path) -> None:
    for name in FAKES:
        shutil.copytree(FOLDER / name, tmp_path / "in" / name)
    options = [*OPTIONS, "--out", str(tmp_path / "out")]
    assert main(["grade", str(tmp_path / "in"), *options]) == 0
    assert {name: marks(tmp_path / "out", name) for name in FAKES} == {
        name: EXPECTED[name] for name in FAKES
    }


@pytest.mark.grader
def test_every_submission_gets_what_it_must_get(tmp_path: Path) -> None:
    assert main(["grade", str(FOLDER), *OPTIONS, "--out", str(tmp_path)]) == 0
    assert {name: marks(tmp_path, name) for name in EXPECTED} == EXPECTED


@pytest.mark.slow
def test_reports_say_what_was_graded_and_it_is_not_graded_again(tmp_path: Path, capsys) -> None:
    folder, grades = tmp_path / "handed in", tmp_path / "grades"
    for name in SOME:
        shutil.copytree(FOLDER / name, folder / name)
    arguments = ["grade", str(folder), *OPTIONS, "--out", str(grades)]
    assert main(arguments) == 0
    check_tables(grades)
    text = (grades / "failing_cell" / "ex00" / "feedback.md").read_text(encoding="utf-8")
    assert results(grades, "failing_cell")["extra_data"]["sha256"] in text
    assert "cell 2 stopped: ZeroDivisionError" in text
    assert "cell 2, line 1: 1 / 0" in text
    before = {p: p.stat().st_mtime_ns for p in grades.rglob("results.json")}
    capsys.readouterr()
    assert main(arguments) == 0
    assert "3 graded before, 0 to grade" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in grades.rglob("results.json")} == before
    check_tables(grades)


def check_tables(grades: Path) -> None:
    """The tables have one row for each notebook, and count what is not right."""
    with open(grades / "grades.csv", encoding="utf-8", newline="") as file:
        rows = {row["student"]: row["points"] for row in csv.DictReader(file)}
    assert rows == {"good": "2.0", "failing_cell": "2.0", "wrong": "0.0"}
    suites = ElementTree.parse(grades / "junit.xml").getroot()
    failures = {s.get("name"): s.get("failures") for s in suites}
    assert failures == {"good ex00": "0", "failing_cell ex00": "0", "wrong ex00": "2"}
