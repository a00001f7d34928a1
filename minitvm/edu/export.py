"""Convert the exercises for other tools: nbgrader, otter, Gradescope, GitHub Actions.

All these tools call minitvm.edu, which must be installed on the machine that grades.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from minitvm.base import ArgumentError

from .build import built, item_in, solution, without_outputs
from .course import check_files, exercises_in
from .files import write
from .item import Exercise, Item
from .notebook import Cell, nbgrader, source, stored
from .sandbox import PACKAGE, ROOT
from .skeleton import cell, code

TEMPLATES = PACKAGE / "templates"


def export(root: Path, checks: Path, form: str, folder: Path) -> None:
    """Convert every exercise for the tool `form`, a key of FORMATS; write them into `folder`."""
    exercises = exercises_in(checks)
    folder.mkdir(parents=True, exist_ok=True)
    convert, common = FORMATS[form]
    for name, text in common().items():
        write(folder / name, text)
    for exercise in tqdm(exercises, unit="exercise"):
        convert(root, checks, exercise, folder)
    print(f"{len(exercises)} exercises: {folder}")


def _put_checks(folder: Path, checks: Path, exercise: Exercise) -> None:
    """Copy the checks of one exercise into `folder`/checks, where edu.check() finds them."""
    for path in check_files(exercise.id, checks):
        write(folder / "checks" / path.name, path.read_text(encoding="utf-8"))


# --- nbgrader ------------------------------------------------------------------------------------


def to_nbgrader(root: Path, checks: Path, exercise: Exercise, folder: Path) -> None:
    """Write a folder such as source/ex03 with notebook and checks, for nbgrader.

    The next step is, for example, `nbgrader generate_assignment ex03`. nbgrader hands out the
    checks beside the notebook, and restores them before it grades.
    """
    place = folder / "source" / exercise.id
    write(place / f"{exercise.stem}.ipynb", stored(without_outputs(solution(root, exercise))))
    _put_checks(place, checks, exercise)


# --- otter ---------------------------------------------------------------------------------------


def to_otter(root: Path, checks: Path, exercise: Exercise, folder: Path) -> None:
    """Write the notebook in the notation of `otter assign`, format v1, and its checks."""
    notebook = without_outputs(solution(root, exercise))
    files = "".join(f"  - checks/{path.name}\n" for path in check_files(exercise.id, checks))
    cells = [cell("raw", "config", f"# ASSIGNMENT CONFIG\nname: {exercise.stem}\n"
                            f"init_cell: true\nexport_cell: true\nfiles:\n{files}")]  # fmt: skip
    for original in notebook["cells"]:
        item = item_in(source(original), exercise) if original["cell_type"] == "code" else None
        if item is not None:
            cells += _question(original, item)
        elif not nbgrader(original).get("grade"):
            cells.append({**original, "metadata": {}})
    write(folder / f"{exercise.stem}.ipynb", stored({**notebook, "cells": cells}))
    _put_checks(folder, checks, exercise)


def _question(answer: Cell, item: Item) -> list[Cell]:
    """Return the cells of a question: the answer and a test, between raw cells that mark them."""
    name = item.id.replace(".", "_")
    prompt = f'raise NotImplementedError("{item.id}: see {item.section}")'
    text = re.sub(
        r"^([ \t]*)### END SOLUTION[ \t]*$",
        rf'\1# END SOLUTION\n\1""" # BEGIN PROMPT\n\1{prompt}\n\1""" # END PROMPT',
        source(answer).replace("### BEGIN SOLUTION", "# BEGIN SOLUTION"),
        flags=re.M,
    )
    test = f'assert edu.check("{item.id}", {item.answer}, show=False) == {item.points:g}'
    return [
        cell("raw", f"{name}-begin", f"# BEGIN QUESTION\nname: {name}\npoints: {item.points:g}\n"),
        cell("raw", f"{name}-begin-solution", "# BEGIN SOLUTION"),
        code(f"{name}-answer", text),
        cell("raw", f"{name}-end-solution", "# END SOLUTION"),
        cell("raw", f"{name}-begin-tests", "# BEGIN TESTS"),
        code(f"{name}-test", test),
        cell("raw", f"{name}-end-tests", "# END TESTS"),
        cell("raw", f"{name}-end", "# END QUESTION"),
    ]


# --- Gradescope ----------------------------------------------------------------------------------


def to_gradescope(root: Path, checks: Path, exercise: Exercise, folder: Path) -> None:
    """Write a zip file, such as ex03.zip, with two scripts at its root, this package and checks."""
    del root
    words = os.environ.get("MINITVM_GRADE_SEED") or secrets.token_hex(16)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name in ("setup.sh", "run_autograder"):
            text = (TEMPLATES / name).read_text(encoding="utf-8")
            text = text.replace("@EXERCISE@", exercise.id).replace("@SEED@", shlex.quote(words))
            _add(z, name, text.encode(), 0o755)
        for path in sorted((ROOT / "minitvm").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                _add(z, path.relative_to(ROOT).as_posix(), path.read_bytes(), 0o644)
        for path in check_files(exercise.id, checks):
            _add(z, f"exercises/checks/{path.name}", path.read_bytes(), 0o644)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            if not (ROOT / name).exists():
                raise ArgumentError("export gradescope", f"no {name}", "run it in a checkout")
            _add(z, name, (ROOT / name).read_bytes(), 0o644)
    write(folder / f"{exercise.id}.zip", out.getvalue())


def _add(z: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    z.writestr(info, data)


# --- GitHub Actions ------------------------------------------------------------------------------


def to_actions(root: Path, checks: Path, exercise: Exercise, folder: Path) -> None:
    """Write exercises/ for a template repository; a workflow grades what students push."""
    write(folder / "exercises" / f"{exercise.stem}.ipynb", built(root, exercise))
    _put_checks(folder / "exercises", checks, exercise)


def _workflow() -> dict[str, str]:
    return {".github/workflows/grade.yml": (TEMPLATES / "grade.yml").read_text(encoding="utf-8")}


def _nbgrader_config() -> dict[str, str]:
    text = 'c = get_config()\nc.CourseDirectory.course_id = "minitvm"\n'
    return {"nbgrader_config.py": text}


# tool -> what writes one exercise, and the files that all exercises share, by their names
Convert: TypeAlias = Callable[[Path, Path, Exercise, Path], None]
FORMATS: dict[str, tuple[Convert, Callable[[], dict[str, str]]]] = {
    "nbgrader": (to_nbgrader, _nbgrader_config),
    "otter": (to_otter, dict),
    "gradescope": (to_gradescope, dict),
    "actions": (to_actions, _workflow),
}
