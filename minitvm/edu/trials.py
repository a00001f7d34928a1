"""Submissions that test the grader: untouched, solved, wrong on purpose, broken, and cheating.

They cover failures of other autograders: untouched notebooks and wrong kernels that passed, syntax
errors that passed because the instructor's file was graded, and patched timers.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from minitvm.base import ArgumentError

from .build import item_in, solution, with_holes
from .grader import Graded, Submission, Task
from .item import Exercise, Item
from .notebook import SOLUTION, Notebook, code_cells, source, stored
from .sandbox import USUAL_LIMITS, Limits
from .score import PUBLIC, Mark, Seeds
from .skeleton import code

SECRET: Seeds = (None, 101, 202, 303)
USUAL: Seeds = (None, 101)
ExpectedMark: TypeAlias = tuple[str, float]  # a message id, points
NOT_STARTED: ExpectedMark = ("not-started", 0.0)
QUICK = Limits(seconds=4.0, notebook=60.0, item=60.0)
PATCHES = """
import sys, time
import numpy as np
from minitvm import edu
import minitvm.testing, minitvm.tensor

time.perf_counter = time.monotonic = time.time = lambda: 0.0
np.allclose = np.array_equal = np.testing.assert_allclose = lambda *a, **k: True
np.equal = np.argwhere = lambda *a, **k: np.zeros(0)
minitvm.testing.difference = minitvm.testing.assert_allclose = lambda *a, **k: ""
minitvm.tensor.evaluate = lambda *a, **k: []
edu.check = lambda *a, **k: 1000.0
print('{"mark": {"points": 1000}}', flush=True)
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """A submission and the marks that it must get.

    marks    item -> (message id that its mark must contain, points); other items must get all
             points
    cells    kinds of errors that the reports on cells must include
    timed    items whose marks depend on running times: their points in `marks` are upper bounds
    """

    exercise: Exercise
    check: str  # "M3": the number of the check in docs/instructor.md
    name: str
    data: bytes
    marks: dict[str, ExpectedMark]
    seeds: Seeds = USUAL
    limits: Limits = USUAL_LIMITS
    cells: tuple[str, ...] = ()
    timed: frozenset[str] = frozenset()

    def task(self, checks: Path) -> Task:
        """Return the task for the grader; `checks` is the folder with the checks."""
        submission = Submission(Path(f"{self.exercise.stem}.ipynb"), self.data)
        return Task(submission, checks, self.exercise, self.seeds, self.limits)


def trials(root: Path, exercise: Exercise, *, lost: bool = False) -> list[Trial]:
    """Return all submissions that test the grader with one exercise.

    lost   whether to add submissions that hang or end their process. They never reach a check, so
           testing them with one exercise is enough.
    """
    notebook = solution(root, exercise)
    stub = with_holes(notebook, exercise)
    not_started = {item.id: NOT_STARTED for item in exercise.items}
    whole, lean = _trial(exercise, "M2", "solution", notebook, {}), definitions(notebook)
    return [
        _trial(exercise, "M1", "untouched", stub, not_started),
        replace(whole, seeds=SECRET),
        replace(whole, check="M8", name="solution again", seeds=PUBLIC),
        *(_mutant(exercise, lean, p) for p in mutant_files(root, exercise)),
        *_broken(exercise, lean),
        *(_lost(exercise, lean) if lost else ()),
        _trial(exercise, "M4", "patched, unsolved", _first(stub, PATCHES), not_started),
    ]


def _trial(
    exercise: Exercise, check: str, name: str, notebook: Notebook, marks: dict[str, ExpectedMark]
) -> Trial:
    return Trial(exercise, check, name, stored(notebook).encode(), marks)


def definitions(notebook: Notebook) -> Notebook:
    """Return a faster copy of the notebook: only imports, functions and answer cells."""
    lean, kinds = copy.deepcopy(notebook), (ast.Import, ast.ImportFrom, ast.FunctionDef)
    for _, cell in code_cells(lean):
        text = source(cell)
        if SOLUTION.search(text):
            continue
        statements = [n for n in ast.parse(text).body if isinstance(n, kinds)]
        cell["source"] = "\n".join(str(ast.get_source_segment(text, n)) for n in statements)
    return lean


def _broken(exercise: Exercise, solved: Notebook) -> list[Trial]:
    """Return submissions with one broken cell or answer; the other answers must get all points.

    They are graded with the public seed only, because the solution is graded with other seeds.
    """
    first = exercise.items[0]
    lost = {first.id: NOT_STARTED}
    leaves = with_last(solved, _answer(first) + "import sys\n    sys.exit('all is right')")
    return [replace(_trial(exercise, "M4", *row), seeds=PUBLIC) for row in (
        ("syntax error", _answer_cell(solved, exercise, "def ("), lost),
        ("deleted cell", _answer_cell(solved, exercise, None), lost),
        ("sys.exit in an answer", leaves, {first.id: ("raises", 0.0)}),
    )]  # fmt: skip


