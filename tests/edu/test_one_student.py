"""Nothing of one student ends the run: names, texts, folders, a full disk, a dead process."""

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from minitvm.base import ArgumentError
from minitvm.edu import command, export, files, grader, report
from minitvm.edu.__main__ import main
from minitvm.edu.build import RECORD, built, exercise_file, hashes, write
from minitvm.edu.feedback import as_markdown
from minitvm.edu.grader import Graded, Submission, Task, grade_all
from minitvm.edu.item import failed
from minitvm.edu.notebook import stored
from minitvm.edu.score import mark
from minitvm.edu.skeleton import code, skeleton
from minitvm.edu.student import CellReport
from minitvm.workers.folder import remove

from .course import CHECKS, EX00, ROOT

NAME = "ex00_start_here.ipynb"
TEXT: dict = {"capture_output": True, "text": True}


def notebook(*cells: str) -> bytes:
    """A notebook of exercise 00 with these cells."""
    lean = {**skeleton(EX00), "cells": [code(f"c{n}", text) for n, text in enumerate(cells)]}
    return stored(lean).encode()


def put(folder: Path, data: bytes, *names: str) -> Path:
    """`folder` with a notebook under each of the names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def table(out: Path) -> dict[str, dict[str, str]]:
    """Student -> row of grades.csv."""
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def tree(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


@pytest.fixture
def ungraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grading without processes: every notebook fails in one cell."""

    def without_processes(tasks, jobs=1):
        for n, task in enumerate(tasks):
            s = task.submission
            cell = CellReport(1, "ValueError", "no")
            yield n, Graded(s.student, str(s.path), s.sha256, "ex00", (), (cell,), s.problem)

    monkeypatch.setattr(command, "grade_all", without_processes)


# --- texts ---------------------------------------------------------------------------------------

SURROGATE = "raise ValueError('x \\ud800 y \\x1b[2J')"


def test_an_error_that_no_file_can_hold_does_not_end_the_run(tmp_path: Path) -> None:
    folder = put(
        tmp_path / "in", notebook(SURROGATE, f"def matmul(A, B):\n    {SURROGATE}"), "a.ipynb"
    )
    put(folder, notebook("x = 1"), "b.ipynb")
    options = ["--exercise", "ex00", "--seed", "7", "--jobs", "2"]
    assert main(["grade", str(folder), "--out", str(tmp_path / "out"), *options]) == 0
    assert table(tmp_path / "out").keys() == {"a", "b"}
    text = (tmp_path / "out/a/ex00/feedback.md").read_text(encoding="utf-8")
    assert "ValueError: x ? y ?" in text


def test_texts_of_checks_are_cleaned_as_well() -> None:
    part = EX00.items[0].parts[0]
    lost = type(part)(
        "property", "odd", 1.0, lambda *args: failed("odd", got="\ud800", why="\ud800")
    )
    item = type(EX00.items[0])("ex00.9", "odd", 1, "f", (lost,), ("", "", ""), "")
    outcome = mark(item, lambda *args: None).parts[0].outcome
    assert (outcome.got, outcome.why) == ("?", "?")


def test_names_are_text_in_feedback_and_summary(tmp_path: Path) -> None:
    evil = "[x](javascript:1) ![y](//z) <b>|*_`"
    g = Graded(evil, f"{evil}/n.ipynb", "ab", "ex00")
    page = as_markdown(report.report(g)) + report.summary([report.row_of(g, "", None)])
    assert "[x](" not in page
    assert "![y](" not in page
    assert "<b>" not in page


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "a\nb", "a\tb", "a\x01b", "summary.md", "GRADES.CSV", "x" * 255, ".lock",
     "-rf", "é" * 120, "\udce9", "a~b", "a ", "results.json", "a\\b"],
)  # fmt: skip
def test_a_label_is_a_safe_name_that_no_other_name_has(name: str) -> None:
    label = files.label(name)
    assert label.isprintable()
    assert label == os.path.basename(label)
    assert label not in ("", ".", "..", *files.OURS)
    assert len(label.encode()) <= files.LONGEST
    assert files.label(label) != label
    assert files.label(label) != files.label(name)


