"""Exercises are built from solutions, byte for byte, and never over somebody's work."""

import json
from pathlib import Path

import pytest

from minitvm.edu.build import (
    built,
    exercise_file,
    faults,
    hashes,
    solution_file,
    structure_faults,
    with_holes,
    write,
)
from minitvm.edu.notebook import code_cells, parsed, solution_lines, source, stored
from minitvm.edu.skeleton import code, item_cells, skeleton

from .course import EX00, EXERCISES, ROOT


def text_of(cell_text: str) -> str:
    """A code cell of ex00 as students get it."""
    solved = {**skeleton(EX00), "cells": [code("a", cell_text)]}
    return source(with_holes(solved, EX00)["cells"][0])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the solution of ex00, and its exercise as built."""
    path = solution_file(tmp_path, EX00)
    path.parent.mkdir()
    path.write_bytes(solution_file(ROOT, EX00).read_bytes())
    assert write(tmp_path, EX00, built(tmp_path, EX00)) == "written"
    return tmp_path


def test_the_exercises_of_this_checkout_are_those_of_their_solutions() -> None:
    assert faults(ROOT, EXERCISES) == []


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_solutions_have_the_cells_that_their_items_need(exercise) -> None:
    assert structure_faults(ROOT, exercise) == []


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_stored_exercises_are_valid_notebooks_without_outputs(exercise) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = json.loads(exercise_file(ROOT, exercise).read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    assert all(not c["outputs"] and c["execution_count"] is None for _, c in code_cells(notebook))


def test_a_solution_becomes_a_stub_that_says_where_to_read() -> None:
    solved = (
        "def matmul(A, B):\n"
        '    """The product."""\n'
        "    ### BEGIN SOLUTION\n"
        "    # the axis\n"
        "    k = 1\n"
        "\n"
        "    return k\n"
        "    ### END SOLUTION"
    )
    assert text_of(solved) == (
        "def matmul(A, B):\n"
        '    """The product."""\n'
        "    # YOUR CODE HERE  (about 2 lines)\n"
        "    raise NotImplementedError(\"ex00.1: see notebook 00, section 'The formula'\")"
    )


def test_hidden_tests_vanish() -> None:
    cell = "x = 1\n### BEGIN HIDDEN TESTS\nassert x == 1\n### END HIDDEN TESTS\ny = 2"
    assert text_of(cell) == "x = 1\ny = 2"


def test_lines_of_code_are_counted_without_comments() -> None:
    assert solution_lines("### BEGIN SOLUTION\n# why\n\nx = 1\n### END SOLUTION\ny = 2") == 1


def test_building_twice_gives_the_same_bytes() -> None:
    for exercise in EXERCISES:
        assert built(ROOT, exercise) == built(ROOT, exercise)


def test_a_generated_file_is_replaced_by_a_newer_one(checkout: Path) -> None:
    newer = built(checkout, EX00) + " "
    assert write(checkout, EX00, newer) == "written"
    assert write(checkout, EX00, newer) == "unchanged"
    assert exercise_file(checkout, EX00).read_text(encoding="utf-8") == newer


def test_work_of_a_student_is_kept_unless_forced(checkout: Path) -> None:
    path = exercise_file(checkout, EX00)
    path.write_text("my answers", encoding="utf-8")
    text = built(checkout, EX00)
    assert write(checkout, EX00, text) == "kept"
    assert path.read_text(encoding="utf-8") == "my answers"
    assert write(checkout, EX00, text, force=True) == "written"
    assert path.read_text(encoding="utf-8") == text


def test_what_was_generated_is_remembered_by_its_hash(checkout: Path) -> None:
    assert [len(known) for known in hashes(checkout).values()] == [1]


def test_check_shows_the_lines_that_differ(checkout: Path) -> None:
    path = exercise_file(checkout, EX00)
    path.write_text(path.read_text(encoding="utf-8").replace("YOUR", "MY"), encoding="utf-8")
    (fault,) = faults(checkout, [EX00])
    assert "-    # MY CODE HERE" in fault.replace('    "', "")
    assert "+    # YOUR CODE HERE" in fault.replace('    "', "")


def test_notebooks_without_an_exercise_are_found(checkout: Path) -> None:
    (checkout / "exercises" / "ex98_lost.ipynb").touch()
    assert faults(checkout, [EX00]) == ["exercises/ex98_lost.ipynb: no such exercise"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"points": 1', '"points": 3', "no check cell with grade_id ex00-1 and 1 points"),
        ("### BEGIN SOLUTION", "# here", "ex00.2: no cell defines refusal with a solution region"),
        ('edu.check(\\"ex00.1\\", matmul)', "pass", 'ex00.1: no line edu.check("ex00.1", matmul)'),
        ('"grade_id": "ex00-2"', '"grade_id": "ex00-1"', "grade_id 'ex00-1' is repeated"),
        ('"id": "setup"', '"id": "title"', "cell ids are missing or repeated"),
    ],
)
def test_a_solution_that_does_not_fit_its_items_is_found(checkout: Path, old, new, fault) -> None:
    path = solution_file(checkout, EX00)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert f"{path.name}: {fault}" in structure_faults(checkout, EX00)


def test_a_draft_has_what_its_items_need(tmp_path: Path) -> None:
    path = solution_file(tmp_path, EX00)
    path.parent.mkdir()
    path.write_text(stored(skeleton(EX00)), encoding="utf-8")
    assert structure_faults(tmp_path, EX00) == []
    assert [cell["id"] for cell in item_cells(EX00.items[0])] == [
        "ex00-1-text",
        "ex00-1-answer",
        "ex00-1-check",
    ]


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"nbformat": 3}', b"\xff", b"[" * 10**5])
def test_what_is_no_notebook_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a notebook"):
        parsed(data, "x.ipynb")
