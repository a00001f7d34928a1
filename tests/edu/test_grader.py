"""Grading goes on where a worker is lost: only the item it was at gets nothing."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from minitvm.base import MeasureError
from minitvm.edu import PASSED, Part
from minitvm.edu.grader import Graded, Submission, Task, grade, grade_all
from minitvm.edu.notebook import stored
from minitvm.edu.score import mark
from minitvm.edu.skeleton import skeleton
from minitvm.workers import Failure, Message, Worker

from .course import CHECKS, EX00

ITEMS = [item.id for item in EX00.items]


def good(item: str) -> dict:
    """The mark of a right answer."""
    (asked,) = (i for i in EX00.items if i.id == item)
    right = replace(asked, parts=(Part("property", "all is well", 1, lambda *args: PASSED),))
    return mark(right, lambda *args: None).to_json()


class Scripted(Worker):
    """A worker without a process, which gives the answers that it is given."""

    def __init__(self, *told: Message | Failure) -> None:
        self.told, self.asked = list(told), []

    def ask(self, value, blobs=(), **limits) -> Message | Failure:
        self.asked.append(value.get("item", "cells"))
        return self.told.pop(0)

    def prepare(self, value, blobs=()) -> None:
        """Start no process."""


def graded(worker: Worker, name: str = "ex00_start_here.ipynb", data: bytes = b"") -> Graded:
    data = data or stored(skeleton(EX00)).encode()
    return grade(Task(Submission(Path(name), data, "ann"), CHECKS), worker)


CELLS = Message({"cells": []})
GOOD = [Message(good(item)) for item in ITEMS]
LATE, CRASH = Failure("timed out", 9.0), Failure("crashed", 11)


def test_marks_come_in_the_order_of_the_items() -> None:
    worker = Scripted(CELLS, *GOOD)
    found = graded(worker)
    assert worker.asked == ["cells", *ITEMS]
    assert [m.item for m in found.marks] == ITEMS
    assert (found.points, found.worth) == (2, 2)


def test_a_process_that_hangs_is_replaced_for_the_other_items() -> None:
    worker = Scripted(CELLS, LATE, CELLS, GOOD[1])
    result = graded(worker)
    assert worker.asked == ["cells", ITEMS[0], "cells", ITEMS[1]]
    assert [(m.points, *m.messages) for m in result.marks] == [(0, "timeout"), (1,)]
    assert result.marks[0].parts[0].outcome.got == "no end after 9 s"


def test_an_item_is_marked_again_if_the_process_of_the_grader_ends() -> None:
    worker = Scripted(CELLS, CRASH, CELLS, *GOOD)
    result = graded(worker)
    assert worker.asked == ["cells", ITEMS[0], "cells", *ITEMS]
    assert (result.points, result.unsure) == (2, False)


def test_a_fault_of_the_grader_is_never_the_students() -> None:
    worker = Scripted(CELLS, CRASH, CELLS, CRASH, CELLS, GOOD[1])
    result = graded(worker)
    assert worker.asked == ["cells", ITEMS[0], "cells", ITEMS[0], "cells", ITEMS[1]]
    assert result.unsure  # so that the next run marks the notebook again
    outcome = result.marks[0].parts[0].outcome
    assert outcome.status == "inconclusive"
    assert outcome.got.startswith("the process of the grader ended: ")
    assert graded(Scripted(CRASH)).again


def test_a_process_lost_during_the_cells_ends_it() -> None:
    worker = Scripted(LATE)
    found = graded(worker)
    assert worker.asked == ["cells"]
    assert [m.messages for m in found.marks] == [("timeout",)] * 2


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