@pytest.mark.parametrize(
    "name", ["ann", "b/c", "ex03_split", "Ann Lee (2)", "café", "ex00", "o'hara"]
)
def test_usual_names_stay(name: str) -> None:
    assert files.label(name) == name


ODD = ("...ipynb", "a\nb/x.ipynb", "a\tb/x.ipynb", "a\x01b/x.ipynb", "summary.md/x/n.ipynb",
       "x" * 249 + ".ipynb", "ann/results.json/y.ipynb", "ann/n.ipynb", "ann/m.ipynb")  # fmt: skip


def test_odd_names_are_graded_beside_others_and_write_nothing_outside(
    tmp_path: Path, ungraded
) -> None:
    folder = put(tmp_path / "in", notebook("x = 1"), *ODD)
    options = ["--exercise", "ex00", "--seed", "7"]
    for _ in range(2):
        assert main(["grade", str(folder), "--out", str(tmp_path / "o/out"), *options]) == 0
    assert len(table(tmp_path / "o/out")) == len(ODD)
    assert {p.name for p in (tmp_path / "o").iterdir()} == {"out"}
    assert {"grades.csv", "summary.md", "junit.xml"} <= tree(tmp_path / "o/out")
    assert len(list((tmp_path / "o/out").rglob("results.json"))) == len(ODD)


def deep(folder: Path, levels: int) -> None:
    """Make folders in folders, deeper than any path can say."""
    folder.mkdir(parents=True, exist_ok=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deep", dir_fd=here)
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_folders_in_folders_among_the_submissions_are_one_line(tmp_path: Path, ungraded) -> None:
    folder = put(tmp_path / "in", notebook("x = 1"), "ann/n.ipynb")
    deep(folder / "bob", 4000)
    options = ["--exercise", "ex00", "--seed", "7"]
    assert main(["grade", str(folder), "--out", str(tmp_path / "out"), *options]) == 0
    rows = table(tmp_path / "out")
    assert len(rows) == 2
    assert any("cannot be searched" in row["problem"] for row in rows.values())
    remove(str(folder / "bob"))
    assert not (folder / "bob").exists()


NESTED = """import os
for _ in range(4000):
    os.mkdir("d")
    os.chdir("d")"""


def test_a_notebook_that_nests_thousands_of_folders_leaves_nothing(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    task = Task(Submission(tmp_path / NAME, notebook(NESTED)), CHECKS)
    ((_, graded),) = grade_all([task])
    assert graded.problem == ""
    assert list(tmp_path.iterdir()) == []


# --- a disk that is full, a grader that fails ----------------------------------------------------


def full(*args) -> None:
    raise OSError(28, "No space left on device")


def test_what_is_written_replaces_a_file_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch
) -> None:
    path = tmp_path / "table"
    files.write(path, "good")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write(path, "new")
    assert path.read_text(encoding="utf-8") == "good"
    assert tree(tmp_path) == {"table"}


def test_a_failed_export_keeps_the_good_file(tmp_path: Path, monkeypatch) -> None:
    export.to_gradescope(ROOT, CHECKS, EX00, tmp_path)
    good = (tmp_path / "ex00.zip").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        export.to_gradescope(ROOT, CHECKS, EX00, tmp_path)
    assert (tmp_path / "ex00.zip").read_bytes() == good


def test_a_report_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch, ungraded) -> None:
    folder = put(tmp_path / "in", notebook("x = 1"), "ann/n.ipynb", "bob/n.ipynb")
    real = files.write

    def no_space_for_ann(path, content) -> None:
        full() if "ann" in path.parts else real(path, content)

    monkeypatch.setattr(report, "write_file", no_space_for_ann)
    options = ["--exercise", "ex00", "--seed", "7"]
    assert main(["grade", str(folder), "--out", str(tmp_path / "out"), *options]) == 0
    rows = table(tmp_path / "out")
    assert "No space left" in rows["ann"]["problem"]
    assert rows["bob"]["problem"] == ""


def test_a_mistake_of_the_grader_costs_one_notebook_only(monkeypatch) -> None:
    real = grader.sources

    def broken(cells):
        if "BOOM" in json.dumps(cells):
            raise RuntimeError("a mistake of ours")
        return real(cells)

    monkeypatch.setattr(grader, "sources", broken)
    tasks = [Task(Submission(Path(NAME), notebook(text)), CHECKS) for text in ("'BOOM'", "x = 1")]
    graded = dict(grade_all(tasks))
    assert "a mistake of ours" in graded[0].problem
    assert graded[0].unsure
    assert graded[1].problem == ""


