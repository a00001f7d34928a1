"""Folders as students leave them: links, odd names, copies, files that are none; full disks."""

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minitvm.edu import command, report
from minitvm.edu.__main__ import main
from minitvm.edu.command import submissions
from minitvm.edu.grader import Graded, Submission, Task, grade
from minitvm.edu.item import Outcome, Status, failed
from minitvm.edu.notebook import stored
from minitvm.edu.score import Mark, PartMark, unmarked
from minitvm.edu.skeleton import skeleton
from minitvm.workers import Message, Worker

from .course import CHECKS, EX00

NOTEBOOK = stored(skeleton(EX00)).encode()
NAME = "ex00_start_here.ipynb"
CELLS: dict = {"cells": []}


def put(folder: Path, *names: str, data: bytes = NOTEBOOK) -> Path:
    """`folder` with a notebook under each of the names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def no_marks(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Grading without processes: every item gets no points. The tasks that were graded."""
    tasks: list[Task] = []

    def without_processes(given, jobs=1):
        for n, task in enumerate(given):
            tasks.append(task)
            lost = tuple(unmarked(i, failed("raises", got="no")) for i in EX00.items)
            told = grade(task, Told(CELLS, *(m.to_json() for m in lost)))
            yield n, told

    monkeypatch.setattr(command, "grade_all", without_processes)
    return tasks


class Told(Worker):
    """A worker without a process, which gives the answers that it is given."""

    def __init__(self, *told: Any) -> None:
        self.told = list(map(Message, told))

    def ask(self, value, blobs=(), **limits) -> Message:
        return self.told.pop(0)

    def prepare(self, value, blobs=()) -> None:
        """Start no process."""


def graded(folder: Path, out: Path) -> dict[str, dict[str, str]]:
    """Student -> row of grades.csv."""
    assert main(["grade", str(folder), "--out", str(out), "--seed", "7"]) == 0
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


# --- files that are none -------------------------------------------------------------------------


def test_a_link_to_a_notebook_is_not_graded(tmp_path: Path, no_marks) -> None:
    folder = put(tmp_path / "in", f"ann/{NAME}")
    (folder / "bob").mkdir()
    (folder / "bob" / NAME).symlink_to(folder / "ann" / NAME)
    rows = graded(folder, tmp_path / "out")
    assert rows["ann"]["problem"] == ""
    assert "a link" in rows["bob"]["problem"]
    assert rows["bob"]["sha256"] == ""


def test_one_file_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path, no_marks) -> None:
    folder = put(tmp_path / "in", f"ann/{NAME}")
    (folder / "bob" / NAME).mkdir(parents=True)
    (folder / "eve").mkdir()
    os.mkfifo(folder / "eve" / NAME)
    rows = graded(folder, tmp_path / "out")
    assert [rows[name]["problem"] for name in ("bob", "eve")] == [f"{NAME}: not a file"] * 2
    assert rows["ann"]["problem"] == ""


def test_a_huge_file_is_not_read(tmp_path: Path, no_marks) -> None:
    folder = put(tmp_path / "in", f"ann/{NAME}")
    with open(folder / "ann" / NAME, "r+b") as file:
        file.truncate(1 << 40)
    (found,) = submissions(folder, CHECKS)
    assert "clear outputs" in found.problem
    assert found.data == b""


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [b"caf\xe9", b"two\nlines", b"bell\x07"])
def test_names_that_are_no_text_can_be_written_down(tmp_path: Path, no_marks, name: bytes) -> None:
    folder = put(tmp_path / "in", f"{os.fsdecode(name)}/{os.fsdecode(name)}_ex00.ipynb")
    (student,) = graded(folder, tmp_path / "out")
    assert student.isprintable()
    assert "~" in student
    assert graded(folder, tmp_path / "out").keys() == {student}
    assert len(no_marks) == 1


def test_a_student_may_be_called_like_a_table(tmp_path: Path, no_marks) -> None:
    folder = put(tmp_path / "in", f"grades.csv/{NAME}", f"summary.md/{NAME}")
    assert len(graded(folder, tmp_path / "out")) == 2


def test_two_notebooks_of_one_exercise_are_told_apart(tmp_path: Path, no_marks) -> None:
    folder = put(tmp_path / "in", "ann/ex00-Copy1.ipynb", f"ann/{NAME}")
    rows = graded(folder, tmp_path / "out")
    assert rows.keys() == {"ann", "ann (ex00_start_here)"}
    assert graded(folder, tmp_path / "out") == rows
    assert len(no_marks) == 2


def test_a_notebook_cannot_point_at_the_results_of_another_student(tmp_path: Path) -> None:
    notebook = {**skeleton(EX00), "metadata": {"minitvm": {"exercise": "../bob/ex00"}}}
    (tmp_path / "x.ipynb").write_text(stored(notebook), encoding="utf-8")
    (found,) = submissions(tmp_path, CHECKS)
    assert command.exercise_id(found, CHECKS, None) == ""


def test_an_exercise_that_is_named_by_its_stem_is_found(tmp_path: Path) -> None:
    notebook = {**skeleton(EX00), "metadata": {"minitvm": {"exercise": EX00.stem}}}
    (tmp_path / "x.ipynb").write_text(stored(notebook), encoding="utf-8")
    assert command.exercise_id(submissions(tmp_path, CHECKS)[0], CHECKS, None) == "ex00"


