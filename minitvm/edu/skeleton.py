"""Draft a solution notebook from its items, with all cells that the grader needs."""

from __future__ import annotations

from typing import Any

from .build import KERNEL
from .item import Exercise, Item
from .notebook import Notebook


def skeleton(exercise: Exercise) -> Notebook:
    """Draft a notebook: title, imports, and a text, an answer and a check cell for each item."""
    title = exercise.name.replace("_", " ")
    points = f"{exercise.points:g} points"
    cells = [
        prose("markdown", "title", f"# Exercise {exercise.id[2:]}: {title}\n\n{points}."),
        code("setup", "import minitvm as tvm\nfrom minitvm import edu, te"),
    ]
    for item in exercise.items:
        cells += item_cells(item)
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def item_cells(item: Item) -> list[dict[str, Any]]:
    """Return the text, answer and check cell of an item, with ids such as ex03-2-answer."""
    name = item.grade_id
    text = f"## {item.id} {item.title} [{item.points:g} points]\n\nRead {item.section} first."
    answer = (
        f"def {item.answer}(*arguments):\n"
        '    """Return ..."""\n'
        "    ### BEGIN SOLUTION\n    return None\n    ### END SOLUTION"
    )
    return [
        prose("markdown", f"{name}-text", text),
        code(f"{name}-answer", answer, graded(f"{name}-answer", solution=True)),
        code(f"{name}-check", f'edu.check("{item.id}", {item.answer})', graded(name, item.points)),
    ]


def graded(name: str, points: float | None = None, *, solution: bool = False) -> dict[str, Any]:
    """Return nbgrader's metadata for an answer cell, or for a check cell worth `points`."""
    grading = {"grade": points is not None, "grade_id": name, "locked": points is not None}
    more = {"schema_version": 3, "solution": solution, "task": False}
    return {"nbgrader": {**grading, **more, **({} if points is None else {"points": points})}}


def prose(kind: str, name: str, text: str) -> dict[str, Any]:
    """Return a cell of the kind "markdown" or "raw"."""
    return {"cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(True)}


def code(name: str, text: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    cell: dict[str, Any] = {**prose("code", name, text), "execution_count": None, "outputs": []}
    return {**cell, "metadata": metadata or {}}
