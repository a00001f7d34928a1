"""A class that is graded on a Dask cluster gets what it gets here, even if Dask workers die."""

import csv
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from minitvm import dist
from minitvm.edu import cluster, command
from minitvm.edu.__main__ import main

from .make_submissions import FOLDER, MATMUL, NAME, SETUP, notebook

OPTIONS = ["--seconds", "3", "--seed", "tests"]
KILLS = """
import psutil
from minitvm.edu import PASSED, Exercise, Item, Part

def check(answer, rng):
    if answer() == "kill":
        above = psutil.Process().parents()
        next(p for p in above if "spawn_main" in " ".join(p.cmdline())).kill()
    return PASSED

PARTS = (Part("property", "a word", 1, check),)
ITEM = Item("ex00.1", "a word", 1, "word", PARTS, ("", "", ""), "")
EXERCISE = Exercise("ex00", "words", (ITEM,))
"""
READS_CHECKS = """import glob
def refusal(A, B, C):
    return [open(path).read() for path in glob.glob("{}/minitvm-*/ex*.py")][0]"""


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Any]:
    """A Dask cluster of two worker processes, which are started again if they die."""
    with dist._local_cluster(pytest.importorskip("distributed"), 2, None) as dask:
        yield dask


def class_of(folder: Path, *students: str) -> Path:
    """Return `folder` with a copy of the stored notebook for each student: "good 2" is "good"."""
    for student in students:
        shutil.copytree(FOLDER / student.split()[0], folder / student)
    return folder


def grade(folder: Path, out: Path, *options: str) -> int:
    return main(["grade", str(folder), "--out", str(out), *OPTIONS, *options])


def reports(out: Path) -> dict[str, bytes]:
    """Path -> content of each file in `out`, without the seconds that grading took."""
    return {
        path.relative_to(out).as_posix(): re.sub(
            rb'"execution_time": [\d.]+', b"", path.read_bytes()
        )
        for path in out.rglob("*")
        if path.is_file()
    }


def facts(out: Path, student: str) -> dict[str, Any]:
    text = (out / student / "ex00" / "results.json").read_text(encoding="utf-8")
    return json.loads(text)["extra_data"]


def dask_processes() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [p for p in children if "spawn_main" in " ".join(p.cmdline())]


# --- grading -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_reports_are_the_same_if_a_worker_is_killed_halfway(
    tmp_path: Path, two_workers, monkeypatch, capsys
) -> None:
    students = ("good", "good 2", "wrong", "failing_cell", "no_notebook")
    folder = class_of(tmp_path / "in", *students)
    assert grade(folder, tmp_path / "here", "--jobs", "2") == 0
    written: list[Path] = []
    victim = psutil.Process(two_workers.workers[0].pid)

    def reported(*args):
        written.append(args[0])
        if len(written) == 2:
            victim.kill()
        return write(*args)

    write = command.reported
    monkeypatch.setattr(command, "reported", reported)
    capsys.readouterr()
    assert grade(folder, tmp_path / "there", "--scheduler", two_workers.scheduler_address) == 0
    assert not victim.is_running()
    assert len(written) == len(students)
    assert reports(tmp_path / "there") == reports(tmp_path / "here")
    assert capsys.readouterr().err.count("Dask workers: wall: ") == 1


@pytest.mark.slow
def test_a_notebook_cannot_read_the_checks_on_a_worker(tmp_path: Path, two_workers) -> None:
    (tmp_path / "in").mkdir()
    thief = READS_CHECKS.format(tempfile.gettempdir())
    (tmp_path / "in" / NAME).write_text(notebook([SETUP, MATMUL, thief]), encoding="utf-8")
    assert grade(tmp_path / "in", tmp_path, "--scheduler", two_workers.scheduler_address) == 0
    marks = facts(tmp_path, Path(NAME).stem)["marks"]
    assert [m["points"] for m in marks] == [1, 0]
    assert marks[1]["parts"][0]["outcome"]["message"] == "raises"
    ours = [p.pid for p in psutil.Process().children(recursive=True)]
    assert not [f for n in ours for f in Path(tempfile.gettempdir()).glob(f"minitvm-{n}-*/ex00.py")]


@pytest.mark.slow
def test_a_notebook_whose_workers_die_is_one_line_in_the_report(
    tmp_path: Path, monkeypatch
) -> None:
    """The other one is graded, though it waits on a worker that dies."""
    dask = pytest.importorskip("dask")
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "ex00.py").write_text(KILLS, encoding="utf-8")
    for student, word in (("ann", "kill"), ("bob", "live")):
        (tmp_path / "in" / student).mkdir(parents=True)
        text = notebook([f"def word():\n    return {word!r}"])
        (tmp_path / "in" / student / NAME).write_text(text, encoding="utf-8")
    monkeypatch.setattr(command, "ATTEMPTS", 2)
    monkeypatch.setenv("MINITVM_CHECKS", str(tmp_path / "checks"))
    before = {p.pid for p in dask_processes()}
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        assert grade(tmp_path / "in", tmp_path / "out", "--local-cluster", "1") == 0
    with open(tmp_path / "out" / "grades.csv", encoding="utf-8", newline="") as file:
        ann, bob = csv.DictReader(file)
    assert cluster.DIED in ann["problem"]
    assert (bob["points"], bob["problem"]) == ("1.0", "")
    assert {p.pid for p in dask_processes()} <= before


# --- refusals ------------------------------------------------------------------------------------


def test_a_scheduler_that_does_not_answer_is_an_error(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(dist, "CONNECT_SECONDS", 0.5)
    start = time.monotonic()
    folder = class_of(tmp_path / "in", "good")
    assert grade(folder, tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9") == 1
    assert time.monotonic() - start < 10
    assert "the Dask scheduler tcp://127.0.0.1:9: it does not answer" in capsys.readouterr().err


def test_without_dask_the_error_says_what_to_install(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    folder = class_of(tmp_path / "in", "good")
    assert grade(folder, tmp_path / "out", "--local-cluster", "2") == 1
    assert "try: pip install 'minitvm[dist]'" in capsys.readouterr().err


@pytest.mark.slow
def test_workers_with_another_minitvm_are_refused(
    tmp_path: Path, two_workers, monkeypatch, capsys
) -> None:
    theirs = dist.code_version()
    monkeypatch.setattr(dist, "code_version", lambda: "0.0.9")
    folder = class_of(tmp_path / "in", "good")
    assert grade(folder, tmp_path / "out", "--scheduler", two_workers.scheduler_address) == 1
    assert (
        f"it has minitvm {theirs}, the process that sends the work 0.0.9" in capsys.readouterr().err
    )


@pytest.mark.slow
def test_strict_refuses_workers_without_namespaces(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setenv("MINITVM_WALL", "kernel rules")
    folder, before = class_of(tmp_path / "in", "good"), {p.pid for p in dask_processes()}
    assert grade(folder, tmp_path / "out", "--local-cluster", "1", "--strict") == 1
    error = capsys.readouterr().err
    assert "--strict: the Dask worker on" in error
    assert "has only: " in error
    assert {p.pid for p in dask_processes()} <= before


@pytest.mark.parametrize("options", [["--local-cluster", "0"], ["--local-cluster", "-1"]])
def test_a_cluster_needs_a_process(tmp_path: Path, options: list[str], capsys) -> None:
    pytest.importorskip("distributed")
    assert grade(class_of(tmp_path / "in", "good"), tmp_path / "out", *options) == 1
    assert "at least 1" in capsys.readouterr().err
