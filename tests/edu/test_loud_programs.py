"""A class with hostile students in it: the others get what they would get without them."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minitvm.edu.build import solution
from minitvm.edu.notebook import stored
from minitvm.edu.skeleton import code, skeleton
from minitvm.edu.trials import definitions
from minitvm.workers import wall_fault

from .attacks.programs import LOUD
from .course import CHECKS, EX00, ROOT

TABLES = ("grades.csv", "junit.xml", "summary.md")


def class_of(folder: Path, programs: dict[str, str]) -> Path:
    """The notebooks of two students who work, and of one for each program."""
    good = stored(definitions(solution(ROOT, EX00)))
    texts = {"ann": good, "zoe": stored(skeleton(EX00))}
    for name, program in programs.items():
        lean = {**skeleton(EX00), "cells": [code("attack", program)]}
        texts[f"eve_{name}"] = stored(lean)
    for name, text in texts.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "ex00_start_here.ipynb").write_text(text, encoding="utf-8")
    return folder


def grade(folder: Path, out: Path, temporary: Path) -> None:
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-P", "-m", "minitvm.edu", "--checks", str(CHECKS), "grade"]
    command += [str(folder), "--out", str(out), "--seconds", "2", "--seed", "7", "--jobs", "2"]
    env = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)


def results(out: Path, student: str) -> dict:
    content = json.loads((out / student / "ex00" / "results.json").read_text(encoding="utf-8"))
    content.pop("execution_time")
    content["extra_data"].pop("path")
    content.pop("output")  # it names the path
    return content


def picture(folder: Path) -> dict[str, tuple]:
    """Content, mode, owner and times of all files in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        data = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (data, stat.st_mode, stat.st_uid, stat.st_gid, stat.st_mtime_ns)
    return found


def shared_objects() -> list[str]:
    return [p.read_text() for p in sorted(Path("/proc/sysvipc").iterdir())]


def left(temporary: Path) -> list[str]:
    """Processes that were started by a grader with this temporary folder."""
    names = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={temporary}".encode() in path.read_bytes():
                names.append(path.parent.name)
        except OSError:
            pass
    return names


@pytest.mark.grader
@pytest.mark.skipif(bool(wall_fault()), reason=f"no namespaces: {wall_fault()}")
def test_hostile_classmates_change_nothing_for_others_and_leave_nothing(tmp_path: Path) -> None:
    alone, together = class_of(tmp_path / "a", {}), class_of(tmp_path / "b", LOUD)
    grade(alone, tmp_path / "alone", tmp_path / "tmp1")
    before, objects = (picture(together), picture(CHECKS)), shared_objects()
    grade(together, tmp_path / "together", tmp_path / "tmp2")
    time.sleep(1)
    assert left(tmp_path / "tmp2") == []
    assert list((tmp_path / "tmp2").iterdir()) == []
    assert (picture(together), picture(CHECKS)) == before
    assert shared_objects() == objects
    for student in ("ann", "zoe"):
        assert results(tmp_path / "together", student) == results(tmp_path / "alone", student)
    assert results(tmp_path / "together", "ann")["score"] == EX00.points
    for name in LOUD:
        assert results(tmp_path / "together", f"eve_{name}")["score"] == 0
    assert all((tmp_path / "together" / table).stat().st_size for table in TABLES)