# --- two graders, a grader that was killed -------------------------------------------------------


def hold(folder: str, ready) -> None:
    with files.sole_writer(Path(folder)):
        ready.set()
        time.sleep(600)


def test_two_graders_do_not_write_into_one_folder(tmp_path: Path, ungraded, capsys) -> None:
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    other = spawn.Process(target=hold, args=(str(tmp_path), ready), daemon=True)
    other.start()
    assert ready.wait(60)
    folder = put(tmp_path / "in", notebook("x = 1"), "ann.ipynb")
    arguments = ["grade", str(folder), "--out", str(tmp_path), "--exercise", "ex00", "--seed", "7"]
    assert main(arguments) == 1
    assert "another grader" in capsys.readouterr().err
    other.kill()  # the lock ends with its process
    other.join()
    assert main(arguments) == 0


LOOP = "def matmul(A, B):\n    while True:\n        pass"


def descendants(folder: Path) -> list[int]:
    """The processes whose temporary files are in `folder`."""
    mine = f"TMPDIR={folder}".encode()
    pids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if (
                mine in path.read_bytes()
                and path.parent.joinpath("stat").read_text().split()[2] != "Z"
            ):
                pids.append(int(path.parent.name))
        except OSError:
            pass
    return pids


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_after_a_kill_nothing_runs_on_and_a_rerun_gives_what_an_undisturbed_run_gives(
    tmp_path: Path,
) -> None:
    folder, temporary = put(tmp_path / "in", notebook(LOOP), "ann.ipynb"), tmp_path / "tmp"
    put(folder, notebook("def matmul(A, B):\n    return 7"), "bob.ipynb")
    temporary.mkdir()
    grade = [sys.executable, "-m", "minitvm.edu", "--checks", str(CHECKS), "grade", str(folder),
             "--exercise", "ex00", "--seed", "7", "--seconds", "2"]  # fmt: skip
    running = subprocess.Popen(
        [*grade, "--out", str(tmp_path / "killed")], env={**os.environ, "TMPDIR": str(temporary)}
    )
    deadline = time.monotonic() + 60
    while len(descendants(temporary)) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    deadline = time.monotonic() + 20  # a process that still imports ends when it is done
    while descendants(temporary) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descendants(temporary) == []
    outs = (tmp_path / "killed", tmp_path / "undisturbed")
    for out in outs:
        subprocess.run([*grade, "--out", str(out)], check=True)
    assert tree(outs[0]) == tree(outs[1])
    for name in tree(outs[0]):
        texts = [(out / name).read_text(encoding="utf-8").splitlines() for out in outs]
        first, second = ([x for x in lines if "execution_time" not in x] for lines in texts)
        assert first == second


# --- files of the course -------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 100])
def test_an_exercise_that_was_cut_off_is_built_again(tmp_path: Path, kept: int) -> None:
    text = built(ROOT, EX00)
    path = exercise_file(tmp_path, EX00)
    path.parent.mkdir()
    path.write_text(text[:kept], encoding="utf-8")
    assert write(tmp_path, EX00, text) == "written"
    path.write_text(text[:100] + "!", encoding="utf-8")
    assert write(tmp_path, EX00, text) == "kept"


def test_a_damaged_record_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / RECORD).write_text('{"ex00', encoding="utf-8")
    with pytest.raises(ArgumentError, match="restore it"):
        hashes(tmp_path)


# --- imports -------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["numpy", "tqdm", "typing", "psutil"])
def test_grading_a_folder_does_not_import_from_it(tmp_path: Path, module: str) -> None:
    put(tmp_path, b"open('imported', 'w').close(); raise SystemExit(9)", f"{module}.py")
    grade = [sys.executable, "-m", "minitvm.edu", "--checks", str(CHECKS), "grade", "."]
    done = subprocess.run([*grade, "--out", "out"], cwd=tmp_path, check=False, **TEXT)
    assert "there are no notebooks" in done.stderr
    assert not (tmp_path / "imported").exists()
