"""Exports are what the other tools read; where those are installed, they are asked."""

import csv
import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml  # comes with jupyterlab

from minitvm.edu.build import built
from minitvm.edu.course import check_files, checks_folder
from minitvm.edu.export import FORMATS, TEMPLATES, export
from minitvm.edu.notebook import code_cells, source
from minitvm.workers import wall_fault

from .course import CHECKS, EX00, EXERCISES, ROOT

# the tools call programs that are installed beside Python, as after `activate`
PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(params=FORMATS)
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """(format, folder) of every export."""
    export(ROOT, CHECKS, request.param, tmp_path)
    return request.param, tmp_path


def cells(path: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"]]


def test_every_exercise_is_exported(exported: tuple[str, Path]) -> None:
    _, folder = exported
    names = [p.name for p in folder.rglob("ex*") if p.suffix in (".ipynb", ".zip")]
    assert sorted(name[:4] for name in names) == [e.id for e in EXERCISES]


def test_every_export_holds_the_checks_where_they_are_looked_for(
    exported: tuple[str, Path],
) -> None:
    form, folder = exported
    for e in EXERCISES:
        wanted = {path.name for path in check_files(e.id, CHECKS)}
        if form == "gradescope":
            with zipfile.ZipFile(folder / f"{e.id}.zip") as z:
                names = {n for n in z.namelist() if n.startswith("exercises/checks/")}
            assert names == {f"exercises/checks/{name}" for name in wanted}
        else:
            (notebook,) = folder.rglob(f"{e.stem}.ipynb")
            near = checks_folder(near=notebook.parent)
            assert near == (notebook.parent / "checks").resolve()
            assert wanted <= {path.name for path in near.iterdir()}


def test_what_students_get_holds_no_solution(tmp_path: Path) -> None:
    export(ROOT, CHECKS, "actions", tmp_path)
    texts = [p.read_text(encoding="utf-8") for p in tmp_path.rglob("*") if p.is_file()]
    assert not [text for text in texts if "### BEGIN" in text]
    assert not [p for p in tmp_path.rglob("*") if p.name in ("solutions", "wrong", "__pycache__")]


def test_nbgrader_gets_solutions_with_its_metadata(tmp_path: Path) -> None:
    export(ROOT, CHECKS, "nbgrader", tmp_path)
    path = tmp_path / "source" / EX00.id / f"{EX00.stem}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    found = [c["metadata"]["nbgrader"] for _, c in code_cells(notebook) if c["metadata"]]
    assert all(g["schema_version"] == 3 for g in found)
    assert sum(g.get("points", 0) for g in found) == EX00.points
    assert any("### BEGIN SOLUTION" in source(c) for _, c in code_cells(notebook))


def test_otter_gets_questions_between_raw_cells(tmp_path: Path) -> None:
    export(ROOT, CHECKS, "otter", tmp_path)
    found = cells(tmp_path / f"{EX00.stem}.ipynb")
    assert found[0].startswith("# ASSIGNMENT CONFIG")
    at = found.index("# BEGIN QUESTION\nname: ex00_1\npoints: 1\n")
    assert found[at + 1] == "# BEGIN SOLUTION"
    assert "    # BEGIN SOLUTION\n" in found[at + 2]
    assert found[at + 3 : at + 5] == ["# END SOLUTION", "# BEGIN TESTS"]
    assert found[at + 5] == 'assert edu.check("ex00.1", matmul, show=False) == 1'
    assert found[at + 6 : at + 8] == ["# END TESTS", "# END QUESTION"]


def test_gradescope_gets_two_scripts_and_the_package(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MINITVM_GRADE_SEED", "a secret")
    export(ROOT, CHECKS, "gradescope", tmp_path)
    with zipfile.ZipFile(tmp_path / "ex00.zip") as z:
        names = z.namelist()
        script = z.read("run_autograder").decode()
        assert z.getinfo("run_autograder").external_attr >> 16 == 0o755
    assert {"setup.sh", "run_autograder", "pyproject.toml", "exercises/checks/ex00.py"} <= {*names}
    assert "MINITVM_GRADE_SEED='a secret'\n" in script
    assert "--checks source/exercises/checks" in script
    assert "--exercise ex00\n" in script
    assert not [name for name in names if "solutions" in name]


def test_actions_get_exercises_and_the_workflow_of_this_repository(tmp_path: Path) -> None:
    export(ROOT, CHECKS, "actions", tmp_path)
    here = (ROOT / ".github/workflows/grade.yml").read_text(encoding="utf-8")
    assert (tmp_path / ".github/workflows/grade.yml").read_text(encoding="utf-8") == here
    assert (TEMPLATES / "grade.yml").read_text(encoding="utf-8") == here
    exercise = (tmp_path / "exercises" / f"{EX00.stem}.ipynb").read_text(encoding="utf-8")
    assert exercise == built(ROOT, EX00)


def steps(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the shell commands of a workflow, each with its environment."""
    (job,) = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return [(step["run"], step.get("env", {})) for step in job["steps"] if "run" in step]


@pytest.mark.skipif(bool(wall_fault()), reason=f"no namespaces: {wall_fault()}")
def test_the_workflow_grades_what_a_student_pushed(tmp_path: Path) -> None:
    """Its last command runs here, in folders as GitHub's runner has them."""
    *preparing, (command, environment) = steps(TEMPLATES / "grade.yml")
    assert [c.split()[0] for c, _ in preparing] == ["pip", "sudo", "sudo"]
    (tmp_path / "kit").symlink_to(ROOT)
    handed_in = tmp_path / "submission" / "exercises" / f"{EX00.stem}.ipynb"
    handed_in.parent.mkdir(parents=True)
    handed_in.write_bytes((ROOT / "solutions" / f"{EX00.stem}.ipynb").read_bytes())
    assert environment == {"MINITVM_GRADE_SEED": "${{ secrets.MINITVM_GRADE_SEED }}"}
    env = {**os.environ, "MINITVM_GRADE_SEED": "a secret", "PATH": PROGRAMS}
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wall: namespaces" in done.stdout + done.stderr
    with open(tmp_path / "grades" / "grades.csv", encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["points"]) == EX00.points


# --- with the tools themselves -------------------------------------------------------------------


def run(*command: str, cwd: Path) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    env = os.environ | {"PYTHONPATH": path, "PATH": PROGRAMS}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbgrader") is None, reason="nbgrader is not installed")
def test_nbgrader_grades_a_solution_with_all_points(tmp_path: Path) -> None:
    export(ROOT, CHECKS, "nbgrader", tmp_path)
    name = f"{EX00.stem}.ipynb"
    run("nbgrader", "generate_assignment", EX00.id, cwd=tmp_path)
    assert (tmp_path / "release" / EX00.id / "checks" / "ex00.py").exists()
    submitted = tmp_path / "submitted" / "ann" / EX00.id / name
    submitted.parent.mkdir(parents=True)
    submitted.write_bytes((tmp_path / "source" / EX00.id / name).read_bytes())
    run("nbgrader", "autograde", EX00.id, cwd=tmp_path)
    run("nbgrader", "export", cwd=tmp_path)
    with open(tmp_path / "grades.csv", encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["score"]) == float(row["max_score"]) == EX00.points


@pytest.mark.slow
@pytest.mark.skipif(find_spec("otter") is None, reason="otter-grader is not installed")
def test_otter_assigns_and_its_tests_pass_on_the_solution(tmp_path: Path) -> None:
    export(ROOT, CHECKS, "otter", tmp_path)
    run("otter", "assign", f"{EX00.stem}.ipynb", "dist", cwd=tmp_path)
    student = tmp_path / "dist" / "student"
    assert (student / "checks" / "ex00.py").exists()
    text = "\n".join(cells(student / f"{EX00.stem}.ipynb"))
    assert "raise NotImplementedError" in text
    assert "reduce_axis((0, A.shape[1])" not in text