def _lost(exercise: Exercise, solved: Notebook) -> list[Trial]:
    """Return submissions that have no cells, that hang, or that try to end their process."""
    first, not_started = exercise.items[0], {i.id: NOT_STARTED for i in exercise.items}
    empty: Notebook = {**solved, "cells": []}
    kills = with_last(solved, _answer(first) + "import os\n    os._exit(0)")
    endless = with_last(solved, _answer(first) + "while True:\n        pass")
    slow = _trial(exercise, "M4", "endless loop", endless, {first.id: ("timeout", 0.0)})
    stuck = _trial(exercise, "M4", "endless cell", _first(solved, "while True: pass"), {})
    left = _trial(exercise, "M4", "sys.exit in a cell", _first(solved, "raise SystemExit"), {})
    return [
        _trial(exercise, "M4", "empty notebook", empty, not_started),
        _trial(exercise, "M4", "os._exit in an answer", kills, {first.id: ("crash", 0.0)}),
        replace(slow, limits=QUICK),
        replace(stuck, limits=QUICK, cells=("time is up",)),
        replace(left, cells=("SystemExit",)),
    ]


def _answer(item: Item) -> str:
    """Return the first lines of a function that replaces the answer to `item`."""
    return f"def {item.answer}(*arguments):\n    "


def _first(notebook: Notebook, text: str) -> Notebook:
    """Return the notebook with the cell `text` added in front."""
    return {**notebook, "cells": [code("added", text), *notebook["cells"]]}


def with_last(notebook: Notebook, text: str) -> Notebook:
    """Return the notebook with the cell `text` added at the end, to replace definitions."""
    return {**notebook, "cells": [*notebook["cells"], code("added", text)]}


def _answer_cell(notebook: Notebook, exercise: Exercise, text: str | None) -> Notebook:
    """Return the notebook with `text` in the first answer cell, or with that cell empty."""
    changed = copy.deepcopy(notebook)
    for _, cell in code_cells(changed):
        if item_in(source(cell), exercise) is exercise.items[0]:
            cell["source"] = text or ""
            break
    return changed


# --- mutants -------------------------------------------------------------------------------------


def mutant_files(root: Path, exercise: Exercise) -> list[Path]:
    """Return the files with wrong answers, such as solutions/wrong/ex03_name__off_by_one.py."""
    return sorted((root / "solutions" / "wrong").glob(f"{exercise.stem}__*.py"))


def expected(path: Path) -> dict[str, ExpectedMark]:
    """Read EXPECT, {item: (message id, points)}, of a mutant; raise ArgumentError without it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="EXPECT")], value=value):
                marks: Any = ast.literal_eval(value)
                if isinstance(marks, dict) and marks:
                    return cast("dict[str, ExpectedMark]", marks)
            case _:
                pass
    raise ArgumentError(path.name, "it has no EXPECT", 'EXPECT = {"ex03.2": ("too-slow", 1.5)}')


def _mutant(exercise: Exercise, solved: Notebook, path: Path) -> Trial:
    """Return a trial of the solution with the wrong answers in `path`; only these are graded."""
    marks = expected(path)
    all_items = (*exercise.items, *exercise.ungraded)
    marked_exercise = replace(exercise, items=tuple(i for i in all_items if i.id in marks))
    trial = _trial(
        marked_exercise, "M3", path.stem.partition("__")[2].replace("_", " "),
        with_last(solved, path.read_text(encoding="utf-8")), marks,
    )  # fmt: skip
    if any(message == "too-slow" for message, _ in marks.values()):
        return replace(trial, timed=frozenset(marks))
    speed = (i.id for i in marked_exercise.items if any(part.kind == "speed" for part in i.parts))
    return replace(trial, timed=frozenset(speed))


# --- judging -------------------------------------------------------------------------------------


def trial_faults(trial: Trial, got: Graded) -> list[str]:
    """Describe each difference between the marks in `got` and the marks that `trial` wants."""
    problems = [got.problem] if got.problem else []
    if {m.item for m in got.marks} != {i.id for i in trial.exercise.items}:
        problems.append("not every item has a mark")
    for m in got.marks:
        problems += _mark_faults(trial, m)
    errors = [c.error for c in got.cells]
    missing = [kind for kind in trial.cells if kind not in errors]
    problems += [f"no cell is reported with {kind!r}" for kind in missing]
    if trial.check in ("M2", "M8"):
        problems += [f"cell {c.number}: {c.error}: {c.message}" for c in got.cells]
    return problems


def _mark_faults(trial: Trial, m: Mark) -> list[str]:
    shown = f"{m.item}: {m.points:g} of {m.worth:g} points"
    if m.item not in trial.marks:
        return [] if m.points == m.worth else [f"{shown}, {', '.join(m.messages)}"]
    message, expected_points = trial.marks[m.item]
    if any(p.outcome.status == "inconclusive" for p in m.parts):
        return []  # the machine was too busy to tell
    if message not in m.messages:
        return [f"{m.item}: the message is {', '.join(m.messages) or 'none'}, not {message}"]
    if m.points > expected_points or (m.points < expected_points and m.item not in trial.timed):
        return [f"{shown}, not {expected_points:g}"]
    return []
