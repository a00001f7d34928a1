"""Draft the solution notebook of an exercise, with a cell of each kind that the grader needs."""

from __future__ import annotations

from typing import Any

from .build import KERNEL
from .item import Challenge, Exercise, Item
from .notebook import Notebook


def skeleton(exercise: Exercise) -> Notebook:
    """Draft a notebook: title, imports, and three cells for each item and for the challenge."""
    title = exercise.name.replace("_", " ")
    points = f"{exercise.points:g} points"
    cells = [
        cell("markdown", "title", f"# Exercise {exercise.id[2:]}: {title}\n\n{points}."),
        code("setup", "import minitvm as tvm\nfrom minitvm import edu, te"),
    ]
    for item in exercise.items:
        cells += item_cells(item)
    if exercise.challenge:
        cells += challenge_cells(exercise.challenge)
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def item_cells(item: Item) -> list[dict[str, Any]]:
    """Return the text, answer and check cell of an item, with ids such as ex03-2-answer."""
    name = item.grade_id
    text = f"## {item.id} {item.title} [{item.points:g} points]\n\nRead {item.section} first."
    answer = open_answer(item.answer)
    return [
        cell("markdown", f"{name}-text", text),
        code(f"{name}-answer", answer, graded(f"{name}-answer", solution=True)),
        code(f"{name}-check", f'edu.check("{item.id}", {item.answer})', graded(name, item.points)),
    ]


def challenge_cells(challenge: Challenge) -> list[dict[str, Any]]:
    """Return the text, answer and check cell of a challenge."""
    text = f"## {challenge.id} {challenge.title}\n\nRead {challenge.section} first."
    call = f'edu.challenge("{challenge.id}", {challenge.answer})'
    return [
        cell("markdown", "challenge-text", text),
        code("challenge-answer", open_answer(challenge.answer)),
        code("challenge-check", call),
    ]


def open_answer(name: str) -> str:
    """Return the text of an answer cell whose solution is to be written."""
    return (
        f"def {name}(*arguments):\n"
        '    """Return ..."""\n'
        "    ### BEGIN SOLUTION\n    return None\n    ### END SOLUTION"
    )


def graded(name: str, points: float | None = None, *, solution: bool = False) -> dict[str, Any]:
    """Return nbgrader's metadata for an answer cell, or for a check cell worth `points`."""
    grading = {"grade": points is not None, "grade_id": name, "locked": points is not None}
    more = {"schema_version": 3, "solution": solution, "task": False}
    return {"nbgrader": {**grading, **more, **({} if points is None else {"points": points})}}


def cell(kind: str, name: str, text: str) -> dict[str, Any]:
    """Return a notebook cell of the kind "markdown", "raw" or "code"."""
    return {"cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(True)}


def code(name: str, text: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a notebook cell with code that has not run."""
    fields: dict[str, Any] = {"execution_count": None, "outputs": [], "metadata": metadata or {}}
    return {**cell("code", name, text), **fields}
