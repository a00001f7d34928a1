"""What a hostile student tried by hand: to find the seed, hold up the class, fill the memory."""

import sys
from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.edu import command, misses, report
from minitvm.edu.__main__ import main
from minitvm.edu.command import secret_seed, submissions
from minitvm.edu.grader import Graded
from minitvm.edu.item import Outcome
from minitvm.edu.score import random_for, unmarked

from .course import CHECKS, EX00

SEED = "two words"


def hand_in(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}", encoding="utf-8")
    return folder


# --- the seed ------------------------------------------------------------------------------------


def test_the_seed_of_hidden_tests_cannot_be_found_by_trying_all() -> None:
    """With 2**32 seeds, one hidden case in the feedback gave them away in a day."""
    for words in (SEED, "7", "another"):
        assert 2**100 < secret_seed(words) < 2**128
    drawn = [random_for("ex00.1", 0, secret_seed(words)).integers(2**60) for words in (SEED, "7")]
    assert drawn[0] != drawn[1]


def test_results_do_not_contain_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_processes(tasks, jobs=1):
        for n, task in enumerate(tasks):
            yield n, Graded(task.submission.student, "n.ipynb", task.submission.sha256, "ex00")

    monkeypatch.setattr(command, "grade_all", without_processes)
    folder = hand_in(tmp_path / "in", "ann/ex00.ipynb")
    options = ["--out", str(tmp_path / "out"), "--exercise", "ex00", "--seed", SEED]
    assert main(["grade", str(folder), *options]) == 0
    written = [p.read_text(encoding="utf-8") for p in (tmp_path / "out").rglob("*.*")]
    assert (tmp_path / "out/ann/ex00/results.json").exists()
    assert not [text for text in written if str(secret_seed(SEED)) in text or SEED in text]


# --- the others ----------------------------------------------------------------------------------


def test_a_student_with_many_notebooks_waits_for_the_others(tmp_path: Path) -> None:
    many = [f"aaa/{n // 3}/ex00_{n}.ipynb" for n in range(9)]
    found = submissions(hand_in(tmp_path, *many, "bob/ex00.ipynb", "zoe.ipynb"), CHECKS)
    first = [s.path.relative_to(tmp_path).as_posix() for s in found[:3]]
    assert first == [many[0], "bob/ex00.ipynb", "zoe.ipynb"]
    assert len(found) == 11


FORGED = """import fcntl, os, stat, struct
text = b'{"value": {"answer": {}}, "blobs": [], "more": [' + b'[],' * (12 << 20) + b'0]}'
for fd in range(3, 64):
    try:
        pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        if pipe and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
            data = memoryview(struct.pack('>QQ', len(text), 0) + text)
            while data:
                data = data[os.write(fd, data):]
    except OSError:
        pass"""


@pytest.mark.skipif(sys.platform == "win32", reason="fcntl")
def test_a_reply_that_would_take_gigabytes_to_decode_is_not_read(started) -> None:
    student = started(FORGED, "def f():\n    return 7")
    (report_of_cell,) = student.failed
    assert report_of_cell.number == 1
    assert student.call("f", ()) == 7


# --- reports -------------------------------------------------------------------------------------


def test_the_summary_calls_nothing_correct_that_was_not_started() -> None:
    mark = unmarked(EX00.items[0], Outcome("not started", 0.0, "not-started"))
    row = report.row_of(Graded("ann", "n.ipynb", "", "ex00", (mark,)), "", None)
    assert "all correct" not in report.summary([row])
    assert "ex00.1: not started" in report.summary([row])


# --- machine code --------------------------------------------------------------------------------


def test_costs_are_counted_without_machine_code_in_the_grader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loaded(*args: object, **options: object) -> None:
        raise AssertionError("compiled code of a student was loaded here")

    monkeypatch.setattr(tvm.runtime.jit, "load_object", loaded)
    monkeypatch.setattr(tvm.codegen.llvm.target.runtime, "load_native", loaded)
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * np.float32(2), name="B")
    assert misses()(te.create_schedule(B.op), [A, B]) > 0
