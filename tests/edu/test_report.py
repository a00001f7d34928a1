"""Reports: formulas stay text in spreadsheets, markup stays text on pages, the best score stays."""

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from minitvm.edu import failed, report
from minitvm.edu.command import secret_seed, submissions
from minitvm.edu.course import item_of
from minitvm.edu.grader import Graded
from minitvm.edu.score import unmarked
from minitvm.edu.student import CellReport

from .course import CHECKS

EVIL = "=cmd()|<script>\x00\x1b"


def graded(points: float = 0.0, student: str = "ann") -> Graded:
    wrong = unmarked(item_of("ex00.1", CHECKS), failed("raises", got=EVIL))
    marks = (type(wrong)(**{**{f: getattr(wrong, f) for f in wrong.__slots__}, "points": points}),)
    cells = (CellReport(2, "ValueError", EVIL, "cell 2, line 1"),)
    return Graded(student, "ann/ex00_start_here.ipynb", "ab12", "ex00", marks, cells)


def test_results_are_what_gradescope_reads(tmp_path: Path) -> None:
    report.write(tmp_path, graded(), "key", None)
    found = json.loads((tmp_path / "ann/ex00/results.json").read_text(encoding="utf-8"))
    assert found["score"] == 0
    (test,) = found["tests"]
    assert test["name"] == "ex00.1 a matrix product"
    assert (test["score"], test["max_score"], test["status"]) == (0, 1, "failed")
    assert (test["output_format"], test["visibility"]) == ("md", "visible")


def test_a_worse_submission_keeps_the_better_score(tmp_path: Path) -> None:
    first = report.write(tmp_path, graded(1.0), "one", None)
    second = report.write(tmp_path, graded(0.5), "two", first)
    assert (first["best"], second["best"], second["points"]) == (1.0, 1.0, 0.5)
    third = report.write(tmp_path, graded(0.25), "three", report.read(tmp_path / "ann/ex00"))
    assert third["best"] == 1.0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"extra_data": 3}'])
def test_results_that_cannot_be_read_count_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text, encoding="utf-8")
    assert report.read(tmp_path) is None


def test_text_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path) -> None:
    row = report.write(tmp_path, graded(student="@SUM(A1)"), "key", None)
    (found,) = csv.DictReader(io.StringIO(report.csv_text([row])))
    assert found["student"] == "'@SUM(A1)"
    assert (found["points"], found["worth"], found["ex00.1"]) == ("0.0", "1", "0.0")


def test_junit_is_xml_whatever_a_student_writes(tmp_path: Path) -> None:
    row = report.write(tmp_path, graded(), "key", None)
    suites = ElementTree.fromstring(report.junit([row]).encode())
    (failure,) = suites.iter("failure")
    assert "<script>" in failure.text


def test_pages_show_markup_as_text(tmp_path: Path) -> None:
    row = report.write(tmp_path, graded(), "key", None)
    page = (tmp_path / "ann/ex00/feedback.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in report.summary([row])


def test_students_are_called_as_their_folders_or_files(tmp_path: Path) -> None:
    for name in ("ann/ex00_a.ipynb", "b/c/ex00_a.ipynb", "ex00_bob.ipynb", "x/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    hidden = tmp_path / "ann" / ".ipynb_checkpoints" / "ex00_a-checkpoint.ipynb"
    hidden.parent.mkdir()
    hidden.touch()
    assert [s.student for s in submissions(tmp_path, CHECKS)] == ["ann", "b/c", "ex00_bob"]


def test_the_secret_seed_comes_from_any_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_GRADE_SEED", "from outside")
    assert secret_seed("words") == secret_seed("words") != secret_seed("other words")
    assert secret_seed("") == secret_seed("from outside")
