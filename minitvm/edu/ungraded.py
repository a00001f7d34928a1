"""Find faults in puzzles and challenges: stubs, solutions and wrong answers. Part of verify."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

from minitvm.base import ArgumentError

from .build import solution, with_holes
from .challenges import known_values, value_in
from .course import checks_module
from .grader import Submission, Task, grade_all
from .item import Challenge, Exercise, Puzzle
from .notebook import Notebook, parsed, sources, stored
from .puzzles import State, tried
from .score import PUBLIC, Mark

Function = Callable[..., Any]


def puzzle_faults(root: Path, exercise: Exercise) -> list[str]:
    """Return the faults of an exercise's puzzles, which are in the notebooks of its number.

    The stub in the notebook must be "your turn", the function in solutions/puzzles "solved", and
    each wrong answer beside it, called answer__what_is_wrong, "not yet".
    """
    if not exercise.puzzles:
        return []
    number = exercise.id[2:]
    path = root / "solutions" / "puzzles" / f"p{number}.py"
    files = sorted((root / "notebooks").glob(f"{number}*.ipynb"))  # 09 and 09b
    if not path.exists() or not files:
        return [f"no {path.name} in solutions/puzzles, or no notebook {number}"]
    notebooks = [parsed(file.read_bytes(), file.name) for file in files]
    answers: dict[str, Function] = {
        name: f for name, f in vars(checks_module(path)).items() if isinstance(f, FunctionType)
    }
    return [
        f"{puzzle.id}: {fault}"
        for puzzle in exercise.puzzles
        for fault in _faults_of(puzzle, notebooks, answers)
    ]


def _faults_of(
    puzzle: Puzzle, notebooks: list[Notebook], answers: dict[str, Function]
) -> list[str]:
    faults = [] if puzzle.id.split(".")[0].isdigit() else ['its id is not like "04.columns"']
    faults += [] if puzzle.hints else ["it has no hint"]
    try:
        stub = stub_of(puzzle, notebooks)
    except ArgumentError as e:
        return [*faults, str(e)]
    wrong = [f for name, f in answers.items() if name.startswith(f"{puzzle.answer}__")]
    solutions = [f for name, f in answers.items() if name == puzzle.answer]
    faults += [] if solutions else [f"solutions/puzzles has no function {puzzle.answer}"]
    faults += [] if wrong else [f"solutions/puzzles has no wrong answer {puzzle.answer}__..."]
    required: list[tuple[State, list[Function]]] = [
        ("your turn", [stub]), ("solved", [puzzle.reference, *solutions]), ("not yet", wrong),
    ]  # fmt: skip
    for state, functions in required:
        for f in functions:
            attempt = tried(puzzle, f)
            if attempt.state != state:
                why = ", ".join(attempt.mark.messages)
                faults.append(f"{f.__name__} is {attempt.state!r}, not {state!r} {why}".rstrip())
    return faults


def stub_of(puzzle: Puzzle, notebooks: list[Notebook]) -> Function:
    """Return the function of a puzzle as the cell of a notebook defines it.

    Only the imports of that notebook are run before it. Raises ArgumentError without such a cell.
    """
    call = f'edu.puzzle("{puzzle.id}", {puzzle.answer})'
    texts = ([text for _, text in sources(notebook)] for notebook in notebooks)
    cells = next((cells for cells in texts if any(call in text for text in cells)), list[str]())
    text = next((text for text in cells if call in text), "")
    head = f"def {puzzle.answer}("
    if head not in text:
        raise ArgumentError(puzzle.id, f"no cell has {head}...) and {call}")
    name, scope = f"<stub of {puzzle.id}>", dict[str, Any]()
    exec("\n".join(line for cell in cells for line in _imports(cell)), scope)
    stub = text.replace(call, "")
    linecache.cache[name] = (len(stub), None, stub.splitlines(keepends=True), name)
    exec(compile(stub, name, "exec"), scope)
    return scope[puzzle.answer]


def _imports(cell: str) -> list[str]:
    """Return the import statements of a cell; none of a cell with magics."""
    try:
        body = ast.parse(cell).body
    except SyntaxError:
        return []
    return [ast.unparse(n) for n in body if isinstance(n, ast.Import | ast.ImportFrom)]


# --- challenges ----------------------------------------------------------------------------------


def challenge_faults(root: Path, exercise: Exercise, checks: Path) -> list[str]:
    """Return the faults of an exercise's challenge, graded behind the wall.

    The stub in the notebook, if it runs, must have the value of challenge.stub; the solution must
    be right, at least as good as the reference, and no better than the best known value.
    """
    challenge = exercise.challenge
    if challenge is None:
        return []
    notebook = solution(root, exercise)
    stub, answer = graded_values(
        exercise, challenge, [with_holes(notebook, exercise), notebook], checks
    )
    known = known_values(challenge)
    sign = 1 if challenge.lower_is_better else -1
    faults: list[str] = []
    if stub not in (None, known["stub"]):  # None: it calls other answers, which are not there
        faults.append(f"the stub in the notebook has {stub}, challenge.stub {known['stub']}")
    order = {
        "best_known": challenge.best_known,
        "solution": answer,
        "reference": known["reference"],
        "stub": known["stub"],
    }
    values = [sign * v for v in order.values() if v is not None]
    if answer is None or values != sorted(values):
        faults.append(f"not in this order, from best to worst: {order}")
    faults += [] if challenge.hints else ["it has no hint"]
    return [f"{challenge.id}: {fault}" for fault in faults]


def graded_values(
    exercise: Exercise, challenge: Challenge, notebooks: list[Notebook], checks: Path
) -> list[float | None]:
    """Grade the challenge in some notebooks on the public instance; None for a wrong answer."""
    one_item = replace(exercise, items=(challenge.item,))
    tasks = [
        Task(
            Submission(Path(f"{exercise.stem}.ipynb"), stored(n).encode()), checks, one_item, PUBLIC
        )
        for n in notebooks
    ]
    marks = dict[int, Mark | None]()
    for n, graded in grade_all(tasks):
        marks[n] = graded.marks[0] if graded.marks else None
    values = (marks[n] for n in range(len(tasks)))
    return [None if m is None else value_in(m) for m in values]
