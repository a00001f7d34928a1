"""Grading goes on where a worker is lost: only the item it was at gets nothing."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from minitvm.base import MeasureError
from minitvm.edu import PASSED, Part
from minitvm.edu.grader import Graded, GradingProcess, Submission, Task, grade, grade_all
from minitvm.edu.notebook import stored
from minitvm.edu.score import mark
from minitvm.edu.skeleton import skeleton

from .course import CHECKS, EX00

ITEMS = [item.id for item in EX00.items]


def good(item: str) -> dict:
    """The mark of a right answer."""
    (asked,) = (i for i in EX00.items if i.id == item)
    right = replace(asked, parts=(Part("property", "all is well", 1, lambda *args: PASSED),))
    return mark(right, lambda *args: None).to_json()


class Scripted(GradingProcess):
    """A worker that tells what it is given, one list of events for each job."""

    def __init__(self, *told: list[dict]) -> None:
        super().__init__()
        self.told, self.jobs = list(told), []

    def events(self, job, limits) -> Iterator[dict]:
        self.jobs.append(job["items"])
        yield from self.told.pop(0)


def graded(
    worker: GradingProcess, name: str = "ex00_start_here.ipynb", data: bytes = b""
) -> Graded:
    data = data or stored(skeleton(EX00)).encode()
    return grade(Task(Submission(Path(name), data, "ann"), CHECKS), worker)


CELLS = {"cells": []}
LOST = {"lost": "no end after 9 s"}


def test_marks_come_in_the_order_of_the_items() -> None:
    marks = [{"mark": good(item)} for item in reversed(ITEMS)]
    found = graded(Scripted([CELLS, *marks, {"end": True}]))
    assert [m.item for m in found.marks] == ITEMS
    assert (found.points, found.worth) == (2, 2)


def test_a_worker_lost_during_an_item_is_replaced_for_the_others() -> None:
    worker = Scripted(
        [CELLS, {"item": ITEMS[0]}, LOST],
        [CELLS, {"item": ITEMS[1]}, {"mark": good(ITEMS[1])}, {"end": True}],
    )
    found = graded(worker)
    assert worker.jobs == [ITEMS, ITEMS[1:]]
    assert [(m.points, *m.messages) for m in found.marks] == [(0, "timeout"), (1,)]


def test_a_worker_lost_during_the_cells_ends_it() -> None:
    worker = Scripted([LOST])
    found = graded(worker)
    assert worker.jobs == [ITEMS]
    assert [m.messages for m in found.marks] == [("timeout",)] * 2


def test_a_worker_that_marks_nothing_is_not_asked_for_ever() -> None:
    worker = Scripted([CELLS, {"end": True}])
    assert "no item was marked" in graded(worker).problem
    assert worker.jobs == [ITEMS]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("ex00.ipynb", b"{", "not a notebook"),
        ("notes.ipynb", stored({**skeleton(EX00), "cells": []}).encode(), "no such exercise"),
        ("ex77.ipynb", stored({**skeleton(EX00), "cells": []}).encode(), "'ex77'"),
        ("ex00.ipynb", b" " * (21 << 20), "clear outputs"),
    ],
)
def test_what_cannot_be_graded_says_why(name: str, data: bytes, problem: str) -> None:
    found = graded(Scripted(), name, data)
    assert problem in found.problem
    assert found.marks == ()


def test_the_bytes_that_are_hashed_are_those_that_are_graded(tmp_path: Path) -> None:
    path = tmp_path / "ex00.ipynb"
    path.write_bytes(b"before")
    submission = Submission(path, path.read_bytes())
    path.write_bytes(b"after")
    assert submission.data == b"before"


def test_a_grader_that_does_not_start_stops_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else a broken installation would give no points to anybody."""
    monkeypatch.setattr("sys.executable", shutil.which("false") or "no such program")
    task = Task(Submission(Path("ex00.ipynb"), stored(skeleton(EX00)).encode()), CHECKS)
    with pytest.raises(MeasureError, match="its process does not start"):
        list(grade_all([task]))
