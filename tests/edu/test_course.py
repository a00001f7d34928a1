"""Checks are found near the notebook, loaded by their path, and written with public names only."""

import ast
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from minitvm import edu, te
from minitvm.base import ArgumentError
from minitvm.edu import course
from minitvm.edu.__main__ import main
from minitvm.edu.course import checks_folder, exercise_named, exercises_in, item_of

from .course import CHECKS, EX00, EXERCISES, ROOT


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without checks, for a package that is installed without a checkout."""
    monkeypatch.setattr(course, "ROOT", tmp_path / "site-packages")
    monkeypatch.delenv("MINITVM_CHECKS", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def matmul(A, B):
    raise NotImplementedError("ex00.1")


@pytest.mark.parametrize("place", ["checks", "exercises/checks", "../exercises/checks"])
def test_checks_near_the_notebook_are_found(away: Path, place: str) -> None:
    shutil.copytree(CHECKS, away / place)
    assert checks_folder() == (away / place).resolve()
    assert edu.check("ex00.1", matmul, show=False) == 0


def test_a_notebook_anywhere_uses_the_checkout_that_the_package_runs_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert checks_folder() == CHECKS
    assert checks_folder(near=ROOT / "exercises") == CHECKS


def test_a_folder_that_is_called_checks_and_holds_something_else_does_not_count(
    away: Path,
) -> None:
    (away / "checks").mkdir()
    (away / "checks" / "bank.txt").touch()
    shutil.copytree(CHECKS, away / "exercises" / "checks")
    assert checks_folder() == (away / "exercises" / "checks").resolve()


def test_a_folder_that_is_named_comes_before_one_that_is_near(
    away: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (away / "checks", tmp_path / "a", tmp_path / "b"):
        shutil.copytree(CHECKS, place)
    monkeypatch.setenv("MINITVM_CHECKS", str(tmp_path / "a"))
    assert checks_folder() == tmp_path / "a"
    assert checks_folder(tmp_path / "b") == tmp_path / "b"


def test_without_checks_an_error_says_where_they_were_looked_for_and_what_to_do(
    away: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ArgumentError) as caught:
        edu.check("ex00.1", matmul)
    what, why, fix = caught.value.args
    assert what == "the checks of the exercises"
    assert str(away / "checks") in why
    assert "copy the folder exercises/checks" in fix
    assert "MINITVM_CHECKS" in fix
    assert main(["hint", "ex00.1"]) == 1
    assert (
        "error: the checks of the exercises: no file ex[0-9][0-9].py in" in capsys.readouterr().err
    )


def test_a_folder_that_was_named_and_holds_no_checks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no file"):
        checks_folder(tmp_path)
    assert main(["--checks", str(tmp_path), "hint", "ex00.1"]) == 1


def test_loading_changes_no_search_path() -> None:
    before = list(sys.path)
    exercises_in(CHECKS)
    assert sys.path == before
    assert not [name for name in sys.modules if name in {e.id for e in EXERCISES}]


def test_an_exercise_is_loaded_once() -> None:
    assert exercise_named("ex00", CHECKS) is exercise_named("ex00_start_here", CHECKS) is EX00
    assert item_of("ex00.2", CHECKS) is EX00.items[1]


@pytest.mark.parametrize("name", ["../checks/ex00", "ex00/../ex00", "ex00_other", "ex٠٠", "", "x"])
def test_names_that_are_no_exercise_open_no_file(name: str) -> None:
    with pytest.raises(ArgumentError, match="there is no such exercise"):
        exercise_named(name, CHECKS)


@pytest.mark.parametrize("text", ["", "EXERCISE = 3", None])
def test_a_file_must_define_the_exercise_that_it_is_called(
    tmp_path: Path, text: str | None
) -> None:
    text = (CHECKS / "ex00.py").read_text(encoding="utf-8") if text is None else text
    (tmp_path / "ex12.py").write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match="defines no EXERCISE called ex12"):
        exercise_named("ex12", tmp_path)


def test_the_template_for_instructors_is_an_exercise(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "instructor.md").read_text(encoding="utf-8")
    templates = re.findall(r"```python\n(.*?)```", page, re.S)
    (template,) = (text for text in templates if "EXERCISE = " in text)
    (tmp_path / "ex12.py").write_text(textwrap.dedent("   " + template.lstrip()), encoding="utf-8")
    (exercise,) = exercises_in(tmp_path)

    def eight(A, B):
        s = te.create_schedule(B.op)
        s[B].split(B.op.axis[0], factor=8)
        return s

    assert edu.check("ex12.1", eight, show=False, checks=tmp_path) == exercise.points == 4


def test_grading_refuses_checks_that_students_could_have_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "exercises", tmp_path / "ann")
    checks, out = str(tmp_path / "ann" / "checks"), str(tmp_path / "out")
    assert main(["--checks", checks, "grade", str(tmp_path), "--out", out, "--seed", "x"]) == 1
    assert "students may have changed them" in capsys.readouterr().err


def imported(path: Path) -> set[str]:
    """The modules that a file imports, with a dot in front of relative ones."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


@pytest.mark.parametrize("path", sorted(CHECKS.glob("*.py")), ids=lambda p: p.stem)
def test_checks_import_public_doors_only(path: Path) -> None:
    ours = {name for name in imported(path) if name.startswith((".", "minitvm"))}
    assert not [name for name in ours if name.startswith(".") or name.count(".") > 1]
    assert not [name for name in imported(path) if name.startswith("ex")]