def test_what_a_notebook_calls_its_exercise_is_cut() -> None:
    notebook = {**skeleton(EX00), "metadata": {"minitvm": {"exercise": "x" * 10**6}}}
    found = grade(Task(Submission(Path("x.ipynb"), stored(notebook).encode()), CHECKS), Told())
    assert len(found.problem) < 10_000


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_other_encodings_and_newlines_are_read(encoding: str) -> None:
    text = stored(skeleton(EX00)).replace("\n", "\r\n")
    marks = [unmarked(i, failed("raises")).to_json() for i in EX00.items]
    found = grade(Task(Submission(Path(NAME), text.encode(encoding)), CHECKS), Told(CELLS, *marks))
    assert found.problem == ""


# --- the machine, not the student ----------------------------------------------------------------


def test_a_process_that_cannot_be_started_is_no_fault_of_the_notebook(tmp_path: Path) -> None:
    found = grade(
        Task(Submission(Path(NAME), NOTEBOOK), CHECKS), Told({"failed": "the disk is full"})
    )
    assert found.marks == ()
    assert "the disk is full" in found.problem
    assert found.unsure


def test_what_the_machine_prevented_is_graded_again(tmp_path: Path, monkeypatch) -> None:
    folder = put(tmp_path / "in", f"ann/{NAME}")
    count = []

    def never(tasks, jobs=1):
        for n, task in enumerate(tasks):
            count.append(n)
            yield n, grade(task, Told({"failed": "the disk is full"}))

    monkeypatch.setattr(command, "grade_all", never)
    for _ in range(2):
        assert "run it again" in graded(folder, tmp_path / "out")["ann"]["problem"]
    assert len(count) == 2 * command.ATTEMPTS


def test_a_folder_that_cannot_be_written_is_an_error_before_grading(
    tmp_path: Path, no_marks, capsys
) -> None:
    folder = put(tmp_path / "in", f"ann/{NAME}")
    (tmp_path / "out").write_text("a file")
    assert main(["grade", str(folder), "--out", str(tmp_path / "out")]) == 1
    assert "error: " in capsys.readouterr().err
    assert no_marks == []


def busy(points: float, status: Status) -> Graded:
    """Marks with a part that was timed: inconclusive on a busy machine."""
    timed = PartMark("speed", "fast", 1.0, Outcome(status, 0.0))
    m = Mark("ex00.1", "a matrix product", points, 1, "correct", (timed,))
    return Graded("ann", NAME, "ab12", "ex00", (m,))


def test_what_a_busy_machine_left_open_is_measured_again_and_its_points_are_not_kept(
    tmp_path: Path,
) -> None:
    first = report.write(tmp_path, busy(1.0, "inconclusive"), "one", None)
    assert (first["key"], first["points"], first["best"]) == ("", 1.0, 1.0)
    second = report.write(tmp_path, busy(0.6, "failed"), "one", first)
    assert (second["key"], second["best"]) == ("one", 0.6)
    third = report.write(tmp_path, busy(0.2, "failed"), "two", second)
    assert third["best"] == 0.6


def test_what_a_busy_machine_left_open_is_measured_again_later_in_the_run(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    folder = put(tmp_path / "in", f"ann/{NAME}", f"bob/{NAME}", f"eve/{NAME}")
    order: list[str] = []

    def measured(tasks, jobs=1):
        for n, task in enumerate(tasks):
            name = task.submission.student
            is_open = name == "eve" or (name == "ann" and name not in order)
            order.append(name)
            yield n, replace(busy(1.0, "inconclusive" if is_open else "passed"), student=name)

    monkeypatch.setattr(command, "grade_all", measured)
    graded(folder, tmp_path / "out")
    assert order == ["ann", "bob", "eve", "ann", "eve", "eve"]
    assert "1 of them not measured, and not paid for it: eve" in capsys.readouterr().out
    rows = {name: report.read(tmp_path / "out" / name / "ex00") for name in ("ann", "eve")}
    assert rows["ann"]["key"]
    assert rows["eve"]["key"] == ""


def test_results_are_replaced_as_a_whole(tmp_path: Path, monkeypatch) -> None:
    g = Graded("ann", NAME, "ab12", "ex00")
    report.write(tmp_path, g, "one", None)

    def full(*args) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        report.write(tmp_path, g, "two", None)
    before = report.read(tmp_path / "ann" / "ex00")
    assert before is not None
    assert before["key"] == "one"


def test_without_a_seed_a_warning_says_that_hidden_tests_can_be_guessed(
    tmp_path: Path, no_marks, capsys, monkeypatch
) -> None:
    monkeypatch.delenv("MINITVM_GRADE_SEED", raising=False)
    folder = put(tmp_path / "in", f"ann/{NAME}")
    main(["grade", str(folder), "--out", str(tmp_path / "out")])
    assert "no --seed" in capsys.readouterr().err
    main(["grade", str(folder), "--out", str(tmp_path / "out"), "--seed", "x"])
    assert "no --seed" not in capsys.readouterr().err


def test_junit_has_no_characters_that_xml_cannot_hold(tmp_path: Path) -> None:
    wrong = unmarked(EX00.items[0], failed("raises", got="\ufffe\uffff"))
    row = report.write(tmp_path, Graded("ann", NAME, "", "ex00", (wrong,)), "key", None)
    assert not {"\ufffe", "\uffff"} & set(report.junit([row]))
    assert json.loads((tmp_path / "ann/ex00/results.json").read_text(encoding="utf-8"))
