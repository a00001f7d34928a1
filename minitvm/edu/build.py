"""Build exercises/*.ipynb from solutions/*.ipynb: the same notebooks without the answers.

Building twice gives the same bytes. A file that someone has worked on is overwritten only with
--force: exercises/.generated.json stores the hashes of all files that were generated, and other
files are kept.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from minitvm.base import ArgumentError

from . import files
from .item import Exercise, Item
from .notebook import (
    HIDDEN,
    SOLUTION,
    Notebook,
    code_cells,
    nbgrader,
    parsed,
    sha256,
    solution_lines,
    source,
    stored,
)

Done: TypeAlias = Literal["unchanged", "written", "kept"]
RECORD = ".generated.json"
MAX_HASHES = 50  # the most hashes stored for one exercise
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def solution_file(root: Path, exercise: Exercise) -> Path:
    return root / "solutions" / f"{exercise.stem}.ipynb"


def exercise_file(root: Path, exercise: Exercise) -> Path:
    return root / "exercises" / f"{exercise.stem}.ipynb"


def solution(root: Path, exercise: Exercise) -> Notebook:
    """Read the solution notebook of an exercise; raise ArgumentError if it is missing or broken."""
    path = solution_file(root, exercise)
    if not path.exists():
        fix = f"python -m minitvm.edu new {exercise.id}"
        raise ArgumentError(exercise.id, f"there is no solution {path.name}", fix)
    return parsed(path.read_bytes(), path.name)


def built(root: Path, exercise: Exercise) -> str:
    """Return the text of an exercise notebook; ArgumentError if its solution is not usable."""
    return stored(with_holes(solution(root, exercise), exercise))


def with_holes(solved: Notebook, exercise: Exercise) -> Notebook:
    """Return a copy of the notebook `solved` without solutions, hidden tests and outputs.

    ### BEGIN SOLUTION             # YOUR CODE HERE  (about 4 lines)
    ...                      ->    raise NotImplementedError("ex05.2: see notebook 05, section 3")
    ### END SOLUTION
    """
    notebook = without_outputs(solved)
    for cell in notebook["cells"]:
        text = source(cell)
        item = item_in(text, exercise)
        stub = open_stub(text, exercise) or holed(text, item)
        cell["source"] = HIDDEN.sub("", stub).splitlines(keepends=True)
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k in ("nbgrader", "tags")}
    language = {"name": "python"}
    notebook["metadata"] = {
        "kernelspec": KERNEL, "language_info": language, "minitvm": {"exercise": exercise.id},
    }  # fmt: skip
    return notebook


def without_outputs(notebook: Notebook) -> Notebook:
    """Return a copy of a notebook without outputs."""
    result = copy.deepcopy(notebook)
    for _, cell in code_cells(result):
        cell["outputs"], cell["execution_count"] = [], None
    return result


def item_in(text: str, exercise: Exercise) -> Item | None:
    """Return the item whose answer a cell with this text defines, or None."""
    items = (i for i in exercise.items if f"def {i.answer}(" in text and SOLUTION.search(text))
    return next(items, None)


def holed(text: str, item: Item | None) -> str:
    """Replace the solution in the text of a cell by a line that raises NotImplementedError."""
    count = solution_lines(text)
    about = f"about {count} line{'s' if count != 1 else ''}"
    what = f'"{item.id}: see {item.section}"' if item else ""
    stub = rf"\1# YOUR CODE HERE  ({about})\n\1raise NotImplementedError({what})"
    return SOLUTION.sub(stub, text)


def open_stub(text: str, exercise: Exercise) -> str:
    """Leave out the solution of a challenge from the text of its cell; "" for other cells.

    What stands around the solution is a right answer, so the stub has a score.
    """
    challenge = exercise.challenge
    if challenge is None or f"def {challenge.answer}(" not in text or not SOLUTION.search(text):
        return ""
    better = "fewer" if challenge.lower_is_better else "more"
    return SOLUTION.sub(rf"\1# YOUR CODE HERE  ({better} {challenge.unit}, a higher score)", text)


# --- files ---------------------------------------------------------------------------------------


def hashes(root: Path) -> dict[str, list[str]]:
    """Read .generated.json; map each file name to the hashes of its versions, oldest first.

    Raises ArgumentError if the file is damaged.
    """
    record = root / "exercises" / RECORD
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
        return {str(name): [str(h) for h in versions] for name, versions in known.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as e:
        fix = "restore it from version control; or delete it, and build --force what was not edited"
        raise ArgumentError(str(record), f"not a record of hashes ({e})", fix) from None


def write(root: Path, exercise: Exercise, text: str, *, force: bool = False) -> Done:
    """Write one exercise; unless `force`, keep a file that has been edited, and return "kept".

    A file that is only the beginning of the exercise was cut off, not edited.
    """
    path, record = exercise_file(root, exercise), hashes(root)
    known = record.setdefault(path.name, [])
    new = sha256(text.encode())
    before = path.read_bytes() if path.exists() else b""
    old = sha256(before)
    if old not in (new, *known) and not text.encode().startswith(before) and not force:
        return "kept"
    if old != new:
        files.write(path, text)
    if new not in known:
        record[path.name] = [*known, new][-MAX_HASHES:]
        files.write(path.parent / RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n")
    return "unchanged" if old == new else "written"


def faults(root: Path, exercises: Sequence[Exercise]) -> list[str]:
    """Return the findings of `build --check`: exercises that are out of date or lack a solution."""
    findings: list[str] = []
    for exercise in exercises:
        try:
            new = built(root, exercise)
        except ArgumentError as e:
            findings.append(str(e))
            continue
        path = exercise_file(root, exercise)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old != new:
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), path.name, "as built", lineterm=""
            )
            findings.append("\n".join([f"{path.name} is not what build makes", *list(lines)[:40]]))
    known = {f"{e.stem}.ipynb" for e in exercises}
    for folder in ("solutions", "exercises"):
        names = {p.name for p in (root / folder).glob("*.ipynb")}
        findings += [f"{folder}/{name}: no such exercise" for name in sorted(names - known)]
    return findings


def structure_faults(root: Path, exercise: Exercise) -> list[str]:
    """Describe each mismatch between a solution and its items: ids, points, cells or hints."""
    notebook = solution(root, exercise)
    ids = [cell.get("id", "") for cell in notebook["cells"]]
    problems = [] if len({*ids}) == len(ids) and all(ids) else ["cell ids are missing or repeated"]
    grades = [nbgrader(c) for _, c in code_cells(notebook) if nbgrader(c)]
    names = [g.get("grade_id") for g in grades]
    problems += [
        f"grade_id {n!r} is repeated" for n in sorted({str(n) for n in names if names.count(n) > 1})
    ]
    points = {g["grade_id"]: g.get("points") for g in grades if g.get("grade")}
    text = "\n".join(source(c) for _, c in code_cells(notebook))
    for item in exercise.items:
        if points.pop(item.grade_id, None) != item.points:
            problems.append(
                f"no check cell with grade_id {item.grade_id} and {item.points:g} points"
            )
        if not any(item_in(source(c), exercise) is item for _, c in code_cells(notebook)):
            problems.append(f"{item.id}: no cell defines {item.answer} with a solution region")
        if f'edu.check("{item.id}", {item.answer})' not in text:
            problems.append(f'{item.id}: no line edu.check("{item.id}", {item.answer})')
        if len(item.hints) != 3 or not all(h.strip() for h in item.hints):
            problems.append(f"{item.id}: it needs three hints")
        if not item.id.startswith(f"{exercise.id}."):
            problems.append(f"{item.id}: does not belong to {exercise.id}")
    if (challenge := exercise.challenge) is not None:
        call = f'edu.challenge("{challenge.id}", {challenge.answer})'
        problems += [] if call in text else [f"{challenge.id}: no line {call}"]
        if not any(open_stub(source(c), exercise) for _, c in code_cells(notebook)):
            problems.append(f"{challenge.id}: no cell defines {challenge.answer} with a solution")
    return [
        f"{exercise.stem}.ipynb: {f}" for f in [*problems, *(f"{p}: no such item" for p in points)]
    ]
